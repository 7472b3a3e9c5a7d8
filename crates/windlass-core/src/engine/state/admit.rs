//! How a submission becomes a work, and how a work is forgotten.

use std::collections::VecDeque;

use super::{State, Work, verdict};
use crate::dag::Verdict;
use crate::engine::effects::Effects;
use crate::input::{Dependency, More, Submission};
use crate::phase::Phase;
use crate::{CostId, WorkId};

/// Submissions whose facts are yet to come: see [`Engine::stage`](crate::Engine::stage).
#[derive(Clone, Debug, Default)]
pub(super) struct Staging {
    submissions: VecDeque<Staged>,
    /// The dependencies of all of them, one after the other.
    after: VecDeque<Dependency>,
}

#[derive(Clone, Debug)]
struct Staged {
    cost: CostId,
    priority: i64,
    retries: u32,
    /// How many dependencies it has.
    after: usize,
    more: Option<Box<More>>,
}

impl State {
    /// Keeps a submission for the fact that will take it in.
    pub(in crate::engine) fn stage(&mut self, submission: Submission<'_>) {
        let Submission { after, cost, priority, retries, more } = submission;
        let more = more.map(|more| Box::new(*more));
        let staged = Staged { cost, priority, retries, after: after.len(), more };
        self.staging.submissions.push_back(staged);
        self.staging.after.extend(after);
    }

    /// Takes in a `Submitted` fact: the submission that was staged first becomes a work.
    pub(super) fn admit_staged(&mut self, effects: &mut Effects<'_, '_>, work: WorkId) {
        let staged = self.staging.submissions.pop_front();
        let Staged { cost, priority, retries, after, more } =
            staged.expect("a submission is staged before its fact");
        let after: Vec<_> = self.staging.after.drain(..after).collect();
        let more = more.as_deref();
        self.admit(effects, work, Submission { after: &after, cost, priority, retries, more });
    }

    /// Takes in a `Submitted` fact whose submission is at hand.
    #[inline]
    pub(in crate::engine) fn admit(
        &mut self,
        effects: &mut Effects<'_, '_>,
        work: WorkId,
        new: Submission<'_>,
    ) {
        let Submission { after, more, .. } = new;
        let node = self.dag.add_node();
        assert_eq!(work.index(), node, "works are numbered one by one");
        let mut entry = Work::new(new);
        let mut blocked = false;
        for &after in after {
            blocked |= self.follow(after, node, &mut entry);
        }
        if let Some(step) = entry.first_step(self.dag.unmet(node), blocked) {
            entry.step(work, step);
        }
        if entry.phase() == Phase::Ready {
            entry.join_queue(self.next_seq, self.now);
            self.next_seq = self.next_seq.saturating_add(1);
        }
        self.counts.enter(entry.phase().state(), entry.retries_left);
        effects.submitted(self.now, work, &entry);
        self.works.push(entry);
        if let Some(more) = more {
            self.admit_more(effects, work, *more);
        }
    }

    /// Adds an edge from a work to the newest one; returns whether that blocks the newest one.
    fn follow(&mut self, after: Dependency, node: usize, entry: &mut Work) -> bool {
        let source = after.work.index();
        let said = verdict(after.kind, self.works[source].phase());
        match said {
            None => {
                let added = self.dag.add_edge(source, node, after.kind);
                added.expect("nothing follows the newest work");
            }
            Some(said) => {
                self.dag.add_settled_edge(source, node, after.kind, said);
                entry.unneeded |= said == Verdict::Unneeded;
            }
        }
        said == Some(Verdict::Blocks)
    }

    /// Takes in what few works have.
    fn admit_more(&mut self, effects: &mut Effects<'_, '_>, work: WorkId, more: More) {
        let More { parent, timeout, deadline, retry, .. } = more;
        if let Some(parent) = parent {
            let added = self.dag.add_child(work.index(), parent.index());
            added.expect("what it follows is ordered before its parent");
            self.works[parent.index()].add_kin();
            self.families.add(work, parent);
            self.settle(effects, work);
        }
        if let Some(policy) = retry {
            self.retries.set_policy(work, policy);
        }
        if timeout.is_some() || deadline.is_some() {
            self.clock.set_times(work, timeout, deadline);
        }
        if let Some(deadline) = deadline.filter(|_| self.is_open(work)) {
            self.clock.arm(deadline, work);
            // One that has passed already is missed now.
            self.advance(effects, self.now);
        }
    }

    /// Forgets a work that has ended.
    pub(super) fn drop_work(&mut self, work: WorkId) {
        let entry = self.works[work.index()];
        self.counts.leave(entry.phase().state(), entry.retries_left);
        self.counts.forgotten += 1;
        self.works.take(work.index()).expect("only a known work is forgotten");
        let ended = "only what has ended is forgotten";
        self.dag.leave_word(work.index(), |kind| verdict(kind, entry.phase()).expect(ended));
        self.dag.forget(work.index());
        if entry.is_timed() {
            self.clock.forget(work);
        }
        self.retries.forget(work);
        let crowded = if entry.is_related() { self.families.forget(work) } else { None };
        if let Some(parent) = crowded.filter(|parent| self.works.get(parent.index()).is_some()) {
            self.dag.prune_children(parent.index());
        }
    }
}
