//! The driver's way to the next attempt.

use super::Engine;
use super::effects::Effects;
use super::state::Offer;
use crate::WorkId;
use crate::capacity::CapacityTree;
use crate::fact::{Happening, World};
use crate::input::{Begun, Grant};
use crate::queue::QueueKind;

impl Engine {
    /// Grants the first work of the queue that fits, and takes its cost.
    ///
    /// The driver begins the attempt with [`Input::Begin`](crate::Input::Begin), unless the work is
    /// [`Running`](crate::Phase::Running) already: then its attempt was suspended and resumes.
    pub fn take_next(&mut self, world: &mut World<'_>) -> Option<Grant> {
        let (queue, work) = self.find_next(world)?;
        Some(match queue {
            QueueKind::Starting => {
                self.offer(world, work, Offer::Made);
                Grant { work, attempt: self.state.work(work).attempts + 1 }
            }
            QueueKind::Resuming => self.resume(world, work),
        })
    }

    /// As [`Engine::take_next`], and begins the attempt: for drivers that begin everything they are
    /// granted.
    pub fn begin_next(&mut self, world: &mut World<'_>) -> Option<Begun> {
        let (queue, work) = self.find_next(world)?;
        Some(match queue {
            QueueKind::Starting => Begun::Started(self.start(world, work)),
            QueueKind::Resuming => Begun::Resumed(self.resume(world, work)),
        })
    }

    /// Returns whether [`Engine::begin_next`] would do anything now: begin an attempt, or reserve
    /// or watch what a work lacks.
    #[must_use]
    pub fn may_begin(&self, capacity: &CapacityTree) -> bool {
        self.admission.may_begin(capacity, self.state.now())
    }

    #[inline]
    fn find_next(&mut self, world: &mut World<'_>) -> Option<(QueueKind, WorkId)> {
        self.advance(world);
        self.admission.find_next(world, self.state.now())
    }

    #[inline]
    fn start(&mut self, world: &mut World<'_>, work: WorkId) -> Grant {
        let attempt = self.state.work(work).attempts + 1;
        let worker = self.admission.number_for(world.capacity, work);
        self.record(world, Happening::Started { work, attempt, worker });
        Grant { work, attempt }
    }

    fn resume(&mut self, world: &mut World<'_>, work: WorkId) -> Grant {
        let attempt = self.state.work(work).attempts;
        self.record(world, Happening::Resumed { work, attempt });
        Grant { work, attempt }
    }

    #[inline]
    pub(super) fn offer(&mut self, world: &mut World<'_>, work: WorkId, offer: Offer) {
        let mut effects = Effects::new(&mut self.admission, world);
        self.state.offer(&mut effects, work, offer);
    }
}
