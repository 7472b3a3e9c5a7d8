//! The deadline of a run, and what passing it means for the run's end.

use std::collections::BTreeMap;
use std::time::Duration;

use windlass_core::{Timestamp, WorkId, WorkState};
use windlass_store::RunOutcome;

use super::Schedule;

/// The times that decide about the deadline of a run.
pub(super) struct RunTimes {
    pub(super) began: Timestamp,
    /// When the latest replayed attempt of each work began.
    pub(super) starts: BTreeMap<WorkId, Timestamp>,
    /// Whether a user has retried works of the ended run, which then has no deadline.
    pub(super) reopened: bool,
    /// When the last work ended.
    pub(super) done: Option<Timestamp>,
}

impl RunTimes {
    pub(super) fn starting(began: Timestamp) -> Self {
        Self { began, starts: BTreeMap::new(), reopened: false, done: None }
    }
}

impl Schedule {
    /// Returns whether the deadline of the run has passed.
    pub(crate) fn is_too_late(&self) -> bool {
        self.is_past_deadline(self.now())
    }

    /// Returns whether the deadline has passed at `at`. A run that was tried again has none.
    fn is_past_deadline(&self, at: Timestamp) -> bool {
        !self.times.reopened && self.deadline_at(at).is_some_and(|deadline| at >= deadline)
    }

    /// Returns the outcome of a run in which every step has ended.
    pub(crate) fn outcome(&self) -> RunOutcome {
        let count = |state| self.engine.metrics().count(state);
        let bad = count(WorkState::Failed) + count(WorkState::Blocked);
        match count(WorkState::Success) == self.len() {
            true => RunOutcome::Succeeded,
            false if self.times.done.is_some_and(|at| self.is_past_deadline(at)) => {
                RunOutcome::TooLate
            }
            false if bad == 0 => RunOutcome::Cancelled,
            false => RunOutcome::Failed,
        }
    }

    /// Returns until when an attempt of `work` that begins now has time, in seconds since 1970.
    pub(crate) fn until(&self, work: WorkId) -> Option<u64> {
        let own = self.step(work).ending.timeout.map(|timeout| self.now().after(timeout));
        let whole = self.deadline().filter(|_| !self.times.reopened);
        let until = own.into_iter().chain(whole).min()?;
        Some(until.since(Timestamp::ZERO).as_secs())
    }

    /// Returns for how long an attempt of `work` that begins now may run.
    pub(crate) fn time_left(&self, work: WorkId) -> Option<Duration> {
        let whole = self.deadline().filter(|_| !self.times.reopened);
        let whole = whole.map(|deadline| deadline.since(self.now()));
        self.step(work).ending.timeout.into_iter().chain(whole).min()
    }

    /// Returns for how long the attempt of `work` that is under way may still run; none if nothing limits
    /// it now.
    pub(crate) fn attempt_left(&self, work: WorkId) -> Option<Duration> {
        let own = self.engine.expires(work);
        let counts = !self.times.reopened && self.engine.all_paused_since().is_none();
        let whole = self.deadline().filter(|_| counts);
        let until = own.into_iter().chain(whole).min()?;
        Some(until.since(self.now()))
    }

    /// Returns when the whole run has to be over. While it is paused, that moves on.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        self.deadline_at(self.now())
    }

    /// Returns the deadline of the run as it is at `at`.
    fn deadline_at(&self, at: Timestamp) -> Option<Timestamp> {
        let paused = self.engine.all_paused_for(at);
        self.plan.deadline.map(|deadline| self.times.began.after(deadline).after(paused))
    }
}
