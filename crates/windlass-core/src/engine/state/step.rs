//! One step of one work, and what is kept in step with its phase.

use super::State;
use crate::WorkId;
use crate::engine::effects::{Effects, Move};
use crate::phase::{Phase, Step};

impl State {
    /// Takes `work` one step on. Every change of a phase passes here.
    #[inline]
    pub(super) fn step(&mut self, effects: &mut Effects<'_, '_>, work: WorkId, step: Step) {
        let entry = &mut self.works[work.index()];
        let place = entry.seq;
        let from = entry.step(work, step);
        if entry.phase().is_queued() && !from.keeps_its_place() {
            entry.join_queue(self.next_seq, self.now);
            self.next_seq = self.next_seq.saturating_add(1);
        }
        self.counts.leave(from.state(), entry.retries_left);
        self.counts.enter(entry.phase().state(), entry.retries_left);
        let (to, is_timed) = (entry.phase(), entry.is_timed());
        effects.stepped(self.now, Move { work, from, place, step }, entry);
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
