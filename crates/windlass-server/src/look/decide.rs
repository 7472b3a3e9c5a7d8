//! Decides about the guards that steps of a run wait for.
//!
//! The first decision about a guard counts, for one attempt of its step. It is stored in the transaction that
//! finds the step waiting, so of two users one is the first, and no kill loses it.

use rustix::process::geteuid;
use windlass_core::{Phase, WorkId};
use windlass_store::{Decision, GuardWait, Store, StoreError, Transaction};

use super::run::leader_of;
use super::{LookError, RunView};
use crate::coordinator::announce_decision;
use crate::guard::Verdict;

/// What a user has decided about the guard of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GuardDecision {
    /// The step.
    pub step: String,
    /// The guard.
    pub guard: String,
    /// What was decided.
    pub verdict: Verdict,
    /// The user.
    pub uid: u32,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
}

/// What became of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decided {
    /// These guards were decided by it.
    Now(Vec<GuardDecision>),
    /// These were decided before, and no other one waits.
    Before(Vec<GuardDecision>),
    /// None of the steps waits at a guard, and none was decided.
    Nothing,
}

/// Decides about all steps that `step` names and that wait at a guard. Returns the run and the places of the
/// named steps, too.
pub fn decide_steps(
    store: &mut Store,
    run: &str,
    step: &str,
    verdict: Verdict,
) -> Result<(RunView, Vec<usize>, Decided), LookError> {
    loop {
        let view = RunView::find(store, run)?;
        let places = view.places(step)?;
        let decided = store.transact(|transaction| decide(transaction, &view, &places, verdict))?;
        if let Some(decided) = decided {
            return Ok((view, places, decided));
        }
        // A step waits for another guard than a moment ago.
    }
}

/// Returns none if the view is out of date.
fn decide(
    transaction: &Transaction<'_>,
    view: &RunView,
    places: &[usize],
    verdict: Verdict,
) -> Result<Option<Decided>, StoreError> {
    let run = view.run.id.as_str();
    let steps = transaction.steps();
    let waits = match leader_of(transaction, run)? {
        Some(_) => steps.guard_waits(run)?,
        // Its guards are checked again when the run goes on.
        None => Vec::new(),
    };
    let known = steps.decisions(run)?;
    let (mut new, mut before) = (Vec::new(), Vec::new());
    for place in places {
        let work = view.work(*place);
        let wait = waits.iter().find(|wait| wait.work == work);
        if wait.is_some_and(|wait| !view.waits.iter().any(|seen| is_same(seen, wait))) {
            return Ok(None);
        }
        let mut decided = known.iter().rev().filter(|decision| decision.work == work);
        let last = match wait.map(|wait| (&wait.guard, attempt(view, work))) {
            None => decided.next(),
            Some((guard, attempt)) => {
                let of_wait =
                    |decision: &&Decision| (&decision.guard, decision.attempt) == (guard, attempt);
                let last = decided.find(of_wait);
                if last.is_none() {
                    let (uid, at_ms) = (geteuid().as_raw(), transaction.now().wall_ms);
                    let (guard, verdict) = (guard.clone(), verdict.word().to_owned());
                    new.push(Decision { work, guard, attempt, verdict, uid, at_ms });
                }
                last
            }
        };
        before.extend(last.and_then(|decision| told(view, decision)));
    }
    for decision in &new {
        steps.insert_decision(run, decision)?;
        announce_decision(transaction, run, &view.schedule.step(decision.work).name, verdict)?;
    }
    Ok(Some(match (new.is_empty(), before.is_empty()) {
        (false, _) => Decided::Now(new.iter().filter_map(|new| told(view, new)).collect()),
        (_, false) => Decided::Before(before),
        _ => Decided::Nothing,
    }))
}

/// Returns whether two readings are of the same wait.
fn is_same(one: &GuardWait, other: &GuardWait) -> bool {
    (one.work, &one.guard, one.since_ms) == (other.work, &other.guard, other.since_ms)
}

/// Returns the attempt that the guard of a waiting step precedes or follows.
fn attempt(view: &RunView, work: WorkId) -> u32 {
    let engine = view.schedule.engine();
    let begun = engine.attempts(work).unwrap_or_default();
    begun + u32::from(engine.phase(work) == Some(Phase::Gated))
}

/// Returns none for a decision of a newer version.
fn told(view: &RunView, decision: &Decision) -> Option<GuardDecision> {
    let Decision { work, guard, verdict, uid, at_ms, .. } = decision;
    let verdict = Verdict::of_word(verdict)?;
    let step = view.schedule.known_step(*work)?.name.clone();
    Some(GuardDecision { step, guard: guard.clone(), verdict, uid: *uid, at_ms: *at_ms })
}
