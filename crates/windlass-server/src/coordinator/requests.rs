//! What users ask of a run while it is under way.
//!
//! A request is a text that stays in the store until the run's process takes it, in the commit
//! that carries it out. The wake-up that comes with it makes that a matter of milliseconds. A run that no
//! process leads is cancelled by the process of the request, through the same loop.

use windlass_core::WorkId;
use windlass_store::{RunEnd, Store, StoreError, Transaction};

use super::RunError;
use crate::guard::Verdict;
use crate::look::{RunView, StepState};
use crate::users;

/// Something that a user can ask of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ask {
    /// Its end, or that of one of its steps.
    Cancel(Option<String>),
    /// Another try of an ended run, or of one of its steps, which a scheduler has led.
    Retry(Option<String>),
}

impl Ask {
    fn text(&self) -> String {
        match self {
            Ask::Cancel(None) => "cancel".to_owned(),
            Ask::Cancel(Some(step)) => format!("cancel {step}"),
            Ask::Retry(None) => "retry".to_owned(),
            Ask::Retry(Some(step)) => format!("retry {step}"),
        }
    }

    fn of_text(text: &str) -> Option<Self> {
        let (verb, step) = match text.split_once(' ') {
            Some((verb, step)) => (verb, Some(step.to_owned())),
            None => (text, None),
        };
        match (verb, step) {
            ("cancel", step) => Some(Ask::Cancel(step)),
            ("retry", step) => Some(Ask::Retry(step)),
            _ => None,
        }
    }
}

/// Asks the process that leads `run`, which is the run's whole id, for all of this together. Refused if
/// the run has ended, and to cancel another user's run.
pub fn ask(store: &mut Store, run: &str, wanted: &[Ask]) -> Result<(), RunError> {
    store.transact(|transaction| {
        let listing = transaction.runs().listing(run)?;
        if let Some(RunEnd { outcome, .. }) = listing.end {
            return Ok(Err(RunError::Over { run: run.to_owned(), outcome }));
        }
        let cancels = wanted.iter().any(|ask| matches!(ask, Ask::Cancel(_)));
        if let (true, Err(refused)) = (cancels, users::expect_owner(run, listing.uid)) {
            return Ok(Err(refused));
        }
        for ask in wanted {
            transaction.requests().send(&target(run), &ask.text())?;
        }
        Ok(Ok(()))
    })?
}

/// Has the scheduler of the store try the failed and cancelled steps of an ended run again: those that
/// are named, or all. `run` is the run's whole id.
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
        if listing.end.is_none() {
            return Ok(Err(RunError::NotOver { run: run.to_owned() }));
        }
        transaction.runs().set_end(run, None)?;
        let all = [None];
        let some: Vec<_> = steps.iter().cloned().map(Some).collect();
        for step in if steps.is_empty() { &all[..] } else { &some } {
            transaction.requests().send(&target(run), &Ask::Retry(step.clone()).text())?;
        }
        transaction.orders().announce();
        Ok(Ok(()))
    })?
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
            Ask::Cancel(Some(step)) => called(&step).map(Wish::Cancel),
        }
    }
}
