//! The arguments of verbs that show and delete runs.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::values::{duration, whole};
use crate::completions;

#[derive(Args)]
pub(crate) struct HistoryArguments {
    /// List only runs of this workflow
    pub(crate) workflow: Option<String>,

    /// List at most this many runs
    #[arg(short = 'n', long = "number", default_value_t = 20, value_parser = whole::<usize>)]
    pub(crate) number: usize,
}

#[derive(Args)]
pub(crate) struct ShowArguments {
    /// The run (its id, the first characters of it, or `last`), or one of its steps or groups of steps
    #[arg(
        value_name = "RUN[/STEP]",
        value_parser = StepTarget::read,
        default_value = "last",
        add = completions::runs_and_steps()
    )]
    pub(crate) target: StepTarget,

    /// Show all steps, even if there are many
    #[arg(short, long)]
    pub(crate) all: bool,

    /// Also write the timeline to this file, as a picture
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct LogArguments {
    /// The run, one of its steps or groups of steps, or one attempt of a step
    #[arg(
        value_name = "RUN[/STEP[@ATTEMPT]]",
        value_parser = StepTarget::read,
        default_value = "last",
        add = completions::steps()
    )]
    pub(crate) target: StepTarget,

    /// Print new output until the run or step has ended
    #[arg(short, long)]
    pub(crate) follow: bool,

    /// Print only what is in files of this machine, also where the store keeps logs in a database
    #[arg(long)]
    pub(crate) local: bool,
}

#[derive(Args)]
pub(crate) struct WhyArguments {
    /// The step or group of steps, or a run for all its steps that wait
    #[arg(
        value_name = "RUN[/STEP]",
        value_parser = StepTarget::read,
        default_value = "last",
        add = completions::steps()
    )]
    pub(crate) target: StepTarget,
}

#[derive(Args)]
pub(crate) struct PruneArguments {
    /// Delete what ended longer ago than this [default: 30d; with --keep, any age]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) older_than: Option<Duration>,

    /// Delete all finished runs except the N most recent
    #[arg(long, value_name = "N", value_parser = whole::<usize>)]
    pub(crate) keep: Option<usize>,

    /// Delete interrupted runs as well; they cannot be resumed afterwards
    #[arg(long)]
    pub(crate) interrupted: bool,

    /// Only list what would be deleted
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Args)]
pub(crate) struct ManArguments {
    /// Write the pages of all verbs to this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// A shell that can complete words.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// A run, or a step or a group of steps of it: `RUN`, `RUN/STEP`.
#[derive(Clone, Debug)]
pub(crate) struct StepTarget {
    pub(crate) run: String,
    pub(crate) step: Option<String>,
}

impl StepTarget {
    pub(super) fn read(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            None => Ok(Self { run: text.to_owned(), step: None }),
            Some((run, step)) if !run.is_empty() && !step.is_empty() => {
                Ok(Self { run: run.to_owned(), step: Some(step.to_owned()) })
            }
            _ => Err("write RUN or RUN/STEP, such as last or 3fa9c2d1/deploy".to_owned()),
        }
    }
}

/// Returns the run that `text` names. `tip` says what to do if it names a step.
pub(super) fn whole_run(text: &str, tip: impl Fn(&str, &str) -> String) -> Result<String, String> {
    match text.split_once('/') {
        Some((run, step)) => Err(tip(run, step)),
        None => Ok(text.to_owned()),
    }
}
