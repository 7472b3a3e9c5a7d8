//! What an attempt of a step is started with: its command and its environment, filled in.
//!
//! Values reach shell text only through the environment, so none of them can become a command.

use std::path::{Path, PathBuf};

use thiserror::Error;
use windlass_core::{Grant, Token};
use windlass_store::{Name, NameError, Need, check_name};
use windlass_workflow::{Command, Plan, Step, Template, Unfilled, Variable};

use crate::attempt::Order;

/// How to start the steps of one run.
#[derive(Clone, Copy)]
pub(crate) struct Orders<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) run: &'a str,
    pub(crate) dir: &'a Path,
    /// Tells what steps before have written.
    pub(crate) outputs: &'a dyn Fn(&str, &str) -> Option<String>,
}

/// Why an attempt of a step cannot be started.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Unready {
    /// It refers to what another step has not written.
    #[error("it needs {{{variable}}}, which no step has written")]
    Missing { variable: Variable },
    /// Its values do not make the name of a lock.
    #[error("its lock cannot be called so: {0}")]
    Lock(#[from] NameError),
}

impl From<Unfilled> for Unready {
    fn from(Unfilled { variable, .. }: Unfilled) -> Self {
        Self::Missing { variable }
    }
}

impl<'a> Orders<'a> {
    pub(crate) fn order(
        self,
        grant: Grant,
        log: &'a Path,
        tokens: &'a [Token],
    ) -> Result<Order<'a>, Unready> {
        let step = &self.plan.steps[grant.work.index()];
        let values = Values { orders: self, step, attempt: grant.attempt };
        let (program, arguments) = values.command()?;
        Ok(Order {
            program,
            arguments,
            env: values.environment()?,
            dir: values.dir()?,
            run: self.run,
            step: &step.name,
            log,
            grant,
            tokens,
        })
    }

    /// The locks and the slots of semaphores that an attempt needs.
    pub(crate) fn needs(self, grant: Grant) -> Result<Vec<Need>, Unready> {
        let locks = self.locks(grant)?.into_iter().map(Need::one);
        let slots = self.plan.steps[grant.work.index()].semaphores.iter().map(|slots| {
            let name = self.plan.semaphores[slots.semaphore].name.clone();
            Need { name: Name::Semaphore(name), weight: slots.weight }
        });
        Ok(locks.chain(slots).collect())
    }

    /// Each lock once, also if two of them come out the same.
    fn locks(self, grant: Grant) -> Result<Vec<Name>, Unready> {
        let step = &self.plan.steps[grant.work.index()];
        let values = Values { orders: self, step, attempt: grant.attempt };
        let mut locks = Vec::new();
        for lock in step.locks.iter().map(|lock| values.fill(lock)) {
            let lock = Name::Lock(lock?);
            check_name(&lock)?;
            if !locks.contains(&lock) {
                locks.push(lock);
            }
        }
        Ok(locks)
    }
}

/// What the variables of one attempt stand for.
struct Values<'a> {
    orders: Orders<'a>,
    step: &'a Step,
    attempt: u32,
}

impl Values<'_> {
    fn value(&self, variable: &Variable) -> Option<String> {
        match variable {
            Variable::Run => Some(self.orders.run.to_owned()),
            Variable::Attempt => Some(self.attempt.to_string()),
            Variable::Workspace => Some(self.dir().ok()?.display().to_string()),
            Variable::Output { step, key } => (self.orders.outputs)(step, key),
            other => self.orders.plan.value(self.step, other),
        }
    }

    fn fill(&self, template: &Template) -> Result<String, Unready> {
        Ok(template.fill(|variable| self.value(variable))?)
    }

    fn dir(&self) -> Result<PathBuf, Unready> {
        Ok(match &self.step.dir {
            Some(own) => self.orders.dir.join(self.fill(own)?),
            None => self.orders.dir.to_owned(),
        })
    }

    fn command(&self) -> Result<(String, Vec<String>), Unready> {
        match &self.step.run {
            Command::Script(script) => {
                let mut arguments = script.shell.arguments.clone();
                arguments.push(script.text.text().to_owned());
                Ok((script.shell.program.clone(), arguments))
            }
            Command::List(list) => {
                let words: Result<Vec<_>, _> = list.iter().map(|word| self.fill(word)).collect();
                let mut words = words?.into_iter();
                let program = words.next().expect("a plan has no empty command");
                Ok((program, words.collect()))
            }
        }
    }

    fn environment(&self) -> Result<Vec<(String, String)>, Unready> {
        let mut env = Vec::new();
        for (name, value) in &self.step.env {
            env.push((name.clone(), self.fill(value)?));
        }
        for (name, value) in &self.orders.plan.params {
            env.push((format!("WINDLASS_PARAM_{name}"), value.clone()));
        }
        if let Command::Script(script) = &self.step.run {
            for variable in script.text.variables() {
                let value = self.fill(&Template::from(variable.clone()))?;
                env.push((variable.environment_name(), value));
            }
        }
        Ok(env)
    }
}
