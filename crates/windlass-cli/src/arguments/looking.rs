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
    /// The run: its id, the beginning of it, or `last`
    #[arg(value_parser = run_to_show, add = completions::runs())]
    pub(crate) run: String,

    /// Every step, also where there are many
    #[arg(short, long)]
    pub(crate) all: bool,

    /// Draw the timeline as a picture into this file as well
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct LogArguments {
    /// The run, or a step of it, or one attempt of that
    #[arg(value_name = "RUN[/STEP[@ATTEMPT]]", add = completions::steps())]
    pub(crate) target: String,

    /// Go on until the run or the step has ended
    #[arg(short, long)]
    pub(crate) follow: bool,
}

#[derive(Args)]
pub(crate) struct WhyArguments {
    /// The step
    #[arg(value_name = "RUN/STEP", value_parser = step, add = completions::steps())]
    pub(crate) target: (String, String),
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

/// A run, which has no step behind it.
fn run_to_show(text: &str) -> Result<String, String> {
    // Only logs are told apart by attempts.
    let step = text.rsplit_once('@').map_or(text, |(step, _)| step);
    let tip = |_: &str, _: &str| {
        format!(
            "`show` takes a run; of a step tell `windlass why {step}` and `windlass log {text}`"
        )
    };
    whole_run(text, tip)
}

/// A run; the tip is for those who have named a step of it as well.
pub(super) fn whole_run(text: &str, tip: impl Fn(&str, &str) -> String) -> Result<String, String> {
    match text.split_once('/') {
        Some((run, step)) => Err(tip(run, step)),
        None => Ok(text.to_owned()),
    }
}

fn step(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((run, step)) if !run.is_empty() && !step.is_empty() => {
            Ok((run.to_owned(), step.to_owned()))
        }
        _ => Err("write it as RUN/STEP, as in 3fa9c2d1/deploy or last/deploy".to_owned()),
    }
}
