//! When processes have to end: orders with a time limit, and those that may only finish.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::processes::Job;

/// The times at which orders have to end.
#[derive(Default)]
pub(super) struct Timers {
    timers: BTreeMap<Job, Timer>,
}

enum Timer {
    /// It is asked to end then; `None` if that time is beyond the clock.
    Limit { at: Option<Instant>, time: Duration, grace: Duration },
    /// It was asked to end at its time limit.
    TimedOut { time: Duration },
    /// It is killed then.
    Kill { at: Instant },
}

/// What to do with an order whose time is over.
pub(super) enum Due {
    /// Ask its processes to end within the grace period.
    TimedOut {
        grace: Duration,
    },
    Kill,
}

impl Timers {
    /// Lets an order run for `time` from now on, and then end within `grace`.
    pub(super) fn limit(&mut self, job: Job, time: Duration, grace: Duration) {
        let at = Instant::now().checked_add(time);
        self.timers.insert(job, Timer::Limit { at, time, grace });
    }

    /// Lets an order that has a time limit run for `left` from now on; without a limit if that is none.
    pub(super) fn set_limit(&mut self, job: Job, left: Option<Duration>) {
        if let Some(Timer::Limit { at, .. }) = self.timers.get_mut(&job) {
            *at = left.and_then(|left| Instant::now().checked_add(left));
        }
    }

    /// Has an order killed after `grace`, unless that was decided before.
    pub(super) fn kill_after(&mut self, job: Job, grace: Duration) {
        if !matches!(self.timers.get(&job), Some(Timer::Kill { .. })) {
            self.timers.insert(job, Timer::Kill { at: Instant::now() + grace });
        }
    }

    pub(super) fn remove(&mut self, job: Job) {
        self.timers.remove(&job);
    }

    /// Returns the time limit that an order has exceeded, if it has.
    pub(super) fn timed_out(&self, job: Job) -> Option<Duration> {
        match self.timers.get(&job) {
            Some(Timer::TimedOut { time }) => Some(*time),
            _ => None,
        }
    }

    /// Returns how long until the first order has to end.
    pub(super) fn until_due(&self) -> Option<Duration> {
        let first = self.timers.values().filter_map(Timer::at).min()?;
        Some(first.saturating_duration_since(Instant::now()))
    }

    /// Returns the orders that have to end at `now`, each once.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<(Job, Due)> {
        let mut due = Vec::new();
        let mut killed = Vec::new();
        for (job, timer) in &mut self.timers {
            if timer.at().is_none_or(|at| at > now) {
                continue;
            }
            match *timer {
                Timer::Limit { time, grace, .. } => {
                    *timer = Timer::TimedOut { time };
                    due.push((*job, Due::TimedOut { grace }));
                }
                Timer::Kill { .. } => killed.push(*job),
                Timer::TimedOut { .. } => {}
            }
        }
        for job in killed {
            self.timers.remove(&job);
            due.push((job, Due::Kill));
        }
        due
    }
}

impl Timer {
    fn at(&self) -> Option<Instant> {
        match *self {
            Timer::Limit { at, .. } => at,
            Timer::Kill { at } => Some(at),
            Timer::TimedOut { .. } => None,
        }
    }
}
