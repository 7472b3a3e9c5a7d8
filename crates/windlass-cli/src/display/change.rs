//! The updates that the display gets, converted from those of the coordinator.

use std::path::PathBuf;

use windlass_server::{Change, End, Update, WorkState};

/// An update of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// A step changed its state.
    Changed(StepChange),
    /// A step waits for something besides other steps.
    Waits {
        step: String,
        /// A phrase: "waits for guard approved".
        why: String,
        /// Milliseconds since 1970.
        at_ms: u64,
    },
    /// A signal came, and all running steps were asked to end.
    Stopping,
    /// A sentence about the run itself.
    Notice(String),
}

/// A step changed its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StepChange {
    /// The step's name.
    pub(crate) step: String,
    /// Its new state.
    pub(crate) state: WorkState,
    /// Its latest attempt, from 1; 0 before the first.
    pub(crate) attempt: u32,
    /// The number of attempts it may have in all.
    pub(crate) most_attempts: u32,
    /// When, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// The file with the output of that attempt, if there was one.
    pub(crate) log: Option<PathBuf>,
    /// The file with the output of its `finally`, if the step failed because of that.
    pub(crate) finally_log: Option<PathBuf>,
    /// When its next attempt begins, in milliseconds since 1970, if a retry is planned.
    pub(crate) due_ms: Option<u64>,
    /// The reason, in a few words.
    pub(crate) why: Option<String>,
    /// Whether it was skipped.
    pub(crate) skipped: bool,
}

impl News {
    /// Returns none for a kind of update that this version does not know.
    pub(crate) fn of(update: &Update<'_>) -> Option<Self> {
        Some(match update {
            Update::Changed(change) => News::Changed(change.into()),
            Update::Waits { step, what, at_nanos } => News::Waits {
                step: (*step).to_owned(),
                why: format!("waits for {what}"),
                at_ms: at_nanos / 1_000_000,
            },
            Update::Stopping => News::Stopping,
            Update::Notice(what) => News::Notice((*what).to_owned()),
            _ => return None,
        })
    }
}

impl From<&Change<'_>> for StepChange {
    fn from(change: &Change<'_>) -> Self {
        Self {
            step: change.step.to_owned(),
            state: change.state,
            attempt: change.attempt,
            most_attempts: change.most_attempts,
            at_ms: change.at_nanos / 1_000_000,
            log: change.log.clone(),
            finally_log: change.finally_log.clone(),
            due_ms: change.due_nanos.map(|due| due / 1_000_000),
            why: change.why.clone(),
            skipped: change.skipped,
        }
    }
}

/// How the shown part of a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Succeeded,
    Failed,
    TooLate,
    Cancelled,
    /// By a signal; it can be resumed.
    Interrupted,
    /// The request is done; the run can be resumed.
    Left,
    /// By an error of windlass itself; it can be resumed.
    Stopped,
    /// By the loss of its store; it cannot be resumed.
    Lost,
    /// Only the display ended: the run continues under its scheduler.
    Detached,
}

impl From<End> for Ending {
    fn from(end: End) -> Self {
        match end {
            End::Succeeded => Ending::Succeeded,
            End::Failed => Ending::Failed,
            End::TooLate => Ending::TooLate,
            End::Cancelled => Ending::Cancelled,
            End::Interrupted { .. } => Ending::Interrupted,
            End::Left => Ending::Left,
        }
    }
}
