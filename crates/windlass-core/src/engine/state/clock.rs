//! Retries that come due, time limits of attempts, and deadlines.
//!
//! Each takes effect at the time for which it was set, whenever the engine learns that the time has
//! come. So a replay, which sees only the facts, computes the same.

use std::collections::BTreeMap;
use std::time::Duration;

use super::State;
use super::timers::Timers;
use crate::base::TimesBase;
use crate::engine::effects::Effects;
use crate::phase::{Phase, Step, StopReason, WorkState};
use crate::{Timestamp, WorkId};

/// The timers, and the times of works that have some.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Clock {
    timers: Timers,
    /// By work, for those with a time limit or a deadline.
    times: BTreeMap<WorkId, Times>,
}

/// The time limit and the deadline of a work.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    /// The time limit of one attempt.
    timeout: Option<Duration>,
    /// What was left of it when the attempt's clock last stopped.
    left: Duration,
    /// When the limit is reached, while the clock runs.
    expires: Option<Timestamp>,
    /// The deadline of the work.
    deadline: Option<Deadline>,
}

/// When a work must have ended.
#[derive(Clone, Copy, Debug)]
enum Deadline {
    At(Timestamp),
    /// Everything is paused, and this is left.
    Stopped {
        left: Duration,
    },
}

impl Times {
    /// Returns the time of the deadline, unless it stands still.
    fn deadline(&self) -> Option<Timestamp> {
        match self.deadline? {
            Deadline::At(at) => Some(at),
            Deadline::Stopped { .. } => None,
        }
    }

    /// Stops the deadline at `now`, and returns when it was due.
    fn stop_deadline(&mut self, now: Timestamp) -> Option<Timestamp> {
        let due = self.deadline()?;
        self.deadline = Some(Deadline::Stopped { left: due.since(now) });
        Some(due)
    }

    /// Has a deadline that stands still count from `now` on, and returns when it is due.
    fn start_deadline(&mut self, now: Timestamp) -> Option<Timestamp> {
        let Some(Deadline::Stopped { left }) = self.deadline else { return None };
        let due = now.after(left);
        self.deadline = Some(Deadline::At(due));
        Some(due)
    }
}

impl Times {
    /// Returns the times of a work with this time limit, as a base has them.
    pub(super) fn restored(timeout: Option<Duration>, base: TimesBase) -> Self {
        let TimesBase { left, expires, deadline, deadline_left } = base;
        let stopped = deadline_left.map(|left| Deadline::Stopped { left });
        let deadline = deadline.map(Deadline::At).or(stopped);
        Self { timeout, left, expires, deadline }
    }
}

impl Clock {
    pub(super) fn new() -> Self {
        Self { timers: Timers::new(), times: BTreeMap::new() }
    }

    /// Returns when the first timer is due; [`Timestamp::MAX`] if there is none.
    #[inline]
    pub(in crate::engine) fn earliest(&self) -> Timestamp {
        self.timers.earliest()
    }

    pub(in crate::engine) fn timers(&self) -> impl Iterator<Item = &(Timestamp, WorkId)> {
        self.timers.iter()
    }

    /// Iterates over the time that attempts had left when their clocks last stopped.
    pub(super) fn times_left(&self) -> impl Iterator<Item = (WorkId, Duration)> {
        self.times.iter().map(|(work, times)| (*work, times.left))
    }

    /// Iterates over the time that is left until deadlines that stand still.
    pub(super) fn stopped_deadlines(&self) -> impl Iterator<Item = (WorkId, Duration)> {
        self.times.iter().filter_map(|(work, times)| match times.deadline {
            Some(Deadline::Stopped { left }) => Some((*work, left)),
            _ => None,
        })
    }

    /// Stops the deadline of a work.
    pub(super) fn stop_deadline(&mut self, work: WorkId, now: Timestamp) {
        self.times.get_mut(&work).and_then(|times| times.stop_deadline(now));
    }

    /// Stops all deadlines; returns when they were due.
    pub(super) fn stop_deadlines(&mut self, now: Timestamp) -> Vec<(Timestamp, WorkId)> {
        let times = self.times.iter_mut();
        times.filter_map(|(work, times)| Some((times.stop_deadline(now)?, *work))).collect()
    }

    /// Has all deadlines count again; returns when they are due.
    pub(super) fn start_deadlines(&mut self, now: Timestamp) -> Vec<(Timestamp, WorkId)> {
        let times = self.times.iter_mut();
        times.filter_map(|(work, times)| Some((times.start_deadline(now)?, *work))).collect()
    }

    /// Returns when the attempt of `work` reaches its time limit, while its clock runs.
    pub(in crate::engine) fn expires(&self, work: WorkId) -> Option<Timestamp> {
        self.times.get(&work)?.expires
    }

    /// Sets a timer of `work` for `due`.
    pub(super) fn arm(&mut self, due: Timestamp, work: WorkId) {
        self.timers.insert((due, work));
    }

    /// Returns the times of a work for a base.
    pub(super) fn base_of(&self, work: WorkId) -> Option<TimesBase> {
        let times = self.times.get(&work)?;
        let &Times { left, expires, deadline, .. } = times;
        let deadline_left = match deadline {
            Some(Deadline::Stopped { left }) => Some(left),
            _ => None,
        };
        Some(TimesBase { left, expires, deadline: times.deadline(), deadline_left })
    }

    /// Sets the times of a work; its timers are not set.
    pub(super) fn restore(&mut self, work: WorkId, times: Times) {
        self.times.insert(work, times);
    }

    pub(super) fn set_times(
        &mut self,
        work: WorkId,
        timeout: Option<Duration>,
        deadline: Option<Timestamp>,
    ) {
        let deadline = deadline.map(Deadline::At);
        self.times.insert(work, Times { timeout, deadline, ..Times::default() });
    }

    /// Sets the time limit of attempts of a work that runs none. Returns whether the work has a time limit or
    /// a deadline.
    pub(super) fn set_timeout(&mut self, work: WorkId, timeout: Option<Duration>) -> bool {
        let times = self.times.entry(work).or_default();
        times.timeout = timeout;
        let is_timed = timeout.is_some() || times.deadline.is_some();
        if !is_timed {
            self.times.remove(&work);
        }
        is_timed
    }

    /// Removes and returns the deadline of `work`; its timer stays set.
    pub(super) fn take_deadline(&mut self, work: WorkId) -> Option<Timestamp> {
        let times = self.times.get_mut(&work)?;
        let due = times.deadline();
        times.deadline = None;
        due
    }

    pub(super) fn forget(&mut self, work: WorkId) {
        self.times.remove(&work);
    }

    /// Starts, stops or restarts the clock of an attempt after its work changed its phase. Returns
    /// a time for which the timer is no longer needed.
    fn follow(
        &mut self,
        work: WorkId,
        from: Phase,
        to: Phase,
        now: Timestamp,
    ) -> impl Iterator<Item = Timestamp> + use<> {
        let times = self.times.get_mut(&work).expect("it has times of its own");
        let stopped = if to.is_timed() { None } else { times.expires.take() };
        if let Some(expires) = stopped {
            times.left = expires.since(now);
        }
        let starts = to.is_timed() && !from.is_timed();
        if starts && let Some(timeout) = times.timeout {
            let left = if from.state() == WorkState::Running { times.left } else { timeout };
            let expires = now.after(left);
            times.expires = Some(expires);
            self.timers.insert((expires, work));
        }
        let over = times.deadline().filter(|_| to.state().is_terminal());
        stopped.into_iter().chain(over)
    }
}

impl State {
    /// Removes the timer of `work` for `due`, unless something else of it is due then.
    pub(super) fn disarm(&mut self, due: Timestamp, work: WorkId) {
        if !self.dues(work).any(|other| other == due) {
            self.clock.timers.remove(&(due, work));
        }
    }

    /// Iterates over the times at which something happens to `work` by time alone.
    pub(in crate::engine) fn dues(&self, work: WorkId) -> impl Iterator<Item = Timestamp> + use<> {
        let entry = &self.works[work.index()];
        let retry = match entry.phase() {
            Phase::Delayed { due } => Some(due),
            _ => None,
        };
        let times = self.clock.times.get(&work).filter(|_| entry.is_timed());
        let expires = times.and_then(|times| times.expires);
        let deadline = times.and_then(Times::deadline).filter(|_| entry.is_open());
        [retry, expires, deadline].into_iter().flatten()
    }

    /// Updates the times of a work after it changed its phase: the clock of its attempt starts,
    /// stops or restarts, and the deadline ends with the work.
    pub(super) fn keep_time(&mut self, work: WorkId, from: Phase, to: Phase) {
        for due in self.clock.follow(work, from, to, self.now) {
            self.disarm(due, work);
        }
    }

    /// Fires all timers due by `now`, each at the time for which it was set.
    #[inline]
    pub(in crate::engine) fn advance(&mut self, effects: &mut Effects<'_, '_>, now: Timestamp) {
        if self.clock.timers.earliest() <= now {
            self.let_come_due(effects, now);
        }
        self.now = self.now.max(now);
    }

    #[cold]
    fn let_come_due(&mut self, effects: &mut Effects<'_, '_>, now: Timestamp) {
        while let Some((due, work)) = self.clock.timers.pop_due(now) {
            self.now = self.now.max(due);
            self.come_due(effects, work, due);
        }
    }

    /// A deadline takes effect before a time limit of the same instant, and both before a retry.
    fn come_due(&mut self, effects: &mut Effects<'_, '_>, work: WorkId, due: Timestamp) {
        let times = self.clock.times.get(&work);
        let deadline = times.and_then(Times::deadline) == Some(due);
        let expires = times.and_then(|times| times.expires) == Some(due);
        match self.works[work.index()].phase() {
            _ if deadline => self.miss_deadline(effects, work),
            Phase::Delayed { .. } => self.step(effects, work, Step::ComeDue),
            Phase::Running if expires => self.stop(effects, work, StopReason::Timeout),
            _ => {}
        }
    }

    fn miss_deadline(&mut self, effects: &mut Effects<'_, '_>, work: WorkId) {
        self.clock.take_deadline(work);
        match self.works[work.index()].phase().state() {
            WorkState::Pending => {
                self.step(effects, work, Step::RejectedBeforeStart);
                self.settle(effects, work);
            }
            WorkState::Running => self.stop(effects, work, StopReason::Deadline),
            _ => {}
        }
    }
}
