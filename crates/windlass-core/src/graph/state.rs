//! The states of a node, and which follows which.

use std::fmt;

/// Where a node of a [`DependencyGraph`](super::DependencyGraph) stands.
///
/// ```text
/// pending ⇄ ready → running → completed
///             ↑        ↓
///             └──── failed         any that has not completed → aborted
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeState {
    /// Waits for dependencies that have not completed.
    Pending,
    /// All its dependencies have completed; it can start.
    Ready,
    /// Has started.
    Running,
    /// Ended well; final.
    Completed,
    /// Failed, and is on its way back to ready: nobody ever finds a node in this state.
    Failed,
    /// Given up, or depends on one that is; final.
    Aborted,
}

/// What can happen to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The last of its dependencies has completed.
    Unblock,
    /// It got a dependency that has not completed.
    Block,
    Start,
    Complete,
    Fail,
    /// After a failure.
    Retry,
    Abort,
}

impl NodeState {
    /// How many states there are.
    pub(super) const COUNT: usize = Self::Aborted as usize + 1;

    /// Whether the node has ended: completed or aborted.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Aborted)
    }

    /// The only place that knows which state follows; none if the step is not allowed.
    pub(super) fn after(self, step: Step) -> Option<Self> {
        Some(match (self, step) {
            (Self::Pending, Step::Unblock) => Self::Ready,
            (Self::Ready, Step::Block) => Self::Pending,
            (Self::Ready, Step::Start) => Self::Running,
            (Self::Running, Step::Complete) => Self::Completed,
            (Self::Running, Step::Fail) => Self::Failed,
            (Self::Failed, Step::Retry) => Self::Ready,
            (Self::Pending | Self::Ready | Self::Running, Step::Abort) => Self::Aborted,
            _ => return None,
        })
    }
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "pending",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Aborted => "aborted",
        })
    }
}
