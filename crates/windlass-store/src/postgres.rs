//! The backend in a database: PostgreSQL.
//!
//! A transaction first locks the row of the store's counters, so writers go one after the other and a
//! statement sees every commit before it (READ COMMITTED). If the connection is lost or another
//! transaction gets in the way, the transaction is repeated; if the answer to a commit is lost, the server
//! is asked what has become of it. Commits are always synced: a holder may outlive a crash of the server.

mod begin;
mod examine;
mod grants;
mod lent;
mod link;
mod listener;
mod logs;
mod orders;
mod pipeline;
mod queues;
mod runs;
mod schema;
mod session;
mod tables;
mod target;
mod tls;
mod wait;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use self::begin::{begin, first_time};
pub use self::grants::{CheckedRights, Rights, check_rights, grant};
pub use self::lent::{LentPassword, PASSFILE_VARIABLE, borrow_password};
use self::listener::{Listener, notification};
use self::session::Session;
use self::tables::PostgresTables;
use self::target::Target;
pub use self::target::{is_database, without_password};
use self::wait::Wait;
use crate::backend::{Backend, Delivery, Durability, Opener, ReadBody, TransactionBody};
use crate::clock::ServerTime;
use crate::error::StoreError;
use crate::examine::Examined;
use crate::log::LogStore;
use crate::wakeup::{Topic, Wakeup};
use crate::writer_wait::OnWait;

/// How long a reader tries to reach the database.
const READ_PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait before the first and before later attempts to reach the database.
const RECONNECT: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(500)];
/// How long a session may stand still in a transaction at least, also on a busy machine.
const SHORTEST_STALL: Duration = Duration::from_millis(250);

/// A connection to a store in a database.
pub struct Postgres {
    target: Arc<Target>,
    listener: Listener,
    id: String,
    /// The time when the store was opened.
    first_time: ServerTime,
    haste: Haste,
    /// None after the connection was lost, and while a transaction has it: one whose body panics closes it.
    session: Option<Session>,
}

/// How long a caller lets the server wait, and waits for it.
#[derive(Clone, Copy)]
struct Haste {
    /// How long a session may stand still in a transaction.
    stall: Duration,
    /// How long an attempt at a transaction may take.
    attempt: Option<Duration>,
}

impl Haste {
    const USUAL: Self = Self { stall: Duration::from_secs(10), attempt: None };

    fn deadline(self) -> Option<Instant> {
        self.attempt.map(|attempt| Instant::now() + attempt)
    }

    fn open(self, target: &Target) -> Result<Session, StoreError> {
        Session::open(target, self.stall, self.deadline())
    }
}

/// How one attempt at a transaction has failed.
enum Failure {
    /// Nothing was committed, and a repetition may succeed.
    Repeatable(StoreError),
    /// Nothing was committed, or it is unknown what was.
    Final(StoreError),
}

/// Why a transaction was not seen to end.
enum Unfinished {
    Failed(Failure),
    /// The answer to its commit was lost. The server knows it by this number.
    Unanswered {
        number: String,
        error: StoreError,
    },
}

impl Postgres {
    /// Opens the store in the database that `url` names. Fails if there is none.
    pub fn open(url: &str) -> Result<Self, StoreError> {
        Self::connect(Arc::new(Target::parse(url)?), Listener::default(), Haste::USUAL)
    }

    /// Creates a store in the database that `url` names, unless there is one, and opens it. Refuses a pooler that
    /// changes sessions between transactions.
    pub fn create(url: &str) -> Result<Self, StoreError> {
        let target = Target::parse(url)?;
        let session = Haste::USUAL.open(&target)?;
        if examine::is_pooled(&session, &target)? {
            return Err(StoreError::Pooled { database: target.to_string() });
        }
        schema::prepare(&session, &target)?;
        Self::open(url)
    }

    /// Returns the id of the store.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the URL of the database without a password.
    #[must_use]
    pub fn url(&self) -> String {
        self.target.to_string()
    }

    /// Returns what the clock of the server was when the store was opened.
    #[must_use]
    pub fn first_time(&self) -> &ServerTime {
        &self.first_time
    }

    fn connect(target: Arc<Target>, listener: Listener, haste: Haste) -> Result<Self, StoreError> {
        let session = haste.open(&target)?;
        let id = schema::check(&session, &target)?;
        let first_time = first_time(&session)?;
        Ok(Self { target, listener, id, first_time, haste, session: Some(session) })
    }

    /// Takes the connection, a new one if the last was lost.
    fn take_session(&mut self) -> Result<Session, Failure> {
        if let Some(session) = self.session.take().filter(|session| !session.is_closed()) {
            session.clear();
            session.set_deadline(self.haste.deadline());
            return Ok(session);
        }
        let session = self.haste.open(&self.target).map_err(of_connecting)?;
        let id = schema::check(&session, &self.target).map_err(of_connecting)?;
        match id == self.id {
            true => Ok(session),
            false => {
                let path = self.target.to_string().into();
                Err(Failure::Final(StoreError::Replaced { path }))
            }
        }
    }

    /// Makes one attempt at a transaction.
    fn attempt(&mut self, body: TransactionBody<'_>) -> Result<(), Failure> {
        let session = self.take_session()?;
        let done = write(&session, &self.target, body);
        self.session = Some(session);
        match done {
            Ok(()) => Ok(()),
            Err(Unfinished::Failed(failure)) => Err(failure),
            Err(Unfinished::Unanswered { number, error }) => self.find_out(&number, error),
        }
    }

    /// Asks the server what has become of a transaction whose commit it did not answer.
    fn find_out(&mut self, number: &str, error: StoreError) -> Result<(), Failure> {
        let why = error.to_string();
        let patience = self.haste.attempt.unwrap_or(READ_PATIENCE);
        let until = Instant::now() + patience;
        while Instant::now() < until {
            thread::sleep(RECONNECT[1].min(patience / 4));
            let Ok(session) = self.take_session() else { continue };
            let query = "SELECT pg_xact_status($1::text::xid8)";
            let status = session.one(query, &[&number], |row| row.value::<Option<String>>(0));
            self.session = Some(session);
            match status.ok().flatten().flatten().as_deref() {
                Some("committed") => return Ok(()),
                Some("aborted") => return Err(Failure::Repeatable(error)),
                _ => {}
            }
        }
        Err(Failure::Final(StoreError::Unanswered { why }))
    }

    fn opener_of(&self, haste: Haste) -> Opener {
        let (target, listener) = (Arc::clone(&self.target), self.listener.clone());
        Box::new(move || {
            let opened = Self::connect(Arc::clone(&target), listener.clone(), haste)?;
            Ok(Box::new(opened))
        })
    }

    fn snapshot(&mut self, body: ReadBody<'_>) -> Result<(), Failure> {
        let session = self.take_session()?;
        session.batch_later("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
        let read = body(&PostgresTables::reading(&session)).and_then(|()| session.batch("COMMIT"));
        let read = read.map_err(|error| match failed(&session, error) {
            // Perhaps a newer version has migrated the tables since this process has connected.
            Failure::Final(error) => {
                Failure::Final(schema::check(&session, &self.target).err().unwrap_or(error))
            }
            repeatable => repeatable,
        });
        self.session = Some(session);
        read
    }
}

impl Backend for Postgres {
    fn transact(
        &mut self,
        _: Durability,
        on_wait: OnWait<'_>,
        body: TransactionBody<'_>,
    ) -> Result<(), StoreError> {
        let mut wait: Option<Wait> = None;
        loop {
            let error = match self.attempt(body) {
                Ok(()) => return Ok(()),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Repeatable(error)) => error,
            };
            let is_full = matches!(error, StoreError::DatabaseFull { .. });
            let is_away = is_full || self.session.as_ref().is_none_or(Session::is_closed);
            // That others commit says nothing about this wait if there is no room.
            let oldest = self.session.as_ref().filter(|_| !is_full).and_then(oldest_transaction);
            let wait = wait.get_or_insert_with(|| Wait::start(self.target.to_string()));
            wait.observe(oldest, is_away.then(|| error.to_string()));
            match on_wait(wait) {
                ControlFlow::Break(error) => return Err(error),
                // The wait for a lock has taken its time already.
                ControlFlow::Continue(pause) if is_away => {
                    thread::sleep(pause.min(RECONNECT[usize::from(wait.is_later())]));
                }
                ControlFlow::Continue(_) => {}
            }
        }
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn read(&mut self, body: ReadBody<'_>) -> Result<(), StoreError> {
        let until = Instant::now() + self.haste.attempt.unwrap_or(READ_PATIENCE);
        loop {
            match self.snapshot(body) {
                Ok(()) => return Ok(()),
                Err(Failure::Repeatable(_)) if Instant::now() < until => {
                    thread::sleep(RECONNECT[0]);
                }
                Err(Failure::Repeatable(error) | Failure::Final(error)) => return Err(error),
            }
        }
    }

    fn examine(&mut self) -> Result<Examined, StoreError> {
        let target = Arc::clone(&self.target);
        let examined = self.beside(|session| examine::examine(session, &target))?;
        Ok(Examined::Database(Box::new(examined)))
    }

    fn logs(&mut self) -> Option<&mut dyn LogStore> {
        Some(self)
    }

    fn lend_password(&self) -> Result<Option<LentPassword>, StoreError> {
        self.target.lend_password()
    }

    fn opener(&self) -> Opener {
        self.opener_of(self.haste)
    }

    fn opener_within(&self, limit: Duration) -> Opener {
        self.opener_of(Haste { attempt: Some(limit), ..self.haste })
    }

    fn let_stall(&mut self, limit: Duration) {
        self.haste.stall = limit.clamp(SHORTEST_STALL, Haste::USUAL.stall);
        self.session = None;
    }

    fn delivery(&self) -> Delivery {
        Delivery::WithCommit
    }

    fn register(&self, topic: &Topic) -> Result<Wakeup, StoreError> {
        self.listener.register(&self.target, topic)
    }
}

/// Runs a transaction.
fn write(session: &Session, target: &Target, body: TransactionBody<'_>) -> Result<(), Unfinished> {
    let fail = |error| Unfinished::Failed(failed(session, error));
    let begun = begin(session, target).map_err(fail)?;
    let notices = body(&PostgresTables::writing(session, &begun)).map_err(fail)?;
    notices.iter().for_each(|notice| session.batch_later(notification(target, notice)));
    // A commit that is sent too late is one whose answer is lost.
    session.expect_time().map_err(fail)?;
    match session.batch("COMMIT") {
        Ok(()) => Ok(()),
        Err(error) if session.is_closed() => {
            Err(Unfinished::Unanswered { number: begun.number, error })
        }
        Err(error) => Err(fail(error)),
    }
}

/// Ends a transaction that has failed.
fn failed(session: &Session, error: StoreError) -> Failure {
    let is_repeatable = session.is_repeatable();
    session.clear();
    // A lost connection has ended it already.
    let _ = session.batch("ROLLBACK");
    match is_repeatable {
        true => Failure::Repeatable(error),
        false => Failure::Final(error),
    }
}

fn of_connecting(error: StoreError) -> Failure {
    match error {
        StoreError::DatabaseAway { .. } => Failure::Repeatable(error),
        error => Failure::Final(error),
    }
}

/// Returns the oldest transaction of the server that has not ended.
fn oldest_transaction(session: &Session) -> Option<String> {
    let query = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text";
    session.one(query, &[], |row| row.value(0)).ok().flatten()
}

#[cfg(test)]
mod tests;
