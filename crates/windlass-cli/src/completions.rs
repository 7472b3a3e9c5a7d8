//! `windlass completions`: scripts for shells, and completions of runs and steps from the store.
//!
//! The shell calls the command with a variable set, so completions always match the installed binary.

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::ffi::OsStr;
use std::path::PathBuf;

use clap::CommandFactory;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{Bash, CompleteEnv, EnvCompleter, Fish, Zsh};
use windlass_server::service::{SeenWorker, workers as all_workers};
use windlass_server::{LimitKind, RunView, run_names, some_of};

use crate::arguments::{Arguments, Shell};
use crate::exit::Exit;
use crate::limits::amount_text;
use crate::output::print;
use crate::state;

/// The variable that names the shell which asks for completions.
const VARIABLE: &str = "WINDLASS_COMPLETE";
/// The maximum number of runs to offer.
const OFFERED: usize = 50;
/// How many of the workers with a label are named.
const FEW: usize = 3;

pub(crate) fn completions(shell: Shell) -> Result<Exit, Box<dyn Error>> {
    let completer: &dyn EnvCompleter = match shell {
        Shell::Bash => &Bash,
        Shell::Zsh => &Zsh,
        Shell::Fish => &Fish,
    };
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, "windlass", "windlass", "windlass", &mut script)?;
    print(&String::from_utf8_lossy(&script));
    Ok(Exit::Success)
}

/// Prints completions and exits, if a shell asks for them.
pub(crate) fn answer_shell() {
    if env::var_os(VARIABLE).is_some() {
        CompleteEnv::with_factory(Arguments::command).var(VARIABLE).complete();
    }
}

/// Offers runs.
pub(crate) fn runs() -> ArgValueCompleter {
    ArgValueCompleter::new(|word: &OsStr| offer_runs(word, "").unwrap_or_default())
}

/// Offers runs, and `RUN/STEP` once there is a slash.
pub(crate) fn runs_and_steps() -> ArgValueCompleter {
    ArgValueCompleter::new(|word: &OsStr| offer_targets(word, ""))
}

/// Offers the limits of the store.
pub(crate) fn limits() -> ArgValueCompleter {
    ArgValueCompleter::new(|word: &OsStr| offer_limits(word).unwrap_or_default())
}

/// Offers the workers of the store.
pub(crate) fn workers() -> ArgValueCompleter {
    ArgValueCompleter::new(|word: &OsStr| offer_workers(word).unwrap_or_default())
}

/// Offers the labels that workers of the store have.
pub(crate) fn labels() -> ArgValueCompleter {
    ArgValueCompleter::new(|word: &OsStr| offer_labels(word).unwrap_or_default())
}

/// Offers `RUN/STEP`.
pub(crate) fn steps() -> ArgValueCompleter {
    ArgValueCompleter::new(|word: &OsStr| offer_targets(word, "/"))
}

/// Offers runs followed by `end`, or the steps of a run. A shell cannot show an error here, so an error
/// offers nothing.
fn offer_targets(word: &OsStr, end: &str) -> Vec<CompletionCandidate> {
    let offered = match word.to_str().and_then(|word| word.split_once('/')) {
        Some((run, step)) => offer_steps(run, step),
        None => offer_runs(word, end),
    };
    offered.unwrap_or_default()
}

fn offer_runs(word: &OsStr, end: &str) -> Result<Vec<CompletionCandidate>, Box<dyn Error>> {
    let word = word.to_str().unwrap_or_default();
    let mut store = state::existing(asked_state().as_deref())?;
    let runs = run_names(&mut store, OFFERED)?.into_iter();
    let all = [("last".to_owned(), "the newest run".to_owned())].into_iter().chain(runs);
    Ok(all
        .filter(|(id, _)| id.starts_with(word))
        .map(|(id, workflow)| CompletionCandidate::new(id + end).help(Some(workflow.into())))
        .collect())
}

fn offer_limits(word: &OsStr) -> Result<Vec<CompletionCandidate>, Box<dyn Error>> {
    let word = word.to_str().unwrap_or_default();
    let mut store = state::existing(asked_state().as_deref())?;
    let limits = store.read(|transaction| transaction.limits().all())?;
    let fitting = limits.into_iter().filter(|(name, _)| name.starts_with(word));
    let offer = |(name, kind): (String, LimitKind)| {
        CompletionCandidate::new(name).help(Some(amount_text(kind.amount()).into()))
    };
    Ok(fitting.map(offer).collect())
}

fn offer_workers(word: &OsStr) -> Result<Vec<CompletionCandidate>, Box<dyn Error>> {
    let word = word.to_str().unwrap_or_default();
    let mut store = state::existing(asked_state().as_deref())?;
    let workers = all_workers(&mut store)?.into_iter();
    let offer = |seen: SeenWorker| {
        let help = format!("{}, {}", seen.word(), seen.about.machine);
        CompletionCandidate::new(seen.worker.life.worker).help(Some(help.into()))
    };
    Ok(workers.filter(|seen| seen.worker.life.worker.starts_with(word)).map(offer).collect())
}

fn offer_labels(word: &OsStr) -> Result<Vec<CompletionCandidate>, Box<dyn Error>> {
    let word = word.to_str().unwrap_or_default();
    let mut store = state::existing(asked_state().as_deref())?;
    let mut labels: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for seen in all_workers(&mut store)? {
        for (key, value) in &seen.equipment.labels {
            let workers = labels.entry(format!("{key}={value}")).or_default();
            workers.push(seen.worker.life.worker.clone());
        }
    }
    let fitting = labels.into_iter().filter(|(label, _)| label.starts_with(word));
    let offer = |(label, workers): (String, Vec<String>)| {
        CompletionCandidate::new(label)
            .help(Some(some_of(workers.iter().map(String::as_str), FEW).into()))
    };
    Ok(fitting.map(offer).collect())
}

fn offer_steps(run: &str, word: &str) -> Result<Vec<CompletionCandidate>, Box<dyn Error>> {
    let mut store = state::existing(asked_state().as_deref())?;
    let view = RunView::find(&mut store, run)?;
    let mut groups: BTreeMap<&str, usize> = BTreeMap::new();
    for step in view.steps.iter().filter(|step| step.declared != step.name) {
        *groups.entry(&step.declared).or_default() += 1;
    }
    let groups = groups.into_iter().map(|(name, count)| (name, format!("{count} steps")));
    let steps = view.steps.iter().map(|step| (step.name.as_str(), step.state.word().to_owned()));
    let offer = |(name, help): (&str, String)| {
        CompletionCandidate::new(format!("{run}/{name}")).help(Some(help.into()))
    };
    Ok(groups.chain(steps).filter(|(name, _)| name.starts_with(word)).map(offer).collect())
}

/// Returns the state directory that the command line names.
fn asked_state() -> Option<PathBuf> {
    let mut words = env::args_os();
    while let Some(word) = words.next() {
        if word == "--system" {
            return Some(PathBuf::from(state::SYSTEM));
        }
        if word == "--state" {
            return words.next().map(PathBuf::from);
        }
        if let Some(dir) = word.to_str().and_then(|word| word.strip_prefix("--state=")) {
            return Some(PathBuf::from(dir));
        }
    }
    env::var_os("WINDLASS_STATE").filter(|dir| !dir.is_empty()).map(PathBuf::from)
}
