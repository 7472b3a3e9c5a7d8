//! Why a run or a step cannot be shown.

use thiserror::Error;
use windlass_core::some_of;
use windlass_store::StoreError;

use crate::coordinator::RunError;

/// The number of steps that are listed for an unknown one.
const TOLD: usize = 10;

/// Why a run or a step cannot be shown.
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
    #[error("no run {run:?}{}", meant_or_listed(nearest))]
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
    #[error("no run of a workflow {workflow:?}{}", workflows(nearest.as_ref(), known))]
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
    /// No run is interrupted.
    #[error("no run is interrupted; list runs with: windlass ps, windlass history")]
    NoneInterrupted,
    /// The run has no such step.
    #[error("run {run} has no step {step:?}{}", named(nearest.as_deref(), known))]
    UnknownStep {
        /// The run.
        run: String,
        /// What was asked for.
        step: String,
        /// The step that may have been meant.
        nearest: Option<String>,
        /// The steps that there are, as they are called in the file.
        known: Vec<String>,
    },
    /// The step of a queue has ended, and is forgotten.
    #[error(
        "step {step} of {run} has ended and is forgotten, with its log: a queue keeps its last 1000 ended steps, for a day"
    )]
    ForgottenStep {
        /// The queue.
        run: String,
        /// The number of the step.
        step: String,
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
        attempts: u32,
    },
}

impl LookError {
    /// Returns whether the request is wrong, not the store.
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
        [] => "; list runs with: windlass ps, windlass history".to_owned(),
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

fn named(nearest: Option<&str>, known: &[String]) -> String {
    match nearest {
        Some(nearest) => format!("; did you mean {nearest}?"),
        None => format!("; its steps are {}", some_of(known.iter().map(String::as_str), TOLD)),
    }
}

fn list(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => format!("; did you mean {only}?"),
        several => format!("; did you mean one of these?\n  {}", several.join("\n  ")),
    }
}

fn tried(attempts: u32) -> String {
    match attempts {
        0 => "it has not started".to_owned(),
        1 => "it had 1 attempt".to_owned(),
        times => format!("it had {times} attempts"),
    }
}
