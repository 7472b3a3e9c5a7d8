//! What the end of a work means for those that follow it.

use std::collections::VecDeque;

use super::{Engine, Work};
use crate::WorkId;
use crate::dag::{EdgeError, EdgeKind, Verdict};
use crate::fact::World;
use crate::input::{Dependency, DependencyError};
use crate::phase::{Phase, Step, WorkState};

/// What an edge says about a source in this phase; none while it has not ended.
pub(super) fn verdict(kind: EdgeKind, source: Phase) -> Option<Verdict> {
    let state = source.state();
    if !state.is_terminal() {
        return None;
    }
    Some(match (kind, state) {
        (EdgeKind::Done, _) => Verdict::Met,
        (EdgeKind::Success, WorkState::Success) => Verdict::Met,
        (EdgeKind::Failed, WorkState::Failed) => Verdict::Met,
        (EdgeKind::Failed, WorkState::Success) => Verdict::Unneeded,
        (EdgeKind::Success | EdgeKind::Failed, _) => Verdict::Blocks,
    })
}

/// The works that would wait for each other.
pub(super) fn cycle(error: EdgeError) -> Vec<WorkId> {
    match error {
        EdgeError::Cycle { path } => path.into_iter().map(WorkId::from_index).collect(),
        EdgeError::UnknownNode { node } => unreachable!("work {node} was looked up before"),
    }
}

impl Engine {
    /// What the edges into `node` say; none for those whose sources have not ended.
    pub(super) fn verdicts(&self, node: usize) -> impl Iterator<Item = Option<Verdict>> {
        let known = self.dag.sources(node).filter_map(|edge| {
            let source = self.works.get(edge.node)?;
            Some(verdict(edge.kind, source.phase))
        });
        known.chain(self.dag.words(node).map(Some))
    }

    /// Has the newest work follow another; whether that blocks it.
    pub(super) fn follow(&mut self, after: Dependency, node: usize, entry: &mut Work) -> bool {
        let source = after.work.index();
        let said = verdict(after.kind, self.works[source].phase);
        match said {
            None => {
                let added = self.dag.add_edge(source, node, after.kind);
                added.expect("nobody follows the newest work");
            }
            Some(said) => {
                self.dag.add_settled_edge(source, node, after.kind, said);
                entry.unneeded |= said == Verdict::Unneeded;
            }
        }
        said == Some(Verdict::Blocks)
    }

    /// Has a work that has not begun follow one more. Only what it has to wait for, or what ends it,
    /// costs a ready work its place in line.
    pub(super) fn connect(
        &mut self,
        world: &mut World<'_>,
        on: Dependency,
        work: WorkId,
    ) -> Result<(), DependencyError> {
        let added = self.dag.add_edge(on.work.index(), work.index(), on.kind);
        added.map_err(|error| DependencyError::Cycle { path: cycle(error) })?;
        let said = verdict(on.kind, self.works[on.work.index()].phase);
        if self.works[work.index()].phase != Phase::Waiting {
            if said == Some(Verdict::Met) {
                self.dag.meet(work.index());
                return Ok(());
            }
            self.step(world, work, Step::Hold);
        }
        if let Some(said) = said
            && self.hear(world, work, said)
        {
            self.settle(world, work);
        }
        Ok(())
    }

    /// If `work` has ended, those who follow it hear of it, and those who end with that are heard of
    /// in turn, level by level.
    pub(super) fn settle(&mut self, world: &mut World<'_>, work: WorkId) {
        let entry = &self.works[work.index()];
        if !entry.is_related() && !self.dag.has_targets(work.index()) {
            return;
        }
        if entry.phase.state().is_terminal() {
            let mut ended = VecDeque::new();
            self.tell_of(world, work, &mut ended);
            self.settle_all(world, ended);
        }
    }

    /// The same for all of these, which have ended.
    pub(super) fn settle_all(&mut self, world: &mut World<'_>, mut ended: VecDeque<WorkId>) {
        while let Some(work) = ended.pop_front() {
            self.tell_of(world, work, &mut ended);
        }
    }

    /// The family of `work`, which has ended, hears of it, then those who follow it. Those who end
    /// with that are added to `ended`.
    fn tell_of(&mut self, world: &mut World<'_>, work: WorkId, ended: &mut VecDeque<WorkId>) {
        let entry = &self.works[work.index()];
        let source = entry.phase;
        if entry.is_related() {
            self.tell_family(world, work, ended);
        }
        let mut cursor = self.dag.first_target(work.index());
        while let Some((edge, after)) = self.dag.follow(cursor) {
            cursor = after;
            let target = WorkId::from_index(edge.node);
            let said = verdict(edge.kind, source).expect("the source has ended");
            if self.hear(world, target, said) {
                ended.push_back(target);
            }
        }
    }

    /// One edge into `work` is decided; whether that ends it. One that was cancelled meanwhile does
    /// not care, and may even be forgotten.
    fn hear(&mut self, world: &mut World<'_>, work: WorkId, said: Verdict) -> bool {
        let Some(entry) = self.works.get_mut(work.index()) else { return false };
        if entry.phase != Phase::Waiting {
            return false;
        }
        entry.unneeded |= said == Verdict::Unneeded;
        let (unneeded, shut) = (entry.unneeded, entry.is_shut());
        let step = match said {
            Verdict::Blocks => Step::Block,
            Verdict::Met | Verdict::Unneeded if self.dag.meet(work.index()) > 0 => return false,
            Verdict::Met | Verdict::Unneeded if unneeded => Step::Skip,
            Verdict::Met | Verdict::Unneeded if shut => Step::ReachGate,
            Verdict::Met | Verdict::Unneeded => Step::Unblock,
        };
        self.step(world, work, step);
        matches!(step, Step::Block | Step::Skip)
    }
}
