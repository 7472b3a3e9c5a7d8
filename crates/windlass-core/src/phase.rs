//! The life of a work: its phases, and the table of steps between them.
//!
//! Only `Phase::after` computes a phase. Knows nothing of time, queues or capacity.

use std::fmt;

use crate::Timestamp;

/// The state of a work, as its users see it. [`Phase`] is the state in full.
///
/// ```
/// use windlass_core::WorkState;
///
/// assert!(!WorkState::Running.is_terminal());
/// assert!(WorkState::Success.is_success());
/// assert!(WorkState::Blocked.is_failure(), "a work before it did not succeed, so it never ran");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkState {
    /// The work waits: for dependencies, its place in the queue, capacity, or a retry.
    Pending,
    /// An attempt is under way.
    Running,
    /// The work succeeded.
    Success,
    /// The work failed, and will not be retried.
    Failed,
    /// The work will never run, because a dependency did not end as required.
    Blocked,
    /// The work was cancelled.
    Cancelled,
}

impl WorkState {
    /// All states, in the order in which they are counted.
    pub const ALL: [WorkState; 6] = [
        WorkState::Pending,
        WorkState::Running,
        WorkState::Success,
        WorkState::Failed,
        WorkState::Blocked,
        WorkState::Cancelled,
    ];

    /// Returns whether the work has ended.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        !matches!(self, WorkState::Pending | WorkState::Running)
    }

    /// Returns whether the work succeeded.
    #[must_use]
    pub fn is_success(self) -> bool {
        self == WorkState::Success
    }

    /// Returns whether the work has ended without success.
    #[must_use]
    pub fn is_failure(self) -> bool {
        self.is_terminal() && !self.is_success()
    }
}

impl fmt::Display for WorkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The state of a work in full: what it waits for, or how it ended.
///
/// ```
/// use windlass_core::{Phase, WorkState};
///
/// // A work that waits without a slot still counts as running; one that waits for a retry does not.
/// assert_eq!(Phase::Suspended.state(), WorkState::Running);
/// assert_eq!(Phase::Delayed { due: windlass_core::Timestamp::MAX }.state(), WorkState::Pending);
/// assert_eq!(Phase::Skipped.state(), WorkState::Success);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Some dependencies have not ended as required yet.
    Waiting,
    /// All dependencies have; the gate has not opened.
    Gated,
    /// The work is queued for capacity.
    Ready,
    /// The engine took capacity for the work, and no attempt has begun.
    Granted,
    /// The engine has capacity for the work, but something outside refused it and will send
    /// [`Input::Notify`](crate::Input::Notify).
    WaitingOutside,
    /// Only a pause keeps the work from the queue; it keeps its place there.
    Paused,
    /// The work waits until its next attempt is due, and holds nothing.
    Delayed {
        /// When the work is queued again.
        due: Timestamp,
    },
    /// An attempt is under way.
    Running,
    /// The attempt waits for an event outside the engine, and holds nothing meanwhile.
    Suspended,
    /// A user has stopped the attempt; it holds its cost, and its time limit stands still.
    Halted,
    /// The event has happened, and the attempt is queued to resume.
    Resuming,
    /// The body returned before all its children ended; the attempt holds nothing meanwhile.
    Joining,
    /// An attempt is under way and was asked to stop.
    Cancelling {
        /// Why it was asked to stop.
        why: StopReason,
        /// Whether the attempt holds its cost; it does not if it was asked to stop while it waited.
        holds: bool,
    },
    /// The work succeeded.
    Success,
    /// The work succeeded without running: it was needed only after a failure that did not happen.
    Skipped,
    /// The work failed.
    Failed,
    /// The work will never run.
    Blocked,
    /// The work was cancelled.
    Cancelled,
}

/// Why an attempt was asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum StopReason {
    /// The attempt exceeded its time limit; the work may be retried.
    Timeout,
    /// The work's deadline has passed; there will be no further attempt.
    Deadline,
    /// A caller cancelled the work.
    Cancel,
}

/// The steps that a work can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The last dependency ended as required.
    Unblock,
    /// The last dependency ended as required, and the gate is closed.
    ReachGate,
    /// The gate opened.
    Open,
    /// The gate will never open, or the deadline passed before the work began.
    RejectedBeforeStart,
    /// A dependency can no longer end as required.
    Block,
    /// The last dependency ended and the work is not needed, or its gate reported that.
    Skip,
    /// The work got one more dependency.
    Hold,
    /// The engine took capacity for the work.
    Grant,
    /// The driver does not begin the granted attempt.
    HandBack,
    /// Something outside the engine refused the work.
    Refuse,
    /// What refused the work outside may be available now.
    Notify,
    /// A user has paused the ready work, or all works.
    Pause,
    /// A user lets the work continue.
    Unpause,
    Start,
    /// The attempt waits for an event outside the engine.
    Suspend,
    /// A user stops the attempt.
    Halt,
    /// A user lets the stopped attempt continue.
    Continue,
    /// The event has happened.
    ResumeRequested,
    /// The attempt holds its cost again.
    Resume,
    /// The body returned before its children ended.
    Join,
    RetryAt(Timestamp),
    ComeDue,
    /// The runner was lost; the attempt does not count.
    Interrupt,
    Succeed,
    Fail,
    /// The attempt should stop, or the work should not begin.
    Ask(StopReason),
    /// The attempt that was asked to stop has ended.
    Stop,
    /// A user retries the ended work.
    Reopen,
}

/// A step that is not in the table: a bug in the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IllegalStep {
    pub(crate) from: Phase,
    pub(crate) step: Step,
}

impl Phase {
    /// Returns the phase after a step. Only this function computes a phase.
    #[inline(always)]
    pub(crate) fn after(self, step: Step) -> Result<Phase, IllegalStep> {
        Ok(match (self, step) {
            (Phase::Waiting, Step::Unblock) => Phase::Ready,
            (Phase::Waiting, Step::ReachGate) => Phase::Gated,
            (Phase::Waiting, Step::Block) => Phase::Blocked,
            (Phase::Waiting | Phase::Gated, Step::Skip) => Phase::Skipped,
            (Phase::Gated, Step::Open) => Phase::Ready,
            (
                Phase::Gated
                | Phase::Ready
                | Phase::Granted
                | Phase::WaitingOutside
                | Phase::Paused,
                Step::Hold,
            ) => Phase::Waiting,
            (Phase::Ready, Step::Grant) => Phase::Granted,
            (Phase::Granted, Step::HandBack) => Phase::Ready,
            (Phase::Granted, Step::Refuse) => Phase::WaitingOutside,
            (Phase::WaitingOutside, Step::Notify) => Phase::Ready,
            (Phase::Ready | Phase::Granted | Phase::WaitingOutside, Step::Pause) => Phase::Paused,
            (Phase::Paused, Step::Unpause) => Phase::Ready,
            (Phase::Granted | Phase::Ready, Step::Start) => Phase::Running,
            (Phase::Running | Phase::Resuming, Step::Suspend) => Phase::Suspended,
            (Phase::Running, Step::Halt) => Phase::Halted,
            (Phase::Halted, Step::Continue) => Phase::Running,
            (Phase::Suspended, Step::ResumeRequested) => Phase::Resuming,
            (Phase::Resuming, Step::Resume) => Phase::Running,
            (Phase::Running | Phase::Halted | Phase::Suspended | Phase::Resuming, Step::Join) => {
                Phase::Joining
            }
            (Phase::Delayed { .. }, Step::ComeDue) => Phase::Ready,
            (attempt, Step::Ask(why)) if attempt.is_under_way() => attempt.asked_to_stop(why),
            (attempt, step) if attempt.state() == WorkState::Running => attempt.ended(step)?,
            (pending, Step::RejectedBeforeStart) if pending.state() == WorkState::Pending => {
                Phase::Failed
            }
            (pending, Step::Ask(StopReason::Cancel)) if pending.state() == WorkState::Pending => {
                Phase::Cancelled
            }
            (idle, Step::Reopen) if !idle.is_under_way() => Phase::Waiting,
            (from, step) => return Err(IllegalStep { from, step }),
        })
    }

    /// Returns the phase after the end of an attempt.
    #[inline(always)]
    fn ended(self, step: Step) -> Result<Phase, IllegalStep> {
        Ok(match (self, step) {
            (Phase::Cancelling { why: StopReason::Cancel, .. }, Step::Stop) => Phase::Cancelled,
            (Phase::Cancelling { why: StopReason::Timeout, .. }, Step::RetryAt(due)) => {
                Phase::Delayed { due }
            }
            (
                Phase::Cancelling { why: StopReason::Timeout | StopReason::Deadline, .. },
                Step::Fail,
            ) => Phase::Failed,
            (Phase::Cancelling { .. }, step) => return Err(IllegalStep { from: self, step }),
            (_, Step::RetryAt(due)) => Phase::Delayed { due },
            (_, Step::Interrupt) => Phase::Ready,
            (_, Step::Succeed) => Phase::Success,
            (_, Step::Fail) => Phase::Failed,
            (from, step) => return Err(IllegalStep { from, step }),
        })
    }

    /// Returns the phase of an attempt that should stop. A graver reason replaces another.
    fn asked_to_stop(self, asked: StopReason) -> Phase {
        match self {
            Phase::Cancelling { why, holds } => Phase::Cancelling { why: why.max(asked), holds },
            phase => Phase::Cancelling { why: asked, holds: phase.holds() },
        }
    }

    fn is_under_way(self) -> bool {
        self.state() == WorkState::Running
    }

    /// Returns the state that users see.
    #[must_use]
    pub fn state(self) -> WorkState {
        match self {
            Phase::Waiting
            | Phase::Gated
            | Phase::Ready
            | Phase::Granted
            | Phase::WaitingOutside
            | Phase::Paused
            | Phase::Delayed { .. } => WorkState::Pending,
            Phase::Running
            | Phase::Suspended
            | Phase::Halted
            | Phase::Resuming
            | Phase::Joining
            | Phase::Cancelling { .. } => WorkState::Running,
            Phase::Success | Phase::Skipped => WorkState::Success,
            Phase::Failed => WorkState::Failed,
            Phase::Blocked => WorkState::Blocked,
            Phase::Cancelled => WorkState::Cancelled,
        }
    }

    /// Returns whether a work in this phase holds its cost.
    #[must_use]
    pub fn holds(self) -> bool {
        match self {
            Phase::Granted | Phase::Running | Phase::Halted => true,
            Phase::Cancelling { holds, .. } => holds,
            _ => false,
        }
    }

    /// Returns whether a work in this phase is queued.
    pub(crate) fn is_queued(self) -> bool {
        matches!(self, Phase::Ready | Phase::Resuming)
    }

    /// Returns whether a work in this phase has a place in the queue, which may be vacant.
    pub(crate) fn has_place(self) -> bool {
        self.is_queued() || self == Phase::Paused
    }

    /// Returns whether an attempt in this phase uses up its time limit.
    pub(crate) fn is_timed(self) -> bool {
        self == Phase::Running
    }

    /// Returns whether a work that becomes ready from this phase keeps its place in the queue.
    pub(crate) fn keeps_its_place(self) -> bool {
        matches!(self, Phase::Ready | Phase::Granted | Phase::WaitingOutside | Phase::Paused)
    }

    /// Returns the phase as a replay of the facts computes it: phases that are not journaled are
    /// `Ready`.
    pub(crate) fn journaled(self) -> Phase {
        match self {
            Phase::Granted | Phase::WaitingOutside => Phase::Ready,
            phase => phase,
        }
    }
}

#[cfg(test)]
mod tests;
