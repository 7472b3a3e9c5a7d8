//! Adds submitted works and drops forgotten ones.

use std::collections::VecDeque;

use super::{State, Work, edge_outcome};
use crate::dag::{Edge, EdgeOutcome};
use crate::engine::config::Precedence;
use crate::engine::effects::Effects;
use crate::input::{Dependency, Extras, Submission};
use crate::phase::{Phase, Step};
use crate::{CostId, WorkId};

/// The submissions whose facts are yet to come, see [`Engine::stage`](crate::Engine::stage).
#[derive(Clone, Debug, Default)]
pub(super) struct Staging {
    submissions: VecDeque<Entry>,
    /// The dependencies of all of them, one after the other.
    after: VecDeque<Dependency>,
}

#[derive(Clone, Debug)]
struct Entry {
    cost: CostId,
    priority: i64,
    retries: u32,
    /// The number of its dependencies.
    after: usize,
    extras: Option<Box<Extras>>,
}

/// A staged submission.
pub(super) struct Staged {
    pub(super) cost: CostId,
    pub(super) priority: i64,
    pub(super) retries: u32,
    pub(super) after: Vec<Dependency>,
    pub(super) extras: Option<Box<Extras>>,
}

impl Staging {
    pub(super) fn costs(&self) -> impl Iterator<Item = CostId> {
        self.submissions.iter().map(|staged| staged.cost)
    }
}

impl State {
    /// Stores a submission for its fact.
    pub(in crate::engine) fn stage(&mut self, submission: Submission<'_>) {
        let Submission { after, cost, priority, retries, extras } = submission;
        let extras = extras.map(|extras| Box::new(*extras));
        let entry = Entry { cost, priority, retries, after: after.len(), extras };
        self.staging.submissions.push_back(entry);
        self.staging.after.extend(after);
    }

    /// Takes the oldest staged submission.
    pub(super) fn take_staged(&mut self) -> Staged {
        let entry = self.staging.submissions.pop_front();
        let Entry { cost, priority, retries, after, extras } =
            entry.expect("a submission is staged before its fact");
        let after = self.staging.after.drain(..after).collect();
        Staged { cost, priority, retries, after, extras }
    }

    /// Applies a `Submitted` fact: the oldest staged submission becomes a work.
    pub(super) fn admit_staged(&mut self, effects: &mut Effects<'_, '_>, work: WorkId) {
        let Staged { cost, priority, retries, after, extras } = self.take_staged();
        let extras = extras.as_deref();
        self.admit(effects, work, Submission { after: &after, cost, priority, retries, extras });
    }

    /// Applies a `Submitted` fact with its submission.
    #[inline]
    pub(in crate::engine) fn admit(
        &mut self,
        effects: &mut Effects<'_, '_>,
        work: WorkId,
        new: Submission<'_>,
    ) {
        let Submission { after, extras, .. } = new;
        let mut entry = Work::new(new);
        let (works, mut blocked) = (&self.works, false);
        let node = self.dag.add_node(after.iter().map(|&Dependency { work, kind }| {
            let outcome = edge_outcome(kind, works[work.index()].phase());
            entry.unneeded |= outcome == Some(EdgeOutcome::Unneeded);
            blocked |= outcome == Some(EdgeOutcome::Blocks);
            (Edge { node: work.index(), kind }, outcome)
        }));
        assert_eq!(work.index(), node, "works are numbered one by one");
        if let Some(step) = entry.first_step(self.dag.unmet(node), blocked) {
            entry.step(work, step);
        }
        if entry.phase() == Phase::Ready && self.pauses.hold_back(work) {
            entry.step(work, Step::Pause);
        }
        if self.precedence == Precedence::Submitted {
            entry.join_queue(self.last_seq(), self.now);
        } else if entry.phase().has_place() {
            entry.join_queue(self.next_seq, self.now);
            self.next_seq = self.next_seq.saturating_add(1);
        }
        self.counts.enter(entry.phase().state(), entry.retries_left);
        if let Some(other) = extras.and_then(|extras| extras.beside) {
            self.places.goes_beside(work, other);
        }
        effects.submitted(self.now, work, &entry, self.places.at(work, entry.phase()));
        self.works.push(entry);
        if let Some(extras) = extras {
            self.admit_extras(effects, work, *extras);
        }
    }

    /// Applies the settings that few works have.
    fn admit_extras(&mut self, effects: &mut Effects<'_, '_>, work: WorkId, extras: Extras) {
        let Extras { parent, timeout, deadline, retry, .. } = extras;
        if let Some(parent) = parent {
            let added = self.dag.add_child(work.index(), parent.index());
            added.expect("what it follows is ordered before its parent");
            self.works[parent.index()].become_parent();
            self.families.add(work, parent);
            self.settle(effects, work);
        }
        if let Some(policy) = retry {
            self.retries.set_policy(work, policy);
        }
        if timeout.is_some() || deadline.is_some() {
            self.clock.set_times(work, timeout, deadline);
        }
        if self.pauses.since().is_some() {
            self.clock.stop_deadline(work, self.now);
        } else if let Some(deadline) = deadline.filter(|_| self.is_open(work)) {
            self.clock.arm(deadline, work);
            // A deadline in the past is missed now.
            self.advance(effects, self.now);
        }
    }

    /// Drops a work that has ended.
    pub(super) fn drop_work(&mut self, work: WorkId) {
        let entry = self.works[work.index()];
        self.counts.leave(entry.phase().state(), entry.retries_left);
        self.counts.forgotten += 1;
        self.works.take(work.index()).expect("only a known work is forgotten");
        let ended = "only what has ended is forgotten";
        self.dag
            .record_outcomes(work.index(), |kind| edge_outcome(kind, entry.phase()).expect(ended));
        self.dag.forget(work.index());
        if entry.is_timed() {
            self.clock.forget(work);
        }
        self.retries.forget(work);
        self.pauses.forget(work);
        self.places.forget(work);
        let crowded = if entry.is_related() { self.families.forget(work) } else { None };
        if let Some(parent) = crowded.filter(|parent| self.works.get(parent.index()).is_some()) {
            self.dag.prune_children(parent.index());
        }
    }
}
