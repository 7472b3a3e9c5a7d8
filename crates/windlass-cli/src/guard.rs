//! `windlass guard`: checks a guard without a run, and waits for it.

mod hook;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::time::Duration;

use serde::Serialize;
use thiserror::Error as ThisError;
use windlass_server::{GuardEnd, GuardNews, Inherited, UsedUp, Watch, fits, watch};
use windlass_workflow::{Command, Guard, Plan, Template, Variable};

use crate::arguments::Form;
use crate::exit::Exit;
use crate::output::{json, print};
use crate::state;
use crate::workflow_file::WorkflowFile;

/// Why a guard cannot be checked without a step.
#[derive(Debug, ThisError)]
pub(crate) enum LoneGuardError {
    #[error("{file} has no guard {name:?}{hint}")]
    Unknown { file: String, name: String, hint: String },
    #[error("guard {guard:?} uses {{{variable}}}, which has a value only in a step of a run")]
    Unfilled { guard: String, variable: String },
}

pub(crate) fn guard(
    state: Option<&Path>,
    path: &Path,
    name: &str,
    params: &[(String, String)],
    wait: Option<Duration>,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    let Some(file) = WorkflowFile::open(path, form)? else {
        return Ok(Exit::Usage);
    };
    let params = params.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let plan = file.workflow.bind(params)?;
    let (guard, dir) = (find(&plan, name, &file)?, file.dir()?);
    let alone = LoneGuard { plan: &plan, guard, dir, wait };
    let (env, wake_on) = (alone.env()?, alone.wake_on()?);
    let target = format!("guard/{name}");
    let order = Watch { guard: alone.guard, env: &env, wake_on: &wake_on, dir: &alone.dir, wait };
    let store = state::open(state)?;
    let escalation = Escalation { env: &env, inherited: Inherited::without_password_of(&store)? };
    let end = watch(store, &order, |news| alone.report(news, &target, &escalation))?;
    Ok(alone.end(&end, form))
}

fn find<'a>(plan: &'a Plan, name: &str, file: &WorkflowFile) -> Result<&'a Guard, LoneGuardError> {
    plan.guards.iter().find(|guard| guard.name == name).ok_or_else(|| {
        let known: Vec<_> = plan.guards.iter().map(|guard| guard.name.as_str()).collect();
        let hint = match known.as_slice() {
            [] => "; it has none".to_owned(),
            known => format!("; it has {}", known.join(", ")),
        };
        LoneGuardError::Unknown { file: file.called(), name: name.to_owned(), hint }
    })
}

/// The environment of the hook that is called when a guard has used up its time.
struct Escalation<'a> {
    env: &'a [(String, String)],
    inherited: Inherited,
}

/// A guard without a step.
struct LoneGuard<'a> {
    plan: &'a Plan,
    guard: &'a Guard,
    dir: PathBuf,
    wait: Option<Duration>,
}

impl LoneGuard<'_> {
    fn value(&self, variable: &Variable) -> Option<String> {
        match variable {
            Variable::Param(name) => self.plan.params.get(name).cloned(),
            Variable::Name => Some(self.plan.name.clone()),
            Variable::Workspace => Some(self.dir.display().to_string()),
            _ => None,
        }
    }

    fn fill(&self, template: &Template) -> Result<String, LoneGuardError> {
        template.fill(|variable| self.value(variable)).map_err(|unfilled| {
            let (guard, variable) = (self.guard.name.clone(), unfilled.variable.to_string());
            LoneGuardError::Unfilled { guard, variable }
        })
    }

    /// Returns the environment of the guard's commands, with the values that its texts refer to.
    fn env(&self) -> Result<Vec<(String, String)>, LoneGuardError> {
        let mut env = vec![("WINDLASS_GUARD".to_owned(), self.guard.name.clone())];
        for (name, value) in self.plan.hook_env() {
            // A variable that needs the id of a run has no value here.
            env.extend(self.fill(value).ok().map(|value| (name.to_owned(), value)));
        }
        for (name, value) in self.plan.params.iter().filter(|(_, value)| fits(value)) {
            env.push((format!("WINDLASS_PARAM_{name}"), value.clone()));
        }
        let hook = self.plan.hooks.escalate.iter().flat_map(Command::variables);
        for variable in self.guard.condition.text.variables().iter().chain(hook) {
            let value = self.fill(&Template::from(variable.clone()))?;
            env.push((variable.environment_name(), value));
        }
        Ok(env)
    }

    fn wake_on(&self) -> Result<Vec<String>, LoneGuardError> {
        self.guard.wake_on.iter().map(|pattern| self.fill(pattern)).collect()
    }

    fn report(&self, news: GuardNews<'_>, target: &str, escalation: &Escalation<'_>) {
        let name = &self.guard.name;
        match news {
            // The end reports the only check.
            GuardNews::NotYet(_) if self.checks_once() => {}
            GuardNews::NotYet(why) => eprintln!("{name}: not yet: {why}"),
            GuardNews::Blocked(used_up) => eprintln!("{name}: {used_up}; still checking"),
            GuardNews::Escalated(used_up) => {
                eprintln!(
                    "{name}: {used_up}; decide with: windlass approve {target}, or windlass reject {target}"
                );
                self.escalate(escalation);
            }
            _ => {}
        }
    }

    fn checks_once(&self) -> bool {
        self.wait == Some(Duration::ZERO)
    }

    /// Runs the hook `on.escalate`. Its result does not change the wait.
    fn escalate(&self, escalation: &Escalation<'_>) {
        let Some(hook) = &self.plan.hooks.escalate else { return };
        let mut words = match hook {
            Command::Script(script) => {
                let mut words = vec![script.shell.program.clone()];
                words.extend(script.shell.arguments.iter().cloned());
                words.push(script.text.text().to_owned());
                words.into_iter()
            }
            Command::List(list) => {
                let words: Result<Vec<_>, _> = list.iter().map(|word| self.fill(word)).collect();
                words.unwrap_or_default().into_iter()
            }
        };
        let Some(program) = words.next() else { return };
        let mut command = Process::new(program);
        escalation.inherited.give_to(&mut command);
        command.args(words).current_dir(&self.dir);
        command.envs(escalation.env.iter().map(|(name, value)| (name, value)));
        if let Some(why) = hook::run(&mut command, self.plan.hooks.limit()) {
            eprintln!("on.escalate: {why}");
        }
    }

    fn end(&self, end: &GuardEnd, form: Form) -> Exit {
        let (word, why, exit) = match end {
            GuardEnd::Passed => ("passed", None, Exit::Success),
            GuardEnd::Approved => ("approved", None, Exit::Success),
            GuardEnd::Rejected => ("rejected", None, Exit::Failed),
            GuardEnd::TimedOut(used_up @ UsedUp::Time(_)) => {
                ("timed out", Some(used_up.to_string()), Exit::TimedOut)
            }
            GuardEnd::TimedOut(used_up) => {
                ("not passed", Some(used_up.to_string()), Exit::TimedOut)
            }
            GuardEnd::NotYet(why) => {
                ("not yet", why.as_ref().map(ToString::to_string), Exit::NotAcquired)
            }
            GuardEnd::Broken(broken) => {
                ("broken", Some(broken.to_string()), Exit::Command(broken.code))
            }
            _ => ("ended", None, Exit::Failed),
        };
        let name = self.guard.name.as_str();
        match form {
            Form::Json => {
                print(&json("guard", &GuardJson { name, result: word, why }));
            }
            Form::Text => match why {
                // The last check has printed the reason.
                Some(_) if exit == Exit::NotAcquired && !self.checks_once() => {
                    eprintln!("{name}: {word}, and the wait is over");
                }
                // The reason says how the guard ended.
                Some(why) if exit == Exit::TimedOut => eprintln!("{name}: {why}"),
                Some(why) => eprintln!("{name}: {word}: {why}"),
                None => eprintln!("{name}: {word}"),
            },
        }
        exit
    }
}

#[derive(Serialize)]
struct GuardJson<'a> {
    name: &'a str,
    result: &'static str,
    why: Option<String>,
}
