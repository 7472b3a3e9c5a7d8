//! Why steps wait, are blocked, or were cancelled.

use windlass_core::{Dependency, EdgeKind, Input, Phase, Reason, ResourceId, WorkId};
use windlass_workflow::OnFailure;

use super::Schedule;

impl Schedule {
    /// Says which work that failed, or was cancelled, has blocked this one. Cheap for a work that is
    /// asked about after its dependencies.
    pub(crate) fn why_blocked(&mut self, work: WorkId) -> Option<String> {
        if self.engine.phase(work) != Some(Phase::Blocked) {
            return None;
        }
        let culprit = self.culprit(work)?;
        self.blamed.insert(work, culprit);
        let cancelled = self.engine.phase(culprit) == Some(Phase::Cancelled);
        let end = if cancelled { "was cancelled" } else { "failed" };
        Some(format!("{} {end}", self.step(culprit).name))
    }

    /// Returns the first work upstream of a blocked one that is not blocked itself.
    fn culprit(&self, mut blocked: WorkId) -> Option<WorkId> {
        loop {
            let on = self.blocker(blocked)?;
            if self.engine.phase(on) != Some(Phase::Blocked) {
                return Some(on);
            }
            if let Some(known) = self.blamed.get(&on) {
                return Some(*known);
            }
            blocked = on;
        }
    }

    /// Returns a work whose end has blocked this one.
    fn blocker(&self, work: WorkId) -> Option<WorkId> {
        let blocks = |on: &Dependency| match self.engine.phase(on.work) {
            Some(Phase::Blocked | Phase::Cancelled) => on.kind != EdgeKind::Done,
            Some(Phase::Failed) => on.kind == EdgeKind::Success,
            _ => false,
        };
        self.engine.dependencies(work).find(blocks).map(|on| on.work)
    }

    /// Says why steps are cancelled though no user has asked for it: one has failed, and the plan stops
    /// the others then.
    pub(crate) fn why_stopped(&self) -> Option<String> {
        let how = match self.plan.on_failure {
            OnFailure::Finish => return None,
            OnFailure::Stop => "stop",
            OnFailure::Cancel => "cancel",
        };
        let mut works = self.engine.works();
        let failed = works.find(|work| self.engine.phase(*work) == Some(Phase::Failed))?;
        Some(format!("{} failed, and on_failure is \"{how}\"", self.step(failed).name))
    }

    /// Decides what the leader of the run would decide now, without beginning anything. This restores
    /// what is not journaled: positions in queues and reservations. `refused` returns whether a name
    /// refuses a step.
    pub(crate) fn settle(&mut self, refused: impl Fn(WorkId) -> bool) {
        self.apply(Input::Tick).expect("time passes");
        loop {
            while let Some(grant) = self.take_next() {
                if refused(grant.work) {
                    self.refuse(grant, Vec::new()).expect("it was granted just now");
                }
            }
            if self.capacity.shared().pass_on().is_empty() {
                return;
            }
            self.search_placement();
        }
    }

    /// Returns every reason why a step does not run.
    pub(crate) fn reasons(&self, work: WorkId) -> Vec<Reason> {
        self.capacity.look(|tree| self.engine.explain(tree, work))
    }

    /// Returns the name of a resource.
    pub(crate) fn resource(&self, resource: ResourceId) -> String {
        self.capacity.look(|tree| tree.name(resource).to_owned())
    }
}
