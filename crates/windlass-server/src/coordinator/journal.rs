//! The seam between a run's decisions and its durable state.
//!
//! A journal is the only object that writes what outlives this process: facts, records, holds of
//! names, the lead of the run. The run decides first, commits then, and acts last, so that a kill, a
//! failed commit or a loss of power leaves nothing started or shown that the journal does not know.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use windlass_core::{Grant, Name, Token, WorkId};
use windlass_store::{
    AttemptRecord, Decision, Event, GuardWait, HolderId, OnWait, RunEnd, StoreError,
};

use super::RunError;
use super::requests::Wish;
use crate::command::ResolveError;
use crate::schedule::Schedule;

mod admission;
mod leader;
mod reachability;
mod refusals;
mod stored;
mod wakeups;
mod write_ahead;

pub(crate) use self::admission::LOOKED_AT;
pub(super) use self::admission::{Admitted, NameClaims, items_of, terms};
pub(crate) use self::leader::expect_limits;
pub(super) use self::leader::{Expected, Leader, declare};
pub(crate) use self::stored::end_leftovers;
pub(super) use self::stored::{StoreJournal, write_records};
#[cfg(test)]
pub(super) use self::write_ahead::Pace;
pub(crate) use self::write_ahead::read_wal;

/// The durable state of a run. What writes calls `on_wait` while other processes keep writers out.
pub(super) trait Journal {
    /// Adds a record to what the next commit stores.
    fn record(&mut self, record: Record);

    /// Commits the schedule's facts and all records, and begins the works that may start. A commit
    /// survives a kill of this process, and a loss of power after the next [`Journal::sync`].
    ///
    /// After an error it is unknown what was committed, and the schedule must not be used any more.
    fn commit(
        &mut self,
        schedule: &mut Schedule,
        admission: Admission,
        on_wait: OnWait<'_>,
    ) -> Result<Committed, RunError>;

    /// Has the disk begin to write what the next sync waits for.
    fn begin_sync(&mut self);

    /// Returns once everything that was committed survives a loss of power.
    fn sync(&mut self, scope: SyncScope, on_wait: OnWait<'_>) -> Result<(), RunError>;

    /// Returns for how long there has been something that a loss of power would undo; none if there
    /// is nothing.
    fn unsynced_for(&self) -> Option<Duration>;

    /// Returns whether a commit or a sync has failed.
    fn has_failed(&self) -> bool;

    /// Returns why the run cannot be resumed, if what is stored is lost.
    fn loss(&mut self) -> Option<StoreError>;

    /// Returns how long until [`Journal::store_due`] or [`Journal::on_due`] has something to do; none if
    /// they have nothing.
    fn until_due(&self) -> Option<Duration>;

    /// Has the store take over what it is time for.
    fn store_due(&mut self, on_wait: OnWait<'_>) -> Result<(), RunError>;

    /// Does what else is due, such as to let other processes reach this one; `watch` is given each
    /// source of wake-ups that did not exist before.
    fn on_due(
        &mut self,
        watch: &mut dyn FnMut(BorrowedFd<'_>) -> io::Result<()>,
    ) -> Result<Due, RunError>;

    /// Returns what users have asked of the run and no commit has answered. Drains the wake-ups first,
    /// so that what comes later wakes the run again.
    fn requests(&mut self) -> Result<Vec<Request>, RunError>;

    /// Returns what users have decided about the guards of the run.
    fn decisions(&mut self) -> Result<Vec<Decision>, RunError>;

    /// Returns the events since the last call.
    fn events(&mut self) -> Result<Vec<Event>, RunError>;

    /// Returns one of `names` that is not held any more, if there is one.
    fn lost_name(
        &mut self,
        names: &[(Name, Token)],
        on_wait: OnWait<'_>,
    ) -> Result<Option<Name>, RunError>;

    /// Commits the rest, stores how the run has ended, if it has, and gives up its lead.
    fn finish(
        &mut self,
        schedule: &mut Schedule,
        end: Option<RunEnd>,
        on_wait: OnWait<'_>,
    ) -> Result<(), RunError>;
}

/// Whether works may begin in a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Open,
    Closed,
}

/// What a sync covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncScope {
    /// What has been committed, wherever that is.
    Committed,
    /// Also that the store has it, and the write-ahead log is empty.
    Stored,
}

/// Whether the run has to read again what the store has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    LookAgain,
}

/// What a commit has decided.
#[derive(Default)]
pub(super) struct Committed {
    /// The attempts that have begun.
    pub(super) starts: Vec<Start>,
    /// The works that a name has refused, and why.
    pub(super) refusals: Vec<(WorkId, String)>,
}

/// An attempt that has begun, with the names it holds.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) grant: Grant,
    pub(super) names: Vec<(Name, Token)>,
    /// The variables that tell its command which items of limits it has.
    pub(super) items: Vec<(String, String)>,
    /// Why its command cannot be started.
    pub(super) broken: Option<ResolveError>,
}

impl Start {
    /// Returns the start of an attempt that holds no names.
    pub(super) fn plain(grant: Grant) -> Self {
        Self { grant, names: Vec::new(), items: Vec::new(), broken: None }
    }

    /// Returns whether the attempt holds some of a limit.
    pub(super) fn has_limits(&self) -> bool {
        self.names.iter().any(|(name, _)| matches!(name, Name::Limit(_)))
    }

    /// Returns the fencing tokens of the locks that the attempt holds, in the order of its `lock`.
    pub(super) fn tokens(&self) -> Vec<Token> {
        let locks = self.names.iter().filter(|(name, _)| matches!(name, Name::Lock(_)));
        locks.map(|(_, token)| *token).collect()
    }
}

/// A text that a user has left for the run, by its number in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) number: u64,
    pub(super) text: String,
}

impl Request {
    /// Returns whether the request says that a guard was decided.
    pub(super) fn is_decision(&self) -> bool {
        matches!(Wish::parse(&self.text, |_| None), Some(Wish::Decide))
    }
}

/// What a commit stores beside facts.
#[derive(Debug)]
pub(super) enum Record {
    /// An attempt has ended, and gives back the names that it held.
    Attempt { record: AttemptRecord, holder: HolderId, names: Vec<(Name, Token)> },
    /// A step waits for a guard.
    Wait(GuardWait),
    /// A step does not wait for a guard any more.
    WaitOver(WorkId),
    /// What was decided about the guards of a step does not count any more.
    Undecided(WorkId),
    /// An event.
    Emit(String),
    /// The request of this number was carried out.
    Taken(u64),
    /// The run, which had ended, was reopened.
    Reopened,
}

impl Record {
    /// Returns whether the record concerns nothing outside the run.
    fn is_plain(&self) -> bool {
        matches!(self, Record::Attempt { names, .. } if names.is_empty())
    }

    /// Returns the attempt that the record is about, if it is about one.
    fn attempt(&self) -> Option<&AttemptRecord> {
        match self {
            Record::Attempt { record, .. } => Some(record),
            _ => None,
        }
    }
}
