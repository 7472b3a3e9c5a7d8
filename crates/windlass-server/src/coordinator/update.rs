//! The updates that a caller gets who watches a run.

use std::path::PathBuf;

use windlass_core::WorkState;

/// Something that has happened in a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Update<'a> {
    /// A step changed its state, and the store knows it.
    Changed(Change<'a>),
    /// A step waits for something besides other steps.
    Waits {
        /// The step's name.
        step: &'a str,
        /// What it waits for, as a phrase: "guard approved: exit code 1". What the user can do
        /// about it follows a line break.
        what: &'a str,
        /// When, in nanoseconds since 1970.
        at_nanos: u64,
    },
    /// A signal has come, and everything that runs was asked to end.
    Stopping,
    /// A sentence about the run itself.
    Notice(&'a str),
}

/// A step changed its state, and the store knows it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Change<'a> {
    /// The step's name.
    pub step: &'a str,
    /// The state it is in now.
    pub state: WorkState,
    /// Its latest attempt, from 1; 0 before the first.
    pub attempt: u32,
    /// The number of attempts it may have in all.
    pub most_attempts: u32,
    /// When, in nanoseconds since 1970.
    pub at_nanos: u64,
    /// Where the output of that attempt is, if there was one.
    pub log: Option<PathBuf>,
    /// Where the output of its `finally` is, if the step failed because of that.
    pub finally_log: Option<PathBuf>,
    /// It succeeded because it was not needed.
    pub skipped: bool,
    /// When its next attempt may begin, in nanoseconds since 1970, if one comes later.
    pub due_nanos: Option<u64>,
    /// The reason, as a phrase: "exit code 3".
    pub why: Option<String>,
}

/// The state of a step when a process takes over its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepStatus {
    /// Its state.
    pub state: WorkState,
    /// It succeeded because it was not needed.
    pub skipped: bool,
    /// How many of its attempts had begun before.
    pub attempts: u32,
}

/// How a run ended, or paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Every step succeeded or was skipped.
    Succeeded,
    /// A step failed or was blocked.
    Failed,
    /// Not every step succeeded before the deadline of the run.
    TooLate,
    /// A user cancelled it.
    Cancelled,
    /// A signal interrupted it; it can be resumed.
    Interrupted {
        /// The signal.
        signal: i32,
    },
    /// What was asked for is done, and the run can be resumed.
    Left,
}
