//! The arguments of verbs for runs that a service leads.

use std::num::NonZero;
use std::thread;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use windlass_server::Amount;
use windlass_server::service::{Equipment, Supply};
use windlass_workflow::{format_size, parse_size};

use super::RunArguments;
use super::limits::size;
use super::values::{duration, slots};
use crate::completions;

/// The least number of bytes of a log that a database keeps.
const LEAST_KEPT_LOG: u32 = 64 << 10;

#[derive(Args)]
pub(crate) struct SubmitArguments {
    #[command(flatten)]
    pub(crate) run: RunArguments,

    /// Pass this variable of the environment to the steps, besides PATH, HOME, USER, SHELL, LANG, LC_*, TZ and
    /// VIRTUAL_ENV
    #[arg(long = "env", value_name = "NAME", value_parser = variable)]
    pub(crate) env: Vec<String>,

    /// Accept steps that no worker could ever execute; they wait until one joins that can
    #[arg(long)]
    pub(crate) wait_for_workers: bool,
}

#[derive(Args)]
pub(crate) struct ServeArguments {
    /// Start no worker; the steps wait for one that `windlass worker` starts
    #[arg(long, conflicts_with_all = ["slots", "resources", "items", "labels", "kept_log"])]
    pub(crate) no_worker: bool,

    /// Print systemd user units for a scheduler and a worker, or one of them, and start nothing
    #[arg(
        long,
        value_name = "NAME",
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "both",
        conflicts_with = "no_worker"
    )]
    pub(crate) unit: Option<Unit>,

    #[command(flatten)]
    pub(crate) service: ServiceArguments,
}

/// The systemd units to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Unit {
    Scheduler,
    Worker,
    #[value(hide = true)]
    Both,
}

#[derive(Args)]
pub(crate) struct WorkerArguments {
    /// The name of the worker; each worker of a store has its own [default: the name of the host]
    #[arg(long, value_name = "NAME", add = completions::workers())]
    pub(crate) name: Option<String>,

    /// Guard the worker that has started this process
    #[arg(long, hide = true)]
    pub(crate) guardian: bool,

    #[command(flatten)]
    pub(crate) service: ServiceArguments,
}

/// What to do with workers.
#[derive(Subcommand)]
pub(crate) enum WorkersVerb {
    /// List the workers
    List,
    /// Have workers take no new steps, and leave when those that they execute have ended
    Drain {
        /// The names of the workers
        #[arg(required = true, value_name = "NAME", add = completions::workers())]
        names: Vec<String>,
    },
    /// Have workers take no new steps, and stay
    Cordon {
        /// The names of the workers
        #[arg(required = true, value_name = "NAME", add = completions::workers())]
        names: Vec<String>,
    },
    /// Let workers take steps again
    Uncordon {
        /// The names of the workers
        #[arg(required = true, value_name = "NAME", add = completions::workers())]
        names: Vec<String>,
    },
}

/// What schedulers and workers have in common.
#[derive(Args)]
pub(crate) struct ServiceArguments {
    /// Execute at most N steps at once [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = slots)]
    pub(crate) slots: Option<u32>,

    /// Let the worker's steps share this much of a resource: use = { "worker.NAME" = 1 } takes of it
    #[arg(long = "resource", value_name = "NAME=AMOUNT", value_parser = resource)]
    resources: Vec<(String, Amount)>,

    /// Let each of the worker's steps have items of a resource of its own, named in $WINDLASS_WORKER_NAME
    #[arg(long = "items", value_name = "NAME=ITEM,…", value_parser = items)]
    items: Vec<(String, Vec<String>)>,

    /// Give the worker a label: on = { KEY = "VALUE" } sends a step to a worker that has it
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label, add = completions::labels())]
    labels: Vec<(String, String)>,

    /// Keep the first and the last half of this much of each log in the database of the store
    #[arg(long, value_name = "SIZE", value_parser = kept_log, default_value = "16M")]
    kept_log: Amount,

    /// Count this process as dead after this long without a heartbeat
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "60s")]
    pub(crate) lease: Duration,

    /// End after this long with nothing to do
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) idle: Option<Duration>,

    /// Leave the session of the terminal
    #[arg(long, hide = true)]
    pub(crate) own_session: bool,
}

impl ServiceArguments {
    /// Returns what the worker has besides slots.
    pub(crate) fn equipment(&self) -> Equipment {
        let amounts = self.resources.iter();
        let amounts = amounts.map(|(name, amount)| (name.clone(), Supply::Steps(amount.steps())));
        let items = self.items.iter();
        let items = items.map(|(name, items)| (name.clone(), Supply::Items(items.clone())));
        let mut equipment = Equipment::default();
        equipment.resources.extend(amounts.chain(items));
        equipment.labels.extend(self.labels.iter().cloned());
        equipment
    }

    /// Returns the arguments that give a worker the same equipment and kept logs.
    pub(crate) fn worker_arguments(&self) -> Vec<String> {
        let resources = self.resources.iter();
        let resources = resources.map(|(name, amount)| format!("--resource={name}={amount}"));
        let items = self.items.iter();
        let items = items.map(|(name, items)| format!("--items={name}={}", items.join(",")));
        let labels = self.labels.iter().map(|(key, value)| format!("--label={key}={value}"));
        let kept_log = format!("--kept-log={}", format_size(self.kept_log));
        resources.chain(items).chain(labels).chain([kept_log]).collect()
    }

    /// Returns how many bytes of each log the database keeps.
    pub(crate) fn kept_log_bytes(&self) -> u64 {
        self.kept_log.steps() / Amount::ONE.steps()
    }

    pub(crate) fn slots(&self) -> u32 {
        let cpus = || thread::available_parallelism().map_or(1, NonZero::get);
        self.slots.unwrap_or_else(|| u32::try_from(cpus()).unwrap_or(u32::MAX))
    }

    /// Leaves the session of the terminal, if that was asked for.
    pub(crate) fn leave_session(&self) {
        if self.own_session {
            // It fails for a process that leads a group, which has a session of its own then.
            let _ = rustix::process::setsid();
        }
    }
}

/// Reads how much a worker has of a resource.
fn resource(text: &str) -> Result<(String, Amount), String> {
    let (name, amount) = text.split_once('=').ok_or("write it as NAME=AMOUNT, such as gpu=4")?;
    Ok((resource_name(name)?, size(amount)?))
}

/// Reads the items that a worker has of a resource.
fn items(text: &str) -> Result<(String, Vec<String>), String> {
    let (name, items) = text.split_once('=').ok_or("write it as NAME=ITEM,…, such as gpu=0,1")?;
    let items: Vec<_> = items.split(',').map(str::to_owned).collect();
    if items.iter().any(String::is_empty) {
        return Err("an item is empty; write them as in gpu=0,1".to_owned());
    }
    if let Some(twice) = items.iter().enumerate().find(|(at, item)| items[..*at].contains(item)) {
        return Err(format!("the item {} is there twice", twice.1));
    }
    Ok((resource_name(name)?, items))
}

/// Reads the name of a worker's resource, with or without `worker.`.
fn resource_name(text: &str) -> Result<String, String> {
    let name = text.strip_prefix("worker.").unwrap_or(text);
    match name {
        "slots" => Err("how many steps the worker executes at once is --slots".to_owned()),
        name if is_plain(name) => Ok(name.to_owned()),
        _ => Err("a name has letters, digits, dots, dashes and underscores".to_owned()),
    }
}

/// Reads a label of a worker.
fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if is_plain(key) && !value.is_empty() => {
            Ok((key.to_owned(), value.to_owned()))
        }
        _ => Err("write it as KEY=VALUE, such as zone=a".to_owned()),
    }
}

fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
    name.starts_with(char::is_alphanumeric) && name.chars().all(plain)
}

/// Reads the name of an environment variable.
pub(super) fn variable(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        None if text.starts_with("WINDLASS_") => {
            Err("windlass sets the variables that begin with WINDLASS_".to_owned())
        }
        None if !text.is_empty() => Ok(text.to_owned()),
        Some((name, _)) if !name.is_empty() => {
            Err(format!("write only the name, {name}: the value comes from the environment"))
        }
        _ => Err("write the name of a variable".to_owned()),
    }
}

/// Reads how much of a log is kept.
fn kept_log(text: &str) -> Result<Amount, String> {
    let kept = parse_size(text).map_err(|error| error.to_string())?;
    match kept >= Amount::from(LEAST_KEPT_LOG) {
        true => Ok(kept),
        false => Err("at least 64K are kept".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Command, FromArgMatches};

    use super::*;

    fn read(arguments: &[String]) -> ServiceArguments {
        let command = ServiceArguments::augment_args(Command::new("serve").no_binary_name(true));
        let matches = command.try_get_matches_from(arguments).expect("they are right");
        ServiceArguments::from_arg_matches(&matches).expect("they are right")
    }

    #[test]
    fn a_worker_gets_what_the_scheduler_that_starts_it_was_given() {
        for given in [
            "",
            "--resource gpu=1.5 --items worker.board=a,b --label zone=a=b --kept-log 100K",
            "--resource ram=64G --kept-log 65537",
        ] {
            let given: Vec<_> = given.split_whitespace().map(str::to_owned).collect();
            let first = read(&given);
            let second = read(&first.worker_arguments());
            assert_eq!(first.equipment(), second.equipment(), "{given:?}");
            assert_eq!(first.kept_log_bytes(), second.kept_log_bytes(), "{given:?}");
        }
        assert_eq!(read(&["--kept-log=100K".to_owned()]).kept_log_bytes(), 100 << 10);
    }
}
