//! What happens in a run of the doubles, and whether the journal knows of it.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use windlass_core::{Fact, Grant, Happening, WorkId, WorkState};
use windlass_store::{AttemptEnd, Decision, Event, RunEnd};

use super::super::super::Change;
use super::super::super::attempts::{OrderId, StopMode};
use super::super::super::journal::Request;

/// When virtual time begins, in nanoseconds.
pub(super) const BEGIN: u64 = 1_000_000_000_000;

/// Something that was done or shown, in order, with the seconds since the beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::coordinator::tests) enum Seen {
    Start(OrderId),
    Stop(OrderId, StopMode),
    /// A step, its new state and its attempt.
    Changed(String, WorkState, u32),
    /// A step that waits, and the first line of what for.
    Waits(String, String),
    Notice(String),
    Stopping,
    /// A commit, a sync or the end of the run could not be stored.
    JournalFailed,
}

/// What the doubles and the watcher have seen, and what the journal has.
#[derive(Default)]
pub(in crate::coordinator::tests) struct World {
    pub(in crate::coordinator::tests) seen: Vec<(u64, Seen)>,
    pub(super) clock: Arc<AtomicU64>,
    pub(super) facts: Vec<Fact>,
    /// How many of the facts the disk has, and since when it does not have the others.
    pub(super) synced: usize,
    pub(super) unsynced_since: Option<u64>,
    /// The steps that each step follows.
    pub(super) after: Vec<Vec<WorkId>>,
    /// How the attempts of committed records have ended.
    pub(in crate::coordinator::tests) attempts: Vec<(WorkId, u32, AttemptEnd)>,
    pub(in crate::coordinator::tests) events: Vec<String>,
    pub(super) requests: Vec<Request>,
    pub(super) decisions: Vec<Decision>,
    pub(super) pending_events: Vec<Event>,
    pub(in crate::coordinator::tests) ended: Option<Option<RunEnd>>,
    /// How often something was to be stored.
    pub(in crate::coordinator::tests) writes: usize,
    pub(in crate::coordinator::tests) names_lost: bool,
    /// How often the run has had its leases kept while it could not write.
    pub(in crate::coordinator::tests) leases_kept: usize,
}

pub(super) type Shared = Rc<RefCell<World>>;

impl World {
    pub(super) fn seconds(&self) -> u64 {
        (self.clock.load(Ordering::Relaxed) - BEGIN) / 1_000_000_000
    }

    pub(super) fn see(&mut self, seen: Seen) {
        let failed = self.seen.iter().any(|(_, seen)| *seen == Seen::JournalFailed);
        assert!(!failed, "{seen:?} after the journal has failed");
        self.seen.push((self.seconds(), seen));
    }

    pub(super) fn knows(&self, facts: &[Fact], is_it: impl Fn(&Happening) -> bool) -> bool {
        facts.iter().any(|fact| is_it(&fact.what))
    }

    pub(super) fn began(&self, of: Grant) -> impl Fn(&Happening) -> bool {
        move |what| matches!(what, Happening::Started { work, attempt, .. } if (*work, *attempt) == (of.work, of.attempt))
    }

    pub(super) fn check_start(&self, id: OrderId) {
        let known = match id {
            OrderId::Command(grant) => {
                let synced = &self.facts[..self.synced];
                let ended = |on: &WorkId| {
                    self.knows(
                        synced,
                        |what| matches!(what, Happening::Ended { work, .. } if work == on),
                    )
                };
                self.after[grant.work.index()].iter().all(ended)
                    && self.knows(&self.facts, self.began(grant))
            }
            OrderId::Finally(Grant { work, .. }) => {
                self.attempts.iter().any(|(of, ..)| *of == work)
            }
            // A check changes nothing; a hook reports what the disk has.
            OrderId::Check { .. } => true,
            OrderId::Hook(_) => self.synced == self.facts.len(),
        };
        assert!(known, "{id:?} starts, and the journal does not know why");
    }

    pub(super) fn check_change(&self, change: &Change<'_>, work: WorkId) {
        let synced = &self.facts[..self.synced];
        let of = Grant { work, attempt: change.attempt };
        let ended = |what: &Happening| match what {
            Happening::Ended { work: ended, attempt, .. } => {
                (*ended, *attempt) == (work, of.attempt)
            }
            Happening::GateRejected { work: ended } | Happening::GateSkipped { work: ended } => {
                *ended == work
            }
            _ => false,
        };
        let known = match change.state {
            WorkState::Running => self.knows(synced, self.began(of)),
            WorkState::Success | WorkState::Failed => self.knows(synced, ended),
            _ => true,
        };
        assert!(known, "{change:?} is shown, and the disk does not have it");
    }
}
