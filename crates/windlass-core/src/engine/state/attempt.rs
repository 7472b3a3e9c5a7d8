//! The facts of an attempt: its gate opens, it begins, and it ends once.

use super::State;
use super::work::Gate;
use crate::WorkId;
use crate::engine::effects::Effects;
use crate::fact::Ending;
use crate::phase::{Phase, Step, StopReason};

impl State {
    pub(super) fn open_gate(&mut self, effects: &mut Effects<'_, '_>, work: WorkId) {
        let entry = &mut self.works[work.index()];
        entry.gate = Gate::Open;
        if entry.phase() == Phase::Gated {
            self.step(effects, work, Step::Open);
        }
    }

    /// Ends a work whose gate will never open, or reports that the work is not needed.
    pub(super) fn end_at_gate(&mut self, effects: &mut Effects<'_, '_>, work: WorkId, step: Step) {
        self.step(effects, work, step);
        self.settle(effects, work);
    }

    #[inline]
    pub(super) fn start(&mut self, effects: &mut Effects<'_, '_>, work: WorkId, attempt: u32) {
        self.counts.attempts += 1;
        self.step_with(effects, work, Step::Start, |entry| {
            entry.attempts += 1;
            assert_eq!(entry.attempts, attempt, "attempts are counted one by one");
        });
    }

    #[inline]
    pub(super) fn end(
        &mut self,
        effects: &mut Effects<'_, '_>,
        work: WorkId,
        attempt: u32,
        ending: Ending,
    ) {
        let attempts = self.works[work.index()].attempts;
        assert_eq!(attempts, attempt, "only the latest attempt can end");
        match ending {
            Ending::Success => self.step_with(effects, work, Step::Succeed, |_| ()),
            Ending::Failed => self.step(effects, work, Step::Fail),
            Ending::Interrupted => {
                self.disband(work);
                self.step(effects, work, Step::Interrupt);
            }
            Ending::Retry { due } => {
                self.disband(work);
                self.works[work.index()].retries_left -= 1;
                self.counts.retries_left -= 1;
                self.retries.spend_one(work);
                self.step(effects, work, Step::RetryAt(due));
            }
            Ending::Cancelled => {
                if !self.is_stopping(work, StopReason::Cancel) {
                    self.step(effects, work, Step::Ask(StopReason::Cancel));
                }
                self.step(effects, work, Step::Stop);
            }
        }
        self.settle(effects, work);
    }
}
