//! The running times of attempts, measured apart from the engine, to check timeouts and deadlines.

use std::collections::BTreeMap;
use std::time::Duration;

use windlass_core::{Engine, Extras, Phase, StopReason, Timestamp, Transition, WorkId, WorkState};

/// The clocks of one engine's works that have a timeout or a deadline.
#[derive(Default)]
pub(super) struct Clocks {
    of: BTreeMap<WorkId, Clock>,
    paused: bool,
}

struct Clock {
    timeout: Option<Duration>,
    deadline: Option<Timestamp>,
    /// Since when the deadline has stood still, if it does.
    stopped: Option<Timestamp>,
    /// How long the attempt had run before it last resumed.
    used: Duration,
    /// When it last started or resumed; none while it does not run.
    since: Option<Timestamp>,
}

impl Clocks {
    pub(super) fn add(&mut self, work: WorkId, extras: &Extras, now: Timestamp) {
        let Extras { timeout, deadline, .. } = *extras;
        if timeout.is_some() || deadline.is_some() {
            let stopped = self.paused.then_some(now);
            let (used, since) = (Duration::ZERO, None);
            self.of.insert(work, Clock { timeout, deadline, stopped, used, since });
        }
    }

    /// Stops all deadlines.
    pub(super) fn pause(&mut self, now: Timestamp) {
        self.paused = true;
        self.of.values_mut().for_each(|clock| clock.stopped = Some(now));
    }

    /// Has all deadlines count again.
    pub(super) fn unpause(&mut self, now: Timestamp) {
        self.paused = false;
        for clock in self.of.values_mut() {
            if let Some(stopped) = clock.stopped.take() {
                clock.deadline = clock.deadline.map(|due| due.after(now.since(stopped)));
            }
        }
    }

    pub(super) fn note(&mut self, changes: &[Transition]) {
        for change in changes {
            if let Some(clock) = self.of.get_mut(&change.work) {
                clock.note(change);
            }
        }
    }

    /// Drops the deadline of a work that was reopened, or that follows one.
    pub(super) fn drop_deadline(&mut self, work: WorkId) {
        if let Some(clock) = self.of.get_mut(&work) {
            clock.deadline = None;
        }
    }

    /// Checks that no attempt runs past its timeout, and that works past their deadline have ended or are
    /// stopping.
    pub(super) fn verify(&self, engine: &Engine, now: Timestamp) {
        for (work, clock) in &self.of {
            if let Some(phase) = engine.phase(*work) {
                clock.verify(*work, phase, now);
            }
        }
    }
}

impl Clock {
    fn note(&mut self, change: &Transition) {
        if let Some(since) = self.since.take() {
            self.used += change.at.since(since);
        }
        if change.to == Phase::Running {
            self.since = Some(change.at);
            if change.from == Some(WorkState::Pending) {
                self.used = Duration::ZERO;
            }
        }
        if let Phase::Cancelling { why: StopReason::Timeout, .. } = change.to {
            assert_eq!(Some(self.used), self.timeout, "work {} had all of its time", change.work);
        }
    }

    fn verify(&self, work: WorkId, phase: Phase, now: Timestamp) {
        if let (Some(since), Some(timeout)) = (self.since, self.timeout) {
            let used = self.used + now.since(since);
            assert!(used <= timeout, "work {work} has run for {used:?} of {timeout:?}");
        }
        if self.stopped.is_none() && self.deadline.is_some_and(|deadline| deadline <= now) {
            let stops = matches!(
                phase,
                Phase::Cancelling { why: StopReason::Deadline | StopReason::Cancel, .. }
            );
            assert!(stops || phase.state().is_terminal(), "work {work} is past its deadline");
        }
    }
}
