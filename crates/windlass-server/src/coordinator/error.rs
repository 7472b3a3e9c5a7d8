//! Why a run cannot continue, or does not fit the caller's request.

use std::io;

use thiserror::Error;
use windlass_core::{HolderId, WorkerKind};
use windlass_store::{RunOutcome, StoreError};
use windlass_workflow::{NoSuchStep, ParamErrors, ParseErrors};

use crate::files;
use crate::look::LookError;
use crate::service::EnvironmentError;
use crate::users::user_name;

/// Why a run could not continue.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The stored workflow cannot be read by this version.
    #[error("the stored workflow cannot be read:\n{0}")]
    Mistakes(#[from] ParseErrors),
    /// A parameter has an invalid value, or none.
    #[error(transparent)]
    Params(#[from] ParamErrors),
    /// The caller asked for a step that does not exist.
    #[error(transparent)]
    NoSuchStep(#[from] NoSuchStep),
    /// The system refused something that a run needs.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// Another process leads the run.
    #[error("run {run} is still running, led by {by}")]
    Led {
        /// The run.
        run: String,
        /// Who leads it.
        by: HolderId,
    },
    /// The run was submitted to a service.
    #[error("run {run} was submitted to a service: `windlass serve` leads it")]
    Served {
        /// The run.
        run: String,
    },
    /// A variable cannot be taken along with a submission.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// A step was submitted that no worker could ever execute.
    #[error(
        "no worker could ever execute step {step:?}: {}; to let it wait for another worker: windlass submit --wait-for-workers",
        lacking(kinds)
    )]
    NeverPlaced {
        /// The step.
        step: String,
        /// What the workers lack, the nearest first.
        kinds: Vec<WorkerKind>,
    },
    /// The run cannot be read.
    #[error(transparent)]
    Look(#[from] LookError),
    /// The run was not submitted to a service.
    #[error(
        "run {run} was not submitted to a service, so it cannot be shown here; follow its output with: windlass log -f {run}"
    )]
    NotServed {
        /// The run.
        run: String,
    },
    /// The run is a queue, which has no end.
    #[error(
        "{queue} is a queue, which has no end; show its steps with: windlass queue {queue}, follow their output with: windlass log -f {queue}"
    )]
    IsQueue {
        /// Its name.
        queue: String,
    },
    /// The run is another user's.
    #[error(
        "run {run} belongs to {}; only that user and root may cancel, pause, retry, resume or prune it",
        user_name(*uid)
    )]
    NotOwner {
        /// The run.
        run: String,
        /// Whose it is.
        uid: u32,
    },
    /// The run was begun in the foreground on another machine.
    #[error(
        "run {run} was begun in the foreground on {host}, whose disk has the latest of it; resume, retry or cancel it there"
    )]
    Elsewhere {
        /// The run.
        run: String,
        /// The other machine.
        host: String,
    },
    /// A step has neither failed nor was it cancelled.
    #[error("step {step:?} of run {run} has neither failed nor was it cancelled")]
    NotAgain {
        /// The run.
        run: String,
        /// The step.
        step: String,
    },
    /// A step that has ended was to be cancelled.
    #[error("step {step:?} of run {run} has ended already")]
    StepOver {
        /// The run.
        run: String,
        /// The step.
        step: String,
    },
    /// A step that runs was to be paused.
    #[error(
        "step {step:?} of run {run} is running, and only what has not begun can be paused; to let it end and start nothing new: windlass pause {run}; to stop its processes: add --stop"
    )]
    StepRuns {
        /// The run.
        run: String,
        /// The step.
        step: String,
    },
    /// An interrupted run was to be paused, or to continue after a pause.
    #[error("run {run} is interrupted, so nothing of it starts; to resume: windlass resume {run}")]
    NotUnderWay {
        /// The run.
        run: String,
    },
    /// The run has ended.
    #[error("run {run} has ended: {}", outcome.word())]
    Over {
        /// The run.
        run: String,
        /// How it ended.
        outcome: RunOutcome,
    },
    /// The run has not ended, so there is nothing to try again.
    #[error("run {run} has not ended; resume it first: windlass resume {run}")]
    NotOver {
        /// The run.
        run: String,
    },
    /// Nothing in the run has failed or was cancelled.
    #[error("nothing in run {run} has failed or was cancelled")]
    NothingToRetry {
        /// The run.
        run: String,
    },
}

/// Says what the nearest workers lack.
fn lacking(kinds: &[WorkerKind]) -> String {
    let few: Vec<_> = kinds.iter().take(3).map(WorkerKind::to_string).collect();
    few.join("; ")
}

impl RunError {
    /// Returns whether as many files are open, or as many processes and threads run, as the system allows.
    pub(super) fn is_no_room(&self) -> bool {
        match self {
            RunError::Io { source, .. } | RunError::Store(StoreError::Io { source, .. }) => {
                files::is_no_room(source)
            }
            _ => false,
        }
    }
}
