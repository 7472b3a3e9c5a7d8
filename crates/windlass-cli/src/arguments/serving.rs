//! The arguments of verbs for runs that a service leads.

use std::time::Duration;

use clap::Args;

use super::{RunArguments, duration};

#[derive(Args)]
pub(crate) struct SubmitArguments {
    #[command(flatten)]
    pub(crate) run: RunArguments,

    /// Pass this variable of the environment to the steps, besides PATH, HOME, USER, SHELL, LANG, LC_*, TZ and
    /// VIRTUAL_ENV
    #[arg(long = "env", value_name = "NAME")]
    pub(crate) env: Vec<String>,
}

#[derive(Args)]
pub(crate) struct ServeArguments {
    /// Start no worker; the steps wait for one that `windlass worker` starts
    #[arg(long, conflicts_with = "slots")]
    pub(crate) no_worker: bool,

    /// Execute at most N steps at once [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) slots: Option<u32>,

    /// Count the scheduler as dead after this long without a heartbeat
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "60s")]
    pub(crate) lease: Duration,

    /// End after this long without a run
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) idle: Option<Duration>,

    /// Leave the session of the terminal, as a scheduler does that `run --detach` has started
    #[arg(long, hide = true)]
    pub(crate) own_session: bool,
}

#[derive(Args)]
pub(crate) struct WorkerArguments {
    /// The name of the worker; each worker of a store has its own [default: the name of the host]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Execute at most N steps at once [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) slots: Option<u32>,

    /// Count the worker as dead after this long without a heartbeat
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "60s")]
    pub(crate) lease: Duration,

    /// End after this long without steps and without a scheduler
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) idle: Option<Duration>,

    /// Leave the session of the terminal, as a worker does that `serve` has started
    #[arg(long, hide = true)]
    pub(crate) own_session: bool,
}
