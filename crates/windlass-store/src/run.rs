//! What is kept of runs: as they were submitted, their journals, how their attempts went.

use std::collections::BTreeMap;
use std::path::PathBuf;

use windlass_core::{Fact, Token, WorkId};

use crate::error::StoreError;

/// A run as it was submitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunRecord {
    /// Its id.
    pub id: String,
    /// What the workflow is called.
    pub workflow: String,
    /// The file it came from, for display.
    pub file: String,
    /// The text of the workflow.
    pub text: String,
    /// The directory in which its steps run.
    pub dir: PathBuf,
    /// The values that were given to parameters.
    pub params: BTreeMap<String, String>,
    /// The steps that were asked for; all if none are named.
    pub steps: Vec<String>,
    /// How many steps may run at once, whatever the file says.
    pub jobs: Option<u32>,
    /// The user whose run it is; none if an older version stored it.
    pub uid: Option<u32>,
}

/// A run in a list of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunListing {
    /// Its id.
    pub id: String,
    /// What the workflow is called.
    pub workflow: String,
    /// The file it came from.
    pub file: String,
    /// When it was submitted, in milliseconds since 1970.
    pub created_ms: i64,
    /// How it ended; none if it has not.
    pub end: Option<RunEnd>,
    /// The user whose run it is; none if an older version stored it.
    pub uid: Option<u32>,
}

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// How.
    pub outcome: RunOutcome,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunOutcome {
    /// Every step succeeded or was skipped.
    Succeeded,
    /// A step failed or was blocked.
    Failed,
    /// Not every step succeeded before the deadline of the run.
    TooLate,
    /// Somebody cancelled it.
    Cancelled,
}

impl RunOutcome {
    /// Every one of them.
    pub const ALL: &'static [Self] =
        &[Self::Succeeded, Self::Failed, Self::TooLate, Self::Cancelled];

    /// As people read it, and as it is stored.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            RunOutcome::Succeeded => "succeeded",
            RunOutcome::Failed => "failed",
            RunOutcome::TooLate => "too late",
            RunOutcome::Cancelled => "cancelled",
        }
    }

    pub(crate) fn of_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|outcome| outcome.word() == word)
    }
}

/// How an attempt of a step went. Attempt 0 tells why a step ended that never began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRecord {
    /// The step's place in the run's engine.
    pub work: WorkId,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// What the step is called.
    pub step: String,
    /// When it began, in milliseconds since 1970.
    pub started_ms: i64,
    /// When it ended, in milliseconds since 1970.
    pub ended_ms: i64,
    /// How.
    pub end: AttemptEnd,
    /// The code with which its process exited, if it did.
    pub code: Option<i32>,
    /// The signal that ended its process, if one did.
    pub signal: Option<i32>,
    /// What else there is to say about its end.
    pub why: Option<String>,
    /// The most memory that one of its processes used, in KiB; none if that is not known, because it
    /// was less than what its parent used.
    pub peak_kib: Option<u64>,
    /// The processor time that its processes used, in milliseconds.
    pub cpu_ms: Option<u64>,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AttemptEnd {
    /// Well.
    Success,
    /// Badly, and for good.
    Failed,
    /// Badly, with another attempt to come.
    Retry,
    /// As somebody asked for.
    Cancelled,
    /// With the run that was interrupted; the step will be tried again.
    Interrupted,
    /// With the process that led the run, which was killed; the step will be tried again.
    Lost,
    /// Its command has ended; what has to follow it whatever happens has not.
    Finishing,
}

impl AttemptEnd {
    /// Every one of them.
    pub const ALL: &'static [Self] = &[
        Self::Success,
        Self::Failed,
        Self::Retry,
        Self::Cancelled,
        Self::Interrupted,
        Self::Lost,
        Self::Finishing,
    ];

    /// As people read it, and as it is stored.
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
        }
    }

    pub(crate) fn of_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|end| end.word() == word)
    }
}

/// A guard that a step waits for, for people to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardWait {
    /// The step's place in the run's engine.
    pub work: WorkId,
    /// What the guard is called.
    pub guard: String,
    /// Since when, in milliseconds since 1970.
    pub since_ms: i64,
    /// How often it was checked.
    pub checks: u32,
    /// What came of the last check.
    pub last_result: Option<String>,
    /// A person has to decide.
    pub escalated: bool,
}

/// What a backend must be able to do with runs within one transaction.
pub trait RunTables {
    /// An id that no run has.
    fn new_run_id(&self) -> Result<String, StoreError>;
    /// Adds a run.
    fn insert_run(&self, run: &RunRecord, at_ms: i64) -> Result<(), StoreError>;
    /// The runs whose ids begin with `prefix`; at most two.
    fn runs(&self, prefix: &str) -> Result<Vec<RunRecord>, StoreError>;
    /// Up to `limit` runs, the newest first; of one workflow, or of all.
    fn latest_runs(
        &self,
        workflow: Option<&str>,
        limit: usize,
    ) -> Result<Vec<RunListing>, StoreError>;
    /// How a run ended; none if it has not.
    fn run_end(&self, run: &str) -> Result<Option<RunEnd>, StoreError>;
    /// One run as it is listed.
    fn listing(&self, run: &str) -> Result<Option<RunListing>, StoreError>;
    /// The runs that have not ended, the newest first.
    fn open_runs(&self) -> Result<Vec<RunListing>, StoreError>;
    /// Puts the end of a run, or takes it away.
    fn put_run_end(&self, run: &str, end: Option<RunEnd>) -> Result<(), StoreError>;
    /// Takes a run away, with everything that is kept of it.
    fn delete_run(&self, run: &str) -> Result<(), StoreError>;

    /// Adds to the journal of a run.
    fn append_facts(&self, run: &str, epoch: Token, facts: &[Fact]) -> Result<(), StoreError>;
    /// The journal of a run, in order.
    fn facts(&self, run: &str) -> Result<Vec<Fact>, StoreError>;

    /// Puts how an attempt went, in the place of what was known of it.
    fn put_attempt(&self, run: &str, attempt: &AttemptRecord) -> Result<(), StoreError>;
    /// How the attempts of a run went, by step and attempt.
    fn attempts(&self, run: &str) -> Result<Vec<AttemptRecord>, StoreError>;

    /// Puts the guard that a step waits for.
    fn put_wait(&self, run: &str, wait: &GuardWait) -> Result<(), StoreError>;
    /// The step waits for no guard any more.
    fn delete_wait(&self, run: &str, work: WorkId) -> Result<(), StoreError>;
    /// The guards that the steps of a run wait for.
    fn waits(&self, run: &str) -> Result<Vec<GuardWait>, StoreError>;
}
