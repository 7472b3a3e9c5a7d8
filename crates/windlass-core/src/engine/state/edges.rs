//! Resolves the edges out of works that have ended.

use std::collections::VecDeque;

use super::State;
use crate::WorkId;
use crate::dag::{EdgeKind, EdgeOutcome};
use crate::engine::effects::Effects;
use crate::input::Dependency;
use crate::phase::{Phase, Step, WorkState};

/// Returns the outcome of an edge for a source in this phase, or `None` while the source has not
/// ended.
pub(in crate::engine) fn edge_outcome(kind: EdgeKind, source: Phase) -> Option<EdgeOutcome> {
    let state = source.state();
    if !state.is_terminal() {
        return None;
    }
    Some(match (kind, state) {
        (EdgeKind::Done, _) => EdgeOutcome::Met,
        (EdgeKind::Success, WorkState::Success) => EdgeOutcome::Met,
        (EdgeKind::Failed, WorkState::Failed) => EdgeOutcome::Met,
        (EdgeKind::Failed, WorkState::Success) => EdgeOutcome::Unneeded,
        (EdgeKind::Success | EdgeKind::Failed, _) => EdgeOutcome::Blocks,
    })
}

impl State {
    /// Iterates over the outcomes of the edges into `work`; `None` where the source has not ended.
    pub(in crate::engine) fn edge_outcomes(
        &self,
        work: WorkId,
    ) -> impl Iterator<Item = Option<EdgeOutcome>> {
        let known = self.dag.sources(work.index()).filter_map(|edge| {
            let source = self.works.get(edge.node)?;
            Some(edge_outcome(edge.kind, source.phase()))
        });
        known.chain(self.dag.outcomes_of_forgotten(work.index()).map(Some))
    }

    /// Adds a dependency to a work that has not begun. A ready work loses its place in the queue
    /// only if it has to wait for the dependency, or ends because of it.
    pub(super) fn connect(&mut self, effects: &mut Effects<'_, '_>, on: Dependency, work: WorkId) {
        let added = self.dag.add_edge(on.work.index(), work.index(), on.kind);
        added.expect("a recorded edge closes no cycle");
        let outcome = edge_outcome(on.kind, self.works[on.work.index()].phase());
        if self.works[work.index()].phase() != Phase::Waiting {
            if outcome == Some(EdgeOutcome::Met) {
                self.dag.meet(work.index());
                return;
            }
            self.step(effects, work, Step::Hold);
        }
        if let Some(outcome) = outcome
            && self.resolve_edge(effects, work, outcome)
        {
            self.settle(effects, work);
        }
    }

    /// Removes the dependencies of a work that has not begun on another one, which may be forgotten.
    pub(super) fn disconnect(&mut self, effects: &mut Effects<'_, '_>, from: WorkId, work: WorkId) {
        let waits = self.dag.remove_edges(from.index(), work.index());
        if self.is_open(from) {
            for _ in 0..waits {
                self.dag.meet(work.index());
            }
        }
        let unneeded = |outcome| outcome == Some(EdgeOutcome::Unneeded);
        let is_unneeded = self.edge_outcomes(work).any(unneeded);
        let entry = &mut self.works[work.index()];
        entry.unneeded = is_unneeded;
        if entry.phase() == Phase::Waiting
            && let Some(step) = entry.first_step(self.dag.unmet(work.index()), false)
        {
            self.step(effects, work, step);
            self.settle(effects, work);
        }
    }

    /// If `work` has ended, resolves its outgoing edges and those of the works that end thereby,
    /// level by level.
    #[inline]
    pub(super) fn settle(&mut self, effects: &mut Effects<'_, '_>, work: WorkId) {
        let entry = &self.works[work.index()];
        if !entry.is_open() && (entry.is_related() || self.dag.has_targets(work.index())) {
            let mut ended = VecDeque::new();
            self.resolve_edges_of(effects, work, &mut ended);
            self.settle_all(effects, ended);
        }
    }

    /// Resolves the outgoing edges of all these works, which have ended, as [`State::settle`] does.
    pub(super) fn settle_all(
        &mut self,
        effects: &mut Effects<'_, '_>,
        mut ended: VecDeque<WorkId>,
    ) {
        while let Some(work) = ended.pop_front() {
            self.resolve_edges_of(effects, work, &mut ended);
        }
    }

    /// Counts `work`, which has ended, in its family, and resolves its outgoing edges. Appends the
    /// works that end thereby to `ended`.
    fn resolve_edges_of(
        &mut self,
        effects: &mut Effects<'_, '_>,
        work: WorkId,
        ended: &mut VecDeque<WorkId>,
    ) {
        let entry = &self.works[work.index()];
        let source = entry.phase();
        if entry.is_related() {
            self.count_in_family(effects, work, ended);
        }
        let mut cursor = self.dag.first_target(work.index());
        while let Some((edge, after)) = self.dag.follow(cursor) {
            cursor = after;
            let target = WorkId::from_index(edge.node);
            let outcome = edge_outcome(edge.kind, source).expect("the source has ended");
            if self.resolve_edge(effects, target, outcome) {
                ended.push_back(target);
            }
        }
    }

    /// Applies the outcome of one edge into `work`. Returns whether that ends the work. A work that
    /// was cancelled meanwhile is unchanged, and may even be forgotten.
    fn resolve_edge(
        &mut self,
        effects: &mut Effects<'_, '_>,
        work: WorkId,
        outcome: EdgeOutcome,
    ) -> bool {
        let Some(entry) = self.works.get_mut(work.index()) else { return false };
        if entry.phase() != Phase::Waiting {
            return false;
        }
        entry.unneeded |= outcome == EdgeOutcome::Unneeded;
        let blocked = outcome == EdgeOutcome::Blocks;
        let unmet = if blocked { 0 } else { self.dag.meet(work.index()) };
        let Some(step) = entry.first_step(unmet, blocked) else { return false };
        match step {
            Step::Unblock => self.step_with(effects, work, Step::Unblock, |_| ()),
            step => self.step(effects, work, step),
        }
        matches!(step, Step::Block | Step::Skip)
    }
}
