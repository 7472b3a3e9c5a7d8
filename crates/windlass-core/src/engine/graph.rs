//! Queries and checks on dependencies: adding one, submitting a child, and retrying an ended work.

use super::Engine;
use crate::WorkId;
use crate::dag::EdgeError;
use crate::fact::{Happening, World};
use crate::input::{AddDependencyError, Dependency, Rejected, SubmissionError};
use crate::phase::{Phase, WorkState};

impl Engine {
    /// Adds a dependency to a work that has begun no attempt. A ready work waits again.
    pub fn add_dependency(
        &mut self,
        world: &mut World<'_>,
        work: WorkId,
        on: Dependency,
    ) -> Result<(), AddDependencyError> {
        self.advance(world);
        let unknown = [work, on.work].into_iter().find(|work| self.state.get(*work).is_none());
        if let Some(work) = unknown {
            return Err(AddDependencyError::UnknownWork { work });
        }
        let entry = self.state.work(work);
        if entry.attempts > 0 || entry.phase().state() != WorkState::Pending {
            return Err(AddDependencyError::Begun { work });
        }
        let ordered = self.state.order_before(on.work, work);
        ordered.map_err(|error| AddDependencyError::Cycle { path: cycle(error) })?;
        self.record(world, Happening::EdgeAdded { from: on.work, to: work, kind: on.kind });
        Ok(())
    }

    /// Removes the dependencies of a work that has begun no attempt on another one, which may have ended or be
    /// forgotten. If nothing else stands in its way, the work becomes ready.
    pub fn remove_dependency(
        &mut self,
        world: &mut World<'_>,
        work: WorkId,
        on: WorkId,
    ) -> Result<(), Rejected> {
        self.advance(world);
        let entry = self.work(work)?;
        if entry.attempts > 0 || entry.phase().state() != WorkState::Pending {
            return Err(Rejected::Begun { work });
        }
        if self.state.dag().sources(work.index()).any(|edge| edge.node == on.index()) {
            self.record(world, Happening::EdgeRemoved { from: on, to: work });
        }
        Ok(())
    }

    /// Checks that the parent accepts a child with these dependencies, and that the child would not
    /// wait for its parent. Afterwards all dependencies of the child are ordered before the parent.
    pub(super) fn expect_parent(
        &mut self,
        parent: WorkId,
        after: &[Dependency],
    ) -> Result<(), SubmissionError> {
        let phase = self.phase(parent);
        let takes = matches!(phase, Some(Phase::Running | Phase::Suspended | Phase::Resuming));
        if !takes || self.children(parent).failed > 0 {
            return Err(SubmissionError::NoParent { parent });
        }
        for source in after.iter().map(|after| after.work) {
            if self.state.is_open(source) {
                let path = |error| SubmissionError::Cycle { parent, path: cycle(error) };
                self.state.order_before(source, parent).map_err(path)?;
            }
        }
        Ok(())
    }

    /// Returns the works that [`Input::Reopen`](crate::Input::Reopen) would retry: `work` and all
    /// that depend on it. Fails if `work` neither failed nor was cancelled, if a work under way or
    /// a child would be affected, or if works would wait for each other.
    pub fn would_reopen(&self, work: WorkId) -> Result<Vec<WorkId>, Rejected> {
        let phase = self.work(work)?.phase();
        if !matches!(phase, Phase::Failed | Phase::Cancelled) {
            return Err(Rejected::NotReopenable { work });
        }
        let entangled = |work: &WorkId| {
            let running = self.state.work(*work).phase().state() == WorkState::Running;
            running || self.parent(*work).is_some()
        };
        let generation = self.state.generation(work);
        if let Some(&work) = generation.iter().find(|work| entangled(work)) {
            return Err(Rejected::Entangled { work });
        }
        let nodes: Vec<_> = generation.iter().map(|work| work.index()).collect();
        let opened = self.state.dag().expect_reopenable(&nodes);
        opened.map_err(|error| Rejected::Cycle { path: cycle(error) })?;
        Ok(generation)
    }
}

/// Returns the works of the cycle.
fn cycle(error: EdgeError) -> Vec<WorkId> {
    match error {
        EdgeError::Cycle { path } => path.into_iter().map(WorkId::from_index).collect(),
        EdgeError::UnknownNode { node } => unreachable!("work {node} was looked up before"),
    }
}
