//! How a driver gets the next attempt.

use super::Engine;
use super::effects::Effects;
use super::state::Offer;
use crate::WorkId;
use crate::capacity::CapacityTree;
use crate::fact::{Happening, World};
use crate::input::{Begun, Grant};
use crate::queue::QueueKind;

impl Engine {
    /// The most urgent work that fits now, with what it needs taken for it.
    ///
    /// Its attempt begins with [`Input::Begin`](crate::Input::Begin), unless the work is
    /// [`Running`](crate::Phase::Running) already: then it was suspended and goes on.
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

    /// As [`Engine::take_next`], for a driver that begins what it is granted in any case: the attempt has
    /// begun already.
    pub fn begin_next(&mut self, world: &mut World<'_>) -> Option<Begun> {
        let (queue, work) = self.find_next(world)?;
        Some(match queue {
            QueueKind::Starting => Begun::Started(self.start(world, work)),
            QueueKind::Resuming => Begun::Resumed(self.resume(world, work)),
        })
    }

    /// Returns whether [`Engine::begin_next`] would do anything now: begin an attempt, or reserve or watch
    /// what a work lacks.
    #[must_use]
    pub fn may_begin(&self, capacity: &CapacityTree) -> bool {
        self.admission.may_find(capacity, self.state.now())
    }

    #[inline]
    fn find_next(&mut self, world: &mut World<'_>) -> Option<(QueueKind, WorkId)> {
        self.advance(world);
        self.admission.find_next(world, self.state.now())
    }

    #[inline]
    fn start(&mut self, world: &mut World<'_>, work: WorkId) -> Grant {
        let attempt = self.state.work(work).attempts + 1;
        self.record(world, Happening::Started { work, attempt });
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
