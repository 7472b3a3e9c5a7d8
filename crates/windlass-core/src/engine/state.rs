//! Everything that facts decide about an engine's works, and the only code that changes it.
//!
//! A work is one entry in a column, with its [`Phase`](crate::Phase); the graph of edges, families,
//! timers and retry policies are kept beside it, because few works have them. A fact changes one
//! work by a step; the end of a work resolves its outgoing edges, which may end or unblock others,
//! level by level and without recursion. Timers fire at the time for which they were set, before a
//! fact with a later time is applied, so a replay computes the same.
//!
//! All fields are private to this module. The engine reads through `&` and changes the state only
//! by the functions below:
//!
//! * [`State::evolve`] and [`State::admit`] apply facts;
//! * [`State::advance`] fires the timers that are due;
//! * [`State::offer`] changes what no fact records and the digest does not cover;
//! * [`State::order_before`] reorders the graph for an edge that a fact is about to add;
//! * [`State::reprice`] changes the costs when the engine moves to another capacity tree.
//!
//! Within the module, [`Work::step`] is the only function that stores a phase, and
//! [`Phase::after`](crate::Phase) the only one that computes it. [`Effects`] updates queues,
//! capacity and reports.

use crate::column::Column;
use crate::dag::{Dag, EdgeError};
use crate::fact::{Fact, Happening};
use crate::input::Dependency;
use crate::metrics::StateCounts;
use crate::phase::{Step, StopReason};
use crate::queue::Seq;
use crate::{CostId, Timestamp, WorkId, WorkerId};

use super::config::Precedence;
use super::effects::Effects;

mod admit;
mod attempt;
mod base;
mod clock;
mod digest;
mod edges;
mod family;
mod pauses;
mod places;
mod reopen;
mod replace;
mod retries;
mod seqs;
mod step;
mod timers;
mod work;

use admit::Staging;
use clock::Clock;
pub(super) use edges::edge_outcome;
pub use family::Children;
use family::Families;
use pauses::Pauses;
pub(super) use places::At;
use places::Places;
use retries::Retries;
pub(super) use work::Work;

/// The state that facts decide.
#[derive(Clone, Debug)]
pub(super) struct State {
    now: Timestamp,
    works: Column<Work>,
    dag: Dag,
    precedence: Precedence,
    /// The sequence number of the next work that is queued, or submitted.
    next_seq: Seq,
    clock: Clock,
    retries: Retries,
    families: Families,
    pauses: Pauses,
    places: Places,
    counts: StateCounts,
    staging: Staging,
}

/// A change of a ready work that no fact records: after a replay the work is Ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offer {
    /// The driver is granted the next attempt.
    Made,
    /// The driver does not begin it.
    HandedBack,
    /// Something outside the engine refuses it.
    RefusedOutside,
    /// What refused it outside may be available now.
    Renewed,
}

impl State {
    pub(super) fn new(precedence: Precedence) -> Self {
        Self {
            precedence,
            now: Timestamp::ZERO,
            works: Column::default(),
            dag: Dag::new(),
            next_seq: seqs::first(precedence),
            clock: Clock::new(),
            retries: Retries::default(),
            families: Families::default(),
            pauses: Pauses::default(),
            places: Places::default(),
            counts: StateCounts::default(),
            staging: Staging::default(),
        }
    }

    /// Applies one fact. Inlined, so that a caller with a known kind of fact compiles only that
    /// branch.
    #[inline(always)]
    pub(super) fn evolve(&mut self, effects: &mut Effects<'_, '_>, fact: &Fact) {
        self.advance(effects, fact.at);
        match fact.what {
            Happening::Submitted { work } => self.admit_staged(effects, work),
            Happening::EdgeAdded { from, to, kind } => {
                self.connect(effects, Dependency { work: from, kind }, to);
            }
            Happening::EdgeRemoved { from, to } => self.disconnect(effects, from, to),
            Happening::Started { work, attempt, worker } => {
                self.places.start(work, worker);
                self.start(effects, work, attempt);
            }
            Happening::Ended { work, attempt, ending } => self.end(effects, work, attempt, ending),
            Happening::GateOpened { work } => self.open_gate(effects, work),
            Happening::GateRejected { work } => {
                self.end_at_gate(effects, work, Step::RejectedBeforeStart);
            }
            Happening::GateSkipped { work } => {
                self.works[work.index()].unneeded = true;
                self.end_at_gate(effects, work, Step::Skip);
            }
            Happening::Suspended { work, .. } => self.step(effects, work, Step::Suspend),
            Happening::WaitOver { work, .. } => self.step(effects, work, Step::ResumeRequested),
            Happening::Resumed { work, .. } => self.step(effects, work, Step::Resume),
            Happening::Joined { work, .. } => self.step(effects, work, Step::Join),
            Happening::Reopened { work } => self.reopen(effects, work),
            Happening::CancelAsked { work } => self.stop(effects, work, StopReason::Cancel),
            Happening::Halted { work, .. } => self.step(effects, work, Step::Halt),
            Happening::Continued { work, .. } => self.step(effects, work, Step::Continue),
            Happening::WorkPaused { work } => self.pause_work(effects, work),
            Happening::WorkUnpaused { work } => self.unpause_work(effects, work),
            Happening::Paused => self.pause_all(effects),
            Happening::Unpaused => self.unpause_all(effects),
            Happening::Moved { work, before } => self.move_before(effects, work, before),
            Happening::Replaced { work } => self.replace_staged(effects, work),
            Happening::LimitSet { level, resource, limit } => {
                effects.set_limit(level, resource, limit);
            }
            Happening::Forgotten { work } => self.drop_work(work),
        }
    }

    /// Makes, withdraws or renews the offer to run a ready work.
    #[inline(always)]
    pub(super) fn offer(&mut self, effects: &mut Effects<'_, '_>, work: WorkId, offer: Offer) {
        let step = match offer {
            Offer::Made => Step::Grant,
            Offer::HandedBack => Step::HandBack,
            Offer::RefusedOutside => Step::Refuse,
            Offer::Renewed => Step::Notify,
        };
        self.step(effects, work, step);
    }

    /// Orders `before` in front of `after`, for an edge that will be added. Fails if the edge would
    /// close a cycle.
    pub(super) fn order_before(&mut self, before: WorkId, after: WorkId) -> Result<(), EdgeError> {
        self.dag.order(before.index(), after.index())
    }

    /// Changes the cost of every work at `now`: the engine has moved to another capacity tree.
    pub(super) fn reprice(
        &mut self,
        now: Timestamp,
        mut price: impl FnMut(WorkId, &Work) -> CostId,
    ) {
        self.now = self.now.max(now);
        for (index, work) in self.works.iter_mut() {
            work.cost = price(WorkId::from_index(index), work);
        }
    }

    /// Iterates over the costs of all works, and of those that were submitted and have no fact yet.
    pub(super) fn costs(&self) -> impl Iterator<Item = CostId> {
        self.works.iter().map(|(_, work)| work.cost).chain(self.staging.costs())
    }

    /// Returns the number of works that are not forgotten.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.works.len()
    }

    #[inline]
    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns the work, or `None` if its id was never issued or it is forgotten.
    #[inline]
    pub(super) fn get(&self, work: WorkId) -> Option<&Work> {
        self.works.get(work.index())
    }

    /// Returns a work that the caller knows to exist.
    #[inline]
    pub(super) fn work(&self, work: WorkId) -> &Work {
        &self.works[work.index()]
    }

    /// Iterates over the works that are not forgotten, in the order of their ids.
    pub(super) fn works(&self) -> impl DoubleEndedIterator<Item = (WorkId, &Work)> {
        self.works.iter().map(|(index, work)| (WorkId::from_index(index), work))
    }

    /// Returns the id of the next work.
    #[inline]
    pub(super) fn next_work(&self) -> WorkId {
        WorkId::from_index(self.works.pushed())
    }

    pub(super) fn dag(&self) -> &Dag {
        &self.dag
    }

    pub(super) fn families(&self) -> &Families {
        &self.families
    }

    pub(super) fn pauses(&self) -> &Pauses {
        &self.pauses
    }

    /// Returns the worker of a work's latest attempt.
    pub(super) fn latest_worker(&self, work: WorkId) -> Option<WorkerId> {
        self.places.latest(work)
    }

    /// Returns the work whose worker this one goes to.
    pub(super) fn beside(&self, work: WorkId) -> Option<WorkId> {
        self.places.beside(work)
    }

    pub(super) fn retries(&self) -> &Retries {
        &self.retries
    }

    #[inline]
    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    #[inline]
    pub(super) fn counts(&self) -> &StateCounts {
        &self.counts
    }

    /// Returns whether the work exists and has not ended.
    pub(super) fn is_open(&self, work: WorkId) -> bool {
        self.get(work).is_some_and(Work::is_open)
    }

    /// Returns whether the work has been asked to stop for a reason at least as grave.
    pub(super) fn is_stopping(&self, work: WorkId, why: StopReason) -> bool {
        self.work(work).is_stopping(why)
    }
}
