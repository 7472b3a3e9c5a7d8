//! The verbs that lead and show a run: `run`, `resume`, `retry`, `cancel`.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;

use serde::Serialize;
use thiserror::Error as ThisError;
use windlass_server::queue::queue_of;
use windlass_server::{
    Ask, AttachedRun, Coordinator, End, FollowEnd, Listed, LookError, Pause, RunError, RunOutcome,
    RunRecord, RunState, RunView, ShownLogs, Store, ask, ask_to_pause, ask_to_retry, find_run,
    open_runs, some_of,
};
use windlass_workflow::Workflow;

use crate::arguments::{Form, Jobs, RunArguments, StepTarget};
use crate::display::{Display, Options, Outline, OutputMode, Verb};
use crate::exit::Exit;
use crate::look::RunJson;
use crate::output::{json, print};
use crate::serve::start_in_background;
use crate::state;
use crate::style::plain;
use crate::workflow_file::{WorkflowFile, named_or_default};

/// How a run is shown.
#[derive(Clone, Copy)]
pub(crate) struct Shown {
    pub(crate) mode: OutputMode,
    pub(crate) form: Form,
}

impl Shown {
    fn options(self, verb: Verb, store: &Store) -> Options {
        let Shown { mode, form } = self;
        let logs = ShownLogs::on_this_machine();
        Options { verb, mode, form, past: store.opener(), logs }
    }
}

pub(crate) fn run(
    state: Option<&Path>,
    arguments: &RunArguments,
    shown: Shown,
) -> Result<Exit, Box<dyn Error>> {
    let Some((record, workflow)) = read_run(arguments, shown.form)? else {
        return Ok(Exit::Usage);
    };
    warn_of_worker_keys(&workflow);
    let store = state::open(state)?;
    let options = shown.options(Verb::Run, &store);
    lead(Coordinator::submit_parsed(store, record, workflow)?, options)
}

/// Warns that a run in the foreground is executed here, whatever its steps ask of workers.
fn warn_of_worker_keys(workflow: &Workflow) {
    let names: BTreeSet<_> = {
        let steps = workflow.plan().steps.iter().filter(|step| step.asks_for_worker());
        steps.map(|step| step.declared.as_str()).collect()
    };
    if !names.is_empty() {
        let names = plain(&some_of(names, 5));
        eprintln!(
            "warning: a run in the foreground has no workers, so `on`, `with` and `use` of `worker.…` are ignored: {names}; \
             to heed them: windlass submit"
        );
    }
}

/// Reads the workflow file and returns the run to store. Returns none after printing its errors.
pub(crate) fn read_run(
    arguments: &RunArguments,
    form: Form,
) -> Result<Option<(RunRecord, Workflow)>, Box<dyn Error>> {
    let path = named_or_default(arguments.file.as_deref())?;
    let read =
        WorkflowFile::open(path, form).map_err(|error| error.or_step(path, &arguments.steps))?;
    let Some(read) = read else { return Ok(None) };
    if let Err(errors) = read.workflow.require_steps() {
        form.refuse(&read.name, &errors);
        return Ok(None);
    }
    let dir = read.dir()?;
    let WorkflowFile { name, text, workflow, .. } = read;
    let record = RunRecord {
        file: name,
        text,
        dir,
        params: arguments.params.iter().cloned().collect(),
        steps: arguments.steps.clone(),
        jobs: arguments.jobs.and_then(|Jobs(jobs)| jobs),
        priority: arguments.priority,
        ..RunRecord::default()
    };
    Ok(Some((record, workflow)))
}

pub(crate) fn resume(
    state: Option<&Path>,
    run: Option<&str>,
    shown: Shown,
) -> Result<Exit, Box<dyn Error>> {
    let mut store = state::look(state)?;
    let run = match run {
        Some(run) => find_run(&mut store, run)?.id,
        None => last_interrupted(&mut store)?,
    };
    let options = shown.options(Verb::Resume, &store);
    match Coordinator::resume(store, &run) {
        Err(RunError::Over { run, outcome }) => tell_over(state, &run, outcome, shown.form),
        Err(RunError::Served { .. }) => {
            start_in_background(&mut state::open(state)?)?;
            attach(state, &run, shown)
        }
        coordinator => lead(coordinator.map_err(explained)?, options),
    }
}

/// Says how a run has ended that the user wanted to resume.
pub(crate) fn tell_over(
    state: Option<&Path>,
    run: &str,
    outcome: RunOutcome,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    match form {
        Form::Json => {
            let view = RunView::find(&mut state::look(state)?, run)?;
            print(&RunJson::of(&view).line());
        }
        Form::Text => eprintln!("{}", over(run, outcome)),
    }
    Ok(outcome.into())
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
    match Coordinator::retry(store, &run, steps) {
        Err(RunError::Served { .. }) => {
            let mut store = state::open(state)?;
            ask_to_retry(&mut store, &run, steps)?;
            start_in_background(&mut store)?;
            if queue_of(&mut store, &run)?.is_some() {
                return Ok(Exit::Success);
            }
            drop(store);
            attach(state, &run, shown)
        }
        coordinator => lead(coordinator.map_err(explained)?, options),
    }
}

/// Asks the process that leads the run to cancel it. Without such a process, this one cancels it.
pub(crate) fn cancel(
    state: Option<&Path>,
    target: &StepTarget,
    shown: Shown,
) -> Result<Exit, Box<dyn Error>> {
    let StepTarget { run, step } = target;
    let mut store = state::look(state)?;
    let run = find_run(&mut store, run)?.id;
    let options = shown.options(Verb::Cancel, &store);
    match Coordinator::cancel(store, &run, step.as_deref()) {
        Ok(coordinator) => lead(coordinator, options).map(|_| Exit::Success),
        Err(RunError::Led { .. } | RunError::Served { .. }) => {
            let mut store = state::open(state)?;
            let steps = step.as_deref().map(|step| open_steps(&mut store, &run, step));
            let steps = steps.transpose()?;
            let asks: Vec<_> = match &steps {
                None => vec![Ask::Cancel(None)],
                Some(steps) => steps.iter().cloned().map(Some).map(Ask::Cancel).collect(),
            };
            ask(&mut store, &run, &asks)?;
            Asked { run: &run, steps }.tell("cancel", shown.form);
            Ok(Exit::Success)
        }
        Err(error) => Err(error.into()),
    }
}

/// Asks the process that leads the run to pause it, or to let it continue.
pub(crate) fn pause(
    state: Option<&Path>,
    target: &StepTarget,
    pause: Pause,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    let StepTarget { run, step } = target;
    let mut store = state::existing(state)?;
    let run = find_run(&mut store, run)?.id;
    let steps = ask_to_pause(&mut store, &run, step.as_deref(), pause)?;
    let verb = match pause {
        Pause::Begin | Pause::Halt => "pause",
        Pause::End => "unpause",
    };
    Asked { run: &run, steps }.tell(verb, form);
    Ok(Exit::Success)
}

/// Another process leads the run.
#[derive(Debug, ThisError)]
#[error("run {run} is still running, led by {leader}; follow it with: windlass log -f {run}")]
pub(crate) struct StillRunning {
    run: String,
    leader: String,
}

/// Converts an error, and names the leader of a run by its process.
pub(crate) fn explained(error: RunError) -> Box<dyn Error> {
    match error {
        RunError::Led { run, by } => {
            // The id of a leader is `windlass[PID.…]`.
            let inside = by.as_str().strip_prefix("windlass[").and_then(|id| id.split_once('.'));
            let leader = inside.map_or(by.to_string(), |(pid, _)| format!("process {pid}"));
            StillRunning { run, leader }.into()
        }
        error => error.into(),
    }
}

/// The process that leads a run was asked for something.
#[derive(Serialize)]
struct Asked<'a> {
    run: &'a str,
    /// The steps; none for the whole run.
    steps: Option<Vec<String>>,
}

impl Asked<'_> {
    fn tell(&self, verb: &str, form: Form) {
        match form {
            Form::Json => print(&json(&format!("{verb}_asked"), self)),
            Form::Text => {
                let steps = self.steps.as_ref().map(|steps| steps.join(", "));
                let steps = steps.as_deref().unwrap_or("all its steps");
                eprintln!("{}", plain(&format!("asked run {} to {verb} {steps}", self.run)));
            }
        }
    }
}

/// Returns how a run ended that the user wanted to resume.
fn over(run: &str, outcome: RunOutcome) -> String {
    let word = outcome.word();
    match outcome {
        RunOutcome::Succeeded => format!("run {run} has ended: {word}"),
        _ => format!("run {run} has ended: {word}; to retry: windlass retry {run}"),
    }
}

/// Returns the steps that `step` names and that have not ended. Fails if there are none.
fn open_steps(store: &mut Store, run: &str, step: &str) -> Result<Vec<String>, Box<dyn Error>> {
    let view = RunView::find(store, run)?;
    let steps = view.places(step)?.into_iter().map(|place| &view.steps[place]);
    let open: Vec<_> =
        steps.filter(|step| !step.state.is_end()).map(|step| step.name.clone()).collect();
    if open.is_empty() {
        let (run, step) = (run.to_owned(), step.to_owned());
        return Err(RunError::StepOver { run, step }.into());
    }
    Ok(open)
}

/// Returns the newest interrupted run.
pub(crate) fn last_interrupted(store: &mut Store) -> Result<String, LookError> {
    let open = open_runs(store)?;
    let is_interrupted = |run: &&Listed| run.state() == Some(RunState::Interrupted);
    let newest = open.iter().find(is_interrupted).map(|run| run.id.clone());
    newest.ok_or(LookError::NoneInterrupted)
}

/// Shows a run that a scheduler leads, until its end or a signal.
pub(crate) fn attach(
    state: Option<&Path>,
    run: &str,
    shown: Shown,
) -> Result<Exit, Box<dyn Error>> {
    let mut store = state::existing(state)?;
    let run = find_run(&mut store, run)?.id;
    let logs = ShownLogs::of_submitted(&mut store, &run)?;
    let options = Options { logs, ..shown.options(Verb::Attach, &store) };
    let attached = AttachedRun::open(store, &run)?;
    let display = Display::start(Outline::of_attached(&attached), options)?;
    match attached.follow(|update| display.update(update))? {
        FollowEnd::Over(end) => {
            display.end(end);
            Ok(exit_of(end))
        }
        FollowEnd::Signal(signal) => {
            display.end_detached();
            Ok(Exit::Signal(signal))
        }
        _ => Ok(Exit::Bug),
    }
}

fn lead(coordinator: Coordinator, options: Options) -> Result<Exit, Box<dyn Error>> {
    let display = Display::start(Outline::of(&coordinator), options)?;
    let end = match coordinator.lead(|update| display.update(update)) {
        Err(RunError::Store(error)) if error.is_lost() => {
            display.end_lost();
            return Err(error.into());
        }
        end => end?,
    };
    display.end(end);
    Ok(exit_of(end))
}

fn exit_of(end: End) -> Exit {
    match end {
        End::Succeeded | End::Left => Exit::Success,
        End::Failed => Exit::Failed,
        End::TooLate => Exit::TimedOut,
        End::Cancelled => Exit::Cancelled,
        End::Interrupted { signal } => Exit::Signal(signal),
    }
}
