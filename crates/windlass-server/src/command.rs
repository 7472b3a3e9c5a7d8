//! Resolves what the processes of a run are started with: commands and environments.
//!
//! Values reach shell text only through the environment, so none of them can become a command.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use windlass_core::{Grant, WorkId};
use windlass_store::{LimitError, Name, NameError, Need, check_name};
use windlass_workflow::{
    Command, EventPattern, EventPatternError, MissingValue, Plan, Script, Step, Template, Variable,
};

use crate::attempt::{RUN_VARIABLE, STATE_VARIABLE};
use crate::size::{self, TooLarge};

/// Resolves the commands of one run.
#[derive(Clone, Copy)]
pub(crate) struct CommandResolver<'a> {
    pub(crate) plan: &'a Plan,
    /// Returns a step of the run.
    pub(crate) steps: &'a dyn Fn(WorkId) -> &'a Step,
    pub(crate) run: &'a str,
    pub(crate) dir: &'a Path,
    /// The store's directory.
    pub(crate) state: &'a Path,
    /// Returns what an earlier step has written for a key.
    pub(crate) outputs: &'a dyn Fn(&str, &str) -> Option<String>,
}

/// A command with every value filled in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CommandSpec {
    pub(crate) program: String,
    pub(crate) arguments: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) dir: PathBuf,
}

/// A condition with every value filled in.
#[derive(Clone, Debug)]
pub(crate) struct ConditionSpec {
    pub(crate) command: CommandSpec,
    /// The events that make it worth another check.
    pub(crate) wake_on: Vec<EventPattern>,
}

/// Why a command cannot be resolved, or must not be started.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum ResolveError {
    /// It refers to an output that no step has written.
    #[error("it needs {{{variable}}}, {}", missing(variable))]
    Missing { variable: Variable },
    /// Its values make no valid lock name.
    #[error("invalid lock name: {0}")]
    Lock(#[from] NameError),
    /// Its values make no valid event pattern.
    #[error("wake_on: {0}")]
    Pattern(#[from] EventPatternError),
    /// It is given a value that the system does not pass on.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// A name that it holds was lost before it could start.
    #[error("{name} was lost before, {how}")]
    Lost { name: Name, how: &'static str },
    /// A limit of the store has changed so that it cannot have what it needs.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// An earlier attempt goes on.
    #[error("processes {pids:?} of an earlier attempt could not be ended")]
    Unended { pids: Vec<u32> },
}

/// Says why a variable has no value, and what has to be written for it to have one.
fn missing(variable: &Variable) -> String {
    match variable {
        Variable::Output { step, key } => format!(
            "but step {step:?} has not written the output {key:?}; have it write a line \
             {key}=VALUE to the file $WINDLASS_OUTPUT, as in: echo \"{key}=$value\" >> \"$WINDLASS_OUTPUT\""
        ),
        _ => "which has no value here".to_owned(),
    }
}

impl From<MissingValue> for ResolveError {
    fn from(MissingValue { variable, .. }: MissingValue) -> Self {
        Self::Missing { variable }
    }
}

impl<'a> CommandResolver<'a> {
    /// Resolves the command of an attempt.
    pub(crate) fn attempt(self, grant: Grant) -> Result<CommandSpec, ResolveError> {
        let values = self.values(grant);
        values.order(&self.step(grant.work).execution.run)
    }

    /// Resolves the `finally` of a step.
    pub(crate) fn finally(
        self,
        grant: Grant,
        command: &Command,
    ) -> Result<CommandSpec, ResolveError> {
        self.values(grant).order(command)
    }

    /// Resolves the `when` of a step.
    pub(crate) fn when(self, grant: Grant, script: &Script) -> Result<ConditionSpec, ResolveError> {
        self.values(grant).condition(script, &[])
    }

    /// Resolves a guard of a step.
    pub(crate) fn guard(self, grant: Grant, guard: usize) -> Result<ConditionSpec, ResolveError> {
        let guard = &self.plan.guards[guard];
        let mut spec = self.values(grant).condition(&guard.condition, &guard.wake_on)?;
        spec.command.env.push(("WINDLASS_GUARD".to_owned(), guard.name.clone()));
        Ok(spec)
    }

    /// Resolves a hook; `about` are the variables that say why it is called.
    pub(crate) fn hook(
        self,
        command: &Command,
        about: &[(&str, &str)],
    ) -> Result<CommandSpec, ResolveError> {
        let values = Values { orders: self, step: None, attempt: 0 };
        let mut order = values.order(command)?;
        order.env.push((RUN_VARIABLE.to_owned(), self.run.to_owned()));
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        order.env.extend(about.iter().map(own));
        for (name, value) in about {
            size::check(value, || format!("${name}"))?;
        }
        Ok(order)
    }

    /// Returns the locks, the slots of semaphores and the limits of the store that an attempt needs.
    pub(crate) fn needs(self, grant: Grant) -> Result<Vec<Need>, ResolveError> {
        let locks = self.locks(grant)?.into_iter().map(Need::one);
        let slots = self.step(grant.work).needs.semaphores.iter().map(|slots| {
            let name = self.plan.semaphores[slots.semaphore].name.clone();
            Need { name: Name::Semaphore(name), weight: u64::from(slots.weight) }
        });
        let limits = self.step(grant.work).needs.limits().map(|(limit, amount)| Need {
            name: Name::Limit(limit.to_owned()),
            weight: amount.steps(),
        });
        Ok(locks.chain(slots).chain(limits).collect())
    }

    /// Returns each lock once, also if two of them resolve to the same name.
    fn locks(self, grant: Grant) -> Result<Vec<Name>, ResolveError> {
        let values = self.values(grant);
        let mut locks = Vec::new();
        for lock in self.step(grant.work).needs.locks.iter().map(|lock| values.fill(lock)) {
            let lock = Name::Lock(lock?);
            check_name(&lock)?;
            if !locks.contains(&lock) {
                locks.push(lock);
            }
        }
        Ok(locks)
    }

    fn step(self, work: WorkId) -> &'a Step {
        (self.steps)(work)
    }

    fn values(self, grant: Grant) -> Values<'a> {
        Values { orders: self, step: Some(self.step(grant.work)), attempt: grant.attempt }
    }
}

/// The values of variables for one attempt, or for a hook.
struct Values<'a> {
    orders: CommandResolver<'a>,
    /// None for a hook.
    step: Option<&'a Step>,
    attempt: u32,
}

impl Values<'_> {
    fn value(&self, variable: &Variable) -> Option<String> {
        let plan = self.orders.plan;
        match (variable, self.step) {
            (Variable::Run, _) => Some(self.orders.run.to_owned()),
            (Variable::Attempt, Some(_)) => Some(self.attempt.to_string()),
            (Variable::Workspace, _) => Some(self.dir().ok()?.display().to_string()),
            (Variable::Output { step, key }, _) => (self.orders.outputs)(step, key),
            (Variable::Param(name), _) => plan.params.get(name).cloned(),
            (Variable::Name, _) => Some(plan.name.clone()),
            (other, Some(step)) => plan.value(step, other),
            (_, None) => None,
        }
    }

    fn fill(&self, template: &Template) -> Result<String, ResolveError> {
        Ok(template.fill(|variable| self.value(variable))?)
    }

    /// Fills in a template whose text the system has to pass on. If it is too large, the error names the
    /// value that is, or what `called` says if none is by itself.
    fn checked(
        &self,
        template: &Template,
        called: impl FnOnce() -> String,
    ) -> Result<String, ResolveError> {
        let text = self.fill(template)?;
        if !size::fits(&text) {
            for variable in template.variables() {
                let value = self.value(variable).unwrap_or_default();
                size::check(&value, || format!("{{{variable}}}"))?;
            }
        }
        size::check(&text, called)?;
        Ok(text)
    }

    fn dir(&self) -> Result<PathBuf, ResolveError> {
        Ok(match self.step.and_then(|step| step.execution.dir.as_ref()) {
            Some(own) => self.orders.dir.join(self.fill(own)?),
            None => self.orders.dir.to_owned(),
        })
    }

    fn order(&self, command: &Command) -> Result<CommandSpec, ResolveError> {
        let (program, arguments) = self.command(command)?;
        // Arguments contain their values; only shell text reads them from the environment.
        let variables = match command {
            Command::Script(script) => script.text.variables().iter().collect(),
            Command::List(_) => Vec::new(),
        };
        let env = self.environment(&variables)?;
        Ok(CommandSpec { program, arguments, env, dir: self.dir()? })
    }

    fn condition(
        &self,
        script: &Script,
        wake_on: &[Template],
    ) -> Result<ConditionSpec, ResolveError> {
        let variables: Vec<_> = script.text.variables().iter().collect();
        let patterns = wake_on.iter().map(|pattern| Ok(self.fill(pattern)?.parse()?));
        let wake_on = patterns.collect::<Result<_, ResolveError>>()?;
        let mut env = self.environment(&variables)?;
        env.push((RUN_VARIABLE.to_owned(), self.orders.run.to_owned()));
        env.extend(self.step.map(|step| ("WINDLASS_STEP".to_owned(), step.name.clone())));
        let (program, arguments) = script_command(script);
        Ok(ConditionSpec {
            command: CommandSpec { program, arguments, env, dir: self.dir()? },
            wake_on,
        })
    }

    fn command(&self, command: &Command) -> Result<(String, Vec<String>), ResolveError> {
        match command {
            Command::Script(script) => {
                size::check(script.text.text(), || "its shell text".to_owned())?;
                Ok(script_command(script))
            }
            Command::List(list) => {
                let words: Result<Vec<_>, _> =
                    list.iter().map(|word| self.checked(word, || format!("`{word}`"))).collect();
                let mut words = words?.into_iter();
                let program = words.next().expect("a plan has no empty command");
                Ok((program, words.collect()))
            }
        }
    }

    /// Returns the variables of the step or the hook, those of the run, and the values to which a text
    /// refers.
    fn environment(&self, variables: &[&Variable]) -> Result<Vec<(String, String)>, ResolveError> {
        let state = self.orders.state.to_str();
        let state = state.map(|state| (STATE_VARIABLE.to_owned(), state.to_owned()));
        let mut env: Vec<_> = state.into_iter().collect();
        let of_step = self.step.into_iter().flat_map(|step| &step.execution.env);
        let of_step = of_step.map(|(name, value)| (name.as_str(), value));
        let of_hook = self.orders.plan.hook_env().filter(|_| self.step.is_none());
        for (name, value) in of_step.chain(of_hook) {
            env.push((name.to_owned(), self.checked(value, || format!("${name}"))?));
        }
        // A parameter that is too large fails only the steps that refer to it.
        for (name, value) in self.orders.plan.params.iter().filter(|(_, value)| size::fits(value)) {
            env.push((format!("WINDLASS_PARAM_{name}"), value.clone()));
        }
        for &variable in variables {
            let value = self.checked(&variable.clone().into(), || format!("{{{variable}}}"))?;
            env.push((variable.environment_name(), value));
        }
        Ok(env)
    }
}

/// Returns the program and the arguments that run a script.
pub(crate) fn script_command(script: &Script) -> (String, Vec<String>) {
    let mut arguments = script.shell.arguments.clone();
    arguments.push(script.text.text().to_owned());
    (script.shell.program.clone(), arguments)
}
