//! What follows a change of phase outside the state: the work's place in a queue, what it holds of the
//! capacity, and the report.
//!
//! The state calls this once for each change, and nothing else keeps the three in step with it.

use super::admission::Admission;
use super::state::{At, Work};
use crate::capacity::CapacityTree;
use crate::fact::{Transition, World};
use crate::phase::{Phase, Step, WorkState};
use crate::queue::Seq;
use crate::{Amount, LevelId, ResourceCost, ResourceId, Timestamp, WorkId};

pub(super) struct Effects<'a, 'w> {
    admission: &'a mut Admission,
    world: &'a mut World<'w>,
}

/// One step that a work has taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    pub(super) work: WorkId,
    pub(super) from: Phase,
    /// Its sequence number in the queue before the step.
    pub(super) place: Seq,
    pub(super) step: Step,
    pub(super) at: At,
}

impl<'a, 'w> Effects<'a, 'w> {
    #[inline]
    pub(super) fn new(admission: &'a mut Admission, world: &'a mut World<'w>) -> Self {
        Self { admission, world }
    }

    /// Follows a work that has just been submitted.
    #[inline]
    pub(super) fn submitted(&mut self, now: Timestamp, work: WorkId, entry: &Work, at: At) {
        self.admission.enqueue(self.world.capacity, now, work, entry, at);
        self.report(now, work, None, entry);
    }

    /// Follows a work that was restored from a base.
    pub(super) fn restored(&mut self, now: Timestamp, work: WorkId, entry: &Work, at: At) {
        self.admission.hold_again(self.world, work, entry, at);
        self.admission.enqueue(self.world.capacity, now, work, entry, at);
    }

    /// Follows a work that has taken a step. Inlined with the step, which decides what is left to do.
    #[inline(always)]
    pub(super) fn stepped(&mut self, now: Timestamp, step: Move, entry: &Work) {
        // A work takes before its reservation ends, so that no other client is woken for what it takes.
        self.admission.hold(self.world, now, step, entry);
        self.admission.dequeue(self.world, now, step, entry);
        self.admission.enqueue(self.world.capacity, now, step.work, entry, step.at);
        self.report(now, step.work, Some(step.from.state()), entry);
    }

    /// Follows a work that was moved, whose place in the queue was `place`.
    pub(super) fn moved(&mut self, now: Timestamp, work: WorkId, place: Seq, entry: &Work, at: At) {
        let from = Move { work, from: entry.phase(), place, step: Step::Hold, at };
        self.admission.dequeue(self.world, now, from, entry);
        self.admission.enqueue(self.world.capacity, now, work, entry, at);
    }

    /// Changes one limit of the capacity.
    pub(super) fn set_limit(&mut self, level: LevelId, resource: ResourceId, limit: Amount) {
        let capacity: &mut CapacityTree = self.world.capacity;
        let name = capacity.name(resource).to_owned();
        let wakes = capacity.set_limits(level, &ResourceCost::new().with(name, limit));
        self.admission.wake_after_change(self.world, &wakes);
    }

    #[inline]
    fn report(&mut self, at: Timestamp, work: WorkId, from: Option<WorkState>, entry: &Work) {
        if let Some(transitions) = &mut self.world.transitions {
            let (to, attempt) = (entry.phase(), entry.attempts);
            transitions.push(Transition { at, work, attempt, from, to });
        }
    }
}
