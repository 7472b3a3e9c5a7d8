//! What a schedule tells about steps that wait; for those who look at a run, not for its leader.

use windlass_core::{Input, Reason, ResourceId, WorkId};

use super::Schedule;

impl Schedule {
    /// Decides what its leader would decide now, and begins nothing: what is not journaled (places
    /// in line, what is set aside for whom) is there again. `refused` tells which steps a name
    /// refuses.
    pub(crate) fn settle(&mut self, refused: impl Fn(WorkId) -> bool) {
        self.apply(Input::Tick).expect("time passes");
        while let Some(grant) = self.take_next() {
            if refused(grant.work) {
                self.refuse(grant).expect("it was granted just now");
            }
        }
    }

    /// Every reason why a step does not run.
    pub(crate) fn reasons(&self, work: WorkId) -> Vec<Reason> {
        self.engine.explain(&self.capacity, work)
    }

    /// What a resource is called.
    pub(crate) fn resource(&self, resource: ResourceId) -> &str {
        self.capacity.name(resource)
    }
}
