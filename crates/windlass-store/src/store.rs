//! The store as its users see it: transactions over one backend, and wakeups rung once they hold.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_core::Fact;

use crate::access::{self, Access};
use crate::backend::{Backend, Durability, Opener};
use crate::clock::{BootClock, Clock};
use crate::error::StoreError;
use crate::memory::Memory;
use crate::run::RunRecord;
use crate::sqlite::{Network, Sqlite};
use crate::tables::Tables;
use crate::transaction::{NameView, Transaction};
use crate::wakeup::{Topic, Wakeup};

/// A connection to what outlives a process. Use one per thread.
///
/// ```
/// use windlass_store::{Claim, Claimed, HolderId, Name, Need, Store};
///
/// let dir = tempfile::tempdir()?;
/// let mut store = Store::open(dir.path())?;
/// let (holder, needs) = (HolderId::new("me"), [Need::one(Name::Lock("deploy".to_owned()))]);
/// let claimed = store.transact(|transaction| transaction.claim(&Claim::new(&holder, &needs)))?;
/// assert!(matches!(claimed, Claimed::Held(holds) if holds[0].token.0 == 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Store {
    backend: Box<dyn Backend>,
    clock: Arc<dyn Clock>,
    dir: PathBuf,
    /// Whether the store is known to have seen this boot.
    settled: bool,
}

impl Store {
    /// Opens the store in `dir`, or makes it. Refused on a network file system.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        Self::open_with(dir, Network::Refuse)
    }

    /// As [`Store::open`], with a say about network file systems.
    pub fn open_with(dir: &Path, network: Network) -> Result<Self, StoreError> {
        Self::on_disk(dir, |dir| Sqlite::open(dir, network))
    }

    /// Opens the store in `dir`, and creates none: a directory without one is
    /// [`StoreError::NoStore`]. A store that this process must not write to can still be looked at.
    pub fn open_existing(dir: &Path, network: Network) -> Result<Self, StoreError> {
        Self::on_disk(dir, |dir| Sqlite::open_existing(dir, network))
    }

    /// Makes a store in `dir` that all members of a group may use, or shares the one that is there. A
    /// directory that holds other things is refused, because all that is in it would become the group's.
    pub fn share(dir: &Path, network: Network, gid: u32) -> Result<Self, StoreError> {
        let at = |source| StoreError::Io { path: dir.to_owned(), source };
        if access::holds_other_things(dir).map_err(at)? {
            return Err(StoreError::NotAStore { dir: dir.to_owned() });
        }
        let is_new = !dir.exists();
        let shared = Access::create_private_dir(dir).and_then(|()| access::share(dir, gid));
        shared.map_err(|source| {
            if is_new {
                // Nothing is in it, so nothing is lost; else it would be taken for a store of one user.
                let _ = std::fs::remove_dir(dir);
            }
            at(source)
        })?;
        Self::open_with(dir, network)
    }

    fn on_disk(
        dir: &Path,
        open: impl FnOnce(&Path) -> Result<Sqlite, StoreError>,
    ) -> Result<Self, StoreError> {
        // Steps are told where their files are, and run elsewhere.
        let at = |source| StoreError::Io { path: dir.to_owned(), source };
        let dir = std::path::absolute(dir).map_err(at)?;
        Ok(Self::new(Box::new(open(&dir)?), Arc::new(BootClock::start()?), &dir))
    }

    /// A store that lasts as long as this value and those made from it with [`Store::try_clone`].
    pub fn in_memory() -> Result<Self, StoreError> {
        let clock = Arc::new(BootClock::start()?);
        Ok(Self::new(Box::new(Memory::default()), clock, &std::env::temp_dir()))
    }

    /// A store over some backend, with a clock of one's own. `dir` is where files go that belong to
    /// this machine alone, such as logs.
    #[must_use]
    pub fn new(backend: Box<dyn Backend>, clock: Arc<dyn Clock>, dir: &Path) -> Self {
        Self { backend, clock, dir: dir.to_owned(), settled: false }
    }

    /// Another connection to the same store, for another thread.
    pub fn try_clone(&self) -> Result<Self, StoreError> {
        self.opener().open()
    }

    /// A way to make further connections from another thread, when it needs them.
    #[must_use]
    pub fn opener(&self) -> StoreOpener {
        let (clock, dir) = (Arc::clone(&self.clock), self.dir.clone());
        StoreOpener { backend: self.backend.opener(), clock, dir }
    }

    /// Returns who may use the store. Of one that is not on disk, this process alone.
    #[must_use]
    pub fn access(&self) -> Access {
        Access::of(&self.dir).unwrap_or_else(|_| Access::own())
    }

    /// The directory for files of this machine.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Does several things in one commit: all of them, or none if `act` fails. It survives a loss
    /// of power.
    pub fn transact<T>(
        &mut self,
        act: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.transact_with(Durability::Full, act)
    }

    /// Does something about leases and nothing else. It survives a crash of any process, and needs
    /// no more: whoever holds a lease does not survive a loss of power, and tokens of the next boot
    /// are above all of this one, also above those that are lost.
    pub fn transact_leases<T>(
        &mut self,
        act: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if !self.settled {
            let knows = |transaction: &Transaction<'_>| transaction.knows_boot();
            let settled = self.read(knows)?;
            let durability = if settled { Durability::Process } else { Durability::Full };
            let result = self.transact_with(durability, act)?;
            self.settled = settled;
            return Ok(result);
        }
        self.transact_with(Durability::Process, act)
    }

    /// As [`Store::transact`], as sure as is asked for.
    pub fn transact_with<T>(
        &mut self,
        durability: Durability,
        act: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut acting = Acting::new(act, &*self.clock);
        self.backend.transact(durability, &mut |records| acting.act(records))?;
        for (topic, wakeup) in acting.rings {
            match wakeup {
                Some(wakeup) => self.backend.notify(&topic, &wakeup),
                None => self.backend.notify_all(&topic),
            }
        }
        Ok(acting.result.expect("a transaction that holds was carried out"))
    }

    /// Whatever was committed before survives a loss of power, once this has returned. For those who
    /// commit with [`Durability::Process`] and have something to do that needs no more.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.backend.sync()
    }

    /// The file in which commits lie until they are synced, if there is one: whoever has something to
    /// do before [`Store::sync`] can have the disk begin with it. It is for nothing else.
    pub fn file_to_sync(&mut self) -> Option<BorrowedFd<'_>> {
        self.backend.file_to_sync()
    }

    /// Looks at one consistent state, without waiting for those who write. What `act` changes is
    /// lost or refused.
    pub fn read<T>(
        &mut self,
        act: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut acting = Acting::new(act, &*self.clock);
        self.backend.read(&mut |records| acting.act(records))?;
        Ok(acting.result.expect("a look that succeeds was taken"))
    }

    /// The run whose id begins with `prefix`; `last` stands for the newest.
    pub fn run(&mut self, prefix: &str) -> Result<RunRecord, StoreError> {
        self.read(|transaction| transaction.run(prefix))
    }

    /// The journal of a run.
    pub fn facts(&mut self, run: &str) -> Result<Vec<Fact>, StoreError> {
        self.read(|transaction| transaction.facts(run))
    }

    /// The number of the latest event; 0 if there is none.
    pub fn last_event(&mut self) -> Result<u64, StoreError> {
        let read = |transaction: &Transaction<'_>| transaction.last_event();
        self.read(read)
    }

    /// Every name that is held or waited for.
    pub fn overview(&mut self) -> Result<Vec<NameView>, StoreError> {
        let read = |transaction: &Transaction<'_>| transaction.overview();
        self.read(read)
    }

    /// A wakeup that rings for a topic.
    pub fn register(&self, topic: &Topic) -> Result<Wakeup, StoreError> {
        self.backend.register(topic)
    }

    /// Gives up waiting for others, with an error, as soon as `stop` says so.
    pub fn interrupt_when(&mut self, stop: impl Fn() -> bool + Send + 'static) {
        self.backend.interrupt_when(Box::new(stop));
    }
}

/// Makes connections to a store that is open already.
pub struct StoreOpener {
    backend: Opener,
    clock: Arc<dyn Clock>,
    dir: PathBuf,
}

impl StoreOpener {
    /// Another connection to the same store.
    pub fn open(&self) -> Result<Store, StoreError> {
        Ok(Store::new((self.backend)()?, Arc::clone(&self.clock), &self.dir))
    }
}

/// Something to be done once, though backends could do it again.
struct Acting<'a, F, T> {
    act: Option<F>,
    clock: &'a dyn Clock,
    result: Option<T>,
    rings: Vec<(Topic, Option<String>)>,
}

impl<'a, F, T> Acting<'a, F, T>
where
    F: FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
{
    fn new(act: F, clock: &'a dyn Clock) -> Self {
        Self { act: Some(act), clock, result: None, rings: Vec::new() }
    }

    fn act(&mut self, records: &dyn Tables) -> Result<(), StoreError> {
        let act = self.act.take().expect("a backend carries a transaction out once");
        // Only inside is it certain that nobody acts at a later time and is stored before.
        let transaction = Transaction::new(records, self.clock.now());
        self.result = Some(act(&transaction)?);
        self.rings = transaction.into_rings();
        Ok(())
    }
}
