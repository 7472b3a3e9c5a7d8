//! `windlass run` and `windlass resume`: what is shown of a run.

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;
use windlass_server::{Change, Coordinator, End, WorkState, unsupported};

use crate::arguments::Form;
use crate::exit::Exit;
use crate::log::show_log;
use crate::state;
use crate::workflow_file::WorkflowFile;

pub(crate) fn run(state: Option<&Path>, file: &Path, json: bool) -> Result<Exit, Box<dyn Error>> {
    let Some(WorkflowFile { name, text, workflow }) = WorkflowFile::open(file, Form::from(json))?
    else {
        return Ok(Exit::Usage);
    };
    let plan = match workflow.bind([]) {
        Ok(plan) => plan,
        Err(errors) => {
            eprintln!("windlass: {errors}");
            eprintln!("  `run` takes no -p yet: give each parameter a default in the file");
            return Ok(Exit::Usage);
        }
    };
    unsupported(&plan)?;
    let dir = working_dir(file)?;
    let coordinator = Coordinator::submit(state::open(state)?, &name, &text, plan, &dir)?;
    lead(coordinator, "run", json)
}

pub(crate) fn resume(state: Option<&Path>, run: &str, json: bool) -> Result<Exit, Box<dyn Error>> {
    let coordinator = Coordinator::resume(state::open(state)?, run)?;
    lead(coordinator, "resumed run", json)
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
    let end = coordinator.lead(|change| {
        let shown = if json { show_json(&id, change) } else { show(change) };
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
        End::Interrupted { signal } => {
            eprintln!("run {id} was interrupted; go on with: windlass resume {id}");
            Exit::Signal(signal)
        }
    })
}

fn show(change: &Change<'_>) -> io::Result<()> {
    let Change { step, attempt, .. } = change;
    let again = if *attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
    match change.state {
        WorkState::Running => eprintln!("{step}: started{again}"),
        WorkState::Pending => eprintln!("{step}: will be tried again{again}"),
        WorkState::Success => eprintln!("{step}: succeeded{again}"),
        WorkState::Failed => eprintln!("{step}: failed{again}"),
        WorkState::Blocked => eprintln!("{step}: blocked by a step before it"),
        WorkState::Cancelled => eprintln!("{step}: cancelled"),
    }
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
