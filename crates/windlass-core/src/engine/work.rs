//! A work as the engine keeps it: how it comes in, and how it is forgotten.

use super::Engine;
use super::edges::verdict;
use super::times::Times;
use crate::fact::World;
use crate::input::{More, Submission};
use crate::phase::Phase;
use crate::queue::{Listing, Ticket};
use crate::{CostId, Timestamp, WorkId};

/// A submission on its way into the engine, without its dependencies.
#[derive(Clone, Debug)]
pub(super) struct Staged {
    pub(super) cost: CostId,
    pub(super) priority: i64,
    pub(super) retries: u32,
    pub(super) after: usize,
    pub(super) more: Option<Box<More>>,
}

/// There is one for every work until it is forgotten, and fresh memory is what a new one costs most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) phase: Phase,
    pub(super) priority: i64,
    /// Its place in line; it keeps it while it is granted or ticketed.
    pub(super) ticket: Ticket,
    pub(super) ready_since: Timestamp,
    pub(super) attempts: u32,
    pub(super) retries_left: u32,
    pub(super) cost: CostId,
    /// A work that it is only needed after in case of failure has succeeded.
    pub(super) unneeded: bool,
    pub(super) gate: Gate,
    pub(super) besides: Besides,
}

/// What few works have: times of their own, and kin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Besides {
    Nothing,
    Times,
    Kin,
    TimesAndKin,
}

/// What stands before a work besides those it follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    None,
    Shut,
    Open,
}

const _: () = assert!(size_of::<Option<Work>>() == 48);

impl Engine {
    /// Lays a submission beside the fact that will take it in: for replay, in the order of the
    /// `Submitted` facts.
    pub fn stage(&mut self, submission: Submission<'_>) {
        let Submission { after, cost, priority, retries, more } = submission;
        let more = more.map(|more| Box::new(*more));
        self.staged.push_back(Staged { cost, priority, retries, after: after.len(), more });
        self.staged_after.extend(after);
    }

    /// The staged submission becomes a work.
    pub(super) fn admit_staged(&mut self, world: &mut World<'_>, work: WorkId) {
        let Staged { cost, priority, retries, after, more } =
            self.staged.pop_front().expect("a submission is staged before its fact");
        let after: Vec<_> = self.staged_after.drain(..after).collect();
        let more = more.as_deref();
        self.admit(world, work, Submission { after: &after, cost, priority, retries, more });
    }

    /// A submission becomes a work.
    pub(super) fn admit(&mut self, world: &mut World<'_>, work: WorkId, new: Submission<'_>) {
        let Submission { after, more, .. } = new;
        let node = self.dag.add_node();
        assert_eq!(work.index(), node, "works are numbered one by one");
        let mut entry = Work::new(new);
        let mut blocked = false;
        for &after in after {
            blocked |= self.follow(after, node, &mut entry);
        }
        entry.phase = match self.dag.unmet(node) {
            _ if blocked => Phase::Blocked,
            0 if entry.unneeded => Phase::Skipped,
            0 if entry.is_shut() => Phase::Gated,
            0 => Phase::Ready,
            _ => Phase::Waiting,
        };
        if entry.phase == Phase::Ready {
            entry.join_line(self.tickets, self.now);
            self.tickets = self.tickets.saturating_add(1);
        }
        self.enter(work, &entry);
        self.report(world, work, None, &entry);
        self.works.push(entry);
        if let Some(more) = more {
            self.admit_more(world, work, *more);
        }
    }

    /// What few works have besides.
    fn admit_more(&mut self, world: &mut World<'_>, work: WorkId, more: More) {
        let More { parent, timeout, deadline, retry, .. } = more;
        if let Some(parent) = parent {
            let added = self.dag.add_child(work.index(), parent.index());
            added.expect("whom it follows stands before its parent");
            self.works[parent.index()].add_kin();
            self.families.add(work, parent);
            self.settle(world, work);
        }
        if let Some(policy) = retry {
            self.policies.insert(work, policy);
        }
        if timeout.is_some() || deadline.is_some() {
            self.times.insert(work, Times { timeout, deadline, ..Times::default() });
        }
        if let Some(deadline) = deadline.filter(|_| self.is_open(work)) {
            self.arm(deadline, work);
            // One that has passed already is missed now.
            self.move_time(world, self.now);
        }
    }

    pub(super) fn drop_work(&mut self, work: WorkId) {
        let entry = self.works[work.index()];
        self.metrics.leave(entry.phase.state(), entry.retries_left);
        self.metrics.forgotten += 1;
        self.works.take(work.index()).expect("only a known work is forgotten");
        let ended = "only what has ended is forgotten";
        self.dag.leave_word(work.index(), |kind| verdict(kind, entry.phase).expect(ended));
        self.dag.forget(work.index());
        if entry.is_timed() {
            self.times.remove(&work);
        }
        self.policies.remove(&work);
        self.spent.remove(&work);
        let crowded = if entry.is_related() { self.families.forget(work) } else { None };
        if let Some(parent) = crowded.filter(|parent| self.works.get(parent.index()).is_some()) {
            self.dag.prune_children(parent.index());
        }
    }
}

impl Work {
    /// As it is before anything is known of those it follows.
    #[inline]
    pub(super) fn new(new: Submission<'_>) -> Self {
        let Submission { cost, priority, retries, more, .. } = new;
        Self {
            phase: Phase::Waiting,
            priority,
            ticket: Ticket::MIN,
            ready_since: Timestamp::ZERO,
            attempts: 0,
            retries_left: retries,
            cost,
            unneeded: false,
            gate: if more.is_some_and(|more| more.gated) { Gate::Shut } else { Gate::None },
            besides: more.map_or(Besides::Nothing, Besides::of),
        }
    }

    /// Goes to the end of the line.
    #[inline]
    pub(super) fn join_line(&mut self, ticket: Ticket, now: Timestamp) {
        self.ticket = ticket;
        self.ready_since = now;
    }

    pub(super) fn is_shut(&self) -> bool {
        self.gate == Gate::Shut
    }

    /// Whether it has times of its own.
    #[inline]
    pub(super) fn is_timed(&self) -> bool {
        matches!(self.besides, Besides::Times | Besides::TimesAndKin)
    }

    /// Whether it is or was somebody's child or parent.
    #[inline]
    pub(super) fn is_related(&self) -> bool {
        matches!(self.besides, Besides::Kin | Besides::TimesAndKin)
    }

    /// It is somebody's parent from now on.
    fn add_kin(&mut self) {
        self.besides = if self.is_timed() { Besides::TimesAndKin } else { Besides::Kin };
    }

    pub(super) fn is_open(&self) -> bool {
        !self.phase.state().is_terminal()
    }

    #[inline]
    pub(super) fn listing(&self) -> Listing {
        Listing { cost: self.cost, priority: self.priority }
    }
}

impl Besides {
    fn of(more: &More) -> Self {
        match (more.timeout.is_some() || more.deadline.is_some(), more.parent.is_some()) {
            (false, false) => Self::Nothing,
            (true, false) => Self::Times,
            (false, true) => Self::Kin,
            (true, true) => Self::TimesAndKin,
        }
    }
}
