//! `resume --all`, `resume --detach` and `retry --detach`: runs that a scheduler leads from then on.

use std::error::Error;
use std::path::Path;

use windlass_server::{
    Coordinator, FoundRun, RunError, RunState, ask_to_retry, find_run, open_runs,
};

use crate::arguments::Form;
use crate::exit::Exit;
use crate::run::{explained, last_interrupted, tell_over};
use crate::serve::start_in_background;
use crate::state;
use crate::submit::tell_submitted;

/// Hands an interrupted run to the scheduler of the store.
pub(crate) fn resume(
    state: Option<&Path>,
    run: Option<&str>,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    let mut store = state::existing(state)?;
    let run = match run {
        Some(run) => find_run(&mut store, run)?.id,
        None => last_interrupted(&mut store)?,
    };
    match Coordinator::hand_over(&mut store, &run, FoundRun::Open) {
        Err(RunError::Over { run, outcome }) => return tell_over(state, &run, outcome, form),
        handed => handed.map_err(explained)?,
    }
    let begun = start_in_background(&mut store);
    tell_submitted(&mut store, &run, form)?;
    begun.map(|()| Exit::Success)
}

/// Hands every interrupted run to the scheduler of the store. A run that cannot be handed over is
/// reported, and does not keep the others from it.
pub(crate) fn resume_all(state: Option<&Path>, form: Form) -> Result<Exit, Box<dyn Error>> {
    let mut store = state::existing(state)?;
    let open = open_runs(&mut store)?;
    let interrupted = open.iter().filter(|run| run.state() == Some(RunState::Interrupted));
    let (mut handed, mut exit) = (Vec::new(), Exit::Success);
    for run in interrupted {
        match Coordinator::hand_over(&mut store, &run.id, FoundRun::Open) {
            Ok(()) => handed.push(run.id.as_str()),
            Err(error) => exit = Exit::report(&*explained(error)),
        }
    }
    let is_queued = open.iter().any(|run| matches!(run.state(), Some(RunState::Queued { .. })));
    let begun = match is_queued || !handed.is_empty() {
        true => start_in_background(&mut store),
        false => Ok(()),
    };
    if handed.is_empty() && form == Form::Text {
        eprintln!("no run is interrupted");
    }
    handed.iter().try_for_each(|run| tell_submitted(&mut store, run, form))?;
    begun.map(|()| exit)
}

/// Has the scheduler of the store retry an ended run.
pub(crate) fn retry(
    state: Option<&Path>,
    run: &str,
    steps: &[String],
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    let mut store = state::existing(state)?;
    let run = find_run(&mut store, run)?.id;
    Coordinator::hand_over(&mut store, &run, FoundRun::Ended).map_err(explained)?;
    ask_to_retry(&mut store, &run, steps)?;
    let begun = start_in_background(&mut store);
    tell_submitted(&mut store, &run, form)?;
    begun.map(|()| Exit::Success)
}
