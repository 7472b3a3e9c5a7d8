//! The verbs that lead a run, and have it shown: `run`, `resume`, `retry`, `cancel`.

use std::error::Error;
use std::path::Path;

use windlass_server::{
    Ask, Coordinator, End, RunError, RunOutcome, RunRecord, RunView, Store, ask, check_step,
    find_run,
};

use crate::arguments::Form;
use crate::display::{Display, Options, Outline, OutputMode, Verb};
use crate::exit::Exit;
use crate::state;
use crate::workflow_file::WorkflowFile;

/// What `run` was asked for.
pub(crate) struct RunArguments<'a> {
    pub(crate) file: &'a Path,
    pub(crate) steps: &'a [String],
    pub(crate) params: &'a [(String, String)],
    pub(crate) jobs: Option<u32>,
}

/// How a run is shown.
#[derive(Clone, Copy)]
pub(crate) struct Shown {
    pub(crate) mode: OutputMode,
    pub(crate) form: Form,
}

impl Shown {
    fn options(self, verb: Verb, store: &Store) -> Options {
        let Shown { mode, form } = self;
        Options { verb, mode, form, past: store.opener() }
    }
}

pub(crate) fn run(
    state: Option<&Path>,
    arguments: &RunArguments<'_>,
    shown: Shown,
) -> Result<Exit, Box<dyn Error>> {
    let Some(read) = WorkflowFile::open(arguments.file, shown.form)? else {
        return Ok(Exit::Usage);
    };
    let dir = read.dir()?;
    let WorkflowFile { name, text, workflow, .. } = read;
    let order = RunRecord {
        file: name,
        text,
        dir,
        params: arguments.params.iter().cloned().collect(),
        steps: arguments.steps.to_vec(),
        jobs: arguments.jobs,
        ..RunRecord::default()
    };
    let store = state::open(state)?;
    let options = shown.options(Verb::Run, &store);
    lead(Coordinator::submit_parsed(store, order, workflow)?, options)
}

pub(crate) fn resume(
    state: Option<&Path>,
    run: &str,
    shown: Shown,
) -> Result<Exit, Box<dyn Error>> {
    let mut store = state::look(state)?;
    let run = find_run(&mut store, run)?.id;
    let options = shown.options(Verb::Resume, &store);
    match Coordinator::resume(store, &run) {
        Err(RunError::Over { run, outcome: RunOutcome::Succeeded }) => {
            eprintln!("run {run} has ended: {}", RunOutcome::Succeeded.word());
            Ok(Exit::Success)
        }
        Err(RunError::Over { run, outcome }) => {
            let word = outcome.word();
            eprintln!("run {run} has ended: {word}; try again with: windlass retry {run}");
            Ok(outcome.into())
        }
        coordinator => lead(coordinator?, options),
    }
}

pub(crate) fn retry(
    state: Option<&Path>,
    run: &str,
    steps: &[String],
    shown: Shown,
) -> Result<Exit, Box<dyn Error>> {
    let mut store = state::look(state)?;
    let run = find_run(&mut store, run)?.id;
    let options = shown.options(Verb::Retry, &store);
    lead(Coordinator::retry(store, &run, steps)?, options)
}

/// Asks the process that leads the run to end it; ends it here if there is none.
pub(crate) fn cancel(
    state: Option<&Path>,
    target: &str,
    shown: Shown,
) -> Result<Exit, Box<dyn Error>> {
    let (run, step) = match target.split_once('/') {
        Some((run, step)) => (run, Some(step)),
        None => (target, None),
    };
    let mut store = state::look(state)?;
    let found = find_run(&mut store, run)?;
    let options = shown.options(Verb::Cancel, &store);
    match Coordinator::cancel(store, &found.id, step) {
        Ok(coordinator) => lead(coordinator, options).map(|_| Exit::Success),
        Err(RunError::Led { .. }) => {
            let mut store = state::open(state)?;
            check_step(&found, step)?;
            refuse_ended(&mut store, &found.id, step)?;
            ask(&mut store, &found.id, &Ask::Cancel(step.map(str::to_owned)))?;
            eprintln!("asked run {} to end {}", found.id, step.unwrap_or("everything"));
            Ok(Exit::Success)
        }
        Err(error) => Err(error.into()),
    }
}

/// Refuses a step of a run that somebody leads if there is nothing left of it to end.
fn refuse_ended(store: &mut Store, run: &str, step: Option<&str>) -> Result<(), Box<dyn Error>> {
    let Some(step) = step else { return Ok(()) };
    let view = RunView::find(store, run)?;
    if view.steps[view.place(step)?].state.is_end() {
        let (run, step) = (run.to_owned(), step.to_owned());
        return Err(RunError::StepOver { run, step }.into());
    }
    Ok(())
}

fn lead(coordinator: Coordinator, options: Options) -> Result<Exit, Box<dyn Error>> {
    let display = Display::start(Outline::of(&coordinator), options)?;
    let end = coordinator.lead(|update| display.tell(update))?;
    display.end(end);
    Ok(match end {
        End::Succeeded | End::Left => Exit::Success,
        End::Failed => Exit::Failed,
        End::TooLate => Exit::TimedOut,
        End::Cancelled => Exit::Cancelled,
        End::Interrupted { signal } => Exit::Signal(signal),
    })
}
