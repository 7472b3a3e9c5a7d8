//! Replaces what was submitted of a work that has not begun.

use super::State;
use super::admit::Staged;
use crate::WorkId;
use crate::engine::effects::Effects;
use crate::input::Submission;
use crate::phase::{Phase, Step, WorkState};

impl State {
    /// Applies a `Replaced` fact: the oldest staged submission takes the place of what was submitted of a
    /// work, except for dependencies and deadline. The work goes back, and then as far as it can.
    pub(super) fn replace_staged(&mut self, effects: &mut Effects<'_, '_>, work: WorkId) {
        let Staged { cost, priority, retries, extras, .. } = self.take_staged();
        let phase = self.works[work.index()].phase();
        if phase.state() == WorkState::Pending && phase != Phase::Waiting {
            self.step(effects, work, Step::Hold);
        }
        let extras = extras.as_deref();
        let timeout = extras.and_then(|extras| extras.timeout);
        let is_timed = self.clock.set_timeout(work, timeout);
        let entry = &mut self.works[work.index()];
        self.counts.leave(entry.phase().state(), entry.retries_left);
        entry.replace(Submission { after: &[], cost, priority, retries, extras });
        entry.set_timed(is_timed);
        self.counts.enter(entry.phase().state(), entry.retries_left);
        if let Some(policy) = extras.and_then(|extras| extras.retry) {
            self.retries.set_policy(work, policy);
        }
        let entry = &self.works[work.index()];
        if entry.phase() == Phase::Waiting
            && let Some(step) = entry.first_step(self.dag.unmet(work.index()), false)
        {
            self.step(effects, work, step);
            self.settle(effects, work);
        }
    }
}
