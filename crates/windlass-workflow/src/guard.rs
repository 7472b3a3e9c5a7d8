//! Guards: conditions that must hold before a step starts, or after it has run.
//!
//! Only data; the server polls them.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::script::Script;
use crate::template::Template;

/// A condition, and how long a step waits for it.
///
/// ```
/// use windlass_workflow::GuardAction;
///
/// let text = r#"
/// [step.deploy]
/// guard = "approved"
/// run   = "./deploy.sh"
///
/// [guard.approved]
/// condition  = "test -f approved"
/// timeout    = "30m"
/// on_timeout = "fail"
/// "#;
/// let plan = windlass_workflow::parse("flow.toml", text)?.bind([])?;
/// assert_eq!(plan.guards[0].on_timeout, GuardAction::Fail);
/// assert_eq!(plan.steps[0].gate.guards, [0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Guard {
    /// The guard's name.
    pub name: String,
    /// Shell text; the guard passes when it exits with 0.
    pub condition: Script,
    /// Patterns of the events after which the condition is checked at once; see
    /// [`EventPattern`](crate::EventPattern).
    pub wake_on: Vec<Template>,
    /// How often the condition is checked again; by default every 10 s without limit.
    pub retry: Option<GuardRetry>,
    /// How long to wait before `on_timeout` applies.
    pub timeout: Option<Duration>,
    /// What happens at the timeout.
    pub on_timeout: GuardAction,
}

/// How often a guard's condition is checked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardRetry {
    /// The number of checks after the first.
    pub max: u32,
    /// The time between two checks.
    pub interval: Duration,
}

/// What happens when a guard times out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum GuardAction {
    /// The run reports it, and the step keeps waiting.
    #[default]
    Block,
    /// The step fails.
    Fail,
    /// The `escalate` hook runs, and the step waits for a person to approve or reject it.
    Escalate,
}
