//! When to check a condition again, and when to stop: the rules of guards, without a clock.

use std::fmt;
use std::time::Duration;

use windlass_core::Timestamp;
use windlass_workflow::{Guard, GuardAction, format_duration};

/// How often a guard without `retry` looks again.
const USUAL_INTERVAL: Duration = Duration::from_secs(10);
/// How long one check may take.
const CHECK_LIMIT: Duration = Duration::from_secs(60);

/// One wait for a guard to pass.
///
/// ```
/// use std::time::Duration;
/// use windlass_core::Timestamp;
/// use windlass_server::{Vigil, VigilStep};
///
/// let text = "[guard.g]\ncondition = 'false'\n[step.a]\nrun = 'true'\nguard = 'g'";
/// let plan = windlass_workflow::parse("flow.toml", text)?.bind([])?;
/// let mut vigil = Vigil::new(&plan.guards[0], Timestamp::ZERO);
/// let limit = Duration::from_secs(60);
/// assert_eq!(vigil.step(Timestamp::ZERO), VigilStep::Check { limit });
/// vigil.not_yet(Timestamp::ZERO);
/// let until = Some(Timestamp::from_millis(10_000));
/// assert_eq!(vigil.step(Timestamp::ZERO), VigilStep::Wait { until });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Vigil {
    interval: Duration,
    /// How often it may still look again by itself.
    rechecks: Option<u32>,
    /// How often it has looked.
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
    /// Its time is over, and it goes on checking.
    Blocked,
    /// A person decides.
    Escalated,
    /// It has failed.
    Failed,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VigilStep {
    /// Check the condition, for so long at most.
    Check {
        /// How long.
        limit: Duration,
    },
    /// Wait for an event, for a person, or until a point in time.
    Wait {
        /// Until when, if ever.
        until: Option<Timestamp>,
    },
    /// Its time is over: told once. Fail means that it has failed; after the others it goes on.
    TimedOut(GuardAction),
}

/// What a guard has used up that has not passed in time.
///
/// ```
/// use std::time::Duration;
/// use windlass_server::UsedUp;
///
/// assert_eq!(UsedUp::Checks(1).to_string(), "did not pass its only check");
/// assert_eq!(UsedUp::Checks(3).to_string(), "did not pass any of its 3 checks");
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
            UsedUp::Checks(checks) => write!(f, "did not pass any of its {checks} checks"),
        }
    }
}

impl Vigil {
    /// A wait that begins at `now`.
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

    /// What to do at `now`.
    pub fn step(&mut self, now: Timestamp) -> VigilStep {
        let over = self.deadline.is_some_and(|deadline| deadline <= now);
        let stuck = self.next_check.is_none() && !self.can_wake;
        match self.phase {
            Phase::Watching if over || stuck => self.time_out(now),
            Phase::Escalated | Phase::Failed => VigilStep::Wait { until: None },
            Phase::Watching | Phase::Blocked => match self.next_check {
                Some(due) if due <= now => VigilStep::Check { limit: self.limit(now) },
                due => VigilStep::Wait { until: due.into_iter().chain(self.open_deadline()).min() },
            },
        }
    }

    /// What a guard that has not passed in time has used up: its time, or else its checks.
    #[must_use]
    pub fn used_up(&self, now: Timestamp) -> UsedUp {
        match self.timeout.filter(|_| self.deadline.is_some_and(|deadline| deadline <= now)) {
            Some(timeout) => UsedUp::Time(timeout),
            None => UsedUp::Checks(self.checks),
        }
    }

    /// The condition does not hold yet, as was found at `now`.
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

    /// An event came that it waits for: it looks again at once. That does not count as one of its
    /// own re-checks.
    pub fn wake(&mut self, now: Timestamp) {
        // What is due is looked at anyway, however many events come before that.
        if self.next_check.is_some_and(|due| due <= now) {
            return;
        }
        if let Some(left) = self.rechecks.as_mut().filter(|_| self.next_check.is_some()) {
            // The one that stood in the calendar was not used.
            *left = left.saturating_add(1);
        }
        self.next_check = Some(now);
    }

    fn time_out(&mut self, now: Timestamp) -> VigilStep {
        self.phase = match self.on_timeout {
            GuardAction::Block => Phase::Blocked,
            GuardAction::Escalate => Phase::Escalated,
            GuardAction::Fail => Phase::Failed,
        };
        if self.phase == Phase::Blocked && self.next_check.is_none() {
            self.next_check = Some(now.after(self.interval));
        }
        VigilStep::TimedOut(self.on_timeout)
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

    fn vigil(keys: &str) -> Vigil {
        let text =
            format!("[step.a]\nrun = 'true'\nguard = 'g'\n[guard.g]\ncondition = 'false'\n{keys}");
        let workflow = windlass_workflow::parse("flow.toml", &text).expect("nothing is wrong");
        Vigil::new(&workflow.bind([]).expect("no parameters").guards[0], Timestamp::ZERO)
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    const CHECK: VigilStep = VigilStep::Check { limit: CHECK_LIMIT };

    fn wait(until: u64) -> VigilStep {
        VigilStep::Wait { until: Some(at(until)) }
    }

    /// Checks at `seconds`, in vain.
    fn in_vain(vigil: &mut Vigil, seconds: u64) {
        assert!(matches!(vigil.step(at(seconds)), VigilStep::Check { .. }), "at {seconds}");
        vigil.not_yet(at(seconds));
    }

    #[test]
    fn without_anything_it_looks_every_ten_seconds_for_ever() {
        let mut vigil = vigil("");
        for round in 0..100 {
            in_vain(&mut vigil, round * 10);
            assert_eq!(vigil.step(at(round * 10)), wait(round * 10 + 10));
        }
    }

    #[test]
    fn re_checks_used_up_and_nothing_to_wake_it_is_decided_as_at_the_timeout() {
        let mut vigil = vigil("retry = { max = 2, interval = '3s' }\non_timeout = 'fail'");
        for seconds in [0, 3, 6] {
            in_vain(&mut vigil, seconds);
        }
        assert_eq!(vigil.step(at(6)), VigilStep::TimedOut(GuardAction::Fail));
        assert_eq!(vigil.used_up(at(6)), UsedUp::Checks(3));
        assert_eq!(vigil.step(at(60)), VigilStep::Wait { until: None });
    }

    #[test]
    fn an_event_has_it_look_at_once_also_when_its_re_checks_are_used_up() {
        let mut vigil = vigil(
            "retry = { max = 1, interval = '3s' }\ntimeout = '1m'\nwake_on = ['a:*']\non_timeout = 'fail'",
        );
        in_vain(&mut vigil, 0);
        vigil.wake(at(1));
        in_vain(&mut vigil, 1);
        assert_eq!(vigil.step(at(1)), wait(4), "its own re-check was not used");
        in_vain(&mut vigil, 4);
        assert_eq!(vigil.step(at(4)), wait(60), "only the timeout is left");
        vigil.wake(at(30));
        let limit = Duration::from_secs(30);
        assert_eq!(vigil.step(at(30)), VigilStep::Check { limit }, "what is left of the timeout");
        vigil.not_yet(at(31));
        assert_eq!(vigil.step(at(60)), VigilStep::TimedOut(GuardAction::Fail));
    }

    #[test]
    fn many_events_before_a_check_are_one_reason_to_look() {
        let mut vigil = vigil("retry = { max = 1, interval = '3s' }\non_timeout = 'fail'");
        in_vain(&mut vigil, 0);
        [1, 1, 2].map(at).into_iter().for_each(|now| vigil.wake(now));
        for seconds in [2, 5] {
            in_vain(&mut vigil, seconds);
        }
        assert_eq!(vigil.step(at(5)), VigilStep::TimedOut(GuardAction::Fail), "one re-check");
    }

    #[test]
    fn a_blocked_guard_says_so_once_and_goes_on_checking() {
        let mut vigil = vigil("retry = { max = 1, interval = '5s' }\ntimeout = '7s'");
        in_vain(&mut vigil, 0);
        in_vain(&mut vigil, 5);
        assert_eq!(vigil.step(at(7)), VigilStep::TimedOut(GuardAction::Block));
        assert_eq!(vigil.used_up(at(7)), UsedUp::Time(Duration::from_secs(7)));
        for seconds in [12, 17, 22] {
            assert_eq!(vigil.step(at(seconds)), CHECK);
            vigil.not_yet(at(seconds));
        }
    }

    #[test]
    fn an_escalated_guard_waits_for_a_person() {
        let mut vigil = vigil("timeout = '5s'\non_timeout = 'escalate'");
        in_vain(&mut vigil, 0);
        assert_eq!(vigil.step(at(0)), wait(5));
        assert_eq!(vigil.step(at(5)), VigilStep::TimedOut(GuardAction::Escalate));
        assert_eq!(vigil.step(at(500)), VigilStep::Wait { until: None });
    }
}
