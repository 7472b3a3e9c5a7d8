//! Why something cannot be looked at.

use thiserror::Error;
use windlass_core::some_of;
use windlass_store::StoreError;

use crate::coordinator::RunError;

/// How many steps are told to somebody who asked for one that there is not.
const TOLD: usize = 10;

/// Why something cannot be looked at.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LookError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The workflow of the run cannot be read.
    #[error("run {run}: {source}")]
    Plan {
        /// The run.
        run: String,
        /// Why.
        source: Box<RunError>,
    },
    /// There is no such run.
    #[error("no run is called {run:?}{}", meant_or_listed(nearest))]
    UnknownRun {
        /// What was asked for.
        run: String,
        /// Runs that may have been meant, with their workflows.
        nearest: Vec<(String, String)>,
    },
    /// Several runs begin like this.
    #[error("several runs begin with {run:?}{}", meant(candidates))]
    AmbiguousRun {
        /// What was asked for.
        run: String,
        /// The newest of them, with their workflows.
        candidates: Vec<(String, String)>,
    },
    /// There is no run of such a workflow.
    #[error("no run of a workflow {workflow:?} is known{}", workflows(nearest.as_ref(), known))]
    UnknownWorkflow {
        /// What was asked for.
        workflow: String,
        /// The workflow that may have been meant.
        nearest: Option<String>,
        /// Workflows of which there are runs, those of the newest runs first.
        known: Vec<String>,
    },
    /// There is no run at all.
    #[error("there is no run yet; start one with: windlass run FILE")]
    NoRuns,
    /// The run has no such step.
    #[error("run {run} has no step {step:?}{}", named(nearest, known))]
    UnknownStep {
        /// The run.
        run: String,
        /// What was asked for.
        step: String,
        /// Steps that may have been meant.
        nearest: Vec<String>,
        /// The steps that there are, as they are called in the file.
        known: Vec<String>,
    },
    /// The step has not been tried so often.
    #[error("step {step:?} of run {run} has no attempt {attempt}: {}", tried(*attempts))]
    UnknownAttempt {
        /// The run.
        run: String,
        /// The step.
        step: String,
        /// What was asked for.
        attempt: u32,
        /// How often it was tried.
        attempts: usize,
    },
}

impl LookError {
    /// Whether the fault lies in what was asked for, not in the store.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            LookError::Store(store) => store.is_usage(),
            _ => true,
        }
    }
}

fn meant_or_listed(runs: &[(String, String)]) -> String {
    match runs {
        [] => "; windlass ps and windlass history list them".to_owned(),
        runs => meant(runs),
    }
}

fn meant(runs: &[(String, String)]) -> String {
    let runs: Vec<_> = runs.iter().map(|(id, workflow)| format!("{id} ({workflow})")).collect();
    list(&runs)
}

fn workflows(nearest: Option<&String>, known: &[String]) -> String {
    match nearest {
        Some(name) => format!("; did you mean {name}?"),
        None if known.is_empty() => String::new(),
        None => format!("; there are runs of {}", some_of(known.iter().map(String::as_str), TOLD)),
    }
}

fn named(nearest: &[String], known: &[String]) -> String {
    match nearest {
        [] => format!("; its steps are {}", some_of(known.iter().map(String::as_str), TOLD)),
        nearest => list(nearest),
    }
}

fn list(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => format!("; did you mean {only}?"),
        several => format!("; did you mean one of these?\n  {}", several.join("\n  ")),
    }
}

fn tried(attempts: usize) -> String {
    match attempts {
        0 => "it has not begun".to_owned(),
        1 => "it was tried once".to_owned(),
        times => format!("it was tried {times} times"),
    }
}
