//! One step of a plan, with everything resolved.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use windlass_core::{ResourceCost, RetryPolicy};

use crate::script::{Command, Script};
use crate::template::Template;

/// One step of a workflow.
///
/// ```
/// use windlass_workflow::EdgeCondition;
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
/// assert_eq!(report.after[0].condition, EdgeCondition::Done);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// What it is called: `test`, or `test[linux]` if it is one of several.
    pub name: String,
    /// What it is called in the file.
    pub declared: String,
    /// The values of its `each` variables, in the order of the file.
    pub each: Vec<(String, String)>,
    /// What it runs.
    pub run: Command,
    /// What it waits for.
    pub after: Vec<Edge>,
    /// Shell text that decides whether it is skipped.
    pub when: Option<Script>,
    /// What it takes while it runs, besides a slot.
    pub uses: ResourceCost,
    /// The locks that it holds while it runs, taken together or not at all.
    pub locks: Vec<Template>,
    /// The semaphores that it holds slots of while it runs.
    pub semaphores: Vec<SemaphoreSlots>,
    /// The places in [`Plan::guards`](crate::Plan::guards) of those that must pass first.
    pub guards: Vec<usize>,
    /// The places in [`Plan::guards`](crate::Plan::guards) of those that must pass afterwards.
    pub ensures: Vec<usize>,
    /// Larger is more urgent.
    pub priority: i64,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
    /// How long it may take to end when it is asked to.
    pub grace: Option<Duration>,
    /// How long what it leaves running may take to end by itself.
    pub linger: Option<Duration>,
    /// How many bytes of what one attempt prints are kept.
    pub log_limit: u64,
    /// Whether and when to try again.
    pub retry: Retry,
    /// What runs once at the end, whatever happened.
    pub finally: Option<Command>,
    /// Environment variables: those of the step, of the defaults and of the workflow.
    pub env: BTreeMap<String, Template>,
    /// Where it runs, from the directory of the file.
    pub dir: Option<Template>,
}

/// One thing that a step waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Edge {
    /// The place of the other step in [`Plan::steps`](crate::Plan::steps).
    pub step: usize,
    /// How that must have ended.
    pub condition: EdgeCondition,
}

/// How a step must have ended for one that follows it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum EdgeCondition {
    /// It succeeded, or was skipped.
    #[default]
    Success,
    /// It has ended, however.
    Done,
    /// It failed.
    Failed,
}

impl EdgeCondition {
    /// As the file writes it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            EdgeCondition::Success => "success",
            EdgeCondition::Done => "done",
            EdgeCondition::Failed => "failed",
        }
    }
}

/// SemaphoreSlots of a semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SemaphoreSlots {
    /// The place in [`Plan::semaphores`](crate::Plan::semaphores).
    pub semaphore: usize,
    /// How many.
    pub weight: u32,
}

/// Whether and when a step is tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// How often, not counting the first attempt.
    pub count: u32,
    /// How the delay grows.
    pub backoff: Backoff,
    /// How long to wait before the first retry.
    pub delay: Duration,
    /// The longest wait.
    pub max_delay: Option<Duration>,
    /// Whether to wait for a random part of the delay.
    pub jitter: Jitter,
    /// Only after these exit codes; after any but 0 if none are named.
    pub on_exit: Option<Vec<i32>>,
}

impl Default for Retry {
    /// Never.
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
    /// The same as the engine knows it.
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
    /// Not at all.
    #[default]
    Fixed,
    /// By the first delay each time.
    Linear,
    /// To twice the last each time.
    Exponential,
}

/// Whether a delay is random.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jitter {
    /// The delay is what the backoff says.
    #[default]
    None,
    /// The delay is a random part of that, at least half of it.
    Full,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_what_the_keys_say() {
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
