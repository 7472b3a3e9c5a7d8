//! What the display is told, in words of its own: the only place that knows the coordinator's.

use std::path::PathBuf;

use windlass_server::{Change, End, WorkState};

/// A step changed its state, or the reason why it waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StepChange {
    /// The step's name.
    pub(crate) step: String,
    /// The state it is in now.
    pub(crate) state: WorkState,
    /// Its latest attempt, from 1; 0 before the first.
    pub(crate) attempt: u32,
    /// When, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// Where the output of that attempt is, if there was one.
    pub(crate) log: Option<PathBuf>,
    /// Why, in a few words.
    pub(crate) why: Option<String>,
    /// It succeeded without having run.
    pub(crate) skipped: bool,
}

impl From<&Change<'_>> for StepChange {
    fn from(change: &Change<'_>) -> Self {
        Self {
            step: change.step.to_owned(),
            state: change.state,
            attempt: change.attempt,
            at_ms: change.at_nanos / 1_000_000,
            log: change.log.clone(),
            why: None,
            // A step that succeeds without an attempt was not needed.
            skipped: change.state == WorkState::Success && change.attempt == 0,
        }
    }
}

/// How the part of a run ended that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Succeeded,
    Failed,
    TooLate,
    /// By a signal; it can be resumed.
    Interrupted,
    /// By an error of windlass itself; it can be resumed.
    Stopped,
}

impl From<End> for Ending {
    fn from(end: End) -> Self {
        match end {
            End::Succeeded => Ending::Succeeded,
            End::Failed => Ending::Failed,
            End::TooLate => Ending::TooLate,
            End::Interrupted { .. } => Ending::Interrupted,
        }
    }
}
