//! A scenario as a workflow file.

use std::fmt::Write;
use std::time::Duration;

use windlass_sim::scenario::{Action, End, Random, RetryPolicy, Scenario, Timestamp, WorkPlan};

/// The exit code that asks for another attempt.
const RETRY_CODE: i32 = 75;
/// Longer than any scenario.
const LONG: &str = "600";

/// Returns the file that opens the gate of a step.
pub(super) fn gate_file(work: &WorkPlan) -> String {
    format!("{}.open", work.name)
}

/// Returns the file that makes a step unneeded.
pub(super) fn skip_file(work: &WorkPlan) -> String {
    format!("{}.skip", work.name)
}

/// Returns the file that a step writes when its `when` is checked.
pub(super) fn asked_file(work: &WorkPlan) -> String {
    format!("{}.asked", work.name)
}

/// Returns whether a step has a gate: a work that is submitted later becomes a step whose gate opens
/// then.
pub(super) fn has_gate(work: &WorkPlan) -> bool {
    work.gated || work.from > Timestamp::ZERO
}

pub(super) struct Flow<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) stretch: u32,
}

impl Flow<'_> {
    pub(super) fn text(&self) -> String {
        let scenario = self.scenario;
        let mut text = format!("concurrency = {}\n", scenario.limits.slots);
        if let Some(deadline) = self.deadline() {
            writeln!(text, "deadline = '{}'", self.millis(deadline)).expect("a string takes it");
        }
        text.push_str("[resource]\n");
        // Names of both levels are two limits, which no scenario for the command has.
        for (name, amount) in scenario.limits.root.iter().chain(scenario.limits.team.iter()) {
            writeln!(text, "{name} = {amount}").expect("a string takes it");
        }
        for (name, rate) in &scenario.limits.rates {
            let hour = Duration::from_secs(3600).as_nanos();
            let amount: u128 = rate.amount.to_string().parse().expect("a whole number");
            let rate_per_hour = amount * hour / (rate.per * self.stretch).as_nanos();
            let burst = rate.burst;
            writeln!(text, "{name} = {{ rate = '{rate_per_hour}/h', burst = {burst} }}")
                .expect("a string takes it");
        }
        (0..scenario.works.len()).for_each(|place| text.push_str(&self.step(place)));
        text
    }

    /// Returns the deadline of the run, which is that of all works.
    fn deadline(&self) -> Option<Duration> {
        let mut deadlines = self.scenario.works.iter().map(|work| work.deadline);
        let first = deadlines.next().flatten();
        assert!(deadlines.all(|other| other == first), "{}: one deadline", self.scenario.name);
        first.map(|deadline| deadline.since(Timestamp::ZERO))
    }

    fn step(&self, place: usize) -> String {
        let work = &self.scenario.works[place];
        let WorkPlan { name, priority, .. } = work;
        let after = work.after.iter().map(|&(place, kind)| {
            let kind = format!("{kind:?}").to_lowercase();
            format!("{} = '{kind}'", self.scenario.works[place].name)
        });
        let after = after.collect::<Vec<_>>().join(", ");
        let uses = work.needs.iter().map(|(name, amount)| format!("{name} = {amount}"));
        let uses = uses.collect::<Vec<_>>().join(", ");
        // A cancelled step runs to its end; a timeout drops the body.
        let grace = if self.is_cancelled(place) { LONG } else { "0" };
        let mut text = format!(
            "[step.{name}]\nrun = '''{}'''\nafter = {{ {after} }}\nuse = {{ {uses} }}\n\
             priority = {priority}\ngrace = '{grace}s'\nretry = {}\n",
            self.command(place),
            self.retry(work)
        );
        if let Some(timeout) = work.timeout {
            writeln!(text, "timeout = '{}'", self.millis(timeout)).expect("a string takes it");
        }
        if work.grants.outside > Timestamp::ZERO {
            writeln!(text, "lock = '{name}'").expect("a string takes it");
        }
        text + &self.gate(place)
    }

    /// Returns the gate of a step: a guard, or a `when` if it may skip the step.
    fn gate(&self, place: usize) -> String {
        let work = &self.scenario.works[place];
        let (name, open, skip) = (&work.name, gate_file(work), skip_file(work));
        let skips = |(_, action): &(_, Action)| *action == Action::Skip(place);
        if self.scenario.actions.iter().any(skips) {
            let asked = asked_file(work);
            return format!(
                "when = '''touch {asked}; \
                 until test -e {open} || test -e {skip}; do sleep 0.01; done; test -e {open}'''\n"
            );
        }
        if !has_gate(work) {
            return String::new();
        }
        format!(
            "guard = '{name}'\n[guard.{name}]\ncondition = 'test -e {open}'\n\
             wake_on = ['{name}:open']\n"
        )
    }

    fn retry(&self, work: &WorkPlan) -> String {
        let count = work.retry.count;
        let delays = work.body.ends.iter().filter_map(|end| match end {
            End::Retry(delay) => Some(*delay),
            _ => None,
        });
        let longest = delays.max().filter(|delay| !delay.is_zero());
        let policy = work.retry.policy.or(longest.map(RetryPolicy::fixed));
        // Without one, a file and the engine have the same delay.
        let delay = policy.map_or(String::new(), |policy| {
            let delay = policy.delay(1, &mut Random::new(0));
            let backoff = match policy {
                policy if policy == RetryPolicy::linear(delay) => "linear",
                policy if policy == RetryPolicy::exponential(delay) => "exponential",
                _ => "fixed",
            };
            format!("backoff = '{backoff}', delay = '{}', ", self.millis(delay))
        });
        format!("{{ count = {count}, {delay}on_exit = [{RETRY_CODE}] }}")
    }

    /// Returns a command that sleeps as long as the work takes, then exits as its attempt ends. A
    /// cancelled step runs to its end; the test ends attempts that end in another way.
    fn command(&self, place: usize) -> String {
        let work = &self.scenario.works[place];
        let cancelled = self.is_cancelled(place);
        let mut command = String::new();
        if cancelled {
            command.push_str("trap \"\" TERM; ");
        }
        let takes = (work.body.takes * self.stretch).as_secs_f64();
        write!(command, "sleep {takes}; case $WINDLASS_ATTEMPT in ").expect("a string takes it");
        let last = work.body.ends.len();
        for attempt in 1..=last {
            let pattern = if attempt == last { "*".to_owned() } else { attempt.to_string() };
            let end = match work.body.end(attempt as u32) {
                End::Ok => "exit 0".to_owned(),
                End::Fail => "exit 1".to_owned(),
                End::Retry(_) => format!("exit {RETRY_CODE}"),
                End::Lost | End::Stopped if cancelled => "kill -KILL $$".to_owned(),
                End::Lost | End::Stopped => format!("sleep {LONG}"),
            };
            write!(command, "{pattern}) {end};; ").expect("a string takes it");
        }
        command + "esac"
    }

    pub(super) fn is_cancelled(&self, place: usize) -> bool {
        self.scenario.actions.iter().any(|(_, action)| *action == Action::Cancel(place))
    }

    fn millis(&self, time: Duration) -> String {
        format!("{}ms", (time * self.stretch).as_millis())
    }
}
