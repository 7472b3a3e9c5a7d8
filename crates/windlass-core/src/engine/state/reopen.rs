//! A user's retry: an ended work and everything that depends on it start again.

use std::collections::VecDeque;

use super::State;
use super::work::{Gate, Work};
use crate::WorkId;
use crate::dag::EdgeOutcome;
use crate::engine::effects::Effects;
use crate::phase::{Phase, Step};

impl State {
    /// Returns the works that start again together: `work` and all that depend on it. A work that
    /// was blocked by a forgotten work stays blocked, because that one cannot be retried.
    pub(in crate::engine) fn generation(&self, work: WorkId) -> Vec<WorkId> {
        let lost = |index: &usize| {
            self.dag.outcomes_of_forgotten(*index).any(|outcome| outcome == EdgeOutcome::Blocks)
        };
        let lost = |index: &usize| self.works[*index].phase() == Phase::Blocked && lost(index);
        let followers = self.dag.followers(work.index()).into_iter();
        let known = followers.filter(|index| self.works.get(*index).is_some());
        known.filter(|index| !lost(index)).map(WorkId::from_index).collect()
    }

    pub(super) fn reopen(&mut self, effects: &mut Effects<'_, '_>, work: WorkId) {
        let generation = self.generation(work);
        for &work in &generation {
            self.reset(effects, work);
        }
        for &work in &generation {
            let is_open = |node: usize| self.works.get(node).is_some_and(Work::is_open);
            self.dag.reopen_edges(work.index(), is_open);
        }
        let mut ended = VecDeque::new();
        for &work in &generation {
            if let Some(step) = self.resolve_edges(work) {
                self.step(effects, work, step);
                if !self.is_open(work) {
                    ended.push_back(work);
                }
            }
        }
        self.settle_all(effects, ended);
    }

    /// Moves the work back to waiting, with all its retries and a closed gate. Drops its children
    /// and its deadline.
    fn reset(&mut self, effects: &mut Effects<'_, '_>, work: WorkId) {
        self.disband(work);
        self.pauses.forget(work);
        let spent = self.retries.refund(work);
        let entry = &mut self.works[work.index()];
        entry.retries_left += spent;
        // A work that has ended is counted again, with all retries, when it leaves its end.
        if entry.is_open() {
            self.counts.retries_left += u64::from(spent);
        }
        entry.unneeded = false;
        if entry.gate == Gate::Open {
            entry.gate = Gate::Shut;
        }
        if let Some(deadline) = self.clock.take_deadline(work) {
            self.disarm(deadline, work);
        }
        if self.works[work.index()].phase() != Phase::Waiting {
            self.step(effects, work, Step::Reopen);
        }
    }

    /// Applies the outcomes of all edges into a work that starts again. Returns its first step,
    /// unless it has to wait.
    fn resolve_edges(&mut self, work: WorkId) -> Option<Step> {
        let outcome: Vec<_> = self.edge_outcomes(work).flatten().collect();
        let entry = &mut self.works[work.index()];
        entry.unneeded = outcome.contains(&EdgeOutcome::Unneeded);
        entry.first_step(self.dag.unmet(work.index()), outcome.contains(&EdgeOutcome::Blocks))
    }
}
