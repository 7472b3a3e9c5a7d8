//! The works of a run that wait for names which the whole machine shares.

use std::collections::BTreeSet;

use windlass_core::{Grant, Input, Phase, Rejected, WorkId};

use super::{Schedule, next_attempt};

/// The works that wait for names which the whole machine shares.
#[derive(Default)]
pub(super) struct NameQueues {
    /// The works that a name has refused.
    refused: BTreeSet<WorkId>,
    /// The works in the queue of a name, also those that were woken and find no room inside the run.
    queued: BTreeSet<WorkId>,
}

impl Schedule {
    /// Takes a grant back, because a name has refused the work.
    pub(crate) fn refuse(&mut self, grant: Grant) -> Result<(), Rejected> {
        self.apply(Input::Refuse(grant))?;
        self.names.refused.insert(grant.work);
        self.names.queued.insert(grant.work);
        Ok(())
    }

    /// Begins a granted work, which has all names that it needs.
    pub(crate) fn begin(&mut self, grant: Grant) -> Result<(), Rejected> {
        self.apply(Input::Begin(grant))?;
        self.names.queued.remove(&grant.work);
        Ok(())
    }

    /// Returns whether a work waits for a name that has refused it.
    pub(crate) fn waits_outside(&self) -> bool {
        !self.names.refused.is_empty()
    }

    /// Gives up the places in queues of the works in a phase that `fits`, and returns the attempts that
    /// had them.
    pub(crate) fn leave_queues(&mut self, fits: impl Fn(Phase) -> bool) -> Vec<Grant> {
        let engine = &self.engine;
        let leaves = |work: &WorkId| fits(engine.phase(*work).expect("it is one of its works"));
        let leave = self.names.queued.extract_if(.., leaves);
        leave.map(|work| next_attempt(engine, work)).collect()
    }

    /// Returns the attempts that a name has refused, unless their works have ended meanwhile.
    pub(crate) fn refused(&mut self) -> Vec<Grant> {
        let engine = &self.engine;
        self.names.refused.retain(|work| engine.phase(*work) == Some(Phase::WaitingOutside));
        self.names.refused.iter().map(|work| next_attempt(engine, *work)).collect()
    }

    /// Wakes a work that a name has refused.
    pub(crate) fn wake(&mut self, work: WorkId) {
        self.names.refused.remove(&work);
        self.apply(Input::Notify(work)).expect("it was refused before");
    }
}
