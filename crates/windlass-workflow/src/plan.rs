//! The plan: a workflow file with every name resolved and every parameter set.
//!
//! The planner builds a plan; after that it does not change. Knows nothing of runs and attempts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use windlass_core::ResourceCost;

use crate::guard::Guard;
use crate::planner::LOG_LIMIT_BYTES;
use crate::resource::{Resource, ResourceKind, SemaphoreSpec};
use crate::script::Command;
use crate::step::Step;
use crate::template::Template;
use crate::variable::Variable;

/// A workflow that is ready to run.
///
/// ```
/// let text = "[params]\nenv = 'staging'\n[step.a]\nrun = 'true'\nlock = 'deploy-{env}'";
/// let workflow = windlass_workflow::parse("flow.toml", text)?;
/// let plan = workflow.bind([("env", "prod")])?;
/// let step = &plan.steps[0];
/// let lock = step.needs.locks[0].fill(|variable| plan.value(step, variable));
/// assert_eq!(lock.as_deref(), Ok("deploy-prod"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plan {
    /// The workflow's name.
    pub name: String,
    /// The value of each parameter.
    pub params: BTreeMap<String, String>,
    /// How many steps may run at once; by default one per CPU.
    pub concurrency: Option<u32>,
    /// How urgent the run is among all runs of its store; larger is more urgent.
    pub priority: i16,
    /// How long the whole run may take.
    pub deadline: Option<Duration>,
    /// What happens to the other steps when one fails.
    pub on_failure: OnFailure,
    /// How many bytes of a hook's output are kept.
    pub log_limit: u64,
    /// What the steps of this run share.
    pub resources: Vec<Resource>,
    /// What the steps share with all runs and scripts on the same store.
    pub semaphores: Vec<SemaphoreSpec>,
    /// The conditions that steps refer to by index.
    pub guards: Vec<Guard>,
    /// Commands for the end of the run, and for a guard that needs a person.
    pub hooks: Hooks,
    /// The names of the variables that a submitted run takes along.
    pub pass_env: Vec<String>,
    /// The variables of `[env]`, for every step and every hook.
    pub env: BTreeMap<String, Template>,
    /// The steps in topological order, and otherwise in the order of the file.
    pub steps: Vec<Step>,
}

impl Plan {
    /// Returns a plan without steps, for a run to which steps are added.
    ///
    /// ```
    /// let plan = windlass_workflow::Plan::open("builds".to_owned());
    /// assert!(plan.steps.is_empty() && plan.concurrency.is_none());
    /// ```
    #[must_use]
    pub fn open(name: String) -> Self {
        Self {
            name,
            params: BTreeMap::new(),
            concurrency: None,
            priority: 0,
            deadline: None,
            on_failure: OnFailure::Finish,
            log_limit: LOG_LIMIT_BYTES,
            resources: Vec::new(),
            semaphores: Vec::new(),
            guards: Vec::new(),
            hooks: Hooks::default(),
            env: BTreeMap::new(),
            pass_env: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// Returns the capacity of each resource that a step holds and gives back, which a rate is not.
    #[must_use]
    pub fn limits(&self) -> ResourceCost {
        let held = self.resources.iter().filter(|resource| {
            matches!(resource.kind, ResourceKind::Count(_) | ResourceKind::Items { .. })
        });
        held.map(|resource| (resource.name.clone(), resource.kind.capacity())).collect()
    }

    /// Returns the names of the limits of the store that steps use.
    #[must_use]
    pub fn shared_limits(&self) -> BTreeSet<String> {
        let used = self.steps.iter().flat_map(|step| step.needs.limits());
        used.map(|(name, _)| name.to_owned()).collect()
    }

    /// Returns the variables of `[env]` for a hook: those whose values do not refer to `{step}` or
    /// `{attempt}`.
    pub fn hook_env(&self) -> impl Iterator<Item = (&str, &Template)> {
        let of_a_step =
            |variable: &Variable| matches!(variable, Variable::Step | Variable::Attempt);
        let env = self.env.iter().filter(move |(_, value)| !value.variables().any(of_a_step));
        env.map(|(name, value)| (name.as_str(), value))
    }

    /// Returns the value of a variable in `step`. Returns none for what only a run knows: its id, the
    /// attempt, the directory, outputs of steps.
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
    /// Steps that do not depend on it still run.
    #[default]
    Finish,
    /// No further step starts.
    Stop,
    /// No further step starts, and running steps are terminated.
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
    /// Runs when every step has succeeded or was skipped.
    pub success: Option<Command>,
    /// Runs when the run has failed.
    pub failure: Option<Command>,
    /// Runs when a guard with `on_timeout = "escalate"` has timed out.
    pub escalate: Option<Command>,
    /// How long each of them may take, if the file sets it.
    pub timeout: Option<Duration>,
}

impl Hooks {
    /// Returns how long each hook may take: `timeout`, or 30 s.
    #[must_use]
    pub fn limit(&self) -> Duration {
        self.timeout.unwrap_or(Duration::from_secs(30))
    }
}
