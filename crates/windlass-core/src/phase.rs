//! The life of a work: its phases, and the one table of steps between them.

use std::fmt;

use crate::Timestamp;

/// Where a work stands, as its users see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkState {
    /// Waits: for other works, for its turn, for room, or for a retry to come due.
    Pending,
    /// An attempt is under way.
    Running,
    /// Ended well.
    Success,
    /// Ended badly, and will not be tried again.
    Failed,
    /// Will never run, because a work it waits for did not succeed.
    Blocked,
    /// Ended on request.
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

    /// Whether this is an end.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        !matches!(self, WorkState::Pending | WorkState::Running)
    }

    /// Whether this is the good end.
    #[must_use]
    pub fn is_success(self) -> bool {
        self == WorkState::Success
    }

    /// Whether this is an end, and not the good one.
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

/// Where a work stands, in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Some of the works it follows have not ended yet as they must.
    Waiting,
    /// Those have; its gate has not opened.
    Gated,
    /// In line for room inside the engine.
    Ready,
    /// Room is taken for it, and no attempt has begun.
    Granted,
    /// Everything inside fits; something outside the engine refused it and will ring.
    WaitingOutside,
    /// Waits for its next attempt to come due; holds nothing.
    Delayed {
        /// When it is in the queue again.
        due: Timestamp,
    },
    /// An attempt is under way.
    Running,
    /// An attempt is under way and waits for something outside; it holds nothing meanwhile.
    Suspended,
    /// Its wait is over, and it is in the queue to go on.
    Resuming,
    /// Its body has returned, and its children have not all ended; it holds nothing meanwhile.
    Joining,
    /// An attempt is under way and was asked to stop.
    Cancelling {
        /// Why.
        why: StopReason,
        /// Whether it has what it needs; not if it was asked while it waited.
        holds: bool,
    },
    /// Ended well.
    Success,
    /// Ended well without running: it was only for a failure that did not happen.
    Skipped,
    /// Ended badly.
    Failed,
    /// Will never run.
    Blocked,
    /// Ended on request.
    Cancelled,
}

/// Why an attempt was asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum StopReason {
    /// It took longer than one attempt may; there may be another one.
    Timeout,
    /// The work's deadline has passed; there will be no other attempt.
    Deadline,
    /// Someone asked for it.
    Cancel,
}

/// What can happen to a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The last work it waits for has ended as it must.
    Unblock,
    /// The same, and its gate is closed.
    ReachGate,
    /// Its gate opened.
    Open,
    /// Its gate will never open, or its deadline passed before it began.
    RejectedBeforeStart,
    /// A work it waits for can no longer end as it must.
    Block,
    /// The last work it waits for has ended, and it is not needed; or its gate says so.
    Skip,
    /// It has to wait for one more.
    Hold,
    /// Room was taken for it.
    Grant,
    /// Whoever had the grant does not begin.
    HandBack,
    /// Something outside refused it.
    Refuse,
    /// What refused it outside may be had now.
    Notify,
    Start,
    /// It waits for something outside.
    Suspend,
    /// What it waited for is there.
    ResumeRequested,
    /// It has what it needs again.
    Resume,
    /// Its body has returned before its children.
    Join,
    RetryAt(Timestamp),
    ComeDue,
    /// Its runner was lost; the attempt does not count.
    Interrupt,
    Succeed,
    Fail,
    /// It should stop, or not even begin.
    Ask(StopReason),
    /// The attempt that was asked to stop has ended.
    Stop,
    /// A person wants it tried again, after its end.
    Reopen,
}

/// A step that the table does not have: a bug in the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IllegalStep {
    pub(crate) from: Phase,
    pub(crate) step: Step,
}

impl Phase {
    /// The only place where a phase changes.
    #[inline(always)]
    pub(crate) fn after(self, step: Step) -> Result<Phase, IllegalStep> {
        Ok(match (self, step) {
            (Phase::Waiting, Step::Unblock) => Phase::Ready,
            (Phase::Waiting, Step::ReachGate) => Phase::Gated,
            (Phase::Waiting, Step::Block) => Phase::Blocked,
            (Phase::Waiting | Phase::Gated, Step::Skip) => Phase::Skipped,
            (Phase::Gated, Step::Open) => Phase::Ready,
            (Phase::Gated | Phase::Ready | Phase::Granted | Phase::WaitingOutside, Step::Hold) => {
                Phase::Waiting
            }
            (Phase::Ready, Step::Grant) => Phase::Granted,
            (Phase::Granted, Step::HandBack) => Phase::Ready,
            (Phase::Granted, Step::Refuse) => Phase::WaitingOutside,
            (Phase::WaitingOutside, Step::Notify) => Phase::Ready,
            (Phase::Granted | Phase::Ready, Step::Start) => Phase::Running,
            (Phase::Running | Phase::Resuming, Step::Suspend) => Phase::Suspended,
            (Phase::Suspended, Step::ResumeRequested) => Phase::Resuming,
            (Phase::Resuming, Step::Resume) => Phase::Running,
            (Phase::Running | Phase::Suspended | Phase::Resuming, Step::Join) => Phase::Joining,
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

    /// The phase after an attempt's end.
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

    /// The phase of an attempt that should stop; a graver reason takes the place of another.
    fn asked_to_stop(self, asked: StopReason) -> Phase {
        match self {
            Phase::Cancelling { why, holds } => Phase::Cancelling { why: why.max(asked), holds },
            phase => Phase::Cancelling { why: asked, holds: phase.holds() },
        }
    }

    fn is_under_way(self) -> bool {
        self.state() == WorkState::Running
    }

    /// The same as its users see it.
    #[must_use]
    pub fn state(self) -> WorkState {
        match self {
            Phase::Waiting
            | Phase::Gated
            | Phase::Ready
            | Phase::Granted
            | Phase::WaitingOutside
            | Phase::Delayed { .. } => WorkState::Pending,
            Phase::Running
            | Phase::Suspended
            | Phase::Resuming
            | Phase::Joining
            | Phase::Cancelling { .. } => WorkState::Running,
            Phase::Success | Phase::Skipped => WorkState::Success,
            Phase::Failed => WorkState::Failed,
            Phase::Blocked => WorkState::Blocked,
            Phase::Cancelled => WorkState::Cancelled,
        }
    }

    /// Whether a work in this phase has taken what it needs.
    #[must_use]
    pub fn holds(self) -> bool {
        match self {
            Phase::Granted | Phase::Running => true,
            Phase::Cancelling { holds, .. } => holds,
            _ => false,
        }
    }

    /// Whether a work in this phase is in the queue.
    pub(crate) fn is_queued(self) -> bool {
        matches!(self, Phase::Ready | Phase::Resuming)
    }

    /// Whether an attempt in this phase uses up its time.
    pub(crate) fn is_timed(self) -> bool {
        self == Phase::Running
    }

    /// Whether a work that becomes ready from here keeps its place in the queue.
    pub(crate) fn keeps_its_place(self) -> bool {
        matches!(self, Phase::Granted | Phase::WaitingOutside)
    }

    /// The phase as a replay of the facts knows it: what is not journaled is Ready.
    pub(crate) fn journaled(self) -> Phase {
        match self {
            Phase::Granted | Phase::WaitingOutside => Phase::Ready,
            phase => phase,
        }
    }
}

#[cfg(test)]
mod tests;
