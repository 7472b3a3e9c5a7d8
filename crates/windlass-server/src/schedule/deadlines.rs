//! The deadline of a run, and what passing it means for the run's end.

use std::time::Duration;

use windlass_core::{Timestamp, WorkId, WorkState};
use windlass_store::RunOutcome;

use super::Schedule;

impl Schedule {
    /// Returns whether the deadline of the run has passed.
    pub(crate) fn is_too_late(&self) -> bool {
        self.is_past_deadline(self.now())
    }

    /// Returns whether the deadline has passed at `at`. A run that was tried again has none.
    fn is_past_deadline(&self, at: Timestamp) -> bool {
        !self.reopened && self.deadline().is_some_and(|deadline| at >= deadline)
    }

    /// Returns the outcome of a run in which everything has ended, as far as its steps tell.
    pub(crate) fn outcome(&self) -> RunOutcome {
        let count = |state| self.engine.metrics().count(state);
        let bad = count(WorkState::Failed) + count(WorkState::Blocked);
        match count(WorkState::Success) == self.len() {
            true => RunOutcome::Succeeded,
            false if self.done.is_some_and(|at| self.is_past_deadline(at)) => RunOutcome::TooLate,
            false if bad == 0 => RunOutcome::Cancelled,
            false => RunOutcome::Failed,
        }
    }

    /// Returns until when an attempt of `work` that begins now has time, in seconds since 1970.
    pub(crate) fn until(&self, work: WorkId) -> Option<u64> {
        let own = self.step(work).ending.timeout.map(|timeout| self.now().after(timeout));
        let whole = self.deadline().filter(|_| !self.reopened);
        let until = own.into_iter().chain(whole).min()?;
        Some(until.since(Timestamp::ZERO).as_secs())
    }

    /// Returns for how long an attempt of `work` that begins now may run.
    pub(crate) fn time_left(&self, work: WorkId) -> Option<Duration> {
        let whole = self.deadline().filter(|_| !self.reopened);
        let whole = whole.map(|deadline| deadline.since(self.now()));
        self.step(work).ending.timeout.into_iter().chain(whole).min()
    }

    /// Returns when the whole run has to be over.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        self.plan.deadline.map(|deadline| self.began.after(deadline))
    }
}
