//! One step of a plan, with its defaults merged and its names resolved.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use windlass_core::{Amount, EdgeKind, ResourceCost, RetryPolicy, Selector, WORKER};

use crate::planner::{CRASH_LIMIT, LOG_LIMIT_BYTES};
use crate::resource::SHARED;
use crate::script::{Command, Script};
use crate::template::Template;

/// One step of a workflow.
///
/// ```
/// use windlass_core::EdgeKind;
///
/// let text = r#"
/// [step.test]
/// each = { os = ["linux", "macos"] }
/// run  = "./test.sh {os}"
///
/// [step.report]
/// after = { test = "done" }
/// run   = "./report.sh"
/// "#;
/// let plan = windlass_workflow::parse("flow.toml", text)?.bind([])?;
/// let report = &plan.steps[2];
/// assert_eq!(plan.steps[0].name, "test[linux]");
/// assert_eq!(report.after.len(), 2);
/// assert_eq!(report.after[0].kind, EdgeKind::Done);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// Its name: `test`, or `test[linux]` for one instance of an `each`.
    pub name: String,
    /// Its name in the file, without the values of `each`.
    pub declared: String,
    /// The values of its `each` variables, in the order of the file.
    pub each: Vec<(String, String)>,
    /// Its dependencies.
    pub after: Vec<StepDependency>,
    /// What must hold before it starts, once its dependencies have ended.
    pub gate: StepGate,
    /// A larger priority is more urgent.
    pub priority: i64,
    /// What an attempt holds, besides a slot.
    pub needs: Needs,
    /// What an attempt executes, and where.
    pub execution: Execution,
    /// When an attempt ends, and what follows.
    pub ending: StepEnding,
}

impl Step {
    /// Returns whether it asks for a certain worker, or something of one. A run in the foreground has no
    /// workers.
    #[must_use]
    pub fn asks_for_worker(&self) -> bool {
        self.needs.of_worker().next().is_some()
            || self.needs.on != Selector::default()
            || self.after.iter().any(|edge| edge.same_worker)
    }

    /// Returns a step that runs a command, with the defaults for everything else.
    ///
    /// ```
    /// use windlass_workflow::{Command, Step, Template};
    ///
    /// let run = Command::List(vec![Template::literal("true")]);
    /// let step = Step::of_command("a".to_owned(), run);
    /// assert!(step.after.is_empty() && step.gate.is_open());
    /// ```
    #[must_use]
    pub fn of_command(name: String, run: Command) -> Self {
        Self {
            declared: name.clone(),
            name,
            each: Vec::new(),
            after: Vec::new(),
            gate: StepGate { when: None, guards: Vec::new(), not_before_ms: None },
            priority: 0,
            needs: Needs {
                resources: ResourceCost::new(),
                locks: Vec::new(),
                semaphores: Vec::new(),
                on: Selector::default(),
            },
            execution: Execution {
                run,
                env: BTreeMap::new(),
                dir: None,
                log_limit: LOG_LIMIT_BYTES,
            },
            ending: StepEnding {
                timeout: None,
                grace: None,
                linger: None,
                ensures: Vec::new(),
                retry: Retry::default(),
                crash_limit: CRASH_LIMIT,
                finally: None,
            },
        }
    }
}

/// What must hold before a step starts, once its dependencies have ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepGate {
    /// Shell text; the step is skipped if it fails.
    pub when: Option<Script>,
    /// Indices into [`Plan::guards`](crate::Plan::guards): the guards that must pass.
    pub guards: Vec<usize>,
    /// The time that must have come, in milliseconds since 1970. Only a step that was added to a queue has
    /// one.
    pub not_before_ms: Option<u64>,
}

impl StepGate {
    /// Returns whether the step starts as soon as its dependencies have ended.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.when.is_none() && self.guards.is_empty() && self.not_before_ms.is_none()
    }
}

/// What an attempt of a step holds, besides a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Needs {
    /// The resources.
    pub resources: ResourceCost,
    /// The locks; an attempt acquires all of them at once.
    pub locks: Vec<Template>,
    /// The slots of semaphores.
    pub semaphores: Vec<SemaphoreSlots>,
    /// Which workers it may go to.
    pub on: Selector,
}

impl Needs {
    /// Returns the limits of the store among the resources, by name.
    pub fn limits(&self) -> impl Iterator<Item = (&str, Amount)> {
        let shared = |(name, amount)| Some((str::strip_prefix(name, SHARED)?, amount));
        self.resources.iter().filter_map(shared).filter(|(_, amount)| *amount > Amount::ZERO)
    }

    /// Returns the resources of its worker, by the worker's names.
    pub fn of_worker(&self) -> impl Iterator<Item = (&str, Amount)> {
        let own = |(name, amount)| Some((str::strip_prefix(name, WORKER)?, amount));
        self.resources.iter().filter_map(own).filter(|(_, amount)| *amount > Amount::ZERO)
    }
}

/// What an attempt of a step executes, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Execution {
    /// The command.
    pub run: Command,
    /// The environment variables, those of `[defaults]` and `[env]` included.
    pub env: BTreeMap<String, Template>,
    /// The working directory, relative to that of the file.
    pub dir: Option<Template>,
    /// How many bytes of the output are kept.
    pub log_limit: u64,
}

/// When an attempt of a step ends, and what follows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepEnding {
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
    /// How long an attempt may take to end after SIGTERM before it gets SIGKILL.
    pub grace: Option<Duration>,
    /// How long processes that outlive the step's own process may take to end by themselves.
    pub linger: Option<Duration>,
    /// Indices into [`Plan::guards`](crate::Plan::guards): the guards that must pass after the
    /// command has succeeded.
    pub ensures: Vec<usize>,
    /// Whether and when a failed attempt is retried.
    pub retry: Retry,
    /// After how many attempts in a row that a killed worker has lost the step fails.
    pub crash_limit: u32,
    /// The command that runs once after the last attempt, whatever its result.
    pub finally: Option<Command>,
}

/// A dependency of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepDependency {
    /// The index of the other step in [`Plan::steps`](crate::Plan::steps).
    pub step: usize,
    /// Whether the step goes to the worker that has executed the other one.
    pub same_worker: bool,
    /// The end of the other step that counts. A skipped step has succeeded.
    pub kind: EdgeKind,
}

/// Slots of a semaphore that a step holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SemaphoreSlots {
    /// The index of the semaphore in [`Plan::semaphores`](crate::Plan::semaphores).
    pub semaphore: usize,
    /// The number of slots.
    pub weight: u32,
}

/// Whether and when a failed attempt is retried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The number of retries; the first attempt is not one.
    pub count: u32,
    /// How the delay grows.
    pub backoff: Backoff,
    /// The delay before the first retry.
    pub delay: Duration,
    /// The maximum delay.
    pub max_delay: Option<Duration>,
    /// Whether the delay is random.
    pub jitter: Jitter,
    /// The exit codes that are retried; by default all but 0.
    pub on_exit: Option<Vec<i32>>,
}

impl Default for Retry {
    /// Returns no retries.
    fn default() -> Self {
        Self {
            count: 0,
            backoff: Backoff::Fixed,
            delay: Duration::from_secs(1),
            max_delay: None,
            jitter: Jitter::None,
            on_exit: None,
        }
    }
}

impl Retry {
    /// Returns the retry policy for the engine.
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass_core::{Random, RetryPolicy};
    /// use windlass_workflow::{Backoff, Retry};
    ///
    /// let retry = Retry { count: 5, backoff: Backoff::Exponential, ..Retry::default() };
    /// let policy = retry.policy();
    /// assert_eq!(policy.retries(), 5);
    /// assert_eq!(policy.delay(4, &mut Random::new(0)), Duration::from_secs(8));
    /// ```
    #[must_use]
    pub fn policy(&self) -> RetryPolicy {
        let policy = match self.backoff {
            Backoff::Fixed => RetryPolicy::fixed(self.delay),
            Backoff::Linear => RetryPolicy::linear(self.delay),
            Backoff::Exponential => RetryPolicy::exponential(self.delay),
        };
        let policy = policy.times(self.count).cap(self.max_delay.unwrap_or(Duration::MAX));
        match self.jitter {
            Jitter::None => policy,
            Jitter::Full => policy.jitter(),
        }
    }
}

/// How the delay between attempts grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Backoff {
    /// It stays the same.
    #[default]
    Fixed,
    /// It grows by the first delay each time.
    Linear,
    /// It doubles each time.
    Exponential,
}

/// Whether a delay is random.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jitter {
    /// The delay is that of the backoff.
    #[default]
    None,
    /// The delay is random, between half of that and all of it.
    Full,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_has_the_settings_of_the_keys() {
        let (delay, longest) = (Duration::from_secs(1), Duration::from_secs(10));
        let check = |retry: Retry, expected: RetryPolicy| assert_eq!(retry.policy(), expected);
        check(Retry::default(), RetryPolicy::fixed(delay).times(0));
        let linear = Retry { backoff: Backoff::Linear, count: 2, ..Retry::default() };
        check(linear, RetryPolicy::linear(delay).times(2));
        let capped = Retry {
            backoff: Backoff::Exponential,
            max_delay: Some(longest),
            jitter: Jitter::Full,
            ..Retry::default()
        };
        check(capped, RetryPolicy::exponential(delay).times(0).cap(longest).jitter());
    }
}
