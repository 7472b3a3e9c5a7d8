//! One step of a run, and its attempts.

use std::path::PathBuf;

use windlass_core::{Phase, WorkId, WorkState};
use windlass_store::AttemptEnd;
use windlass_workflow::Edge;

/// A step as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepView {
    /// What it is called.
    pub name: String,
    /// What it is called in the file.
    pub declared: String,
    /// Where it stands.
    pub state: StepState,
    /// Its attempts, the first one first.
    pub attempts: Vec<AttemptView>,
    /// How often it may be tried in all.
    pub most_attempts: u32,
    /// What it waits for: places in [`RunView::steps`](super::RunView::steps).
    pub after: Vec<Edge>,
    /// For how long it has stood at its guards since all it waits for had ended.
    pub guarded_ms: Option<i64>,
    /// When it ended without an attempt, and why, if that is known.
    pub unbegun: Option<AttemptView>,
}

/// Where a step stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum StepState {
    /// It has to wait, or its turn has not come.
    Waiting,
    /// It will be tried again at this time.
    Retrying {
        /// When, in milliseconds since 1970.
        at_ms: i64,
    },
    /// An attempt is under way.
    Running,
    /// An attempt was under way when the run was interrupted.
    Interrupted,
    /// Ended well.
    Success,
    /// Ended well without running.
    Skipped,
    /// Ended badly.
    Failed,
    /// Will never run, because a step it waits for did not end as it must.
    Blocked,
    /// Ended on request.
    Cancelled,
}

impl StepState {
    pub(super) fn of(phase: Phase) -> Self {
        match phase {
            Phase::Delayed { due } => StepState::Retrying { at_ms: super::run::millis(due) },
            Phase::Skipped => StepState::Skipped,
            phase => match phase.state() {
                WorkState::Pending => StepState::Waiting,
                WorkState::Running => StepState::Running,
                WorkState::Success => StepState::Success,
                WorkState::Failed => StepState::Failed,
                WorkState::Blocked => StepState::Blocked,
                WorkState::Cancelled => StepState::Cancelled,
            },
        }
    }

    /// Whether this is an end.
    #[must_use]
    pub fn is_end(self) -> bool {
        use StepState::{Blocked, Cancelled, Failed, Skipped, Success};
        matches!(self, Success | Skipped | Failed | Blocked | Cancelled)
    }

    /// As people read it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            StepState::Waiting => "waiting",
            StepState::Retrying { .. } => "retrying",
            StepState::Running => "running",
            StepState::Interrupted => "interrupted",
            StepState::Success => "success",
            StepState::Skipped => "skipped",
            StepState::Failed => "failed",
            StepState::Blocked => "blocked",
            StepState::Cancelled => "cancelled",
        }
    }
}

/// One attempt of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AttemptView {
    /// The step's place in the run's engine.
    pub work: WorkId,
    /// Which attempt, from 1.
    pub number: u32,
    /// When it began.
    pub started_ms: i64,
    /// When it ended, if that is known.
    pub ended_ms: Option<i64>,
    /// How it ended; none while it is under way.
    pub end: Option<AttemptEnd>,
    /// The code with which its process exited, if it did.
    pub code: Option<i32>,
    /// The signal that ended its process, if one did.
    pub signal: Option<i32>,
    /// What else there is to say about its end.
    pub why: Option<String>,
    /// The most memory that one of its processes used, in KiB.
    pub peak_kib: Option<u64>,
    /// The processor time that its processes used, in milliseconds.
    pub cpu_ms: Option<u64>,
    /// Where its output is.
    pub log: PathBuf,
}

impl AttemptView {
    /// For how long it has run, until it ended or until now.
    #[must_use]
    pub fn duration_ms(&self, now_ms: i64) -> i64 {
        self.ended_ms.unwrap_or(now_ms).saturating_sub(self.started_ms).max(0)
    }
}

impl StepView {
    /// When its first attempt began.
    #[must_use]
    pub fn started_ms(&self) -> Option<i64> {
        self.attempts.first().map(|attempt| attempt.started_ms)
    }

    /// When it ended for good, if it has and that is known.
    #[must_use]
    pub fn ended_ms(&self) -> Option<i64> {
        let last = self.unbegun.as_ref().or(self.attempts.last());
        last.filter(|_| self.state.is_end()).and_then(|attempt| attempt.ended_ms)
    }

    /// How long it took from its first start to its end, or to the end of its last attempt, or to
    /// now while one is under way.
    #[must_use]
    pub fn duration_ms(&self, now_ms: i64) -> Option<i64> {
        let last = self.attempts.last()?;
        Some(last.started_ms + last.duration_ms(now_ms) - self.attempts.first()?.started_ms)
    }
}
