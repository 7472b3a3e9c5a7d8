//! The plan: what a file asks for, with every name resolved and every parameter given.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use windlass_core::ResourceCost;

use crate::guard::Guard;
use crate::resource::{Resource, ResourceKind, Semaphore};
use crate::script::Command;
use crate::step::Step;
use crate::template::Template;
use crate::variable::Variable;

/// A workflow that can be run.
///
/// ```
/// let text = "[params]\nenv = 'staging'\n[step.a]\nrun = 'true'\nlock = 'deploy-{env}'";
/// let workflow = windlass_workflow::parse("flow.toml", text)?;
/// let plan = workflow.bind([("env", "prod")])?;
/// let step = &plan.steps[0];
/// let lock = step.locks[0].fill(|variable| plan.value(step, variable));
/// assert_eq!(lock.as_deref(), Ok("deploy-prod"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plan {
    /// What the workflow is called.
    pub name: String,
    /// The parameters' values.
    pub params: BTreeMap<String, String>,
    /// How many steps may run at once; none for one per CPU.
    pub concurrency: Option<u32>,
    /// How long the whole run may take.
    pub deadline: Option<Duration>,
    /// What happens to the others when a step fails.
    pub on_failure: OnFailure,
    /// How many bytes of what a hook prints are kept.
    pub log_limit: u64,
    /// What the steps share.
    pub resources: Vec<Resource>,
    /// What they share with the rest of the machine.
    pub semaphores: Vec<Semaphore>,
    /// The conditions that steps refer to.
    pub guards: Vec<Guard>,
    /// Commands for the end of the run, and for a guard that needs a person.
    pub hooks: Hooks,
    /// The variables of `[env]`, which every step and every hook has.
    pub env: BTreeMap<String, Template>,
    /// The steps, as they stand in the file, except that each comes after those it follows.
    pub steps: Vec<Step>,
}

impl Plan {
    /// How much there is of each resource that is held and given back.
    #[must_use]
    pub fn limits(&self) -> ResourceCost {
        let held = self.resources.iter().filter(|resource| {
            matches!(resource.kind, ResourceKind::Count(_) | ResourceKind::Items { .. })
        });
        held.map(|resource| (resource.name.clone(), resource.kind.most())).collect()
    }

    /// Returns the variables of `[env]` that make sense outside a step: a value that refers to
    /// `{step}` or `{attempt}` has none there.
    pub fn hook_env(&self) -> impl Iterator<Item = (&str, &Template)> {
        let of_a_step =
            |variable: &Variable| matches!(variable, Variable::Step | Variable::Attempt);
        let env = self.env.iter().filter(move |(_, value)| !value.variables().any(of_a_step));
        env.map(|(name, value)| (name.as_str(), value))
    }

    /// The value of a variable for `step`, if the plan says it. What only a run knows has none:
    /// its id, the attempt, the directory, what steps have written.
    #[must_use]
    pub fn value(&self, step: &Step, variable: &Variable) -> Option<String> {
        match variable {
            Variable::Param(name) => self.params.get(name).cloned(),
            Variable::Each(name) => {
                step.each.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
            }
            Variable::Name => Some(self.name.clone()),
            Variable::Step => Some(step.name.clone()),
            Variable::Workspace | Variable::Run | Variable::Attempt | Variable::Output { .. } => {
                None
            }
        }
    }
}

/// What happens to the other steps when one fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum OnFailure {
    /// Those that do not depend on it go on.
    #[default]
    Finish,
    /// Nothing new starts.
    Stop,
    /// Those that run are ended.
    Cancel,
}

/// Commands for the end of a run, and for a guard that needs a person.
///
/// ```
/// let text = "[step.a]\nrun = 'true'\n[on]\nfailure = './page.sh'";
/// let plan = windlass_workflow::parse("flow.toml", text)?.bind([])?;
/// assert_eq!(plan.hooks.failure.as_ref().map(ToString::to_string).as_deref(), Some("./page.sh"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hooks {
    /// When every step has succeeded or was skipped.
    pub success: Option<Command>,
    /// When the run has failed.
    pub failure: Option<Command>,
    /// When a guard with `on_timeout = "escalate"` has timed out.
    pub escalate: Option<Command>,
    /// How long each of them may take, where the file says so.
    pub timeout: Option<Duration>,
}

impl Hooks {
    /// How long each of them may take: 30 s where the file does not say.
    #[must_use]
    pub fn limit(&self) -> Duration {
        self.timeout.unwrap_or(Duration::from_secs(30))
    }
}
