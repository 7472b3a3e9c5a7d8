//! The arguments of verbs for runs that a service leads.

use std::num::NonZero;
use std::thread;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::RunArguments;
use super::values::{duration, slots};

#[derive(Args)]
pub(crate) struct SubmitArguments {
    #[command(flatten)]
    pub(crate) run: RunArguments,

    /// Pass this variable of the environment to the steps, besides PATH, HOME, USER, SHELL, LANG, LC_*, TZ and
    /// VIRTUAL_ENV
    #[arg(long = "env", value_name = "NAME", value_parser = variable)]
    pub(crate) env: Vec<String>,
}

#[derive(Args)]
pub(crate) struct ServeArguments {
    /// Start no worker; the steps wait for one that `windlass worker` starts
    #[arg(long, conflicts_with = "slots")]
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
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Guard the worker that has started this process
    #[arg(long, hide = true)]
    pub(crate) guardian: bool,

    #[command(flatten)]
    pub(crate) service: ServiceArguments,
}

/// What schedulers and workers have in common.
#[derive(Args)]
pub(crate) struct ServiceArguments {
    /// Execute at most N steps at once [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = slots)]
    pub(crate) slots: Option<u32>,

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
