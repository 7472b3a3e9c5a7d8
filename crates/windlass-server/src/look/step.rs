//! One step of a run, and its attempts.

use std::path::PathBuf;

use windlass_core::{Phase, WorkId, WorkState};
use windlass_store::AttemptEnd;
use windlass_workflow::StepDependency;

use crate::clock::millis;

/// A step, as it was at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepView {
    /// Its name.
    pub name: String,
    /// Its name in the file, without the values of `each`.
    pub declared: String,
    /// Its state.
    pub state: StepState,
    /// Its attempts, the first one first.
    pub attempts: Vec<AttemptView>,
    /// The number of attempts it may have in all.
    pub most_attempts: u32,
    /// What it waits for: places in [`RunView::steps`](super::RunView::steps).
    pub after: Vec<StepDependency>,
    /// How long it has waited for its guards since everything before it had ended.
    pub guarded_ms: Option<i64>,
    /// When it ended without an attempt, and why, if that is known.
    pub unbegun: Option<AttemptView>,
}

/// The state of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum StepState {
    /// It has to wait, or its turn has not come.
    Waiting,
    /// Only a pause keeps it from its turn, or its processes were stopped.
    Paused,
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
    pub(crate) fn of(phase: Phase) -> Self {
        match phase {
            Phase::Delayed { due } => StepState::Retrying { at_ms: millis(due) },
            Phase::Paused | Phase::Halted => StepState::Paused,
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

    /// Returns whether the state is final.
    #[must_use]
    pub fn is_end(self) -> bool {
        use StepState::{Blocked, Cancelled, Failed, Skipped, Success};
        matches!(self, Success | Skipped | Failed | Blocked | Cancelled)
    }

    /// Returns the state as a word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            StepState::Waiting => "waiting",
            StepState::Paused => "paused",
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
    /// The number of the attempt, from 1.
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
    /// The most memory that one of its processes used, in KiB; none if that is not known, because it
    /// was less than what its parent used.
    pub peak_kib: Option<u64>,
    /// The processor time that its processes used, in milliseconds.
    pub cpu_ms: Option<u64>,
    /// The worker that has executed it, of a submitted run.
    pub worker: Option<String>,
    /// Where its output is, on the machine that has executed it.
    pub log: PathBuf,
}

impl AttemptView {
    /// Returns how long it has run, until it ended or until now.
    #[must_use]
    pub fn duration_ms(&self, now_ms: i64) -> i64 {
        self.until_ms(self.ended_ms.unwrap_or(now_ms))
    }

    fn until_ms(&self, end_ms: i64) -> i64 {
        end_ms.saturating_sub(self.started_ms).max(0)
    }
}

impl StepView {
    /// Returns whether its command has ended and its `finally` runs.
    #[must_use]
    pub fn is_finishing(&self) -> bool {
        let end = self.attempts.last().and_then(|last| last.end);
        self.state == StepState::Running && end == Some(AttemptEnd::Finishing)
    }

    /// Returns when its first attempt began.
    #[must_use]
    pub fn started_ms(&self) -> Option<i64> {
        self.attempts.first().map(|attempt| attempt.started_ms)
    }

    /// Returns when it ended, if it has and that is known.
    #[must_use]
    pub fn ended_ms(&self) -> Option<i64> {
        let last = self.unbegun.as_ref().or(self.attempts.last());
        last.filter(|_| self.state.is_end()).and_then(|attempt| attempt.ended_ms)
    }

    /// Returns the time of its attempts and of the delays between them. Time between its end and a user's
    /// retry does not count, nor does time during which the run was interrupted, nor an attempt whose end
    /// is unknown.
    #[must_use]
    pub fn duration_ms(&self, now_ms: i64) -> Option<i64> {
        (!self.attempts.is_empty()).then(|| time_of(&self.attempts, now_ms))
    }
}

fn time_of(attempts: &[AttemptView], now_ms: i64) -> i64 {
    let mut later = attempts.iter().skip(1);
    let times = attempts.iter().map(|attempt| match (attempt.end, later.next()) {
        (Some(AttemptEnd::Lost), _) => 0,
        (Some(AttemptEnd::Retry), Some(next)) => attempt.until_ms(next.started_ms),
        _ => attempt.duration_ms(now_ms),
    });
    times.fold(0, i64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(number: u32, started_ms: i64, ended_ms: i64, end: AttemptEnd) -> AttemptView {
        AttemptView {
            work: WorkId::from_index(0),
            number,
            started_ms,
            ended_ms: Some(ended_ms),
            end: Some(end),
            code: None,
            signal: None,
            why: None,
            peak_kib: None,
            cpu_ms: None,
            worker: None,
            log: PathBuf::new(),
        }
    }

    #[track_caller]
    fn check(attempts: &[(i64, i64, AttemptEnd)], expected: i64) {
        let attempts = attempts.iter().zip(1..);
        let attempts = attempts.map(|(&(from, to, end), number)| attempt(number, from, to, end));
        assert_eq!(time_of(&attempts.collect::<Vec<_>>(), 5_000), expected);
    }

    #[test]
    fn only_the_time_of_attempts_and_delays_counts() {
        use AttemptEnd::{Failed, Interrupted, Lost, Retry, Success};
        check(&[(10, 40, Success)], 30);
        // A wait for the next attempt belongs to it.
        check(&[(0, 5, Retry), (15, 20, Success)], 20);
        // Asked for again the next day, or gone on with.
        check(&[(0, 5, Failed), (1_000, 1_007, Success)], 12);
        check(&[(0, 5, Interrupted), (1_000, 1_007, Success)], 12);
        // Noticed the next day: its end is unknown.
        check(&[(0, 1_000, Lost), (1_000, 1_007, Success)], 7);
    }
}
