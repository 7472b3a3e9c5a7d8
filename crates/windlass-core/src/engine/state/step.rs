//! One step of one work, and the updates that go with it.

use super::{State, Work};
use crate::WorkId;
use crate::engine::config::Precedence;
use crate::engine::effects::{Effects, Move};
use crate::phase::{Phase, Step};

impl State {
    /// Takes `work` through one step.
    pub(super) fn step(&mut self, effects: &mut Effects<'_, '_>, work: WorkId, step: Step) {
        self.step_with(effects, work, step, |_| ());
    }

    /// As [`State::step`], after a `change` of the work. Every change of a phase goes through here.
    /// Inlined, so that a caller with a fixed step compiles only that branch.
    #[inline(always)]
    pub(super) fn step_with(
        &mut self,
        effects: &mut Effects<'_, '_>,
        work: WorkId,
        step: Step,
        change: impl FnOnce(&mut Work),
    ) {
        let entry = &mut self.works[work.index()];
        change(entry);
        let place = entry.seq;
        let from = entry.step(work, step);
        if entry.phase() == Phase::Ready && self.pauses.hold_back(work) {
            entry.step(work, Step::Pause);
        }
        if entry.phase().has_place() && !from.keeps_its_place() {
            match self.precedence {
                Precedence::Ready => {
                    entry.join_queue(self.next_seq, self.now);
                    self.next_seq = self.next_seq.saturating_add(1);
                }
                Precedence::Submitted => entry.join_queue(entry.seq, self.now),
            }
        }
        self.counts.leave(from.state(), entry.retries_left);
        self.counts.enter(entry.phase().state(), entry.retries_left);
        let (to, is_timed) = (entry.phase(), entry.is_timed());
        let at = self.places.at(work, to);
        effects.stepped(self.now, Move { work, from, place, step, at }, entry);
        if let Phase::Delayed { due } = from {
            self.disarm(due, work);
        }
        if let Phase::Delayed { due } = to {
            self.clock.arm(due, work);
        }
        if is_timed {
            self.keep_time(work, from, to);
        }
    }
}
