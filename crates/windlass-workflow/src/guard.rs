//! Guards: conditions that must hold before a step starts, or after it has run.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::script::Script;
use crate::template::Template;

/// A condition, and how long to wait for it.
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
/// assert_eq!(plan.steps[0].guards, [0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Guard {
    /// What it is called.
    pub name: String,
    /// Shell text; it passes when it exits with 0.
    pub condition: Script,
    /// Patterns of events that make it look again at once; see
    /// [`EventPattern`](crate::EventPattern).
    pub wake_on: Vec<Template>,
    /// How often it looks again; none for every 10 s without end.
    pub retry: Option<GuardRetry>,
    /// How long to wait before `on_timeout`.
    pub timeout: Option<Duration>,
    /// What happens then.
    pub on_timeout: GuardAction,
}

/// How often a guard looks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardRetry {
    /// How many times.
    pub max: u32,
    /// How long in between.
    pub interval: Duration,
}

/// What happens when a guard has waited long enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum GuardAction {
    /// It says so and keeps waiting.
    #[default]
    Block,
    /// The step fails.
    Fail,
    /// A person is asked.
    Escalate,
}
