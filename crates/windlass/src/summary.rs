//! How the works of a run ended: counted end by end, so that it does not depend on which works are still known.

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;
use windlass_core::{Phase, WorkId, WorkState};

use crate::reference::WorkFailure;

/// How many failures a summary describes; the others are only counted.
const DESCRIBED: usize = 8;

/// How the works of a run ended.
///
/// A summary covers the works that have ended since the previous run of the scheduler returned. It also counts
/// works that are forgotten by now. A work that failed and was then [reopened](crate::WorkHandle::reopen), and
/// the children of an attempt that is retried, no longer count as failed.
///
/// ```
/// use windlass::{WorkError, WorkScheduler, work_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass::SubmitError> {
/// let mut scheduler = WorkScheduler::default();
/// let fetch = work_fn("fetch", |_ctx| async { Err::<(), _>(WorkError::msg("no route")) });
/// let fetch = scheduler.submit(fetch)?;
/// scheduler.submit(work_fn("parse", |_ctx| async { Ok(()) }).after([fetch]))?;
/// scheduler.submit(work_fn("greet", |_ctx| async { Ok(()) }))?;
///
/// let summary = scheduler.run_until_done().await;
/// assert!(!summary.is_success());
/// assert_eq!(summary.to_string(), "1 succeeded, 1 failed, 1 blocked");
/// let failed = summary.into_result().unwrap_err();
/// assert_eq!(
///     failed.to_string(),
///     "1 work failed and 1 was blocked; first: \"fetch\": no route"
/// );
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "a run may have failed: look at the summary"]
#[non_exhaustive]
pub struct RunSummary {
    /// Works that ran and succeeded. One that is repeated after a success, because a work before it was
    /// reopened, counts once for each success.
    pub success: usize,
    /// Works that were not needed, and so succeeded without running.
    pub skipped: usize,
    /// Works that failed.
    pub failed: usize,
    /// Works that never ran, because a work they depend on did not succeed.
    pub blocked: usize,
    /// Works that were cancelled.
    pub cancelled: usize,
    /// The first failures, in the order in which they happened.
    pub failures: Vec<WorkFailure>,
}

/// The error of [`RunSummary::into_result`]: at least one work of the run did not succeed. [`RunSummary`] has an
/// example.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", self.summary.to_sentence())]
#[non_exhaustive]
pub struct RunFailed {
    /// All counts of the run, and its first failures.
    pub summary: RunSummary,
}

impl RunSummary {
    /// Returns whether all works succeeded or were skipped: none failed, was blocked or was cancelled.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.failed == 0 && self.blocked == 0 && self.cancelled == 0
    }

    /// Returns an error unless the run [was a success](Self::is_success).
    pub fn into_result(self) -> Result<(), RunFailed> {
        if self.is_success() { Ok(()) } else { Err(RunFailed { summary: self }) }
    }

    /// Returns the works that did not succeed as a sentence, with the first failure.
    fn to_sentence(&self) -> String {
        let parts = [
            (self.failed, "failed", "failed"),
            (self.blocked, "was blocked", "were blocked"),
            (self.cancelled, "was cancelled", "were cancelled"),
        ];
        let mut clauses: Vec<String> = Vec::new();
        for (count, one, several) in parts.into_iter().filter(|part| part.0 > 0) {
            let works = if clauses.is_empty() { works(count) } else { "" };
            clauses.push(format!("{count}{works} {}", if count == 1 { one } else { several }));
        }
        let last = clauses.pop().unwrap_or_default();
        let mut text =
            if clauses.is_empty() { last } else { format!("{} and {last}", clauses.join(", ")) };
        if let Some(WorkFailure { name, error, .. }) = self.failures.first() {
            text += &format!("; first: {name:?}");
            text.extend(error.iter().flat_map(|error| [": ", error]));
        }
        text
    }
}

fn works(count: usize) -> &'static str {
    if count == 1 { " work" } else { " works" }
}

impl fmt::Display for RunSummary {
    /// The counts that are not zero, in one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.success, "succeeded"),
            (self.skipped, "skipped"),
            (self.failed, "failed"),
            (self.blocked, "blocked"),
            (self.cancelled, "cancelled"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let counts: Vec<_> = counts.map(|(count, what)| format!("{count} {what}")).collect();
        f.write_str(if counts.is_empty() { "no work ended" } else { "" })?;
        f.write_str(&counts.join(", "))
    }
}

/// Counts the ends of works for the summary of a run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    summary: RunSummary,
    /// The works that did not succeed and are still known, so that their ends can be withdrawn.
    unsuccessful: BTreeMap<WorkId, WorkState>,
}

impl Tally {
    /// Counts the end of a work. Returns whether [`Tally::describe`] should be called for it.
    #[inline]
    pub(crate) fn count(&mut self, work: WorkId, end: Phase) -> bool {
        match end {
            Phase::Success => self.summary.success += 1,
            Phase::Skipped => self.summary.skipped += 1,
            _ => self.count_unsuccessful(work, end.state()),
        }
        end == Phase::Failed && self.summary.failures.len() < DESCRIBED
    }

    fn count_unsuccessful(&mut self, work: WorkId, state: WorkState) {
        *self.counter(state) += 1;
        self.unsuccessful.insert(work, state);
    }

    pub(crate) fn describe(&mut self, failure: WorkFailure) {
        self.summary.failures.push(failure);
    }

    /// Uncounts the end of a work that will run again or is replaced.
    pub(crate) fn withdraw(&mut self, work: WorkId) {
        if let Some(state) = self.unsuccessful.remove(&work) {
            *self.counter(state) -= 1;
            self.summary.failures.retain(|failure| failure.id.local() != work);
        }
    }

    /// A work is forgotten, so its end stays counted.
    pub(crate) fn forget(&mut self, work: WorkId) {
        self.unsuccessful.remove(&work);
    }

    /// Returns the summary of everything counted so far, and starts again at zero.
    pub(crate) fn take(&mut self) -> RunSummary {
        std::mem::take(self).summary
    }

    fn counter(&mut self, state: WorkState) -> &mut usize {
        match state {
            WorkState::Failed => &mut self.summary.failed,
            WorkState::Blocked => &mut self.summary.blocked,
            WorkState::Cancelled => &mut self.summary.cancelled,
            other => unreachable!("{other} is no unsuccessful end"),
        }
    }
}
