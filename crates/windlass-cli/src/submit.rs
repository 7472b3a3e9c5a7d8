//! `windlass submit` and `windlass wait`: runs that a service leads.

use std::error::Error;
use std::path::Path;

use serde::Serialize;
use windlass_server::service::{
    Awaited, AwaitedEnd, Unled, WorkersNeeded, await_ends, awaited, live_scheduler,
    submit as store_run,
};
use windlass_server::{StepState, Store};

use crate::arguments::{Form, RunArguments, StepTarget, SubmitArguments, WaitArguments};
use crate::exit::Exit;
use crate::look::json_word;
use crate::output::{json, print};
use crate::run::read_run;
use crate::serve::{start_in_background, warn_of_other_user};
use crate::state;

pub(crate) fn submit(
    state: Option<&Path>,
    arguments: &SubmitArguments,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    let workers = match arguments.wait_for_workers {
        true => WorkersNeeded::Later,
        false => WorkersNeeded::Now,
    };
    submit_then(state, &arguments.run, (&arguments.env, workers), form, |_| Ok(()))
}

/// Submits a run, and starts a scheduler if none is running.
pub(crate) fn detach(
    state: Option<&Path>,
    arguments: &RunArguments,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    submit_then(state, arguments, (&[], WorkersNeeded::Now), form, start_in_background)
}

/// Stores a run for the scheduler, calls `after`, and prints the run's id.
fn submit_then(
    state: Option<&Path>,
    arguments: &RunArguments,
    (variables, workers): (&[String], WorkersNeeded),
    form: Form,
    after: impl FnOnce(&mut Store) -> Result<(), Box<dyn Error>>,
) -> Result<Exit, Box<dyn Error>> {
    let Some((record, workflow)) = read_run(arguments, form)? else { return Ok(Exit::Usage) };
    let mut store = state::open(state)?;
    let run = store_run(&mut store, record, workflow, variables, workers)?;
    let begun = after(&mut store);
    tell_submitted(&mut store, &run, form)?;
    warn_of_other_user(&mut store)?;
    begun.map(|()| Exit::Success)
}

/// Prints the id of a run that was handed to a scheduler.
pub(crate) fn tell_submitted(
    store: &mut Store,
    run: &str,
    form: Form,
) -> Result<(), Box<dyn Error>> {
    let scheduled = live_scheduler(store)?.is_some();
    match form {
        Form::Json => print(&json("submitted", &Submitted { run, scheduled })),
        Form::Text => {
            print(&format!("{run}\n"));
            match scheduled {
                true => eprintln!("follow it with: windlass attach {run}"),
                false => eprintln!("no scheduler is running; start one with: windlass serve"),
            }
        }
    }
    Ok(())
}

#[derive(Serialize)]
struct Submitted<'a> {
    run: &'a str,
    /// Whether a scheduler is alive that leads the run.
    scheduled: bool,
}

pub(crate) fn wait(
    state: Option<&Path>,
    arguments: &WaitArguments,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    let mut store = state::existing(state)?;
    let mut all = Vec::new();
    for StepTarget { run, step } in &arguments.targets {
        all.extend(awaited(&mut store, run, step.as_deref())?);
    }
    let mut tell_unled = |run: &str, unled| match unled {
        Unled::Interrupted => {
            eprintln!("run {run} is interrupted; to resume: windlass resume {run}");
        }
        _ => eprintln!("run {run} waits: no scheduler is running; start one with: windlass serve"),
    };
    let ends = match await_ends(&mut store, &all, &mut tell_unled)? {
        Ok(ends) => ends,
        Err(signal) => return Ok(Exit::Signal(signal)),
    };
    for (awaited, end) in all.iter().zip(&ends) {
        tell(awaited, end, form);
    }
    let failed = ends.iter().find_map(|end| match end {
        AwaitedEnd::Step { code: Some(code @ 1..), .. } => Some(*code),
        _ => None,
    });
    if let Some(code) = failed.filter(|_| arguments.code) {
        return Ok(Exit::Command(code));
    }
    let rank = |exit: &Exit| match exit {
        Exit::TimedOut => 3,
        Exit::Failed => 2,
        Exit::Cancelled => 1,
        _ => 0,
    };
    Ok(ends.iter().map(exit_of).max_by_key(rank).unwrap_or(Exit::Success))
}

/// Tells the user how something has ended.
fn tell(awaited: &Awaited, end: &AwaitedEnd, form: Form) {
    match (awaited, end, form) {
        (Awaited::Run(run), AwaitedEnd::Run(end), Form::Json) => {
            let outcome = end.outcome.word();
            print(&json("ended", &Waited { run, outcome }));
        }
        (Awaited::Run(run), AwaitedEnd::Run(end), Form::Text) => {
            eprintln!("run {run} has ended: {}", end.outcome.word());
        }
        (Awaited::Step { run, step, .. }, AwaitedEnd::Step { state, code }, Form::Json) => {
            let state = json_word(*state);
            print(&json("step_ended", &StepEnded { run, step, state, code: *code }));
        }
        (Awaited::Step { step, .. }, AwaitedEnd::Step { state, code }, Form::Text) => {
            let code = code.filter(|code| *code != 0).map(|code| format!(", exit code {code}"));
            eprintln!("step {step} has ended: {}{}", state.word(), code.unwrap_or_default());
        }
        (Awaited::Queue { name, run }, _, Form::Json) => {
            print(&json("queue_idle", &Idle { queue: name, run }));
        }
        (Awaited::Queue { name, .. }, _, Form::Text) => {
            eprintln!("queue {name} has nothing left to do");
        }
        _ => {}
    }
}

fn exit_of(end: &AwaitedEnd) -> Exit {
    match end {
        AwaitedEnd::Run(end) => end.outcome.into(),
        AwaitedEnd::Step { state: StepState::Success | StepState::Skipped, .. } => Exit::Success,
        AwaitedEnd::Step { .. } => Exit::Failed,
        _ => Exit::Success,
    }
}

#[derive(Serialize)]
struct Waited<'a> {
    run: &'a str,
    outcome: &'static str,
}

#[derive(Serialize)]
struct StepEnded<'a> {
    run: &'a str,
    step: &'a str,
    state: &'static str,
    code: Option<i32>,
}

#[derive(Serialize)]
struct Idle<'a> {
    queue: &'a str,
    run: &'a str,
}
