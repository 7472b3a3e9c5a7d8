//! Where attempts were executed, and which works have to go where another one was.

use std::collections::BTreeMap;

use crate::phase::Phase;
use crate::{WorkId, WorkerId};

#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// The worker of the latest attempt.
    latest: BTreeMap<WorkId, WorkerId>,
    /// The work whose worker a work goes to.
    beside: BTreeMap<WorkId, WorkId>,
}

/// The workers that a step of a work concerns.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::engine) struct At {
    /// That of its latest attempt.
    pub(in crate::engine) latest: Option<WorkerId>,
    /// The one that it has to go to.
    pub(in crate::engine) pin: Option<WorkerId>,
}

impl Places {
    pub(super) fn goes_beside(&mut self, work: WorkId, other: WorkId) {
        self.beside.insert(work, other);
    }

    /// Notes where an attempt starts.
    #[inline]
    pub(super) fn start(&mut self, work: WorkId, worker: Option<WorkerId>) {
        match worker {
            Some(worker) => drop(self.latest.insert(work, worker)),
            None if self.latest.is_empty() => {}
            None => drop(self.latest.remove(&work)),
        }
    }

    pub(super) fn forget(&mut self, work: WorkId) {
        self.latest.remove(&work);
        self.beside.remove(&work);
    }

    /// Returns the worker of a work's latest attempt.
    pub(super) fn latest(&self, work: WorkId) -> Option<WorkerId> {
        self.latest.get(&work).copied()
    }

    /// Returns the work whose worker this one goes to.
    pub(super) fn beside(&self, work: WorkId) -> Option<WorkId> {
        self.beside.get(&work).copied()
    }

    /// Returns the workers that concern a work in this phase. An attempt goes on where it was.
    #[inline]
    pub(super) fn at(&self, work: WorkId, phase: Phase) -> At {
        if self.latest.is_empty() {
            return At::default();
        }
        let latest = self.latest(work);
        let pin = match phase {
            Phase::Resuming => latest,
            _ => self.beside(work).and_then(|other| self.latest(other)),
        };
        At { latest, pin }
    }

    pub(super) fn all_latest(&self) -> impl Iterator<Item = (WorkId, WorkerId)> {
        self.latest.iter().map(|(work, worker)| (*work, *worker))
    }
}
