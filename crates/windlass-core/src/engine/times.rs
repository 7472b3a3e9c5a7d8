//! Everything that happens by time alone: retries that come due, attempts that take too long,
//! deadlines.
//!
//! It happens at the time at which it was due, whenever the engine is told; so a replay that only
//! sees the facts finds the same.

use std::time::Duration;

use super::Engine;
use crate::fact::World;
use crate::phase::{Phase, Step, Why, WorkState};
use crate::{Timestamp, WorkId};

/// How long a work may take.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    /// One attempt.
    pub(super) timeout: Option<Duration>,
    /// What the attempt under way had left of it when its clock was last stopped.
    pub(super) left: Duration,
    /// When its time is up, while its clock runs.
    pub(super) expires: Option<Timestamp>,
    /// The work as a whole.
    pub(super) deadline: Option<Timestamp>,
}

impl Engine {
    /// Has `work` looked at when `due` has come.
    pub(super) fn arm(&mut self, due: Timestamp, work: WorkId) {
        self.timers.insert((due, work));
    }

    /// Not any more, unless something else of it is due at the same time.
    pub(super) fn disarm(&mut self, due: Timestamp, work: WorkId) {
        if !self.dues(work).any(|other| other == due) {
            self.timers.remove(&(due, work));
        }
    }

    /// When something happens to `work` by time alone.
    pub(super) fn dues(&self, work: WorkId) -> impl Iterator<Item = Timestamp> {
        let entry = &self.works[work.index()];
        let retry = match entry.phase {
            Phase::Delayed { due } => Some(due),
            _ => None,
        };
        let times = self.times.get(&work).filter(|_| entry.is_timed());
        let expires = times.and_then(|times| times.expires);
        let open = !entry.phase.state().is_terminal();
        let deadline = times.and_then(|times| times.deadline).filter(|_| open);
        [retry, expires, deadline].into_iter().flatten()
    }

    /// A work with times of its own has changed its phase: the clock of its attempt starts, stops,
    /// or begins anew; its end ends its deadline.
    pub(super) fn keep_time(&mut self, work: WorkId, from: Phase, to: Phase) {
        let now = self.now;
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
        let over = self.times[&work].deadline.filter(|_| to.state().is_terminal());
        for due in stopped.into_iter().chain(over) {
            self.disarm(due, work);
        }
    }

    /// Everything that was due by `now` happens, at the time at which it was due.
    #[inline]
    pub(super) fn move_time(&mut self, world: &mut World<'_>, now: Timestamp) {
        if self.timers.earliest() <= now {
            self.let_come_due(world, now);
        }
        self.now = self.now.max(now);
    }

    #[cold]
    fn let_come_due(&mut self, world: &mut World<'_>, now: Timestamp) {
        while let Some((due, work)) = self.timers.pop_due(now) {
            self.now = self.now.max(due);
            self.come_due(world, work, due);
        }
    }

    /// The deadline counts before the end of an attempt's time, and both before a retry.
    fn come_due(&mut self, world: &mut World<'_>, work: WorkId, due: Timestamp) {
        let times = self.times.get(&work);
        let deadline = times.and_then(|times| times.deadline) == Some(due);
        let expires = times.and_then(|times| times.expires) == Some(due);
        match self.works[work.index()].phase {
            _ if deadline => self.miss_deadline(world, work),
            Phase::Delayed { .. } => self.step(world, work, Step::ComeDue),
            Phase::Running if expires => self.stop(world, work, Why::Timeout),
            _ => {}
        }
    }

    fn miss_deadline(&mut self, world: &mut World<'_>, work: WorkId) {
        self.times.get_mut(&work).expect("it has times of its own").deadline = None;
        match self.works[work.index()].phase.state() {
            WorkState::Pending => {
                self.step(world, work, Step::GiveUp);
                self.settle(world, work);
            }
            WorkState::Running => self.stop(world, work, Why::Deadline),
            _ => {}
        }
    }
}
