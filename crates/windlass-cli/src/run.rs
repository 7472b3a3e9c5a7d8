//! `windlass run` and `windlass resume`: what is shown of a run.

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;
use windlass_server::{
    Ask, Change, Coordinator, End, RunError, RunRecord, Update, WorkState, ask, check_step,
};

use crate::arguments::Form;
use crate::exit::Exit;
use crate::state;
use crate::step_log::show_log;
use crate::workflow_file::WorkflowFile;

/// What `run` was asked for.
pub(crate) struct RunArguments<'a> {
    pub(crate) file: &'a Path,
    pub(crate) steps: &'a [String],
    pub(crate) params: &'a [(String, String)],
    pub(crate) jobs: Option<u32>,
}

pub(crate) fn run(
    state: Option<&Path>,
    arguments: &RunArguments<'_>,
    json: bool,
) -> Result<Exit, Box<dyn Error>> {
    let Some(WorkflowFile { name, text, .. }) =
        WorkflowFile::open(arguments.file, Form::from(json))?
    else {
        return Ok(Exit::Usage);
    };
    let order = RunRecord {
        file: name,
        text,
        dir: working_dir(arguments.file)?,
        params: arguments.params.iter().cloned().collect(),
        steps: arguments.steps.to_vec(),
        jobs: arguments.jobs,
        ..RunRecord::default()
    };
    let coordinator = Coordinator::submit(state::open(state)?, order)?;
    lead(coordinator, "run", json)
}

pub(crate) fn resume(state: Option<&Path>, run: &str, json: bool) -> Result<Exit, Box<dyn Error>> {
    match Coordinator::resume(state::open(state)?, run) {
        Err(RunError::Over { run, outcome }) => {
            eprintln!("run {run} has ended: {}", outcome.word());
            Ok(outcome.into())
        }
        coordinator => lead(coordinator?, "resumed run", json),
    }
}

pub(crate) fn retry(
    state: Option<&Path>,
    run: &str,
    steps: &[String],
    json: bool,
) -> Result<Exit, Box<dyn Error>> {
    let coordinator = Coordinator::retry(state::open(state)?, run, steps)?;
    lead(coordinator, "retried run", json)
}

/// Asks the process that leads the run to end it; ends it here if there is none.
pub(crate) fn cancel(
    state: Option<&Path>,
    target: &str,
    json: bool,
) -> Result<Exit, Box<dyn Error>> {
    let (run, step) = match target.split_once('/') {
        Some((run, step)) => (run, Some(step)),
        None => (target, None),
    };
    let mut store = state::open(state)?;
    let found = store.run(run)?;
    match Coordinator::cancel(store, &found.id, step) {
        Ok(coordinator) => lead(coordinator, "cancelling run", json).map(|_| Exit::Success),
        Err(RunError::Led { .. }) => {
            let mut store = state::open(state)?;
            check_step(&found, step)?;
            ask(&mut store, &found.id, &Ask::Cancel(step.map(str::to_owned)))?;
            eprintln!("asked run {} to end {}", found.id, step.unwrap_or("everything"));
            Ok(Exit::Success)
        }
        Err(error) => Err(error.into()),
    }
}

/// Steps run beside their workflow file, wherever the command was called.
fn working_dir(file: &Path) -> io::Result<PathBuf> {
    let beside = file.parent().filter(|dir| !dir.as_os_str().is_empty());
    fs::canonicalize(beside.unwrap_or(Path::new(".")))
}

fn lead(coordinator: Coordinator, verb: &str, json: bool) -> Result<Exit, Box<dyn Error>> {
    let (id, steps) = (coordinator.run_id().to_owned(), coordinator.steps());
    let began = Instant::now();
    eprintln!("{verb} {id}: {steps} {}", if steps == 1 { "step" } else { "steps" });
    let end = coordinator.lead(|update| {
        let shown = if json { tell_json(&id, update) } else { tell(update) };
        // A closed pipe must not end the run; its exit code still tells how it went.
        let _ = shown;
    });
    let end =
        end.inspect_err(|_| eprintln!("run {id} stopped; go on with: windlass resume {id}"))?;
    let took = began.elapsed().as_secs_f64();
    Ok(match end {
        End::Succeeded => {
            eprintln!("run {id} succeeded in {took:.1} s");
            Exit::Success
        }
        End::Failed => {
            eprintln!("run {id} failed after {took:.1} s");
            Exit::Failed
        }
        End::TooLate => {
            eprintln!("run {id} did not end well before its deadline; it took {took:.1} s");
            Exit::TimedOut
        }
        End::Cancelled => {
            eprintln!("run {id} was cancelled after {took:.1} s");
            Exit::Cancelled
        }
        End::Left => {
            eprintln!("run {id} can go on with: windlass resume {id}");
            Exit::Success
        }
        End::Interrupted { signal } => {
            eprintln!("run {id} was interrupted; go on with: windlass resume {id}");
            Exit::Signal(signal)
        }
    })
}

fn tell(update: &Update<'_>) -> io::Result<()> {
    match update {
        Update::Changed(change) => show(change),
        Update::Waits { step, what, .. } => {
            eprintln!("{step}: waits for {what}");
            Ok(())
        }
        Update::Notice(what) => {
            eprintln!("{what}");
            Ok(())
        }
        _ => Ok(()),
    }
}

fn show(change: &Change<'_>) -> io::Result<()> {
    let Change { step, attempt, .. } = change;
    let again = if *attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
    let word = match change.state {
        WorkState::Running => "started",
        WorkState::Pending => "will be tried again",
        WorkState::Success if change.skipped => "skipped",
        WorkState::Success => "succeeded",
        WorkState::Failed => "failed",
        WorkState::Blocked => "blocked",
        WorkState::Cancelled => "cancelled",
    };
    let why = change.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    eprintln!("{step}: {word}{again}{why}");
    let over = !matches!(change.state, WorkState::Running);
    match &change.log {
        Some(log) if over => show_log(step, log, &mut io::stdout().lock()),
        _ => Ok(()),
    }
}

#[derive(Serialize)]
struct StepEvent<'a> {
    schema: u32,
    event: &'static str,
    run: &'a str,
    step: &'a str,
    state: &'static str,
    attempt: u32,
    /// Milliseconds since 1970.
    at: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    skipped: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
}

fn tell_json(run: &str, update: &Update<'_>) -> io::Result<()> {
    match update {
        Update::Changed(change) => show_json(run, change),
        _ => Ok(()),
    }
}

fn show_json(run: &str, change: &Change<'_>) -> io::Result<()> {
    let event = StepEvent {
        schema: 1,
        event: "step",
        run,
        step: change.step,
        state: state_name(change.state),
        attempt: change.attempt,
        at: change.at_nanos / 1_000_000,
        skipped: change.skipped,
        why: change.why.as_deref(),
    };
    let mut stdout = io::stdout().lock();
    serde_json::to_writer(&mut stdout, &event)?;
    writeln!(stdout)
}

fn state_name(state: WorkState) -> &'static str {
    match state {
        WorkState::Pending => "pending",
        WorkState::Running => "running",
        WorkState::Success => "success",
        WorkState::Failed => "failed",
        WorkState::Blocked => "blocked",
        WorkState::Cancelled => "cancelled",
    }
}
