//! What users ask of a run while it is under way.
//!
//! A request is a text that stays in the store until the run's process takes it, in the commit
//! that carries it out. The wake-up that comes with it makes that a matter of milliseconds. A run that no
//! process leads is cancelled by the process of the request, through the same loop.

use windlass_core::WorkId;
use windlass_store::{RunEnd, Store, StoreError, Transaction};

use super::RunError;
use crate::guard::Verdict;
use crate::look::{RunState, RunView, StepState};
use crate::users;

/// Something that a user can ask of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ask {
    /// Its end, or that of one of its steps.
    Cancel(Option<String>),
    /// Another try of an ended run, or of one of its steps, which a scheduler has led.
    Retry(Option<String>),
    /// That it starts nothing new, or one of its steps not.
    Pause(Option<String>),
    /// That the commands of it that run are stopped, or that of one of its steps.
    Halt(Option<String>),
    /// That it continues, or one of its steps.
    Unpause(Option<String>),
    /// At most so many of its steps at a time.
    Slots(u32),
    /// That a step of a queue which has not begun is forgotten.
    Remove(String),
}

impl Ask {
    fn text(&self) -> String {
        let (verb, argument) = match self {
            Ask::Cancel(step) => ("cancel", step.clone()),
            Ask::Retry(step) => ("retry", step.clone()),
            Ask::Pause(step) => ("pause", step.clone()),
            Ask::Halt(step) => ("halt", step.clone()),
            Ask::Unpause(step) => ("unpause", step.clone()),
            Ask::Slots(slots) => ("slots", Some(slots.to_string())),
            Ask::Remove(step) => ("remove", Some(step.clone())),
        };
        argument.map_or(verb.to_owned(), |argument| format!("{verb} {argument}"))
    }

    fn of_text(text: &str) -> Option<Self> {
        let (verb, step) = match text.split_once(' ') {
            Some((verb, step)) => (verb, Some(step.to_owned())),
            None => (text, None),
        };
        match (verb, step) {
            ("cancel", step) => Some(Ask::Cancel(step)),
            ("retry", step) => Some(Ask::Retry(step)),
            ("pause", step) => Some(Ask::Pause(step)),
            ("halt", step) => Some(Ask::Halt(step)),
            ("unpause", step) => Some(Ask::Unpause(step)),
            ("remove", Some(step)) => Some(Ask::Remove(step)),
            ("slots", Some(slots)) => slots.parse().ok().map(Ask::Slots),
            _ => None,
        }
    }
}

/// Asks the process that leads `run`, which is the run's whole id, for all of this together. Refused if
/// the run has ended, and if it is another user's.
pub fn ask(store: &mut Store, run: &str, wanted: &[Ask]) -> Result<(), RunError> {
    store.transact(|transaction| {
        let listing = transaction.runs().listing(run)?;
        if let Some(RunEnd { outcome, .. }) = listing.end {
            return Ok(Err(RunError::Over { run: run.to_owned(), outcome }));
        }
        if let Err(refused) = users::expect_owner(run, listing.uid) {
            return Ok(Err(refused));
        }
        for ask in wanted {
            send(transaction, run, ask)?;
        }
        Ok(Ok(()))
    })?
}

/// Returns whether a run, or a step of it, is to be tried again, which its leader has not taken in.
pub(crate) fn is_retry_pending(
    transaction: &Transaction<'_>,
    run: &str,
) -> Result<bool, StoreError> {
    let pending = transaction.requests().pending(&target(run))?;
    let mut asks = pending.iter().filter_map(|request| Ask::of_text(&request.text));
    Ok(asks.any(|ask| matches!(ask, Ask::Retry(_))))
}

/// Pauses a run, or the steps of it that `step` names, or lets them continue. Returns the steps. `run` is
/// the run's whole id. A step that runs cannot be paused without [`Pause::Halt`].
pub fn ask_to_pause(
    store: &mut Store,
    run: &str,
    step: Option<&str>,
    pause: Pause,
) -> Result<Option<Vec<String>>, RunError> {
    let view = RunView::find(store, run)?;
    if view.state == RunState::Interrupted {
        return Err(RunError::NotUnderWay { run: run.to_owned() });
    }
    let steps = step.map(|step| steps_to_pause(&view, step, pause)).transpose()?;
    let asks_for = |step: Option<String>| match pause {
        Pause::Begin => vec![Ask::Pause(step)],
        Pause::Halt => vec![Ask::Pause(step.clone()), Ask::Halt(step)],
        Pause::End => vec![Ask::Unpause(step)],
    };
    let asks: Vec<_> = match &steps {
        None => asks_for(None),
        Some(steps) => steps.iter().cloned().map(Some).flat_map(asks_for).collect(),
    };
    ask(store, run, &asks)?;
    Ok(steps)
}

/// Whether a pause begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Nothing new starts.
    Begin,
    /// Nothing new starts, and the commands that run are stopped.
    Halt,
    /// It continues.
    End,
}

/// Returns the steps that `step` names and that have not ended.
fn steps_to_pause(view: &RunView, step: &str, pause: Pause) -> Result<Vec<String>, RunError> {
    let named = || (view.run.id.clone(), step.to_owned());
    let mut open: Vec<_> = view.places(step)?.into_iter().map(|place| &view.steps[place]).collect();
    open.retain(|step| !step.state.is_end());
    if open.is_empty() {
        let (run, step) = named();
        return Err(RunError::StepOver { run, step });
    }
    if pause == Pause::Begin {
        open.retain(|step| step.state != StepState::Running);
    }
    if open.is_empty() {
        let (run, step) = named();
        return Err(RunError::StepRuns { run, step });
    }
    Ok(open.into_iter().map(|step| step.name.clone()).collect())
}

/// Has the scheduler of the store try the failed and cancelled steps of an ended run or of a queue again:
/// those that are named, or all. `run` is the run's whole id.
pub fn ask_to_retry(store: &mut Store, run: &str, steps: &[String]) -> Result<(), RunError> {
    let view = RunView::find(store, run)?;
    let bad = |state: StepState| matches!(state, StepState::Failed | StepState::Cancelled);
    for step in steps {
        let mut places = view.places(step)?.into_iter();
        if !places.any(|place| bad(view.steps[place].state)) {
            return Err(RunError::NotAgain { run: run.to_owned(), step: step.clone() });
        }
    }
    if !view.steps.iter().any(|step| bad(step.state)) {
        return Err(RunError::NothingToRetry { run: run.to_owned() });
    }
    store.transact(|transaction| {
        let listing = transaction.runs().listing(run)?;
        if let Err(refused) = users::expect_owner(run, listing.uid) {
            return Ok(Err(refused));
        }
        if listing.end.is_none() && transaction.queues().of_run(run)?.is_none() {
            return Ok(Err(RunError::NotOver { run: run.to_owned() }));
        }
        transaction.runs().set_end(run, None)?;
        let all = [None];
        let some: Vec<_> = steps.iter().cloned().map(Some).collect();
        for step in if steps.is_empty() { &all[..] } else { &some } {
            send(transaction, run, &Ask::Retry(step.clone()))?;
        }
        transaction.orders().announce();
        Ok(Ok(()))
    })?
}

/// Sends a request to the process that leads `run`, which is the run's whole id.
pub(crate) fn send(transaction: &Transaction<'_>, run: &str, ask: &Ask) -> Result<(), StoreError> {
    transaction.requests().send(&target(run), &ask.text()).map(drop)
}

/// Tells the process that leads a run that a guard of a step was decided, which is stored beside this.
pub(crate) fn announce_decision(
    transaction: &Transaction<'_>,
    run: &str,
    step: &str,
    verdict: Verdict,
) -> Result<(), StoreError> {
    transaction.requests().send(&target(run), &format!("{} {step}", verdict.word())).map(drop)
}

/// Removes all requests to a run, which no process will carry out any more.
pub(crate) fn forget_requests(transaction: &Transaction<'_>, run: &str) -> Result<(), StoreError> {
    for request in transaction.requests().pending(&target(run))? {
        transaction.requests().take(request.number)?;
    }
    Ok(())
}

/// Returns the address of the process that leads a run.
pub(super) fn target(run: &str) -> String {
    format!("run/{run}")
}

/// A request as a run understands it.
#[derive(Clone, Debug)]
pub(super) enum Wish {
    CancelAll,
    /// Of these steps, or of all that failed or were cancelled.
    Retry(Vec<String>),
    Cancel(WorkId),
    /// Of this step, or of everything.
    Pause(Option<WorkId>),
    Halt(Option<WorkId>),
    Unpause(Option<WorkId>),
    /// At most so many steps at a time.
    Slots(u32),
    Remove(WorkId),
    /// The run has to look at what was decided about its guards.
    Decide,
}

impl Wish {
    /// Reads a request; `called` finds steps by name. Returns none if it names no step of the run, or
    /// was written by another version.
    pub(super) fn parse(text: &str, called: impl Fn(&str) -> Option<WorkId>) -> Option<Self> {
        if text.split_once(' ').is_some_and(|(verb, _)| Verdict::of_word(verb).is_some()) {
            return Some(Wish::Decide);
        }
        match Ask::of_text(text)? {
            Ask::Cancel(None) => Some(Wish::CancelAll),
            Ask::Retry(step) => Some(Wish::Retry(step.into_iter().collect())),
            Ask::Slots(slots) => Some(Wish::Slots(slots)),
            Ask::Remove(step) => called(&step).map(Wish::Remove),
            Ask::Cancel(Some(step)) => called(&step).map(Wish::Cancel),
            Ask::Pause(None) => Some(Wish::Pause(None)),
            Ask::Pause(Some(step)) => called(&step).map(|work| Wish::Pause(Some(work))),
            Ask::Halt(None) => Some(Wish::Halt(None)),
            Ask::Halt(Some(step)) => called(&step).map(|work| Wish::Halt(Some(work))),
            Ask::Unpause(None) => Some(Wish::Unpause(None)),
            Ask::Unpause(Some(step)) => called(&step).map(|work| Wish::Unpause(Some(work))),
        }
    }
}
