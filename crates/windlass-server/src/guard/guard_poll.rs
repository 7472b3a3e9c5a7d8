//! When to check a condition again, and when to stop: the rules of guards, without a clock.

use std::fmt;
use std::time::Duration;

use windlass_core::Timestamp;
use windlass_workflow::{Guard, GuardAction, format_duration};

/// The interval at which a guard without `retry` is checked.
const USUAL_INTERVAL: Duration = Duration::from_secs(10);
/// How long one check may take.
const CHECK_LIMIT: Duration = Duration::from_secs(60);

/// One wait for a guard to pass.
///
/// ```
/// use std::time::Duration;
/// use windlass_core::Timestamp;
/// use windlass_server::{GuardPoll, PollStep};
///
/// let text = "[guard.g]\ncondition = 'false'\n[step.a]\nrun = 'true'\nguard = 'g'";
/// let plan = windlass_workflow::parse("flow.toml", text)?.bind([])?;
/// let mut poll = GuardPoll::new(&plan.guards[0], Timestamp::ZERO);
/// let limit = Duration::from_secs(60);
/// assert_eq!(poll.step(Timestamp::ZERO), PollStep::Check { limit });
/// poll.not_yet(Timestamp::ZERO);
/// let until = Some(Timestamp::from_millis(10_000));
/// assert_eq!(poll.step(Timestamp::ZERO), PollStep::Wait { until });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct GuardPoll {
    interval: Duration,
    /// How often it may still be checked again by itself.
    rechecks: Option<u32>,
    /// How often it was checked.
    checks: u32,
    can_wake: bool,
    on_timeout: GuardAction,
    timeout: Option<Duration>,
    deadline: Option<Timestamp>,
    next_check: Option<Timestamp>,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Its time is not over.
    Watching,
    /// Its time is over, and the condition is checked further.
    Blocked,
    /// A user decides.
    Escalated,
    /// It has failed.
    Failed,
}

/// What the caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PollStep {
    /// Checks the condition.
    Check {
        /// How long the check may take.
        limit: Duration,
    },
    /// Waits for an event, for a user's decision, or until a point in time.
    Wait {
        /// Until when, if ever.
        until: Option<Timestamp>,
    },
    /// Acts on its timeout, once. With `Fail` the guard has failed; with the others the wait continues.
    TimedOut(GuardAction),
}

/// What a guard has used up that has not passed in time.
///
/// ```
/// use std::time::Duration;
/// use windlass_server::UsedUp;
///
/// assert_eq!(UsedUp::Checks(1).to_string(), "did not pass its only check");
/// assert_eq!(UsedUp::Checks(3).to_string(), "did not pass in 3 checks");
/// assert_eq!(UsedUp::Time(Duration::from_secs(5)).to_string(), "timed out after 5s");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UsedUp {
    /// The time that its `timeout` gives it.
    Time(Duration),
    /// The checks that its `retry` gives it.
    Checks(u32),
}

impl fmt::Display for UsedUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UsedUp::Time(timeout) => write!(f, "timed out after {}", format_duration(*timeout)),
            UsedUp::Checks(1) => write!(f, "did not pass its only check"),
            UsedUp::Checks(checks) => write!(f, "did not pass in {checks} checks"),
        }
    }
}

impl GuardPoll {
    /// Begins to wait at `now`.
    #[must_use]
    pub fn new(guard: &Guard, now: Timestamp) -> Self {
        Self {
            interval: guard.retry.map_or(USUAL_INTERVAL, |retry| retry.interval),
            rechecks: guard.retry.map(|retry| retry.max),
            checks: 0,
            can_wake: !guard.wake_on.is_empty(),
            on_timeout: guard.on_timeout,
            timeout: guard.timeout,
            deadline: guard.timeout.map(|timeout| now.after(timeout)),
            next_check: Some(now),
            phase: Phase::Watching,
        }
    }

    /// Returns what to do at `now`.
    pub fn step(&mut self, now: Timestamp) -> PollStep {
        let over = self.deadline.is_some_and(|deadline| deadline <= now);
        let stuck = self.next_check.is_none() && !self.can_wake;
        match self.phase {
            Phase::Watching if over || stuck => self.time_out(now),
            Phase::Escalated | Phase::Failed => PollStep::Wait { until: None },
            Phase::Watching | Phase::Blocked => match self.next_check {
                Some(due) if due <= now => PollStep::Check { limit: self.limit(now) },
                due => PollStep::Wait { until: due.into_iter().chain(self.open_deadline()).min() },
            },
        }
    }

    /// Returns what a guard that has not passed in time has used up: its time, or else its checks.
    #[must_use]
    pub fn used_up(&self, now: Timestamp) -> UsedUp {
        match self.timeout.filter(|_| self.deadline.is_some_and(|deadline| deadline <= now)) {
            Some(timeout) => UsedUp::Time(timeout),
            None => UsedUp::Checks(self.checks),
        }
    }

    /// Notes that a check found at `now` that the condition does not hold.
    pub fn not_yet(&mut self, now: Timestamp) {
        self.checks = self.checks.saturating_add(1);
        self.next_check = match &mut self.rechecks {
            _ if self.phase == Phase::Blocked => Some(now.after(self.interval)),
            Some(0) => None,
            Some(left) => {
                *left -= 1;
                Some(now.after(self.interval))
            }
            None => Some(now.after(self.interval)),
        };
    }

    /// Has the condition checked at once, because an event came that it waits for. That does not count as
    /// one of its own re-checks.
    pub fn wake(&mut self, now: Timestamp) {
        // A check that is due comes anyway, however many events come before it.
        if self.next_check.is_some_and(|due| due <= now) {
            return;
        }
        if let Some(left) = self.rechecks.as_mut().filter(|_| self.next_check.is_some()) {
            // The re-check that was planned was not used.
            *left = left.saturating_add(1);
        }
        self.next_check = Some(now);
    }

    fn time_out(&mut self, now: Timestamp) -> PollStep {
        self.phase = match self.on_timeout {
            GuardAction::Block => Phase::Blocked,
            GuardAction::Escalate => Phase::Escalated,
            GuardAction::Fail => Phase::Failed,
        };
        if self.phase == Phase::Blocked && self.next_check.is_none() {
            self.next_check = Some(now.after(self.interval));
        }
        PollStep::TimedOut(self.on_timeout)
    }

    fn open_deadline(&self) -> Option<Timestamp> {
        self.deadline.filter(|_| self.phase == Phase::Watching)
    }

    fn limit(&self, now: Timestamp) -> Duration {
        self.open_deadline().map_or(CHECK_LIMIT, |deadline| deadline.since(now).min(CHECK_LIMIT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(keys: &str) -> GuardPoll {
        let text =
            format!("[step.a]\nrun = 'true'\nguard = 'g'\n[guard.g]\ncondition = 'false'\n{keys}");
        let workflow = windlass_workflow::parse("flow.toml", &text).expect("nothing is wrong");
        GuardPoll::new(&workflow.bind([]).expect("no parameters").guards[0], Timestamp::ZERO)
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    const CHECK: PollStep = PollStep::Check { limit: CHECK_LIMIT };

    fn wait(until: u64) -> PollStep {
        PollStep::Wait { until: Some(at(until)) }
    }

    /// Checks at `seconds`, in vain.
    fn in_vain(poll: &mut GuardPoll, seconds: u64) {
        assert!(matches!(poll.step(at(seconds)), PollStep::Check { .. }), "at {seconds}");
        poll.not_yet(at(seconds));
    }

    #[test]
    fn without_anything_it_looks_every_ten_seconds_for_ever() {
        let mut poll = poll("");
        for round in 0..100 {
            in_vain(&mut poll, round * 10);
            assert_eq!(poll.step(at(round * 10)), wait(round * 10 + 10));
        }
    }

    #[test]
    fn used_up_retries_count_as_a_timeout_if_no_event_can_follow() {
        let mut poll = poll("retry = { max = 2, interval = '3s' }\non_timeout = 'fail'");
        for seconds in [0, 3, 6] {
            in_vain(&mut poll, seconds);
        }
        assert_eq!(poll.step(at(6)), PollStep::TimedOut(GuardAction::Fail));
        assert_eq!(poll.used_up(at(6)), UsedUp::Checks(3));
        assert_eq!(poll.step(at(60)), PollStep::Wait { until: None });
    }

    #[test]
    fn an_event_causes_a_check_even_if_the_retries_are_used_up() {
        let mut poll = poll(
            "retry = { max = 1, interval = '3s' }\ntimeout = '1m'\nwake_on = ['a:*']\non_timeout = 'fail'",
        );
        in_vain(&mut poll, 0);
        poll.wake(at(1));
        in_vain(&mut poll, 1);
        assert_eq!(poll.step(at(1)), wait(4), "its own re-check was not used");
        in_vain(&mut poll, 4);
        assert_eq!(poll.step(at(4)), wait(60), "only the timeout is left");
        poll.wake(at(30));
        let limit = Duration::from_secs(30);
        assert_eq!(poll.step(at(30)), PollStep::Check { limit }, "what is left of the timeout");
        poll.not_yet(at(31));
        assert_eq!(poll.step(at(60)), PollStep::TimedOut(GuardAction::Fail));
    }

    #[test]
    fn many_events_before_a_check_cause_one_check() {
        let mut poll = poll("retry = { max = 1, interval = '3s' }\non_timeout = 'fail'");
        in_vain(&mut poll, 0);
        [1, 1, 2].map(at).into_iter().for_each(|now| poll.wake(now));
        for seconds in [2, 5] {
            in_vain(&mut poll, seconds);
        }
        assert_eq!(poll.step(at(5)), PollStep::TimedOut(GuardAction::Fail), "one re-check");
    }

    #[test]
    fn a_blocked_guard_is_reported_once_and_checked_further() {
        let mut poll = poll("retry = { max = 1, interval = '5s' }\ntimeout = '7s'");
        in_vain(&mut poll, 0);
        in_vain(&mut poll, 5);
        assert_eq!(poll.step(at(7)), PollStep::TimedOut(GuardAction::Block));
        assert_eq!(poll.used_up(at(7)), UsedUp::Time(Duration::from_secs(7)));
        for seconds in [12, 17, 22] {
            assert_eq!(poll.step(at(seconds)), CHECK);
            poll.not_yet(at(seconds));
        }
    }

    #[test]
    fn an_escalated_guard_waits_for_a_decision() {
        let mut poll = poll("timeout = '5s'\non_timeout = 'escalate'");
        in_vain(&mut poll, 0);
        assert_eq!(poll.step(at(0)), wait(5));
        assert_eq!(poll.step(at(5)), PollStep::TimedOut(GuardAction::Escalate));
        assert_eq!(poll.step(at(500)), PollStep::Wait { until: None });
    }
}
