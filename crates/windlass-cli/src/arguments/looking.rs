//! What the verbs that look at runs, and forget them, can be asked for.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::duration;
use crate::completions;

#[derive(Args)]
pub(crate) struct HistoryArguments {
    /// Only runs of this workflow
    pub(crate) workflow: Option<String>,

    /// How many runs
    #[arg(short = 'n', long = "number", default_value_t = 20)]
    pub(crate) number: usize,
}

#[derive(Args)]
pub(crate) struct ShowArguments {
    /// The run: its id, the beginning of it, or `last`; behind a slash, only this step or group
    #[arg(
        value_name = "RUN[/STEP]",
        value_parser = StepTarget::read,
        default_value = "last",
        add = completions::runs_and_steps()
    )]
    pub(crate) target: StepTarget,

    /// Every step, also where there are many
    #[arg(short, long)]
    pub(crate) all: bool,

    /// Draw the timeline as a picture into this file as well
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct LogArguments {
    /// The run, or a step or group of steps of it, or one attempt of that
    #[arg(
        value_name = "RUN[/STEP[@ATTEMPT]]",
        value_parser = StepTarget::read,
        default_value = "last",
        add = completions::steps()
    )]
    pub(crate) target: StepTarget,

    /// Go on until the run or the step has ended
    #[arg(short, long)]
    pub(crate) follow: bool,
}

#[derive(Args)]
pub(crate) struct WhyArguments {
    /// The step or group of steps; of a run alone, all steps that wait
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
    /// Forget what ended longer ago than this [default: 30d, or no matter when with --keep]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) older_than: Option<Duration>,

    /// Forget all ended runs but the newest so many
    #[arg(long, value_name = "NUMBER")]
    pub(crate) keep: Option<usize>,

    /// Forget interrupted runs as well, which then cannot be resumed
    #[arg(long)]
    pub(crate) interrupted: bool,

    /// Only say what would be forgotten
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Args)]
pub(crate) struct ManArguments {
    /// Write a page for every verb into this directory
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
            _ => Err("write it as RUN or RUN/STEP, as in last or 3fa9c2d1/deploy".to_owned()),
        }
    }
}

/// A run; `tip` says what to do where a step was named as well.
pub(super) fn whole_run(text: &str, tip: impl Fn(&str, &str) -> String) -> Result<String, String> {
    match text.split_once('/') {
        Some((run, step)) => Err(tip(run, step)),
        None => Ok(text.to_owned()),
    }
}
