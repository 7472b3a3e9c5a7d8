//! The store as its users see it: transactions over one backend, and wake-ups after their commit.

use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use windlass_core::Fact;

use crate::access::{self, Access};
use crate::backend::{Backend, Delivery, Durability, Opener};
use crate::clock::{BootClock, Clock, ClockReading, DatabaseClock};
use crate::error::StoreError;
use crate::examine::Examined;
use crate::layout;
use crate::log::LogStore;
use crate::memory::Memory;
use crate::postgres::{LentPassword, Postgres};
use crate::run::RunRecord;
use crate::sqlite::{Network, Sqlite};
use crate::transaction::{NameView, Transaction};
use crate::wakeup::{Notice, Topic, Wakeup, unique};
use crate::writer_wait::{Blocker, OnWait, WriterWait};

/// How often a connection that waits checks whether it should stop.
const STOP_CHECK: Duration = Duration::from_millis(250);

/// A connection to a store. Each thread uses its own.
///
/// A backend may call the body of a transaction several times until one call is committed, as
/// [`Backend::transact`] says. So a body changes nothing outside the store that a second call could not
/// do again, or it first undoes what an earlier call has done.
///
/// ```
/// use windlass_store::{Claim, Claimed, HolderId, Name, Need, Store};
///
/// let dir = tempfile::tempdir()?;
/// let mut store = Store::open(dir.path())?;
/// let (holder, needs) = (HolderId::new("me"), [Need::one(Name::Lock("deploy".to_owned()))]);
/// let claimed = store.transact(|tx| tx.leases().claim(&Claim::new(&holder, &needs)))?;
/// assert!(matches!(claimed, Claimed::Held(holds) if holds[0].token.0 == 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Store {
    backend: Box<dyn Backend>,
    clock: Arc<dyn Clock>,
    dir: PathBuf,
    /// Whether a durable commit has counted this era.
    era_counted: bool,
    patience: Patience,
}

/// Returns the error with which a wait for other writers ends, if it is to end.
type GiveUp = dyn Fn(&dyn WriterWait) -> Option<StoreError> + Send;

/// What a connection does during a long wait for other writers. In any case it has the leases kept: it may
/// be the only one that waits when a heartbeat is missing.
struct Patience {
    give_up: Box<GiveUp>,
    tell: Box<dyn FnMut(&Blocker) + Send>,
}

impl Store {
    /// Opens the store in `dir`, or creates it. Fails on a network file system.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        Self::open_with(dir, Network::Refuse)
    }

    /// Opens the store in `dir`, or creates it, on a network file system only if `network` allows it.
    pub fn open_with(dir: &Path, network: Network) -> Result<Self, StoreError> {
        Self::on_disk(dir, |dir| Sqlite::open(dir, network))
    }

    /// Opens the store in `dir`, and fails with [`StoreError::NoStore`] if there is none. A store that
    /// this process has no permission to write can be read.
    pub fn open_existing(dir: &Path, network: Network) -> Result<Self, StoreError> {
        Self::on_disk(dir, |dir| Sqlite::open_existing(dir, network))
    }

    /// Creates a store in `dir` that all members of a group may use, or shares an existing one. Fails
    /// if the directory holds other files, because the group would get those, too.
    pub fn share(dir: &Path, network: Network, gid: u32) -> Result<Self, StoreError> {
        let at = |source| StoreError::Io { path: dir.to_owned(), source };
        if access::holds_other_files(dir).map_err(at)? {
            return Err(StoreError::NotAStore { dir: dir.to_owned() });
        }
        let is_new = !dir.exists();
        let shared = Access::create_private_dir(dir).and_then(|()| access::share(dir, gid));
        shared.map_err(|source| {
            if is_new {
                // It is empty. Left behind, it would become a store of one user.
                let _ = std::fs::remove_dir(dir);
            }
            at(source)
        })?;
        Self::open_with(dir, network)
    }

    /// Opens the store in the database that `url` names. Files of this machine, such as logs, are in a
    /// directory below `homes`; opening that one opens the same store.
    pub fn in_database(url: &str, homes: &Path) -> Result<Self, StoreError> {
        Self::at_home(Postgres::open(url)?, homes)
    }

    /// Creates a store in the database that `url` names, unless there is one, and opens it as
    /// [`Store::in_database`] does.
    pub fn create_in_database(url: &str, homes: &Path) -> Result<Self, StoreError> {
        Self::at_home(Postgres::create(url)?, homes)
    }

    fn at_home(backend: Postgres, homes: &Path) -> Result<Self, StoreError> {
        let dir = homes.join(backend.id());
        let at = |source| StoreError::Io { path: dir.clone(), source };
        let dir = std::path::absolute(&dir).map_err(at)?;
        Access::create_private_dir(&dir).map_err(at)?;
        let (url, temporary) = (dir.join(layout::URL), dir.join(unique()?));
        // A standby may have been added since. Another process may write the same now.
        if std::fs::read_to_string(&url).ok().as_deref() != Some(&backend.url()) {
            let written = std::fs::write(&temporary, backend.url());
            written.and_then(|()| std::fs::rename(&temporary, &url)).map_err(at)?;
        }
        let clock = DatabaseClock::start(backend.first_time().clone());
        Ok(Self::new(Box::new(backend), Arc::new(clock), &dir))
    }

    fn on_disk(
        dir: &Path,
        open: impl FnOnce(&Path) -> Result<Sqlite, StoreError>,
    ) -> Result<Self, StoreError> {
        if let Ok(url) = std::fs::read_to_string(dir.join(layout::URL)) {
            return Self::in_database(&url, dir.parent().unwrap_or(dir));
        }
        // Steps get paths below it, and run in other directories.
        let at = |source| StoreError::Io { path: dir.to_owned(), source };
        let dir = std::path::absolute(dir).map_err(at)?;
        Ok(Self::new(Box::new(open(&dir)?), Arc::new(BootClock::start()?), &dir))
    }

    /// Creates a store in memory. It lasts as long as this value and its clones
    /// ([`Store::try_clone`]).
    pub fn in_memory() -> Result<Self, StoreError> {
        let clock = Arc::new(BootClock::start()?);
        Ok(Self::new(Box::new(Memory::default()), clock, &std::env::temp_dir()))
    }

    /// Creates a store over any backend and clock. `dir` is for files of this machine, such as logs.
    #[must_use]
    pub fn new(backend: Box<dyn Backend>, clock: Arc<dyn Clock>, dir: &Path) -> Self {
        let patience = Patience { give_up: Box::new(|_| None), tell: Box::new(|_| {}) };
        Self { backend, clock, dir: dir.to_owned(), era_counted: false, patience }
    }

    /// Opens another connection to the same store, for another thread.
    pub fn try_clone(&self) -> Result<Self, StoreError> {
        self.opener().open()
    }

    /// Returns a value with which another thread can open connections when it needs them.
    #[must_use]
    pub fn opener(&self) -> StoreOpener {
        let (clock, dir) = (Arc::clone(&self.clock), self.dir.clone());
        StoreOpener { backend: self.backend.opener(), clock, dir }
    }

    /// Returns a value that opens connections for a caller who has to know in time whether a server answers: an
    /// attempt at a transaction ends after `limit`, and others follow, as after any lost connection.
    #[must_use]
    pub fn opener_within(&self, limit: Duration) -> StoreOpener {
        StoreOpener { backend: self.backend.opener_within(limit), ..self.opener() }
    }

    /// Returns who may use the store; for one that is not on disk, this process alone.
    #[must_use]
    pub fn access(&self) -> Access {
        Access::of(&self.dir).unwrap_or_else(|_| Access::own())
    }

    /// Returns the directory for files of this machine.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns whether the store is in a database, which other machines may use.
    #[must_use]
    pub fn is_in_database(&self) -> bool {
        self.clock.now().frame.is_shared()
    }

    /// Reads the clock of the store.
    #[must_use]
    pub fn now(&self) -> ClockReading {
        self.clock.now()
    }

    /// Runs `body` in one transaction: commits all its changes, or none if it fails. The commit
    /// survives a loss of power. Only the last call of `body` counts.
    pub fn transact<T>(
        &mut self,
        body: impl FnMut(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.transact_with(Durability::Full, body)
    }

    /// Runs a transaction that changes only leases. The commit survives a crash of any process.
    ///
    /// It need not survive a loss of power: no holder does, and the tokens of the next boot are larger
    /// than all tokens of this one, including those that were lost.
    pub fn transact_leases<T>(
        &mut self,
        body: impl FnMut(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if !self.era_counted {
            let is_counted = |tx: &Transaction<'_>| tx.has_counted_era();
            let counted = self.read(is_counted)?;
            let durability = if counted { Durability::Process } else { Durability::Full };
            let result = self.transact_with(durability, body)?;
            self.era_counted = counted;
            return Ok(result);
        }
        self.transact_with(Durability::Process, body)
    }

    /// Runs `body` in one transaction, with a commit that is as durable as the caller needs.
    pub fn transact_with<T>(
        &mut self,
        durability: Durability,
        body: impl FnMut(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let Self { backend, clock, patience, .. } = self;
        let mut told = false;
        let mut on_wait = |wait: &dyn WriterWait| patience.on_wait(wait, &mut told);
        transact(&mut **backend, &**clock, durability, &mut on_wait, body)
    }

    /// Runs a transaction as [`Store::transact_with`] does, but calls `on_wait` during a long wait for
    /// other writers.
    pub fn transact_while<T>(
        &mut self,
        durability: Durability,
        on_wait: OnWait<'_>,
        body: impl FnMut(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        transact(&mut *self.backend, &*self.clock, durability, on_wait, body)
    }

    /// Gives room that deleted records have left back to the system, if that is worth its time. Other
    /// writers wait meanwhile.
    pub fn compact(&mut self) -> Result<(), StoreError> {
        let Self { backend, patience, .. } = self;
        let mut told = false;
        backend.compact(&mut |wait| patience.on_wait(wait, &mut told))
    }

    /// Makes all earlier commits survive a loss of power. A caller that has other work to do in between
    /// commits with [`Durability::Process`] and syncs afterwards.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.backend.sync()
    }

    /// Returns the file that [`Store::sync`] syncs, if there is one, so that the caller can have the
    /// kernel start writing it out earlier. It is for nothing else.
    pub fn file_to_sync(&mut self) -> Option<BorrowedFd<'_>> {
        self.backend.file_to_sync()
    }

    /// Connects again, after a disk error: a connection that has seen one writes nothing any more.
    pub fn reconnect(&mut self) -> Result<(), StoreError> {
        self.backend = (self.backend.opener())()?;
        Ok(())
    }

    /// Has the next writer refresh all leases before it decides anything, because this process cannot send
    /// heartbeats, as on a full disk. Returns whether it will: then a lease that is valid now stays valid for
    /// its heartbeat timeout from now on.
    #[must_use]
    pub fn keep_leases(&self) -> bool {
        self.backend.keep_leases()
    }

    /// Has a server end a transaction of this process that stands still, as when it is suspended, in good time
    /// for holders whose leases last for `lease`. Goes for this connection and its clones.
    pub fn keep_pace_with(&mut self, lease: Duration) {
        self.backend.let_stall(lease / 6);
    }

    /// Runs `body` on a consistent snapshot, without waiting for writers. Changes that it makes are
    /// discarded or refused.
    pub fn read<T>(
        &mut self,
        body: impl FnMut(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut body = Repeatable::new(body, &*self.clock);
        self.backend.read(&mut |tables| {
            // A snapshot changes nothing of which others would have to know.
            body.run(Transaction::new(tables, body.clock)).map(drop)
        })?;
        Ok(body.result.expect("a read that succeeded has a result"))
    }

    /// Returns the only run whose id begins with `prefix`; `last` stands for the newest run.
    pub fn run(&mut self, prefix: &str) -> Result<RunRecord, StoreError> {
        self.read(|tx| tx.runs().find(prefix))
    }

    /// Returns the journal of a run.
    pub fn facts(&mut self, run: &str) -> Result<Vec<Fact>, StoreError> {
        self.read(|tx| tx.facts().of(run))
    }

    /// Returns the number of the latest event; 0 if there was none.
    pub fn last_event(&mut self) -> Result<u64, StoreError> {
        self.read(|tx| tx.events().last())
    }

    /// Returns every name that has a holder or a waiter.
    pub fn overview(&mut self) -> Result<Vec<NameView>, StoreError> {
        self.read(|tx| tx.leases().overview())
    }

    /// Looks at the state of what has the store.
    pub fn examine(&mut self) -> Result<Examined, StoreError> {
        self.backend.examine()
    }

    /// Returns the logs of orders that the store keeps; none if they are only in files.
    pub fn logs(&mut self) -> Option<&mut dyn LogStore> {
        self.backend.logs()
    }

    /// Returns when the notices of transactions are sent, and so how far a process may rely on wake-ups.
    #[must_use]
    pub fn delivery(&self) -> Delivery {
        self.backend.delivery()
    }

    /// Lends the password with which the store was opened to processes that this one starts; none if it was opened
    /// without one. They find it by [`PASSFILE_VARIABLE`](crate::PASSFILE_VARIABLE) until the value is dropped.
    pub fn lend_password(&self) -> Result<Option<LentPassword>, StoreError> {
        self.backend.lend_password()
    }

    /// Registers a wake-up for a topic.
    pub fn register(&self, topic: &Topic) -> Result<Wakeup, StoreError> {
        self.backend.register(topic)
    }

    /// Makes a wait for other writers fail with an error once `give_up` returns one. Without this, such a
    /// wait has no end.
    pub fn give_up_when(
        &mut self,
        give_up: impl Fn(&dyn WriterWait) -> Option<StoreError> + Send + 'static,
    ) {
        self.patience.give_up = Box::new(give_up);
    }

    /// Calls `tell` once during each wait that [is long](WriterWait::is_long). The wait goes on.
    pub fn when_blocked(&mut self, tell: impl FnMut(&Blocker) + Send + 'static) {
        self.patience.tell = Box::new(tell);
    }
}

impl Patience {
    fn on_wait(
        &mut self,
        wait: &dyn WriterWait,
        told: &mut bool,
    ) -> ControlFlow<StoreError, Duration> {
        if let Some(error) = (self.give_up)(wait) {
            return ControlFlow::Break(error);
        }
        if wait.is_long() {
            wait.keep_leases();
            if !std::mem::replace(told, true) {
                (self.tell)(&wait.blocker());
            }
        }
        ControlFlow::Continue(STOP_CHECK)
    }
}

fn transact<T>(
    backend: &mut dyn Backend,
    clock: &dyn Clock,
    durability: Durability,
    on_wait: OnWait<'_>,
    body: impl FnMut(&Transaction<'_>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let mut body = Repeatable::new(body, clock);
    backend.transact(durability, on_wait, &mut |tables| {
        // The clock is read inside the transaction, so that times grow in the order of commits.
        let transaction = Transaction::new(tables, clock);
        transaction.settle()?;
        body.run(transaction)
    })?;
    Ok(body.result.expect("a committed transaction has a result"))
}

/// Opens connections to a store that is open already.
pub struct StoreOpener {
    backend: Opener,
    clock: Arc<dyn Clock>,
    dir: PathBuf,
}

impl StoreOpener {
    /// Opens another connection to the same store.
    pub fn open(&self) -> Result<Store, StoreError> {
        Ok(Store::new((self.backend)()?, Arc::clone(&self.clock), &self.dir))
    }
}

/// The body of a transaction, with the result of its last call.
struct Repeatable<'a, F, T> {
    body: F,
    clock: &'a dyn Clock,
    result: Option<T>,
}

impl<'a, F, T> Repeatable<'a, F, T>
where
    F: FnMut(&Transaction<'_>) -> Result<T, StoreError>,
{
    fn new(body: F, clock: &'a dyn Clock) -> Self {
        Self { body, clock, result: None }
    }

    /// Calls the body. Returns whom to notify of what it has done.
    fn run(&mut self, transaction: Transaction<'_>) -> Result<Vec<Notice>, StoreError> {
        self.result = Some((self.body)(&transaction)?);
        Ok(transaction.into_notices())
    }
}
