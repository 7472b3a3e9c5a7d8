//! What the store keeps of the steps of a run: their attempts, and the guards they wait for.
//!
//! These records are for display and statistics. The journal of facts alone decides how a run goes on.

use windlass_core::WorkId;

/// How an attempt of a step went. Attempt 0 records why a step ended without starting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRecord {
    /// The id of the step in the run's engine.
    pub work: WorkId,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The name of the step.
    pub step: String,
    /// When the attempt started, in milliseconds since the Unix epoch.
    pub started_ms: i64,
    /// When the attempt ended, in milliseconds since the Unix epoch.
    pub ended_ms: i64,
    /// How the attempt ended.
    pub end: AttemptEnd,
    /// The exit code of its process, if it exited.
    pub code: Option<i32>,
    /// The signal that killed its process, if one did.
    pub signal: Option<i32>,
    /// A reason for the end, for display.
    pub why: Option<String>,
    /// The peak memory of one of its processes, in KiB; none if unknown, because it was below that of
    /// the parent process.
    pub peak_kib: Option<u64>,
    /// The processor time of its processes, in milliseconds.
    pub cpu_ms: Option<u64>,
}

/// The values that an attempt has handed on to later steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepOutput {
    /// The id of the step in the run's engine.
    pub work: WorkId,
    /// The number of the attempt.
    pub attempt: u32,
    /// The values, in words of scheduler and worker.
    pub text: String,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AttemptEnd {
    /// It succeeded.
    Success,
    /// It failed, and the step with it.
    Failed,
    /// It failed, and another attempt will follow.
    Retry,
    /// A user cancelled it.
    Cancelled,
    /// The run was interrupted; the step will be tried again.
    Interrupted,
    /// The leader of the run was killed; the step will be tried again.
    Lost,
    /// Its command has ended; the cleanup that always follows has not.
    Finishing,
    /// Its command has succeeded; what the step has to ensure is checked.
    Ensuring,
}

impl AttemptEnd {
    /// All ends.
    pub const ALL: &'static [Self] = &[
        Self::Success,
        Self::Failed,
        Self::Retry,
        Self::Cancelled,
        Self::Interrupted,
        Self::Lost,
        Self::Finishing,
        Self::Ensuring,
    ];

    /// Returns the word that is shown to users and stored.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            AttemptEnd::Success => "success",
            AttemptEnd::Failed => "failed",
            AttemptEnd::Retry => "retry",
            AttemptEnd::Cancelled => "cancelled",
            AttemptEnd::Interrupted => "interrupted",
            AttemptEnd::Lost => "lost",
            AttemptEnd::Finishing => "finishing",
            AttemptEnd::Ensuring => "ensuring",
        }
    }

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|end| end.word() == word)
    }
}

/// What a user has decided about the guard of a step. It counts for one attempt of the step, whichever
/// process leads the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The id of the step in the run's engine.
    pub work: WorkId,
    /// The name of the guard.
    pub guard: String,
    /// The attempt that the guard precedes or follows, from 1.
    pub attempt: u32,
    /// What was decided, as a word.
    pub verdict: String,
    /// The user.
    pub uid: u32,
    /// When, in milliseconds since the Unix epoch.
    pub at_ms: i64,
}

/// A guard that a step waits for, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardWait {
    /// The id of the step in the run's engine.
    pub work: WorkId,
    /// The name of the guard.
    pub guard: String,
    /// When the wait began, in milliseconds since the Unix epoch.
    pub since_ms: i64,
    /// How often the guard was checked.
    pub checks: u32,
    /// The result of the last check.
    pub last_result: Option<String>,
    /// Whether a person has to decide.
    pub escalated: bool,
}
