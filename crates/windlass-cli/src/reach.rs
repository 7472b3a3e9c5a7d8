//! What a verb may change when a step of a run calls it.
//!
//! A store in a database serves many runs, users and machines. There a step changes its own run, and those that it
//! has started, but neither other runs nor the store itself. This keeps mistakes in: a step that means it, calls the
//! verb without `WINDLASS_RUN`.

use std::error::Error;
use std::path::Path;

use thiserror::Error as ThisError;
use windlass_server::{calling_run, find_run, is_started_by};

use crate::arguments::{
    LimitsVerb, QueueArguments, StoreArguments, StoreVerb, Target, Verb, WorkersVerb,
};
use crate::state;

/// What a verb changes.
enum Reach<'a> {
    /// Nothing of others: it looks, waits, holds names for itself, or adds something.
    Own,
    /// These runs and queues.
    Runs(Vec<&'a str>),
    /// What belongs to all.
    All(&'static str),
}

impl Verb {
    fn reach(&self) -> Reach<'_> {
        match self {
            Verb::Cancel { target, .. }
            | Verb::Pause { target, .. }
            | Verb::Unpause { target, .. } => Reach::Runs(vec![&target.run]),
            Verb::Retry { run, .. } | Verb::Resume { run: Some(run), .. } => Reach::Runs(vec![run]),
            Verb::Approve { target: Target::Step { run, .. } }
            | Verb::Reject { target: Target::Step { run, .. } } => Reach::Runs(vec![run]),
            Verb::Queue(QueueArguments { name: Some(name), slots: Some(_), .. }) => {
                Reach::Runs(vec![name])
            }
            Verb::Edit(edit) => Reach::Runs(vec![&edit.step.0]),
            Verb::Move(to) => Reach::Runs(vec![&to.step.0]),
            Verb::Remove(remove) => {
                Reach::Runs(remove.steps.iter().map(|(queue, _)| queue.as_str()).collect())
            }
            Verb::Resume { run: None, .. } => Reach::All("other runs"),
            Verb::Prune(_) => Reach::All("other runs"),
            Verb::Limits(limits) => match limits.verb {
                None | Some(LimitsVerb::List) => Reach::Own,
                Some(LimitsVerb::Set(_) | LimitsVerb::Remove { .. }) => {
                    Reach::All("the limits of the store")
                }
            },
            Verb::Workers { verb } => match verb {
                None | Some(WorkersVerb::List) => Reach::Own,
                Some(_) => Reach::All("workers"),
            },
            Verb::Store(StoreArguments { verb }) => match verb {
                StoreVerb::Check => Reach::Own,
                StoreVerb::Init { .. } | StoreVerb::Grant { .. } => Reach::All("the store"),
            },
            _ => Reach::Own,
        }
    }
}

/// Refuses a verb that would change more than a step may, if a step calls it.
pub(crate) fn check(state: Option<&Path>, verb: &Verb) -> Result<(), Box<dyn Error>> {
    let reach = verb.reach();
    let Some(own) = calling_run().filter(|_| !matches!(reach, Reach::Own)) else { return Ok(()) };
    // A store that cannot be opened is reported by the verb.
    let Ok(mut store) = state::existing(state) else { return Ok(()) };
    if !store.is_in_database() {
        return Ok(());
    }
    let runs = match reach {
        Reach::Own => return Ok(()),
        Reach::All(what) => return Err(TooFar { own, what: what.to_owned() }.into()),
        Reach::Runs(runs) => runs,
    };
    for run in runs {
        // A run that does not exist is reported by the verb.
        let Ok(found) = find_run(&mut store, run) else { continue };
        if found.id != own && !is_started_by(&store, &found.id, &own) {
            return Err(TooFar { own, what: format!("run {run}") }.into());
        }
    }
    Ok(())
}

/// A step has called a verb that is not for steps.
#[derive(Debug, ThisError)]
#[error(
    "a step of run {own} may change its own run and those that it has started, but not {what}; if it is meant to: env -u WINDLASS_RUN windlass …"
)]
pub(crate) struct TooFar {
    own: String,
    what: String,
}
