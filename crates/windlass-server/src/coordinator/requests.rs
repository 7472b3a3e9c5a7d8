//! What people ask of a run while it is under way.
//!
//! A request is a text that stands in the store until the run's process takes it, in the commit
//! that carries it out. The bell that comes with it makes that a matter of milliseconds.

use windlass_core::{Input, Phase, WorkId};
use windlass_store::{RunEnd, Store, StoreError, Transaction};

use super::pass::Record;
use super::{Coordinator, RunError, Stop};
use crate::guard::Verdict;
use crate::users;

/// Something that people can ask of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ask {
    /// Its end, or that of one of its steps.
    Cancel(Option<String>),
    /// That the guard which a step waits for passes or fails.
    Decide(String, Verdict),
}

impl Ask {
    fn text(&self) -> String {
        match self {
            Ask::Cancel(None) => "cancel".to_owned(),
            Ask::Cancel(Some(step)) => format!("cancel {step}"),
            Ask::Decide(step, verdict) => format!("{} {step}", verdict.word()),
        }
    }

    fn of_text(text: &str) -> Option<Self> {
        let (verb, step) = match text.split_once(' ') {
            Some((verb, step)) => (verb, Some(step.to_owned())),
            None => (text, None),
        };
        match (verb, step) {
            ("cancel", step) => Some(Ask::Cancel(step)),
            (verb, Some(step)) => Some(Ask::Decide(step, Verdict::of_word(verb)?)),
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

/// Removes all requests to a run, which no process will carry out any more.
pub(crate) fn forget_requests(transaction: &Transaction<'_>, run: &str) -> Result<(), StoreError> {
    for request in transaction.requests().pending(&target(run))? {
        transaction.requests().take(request.number)?;
    }
    Ok(())
}

/// The address of the process that leads a run.
fn target(run: &str) -> String {
    format!("run/{run}")
}

/// A request, as the run understands it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wish {
    CancelAll {
        number: u64,
    },
    Cancel {
        number: u64,
        work: WorkId,
    },
    Decide {
        number: u64,
        work: WorkId,
        verdict: Verdict,
    },
    /// It names no step that there is, or comes from another version.
    Unknown {
        number: u64,
    },
}

impl Coordinator {
    /// Has what failed or was cancelled tried again: the named steps, or all of them.
    pub(super) fn reopen(&mut self, steps: &[String]) -> Result<(), RunError> {
        let run = || self.leader.run.id.clone();
        let bad = |phase: Phase| matches!(phase, Phase::Failed | Phase::Cancelled);
        let mut works = Vec::new();
        for step in steps {
            let mut again = self.all_known(step)?;
            again.retain(|work| self.schedule.engine().phase(*work).is_some_and(bad));
            if again.is_empty() {
                return Err(RunError::NotAgain { run: run(), step: step.clone() });
            }
            works.extend(again);
        }
        if steps.is_empty() {
            works = self.schedule.works_in(bad);
        }
        if works.is_empty() {
            return Err(RunError::NothingToRetry { run: run() });
        }
        self.schedule.reopen(&works).expect("nothing of an ended run is under way");
        self.records.push(Record::GoesOn);
        Ok(())
    }

    /// Cancels a step, all that a step of the file became, or all steps.
    pub(super) fn cancel_now(&mut self, step: Option<&str>) -> Result<(), RunError> {
        let Some(step) = step else {
            self.cancelled = true;
            self.schedule.apply(Input::CancelAll).expect("everything can be cancelled");
            return Ok(());
        };
        let mut works = self.all_known(step)?;
        works.retain(|work| {
            self.schedule.engine().phase(*work).is_some_and(|phase| !phase.state().is_terminal())
        });
        if works.is_empty() {
            let (run, step) = (self.leader.run.id.clone(), step.to_owned());
            return Err(RunError::StepOver { run, step });
        }
        for work in works {
            self.schedule.apply(Input::Cancel(work)).expect("it has not ended");
        }
        // Nothing else of the run is begun here.
        self.stop = Some(Stop::Leave);
        self.forget_guards();
        Ok(())
    }

    /// The step of that name, or all that a step of the file became.
    fn all_known(&self, step: &str) -> Result<Vec<WorkId>, RunError> {
        if self.schedule.called(step).is_none() {
            let steps = self.schedule.plan().steps.iter().enumerate();
            let of_it = steps.filter(|(_, known)| known.declared == step);
            let works: Vec<_> = of_it.map(|(place, _)| WorkId::from_index(place)).collect();
            if !works.is_empty() {
                return Ok(works);
            }
        }
        let unknown = || RunError::from(self.schedule.plan().no_such_step(step));
        Ok(vec![self.schedule.called(step).ok_or_else(unknown)?])
    }

    /// What is asked of the run, in order.
    pub(super) fn requests(&mut self) -> Result<Vec<Wish>, RunError> {
        let target = target(&self.leader.run.id);
        let look = |transaction: &Transaction<'_>| transaction.requests().pending(&target);
        let requests = self.store.read(look)?;
        Ok(requests.iter().map(|request| self.wish(request.number, &request.text)).collect())
    }

    fn wish(&self, number: u64, text: &str) -> Wish {
        let called = |step: &str| self.schedule.called(step);
        let wish = match Ask::of_text(text) {
            Some(Ask::Cancel(None)) => Some(Wish::CancelAll { number }),
            Some(Ask::Cancel(Some(step))) => {
                called(&step).map(|work| Wish::Cancel { number, work })
            }
            Some(Ask::Decide(step, verdict)) => {
                called(&step).map(|work| Wish::Decide { number, work, verdict })
            }
            None => None,
        };
        wish.unwrap_or(Wish::Unknown { number })
    }
}
