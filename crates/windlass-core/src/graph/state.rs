//! The states of a node, and the steps between them.

use std::fmt;

/// The state of a node of a [`DependencyGraph`](super::DependencyGraph).
///
/// ```text
/// pending ⇄ ready → running → completed
///             ↑        ↓
///             └──── failed         any that has not completed → aborted
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeState {
    /// Some dependencies have not completed.
    Pending,
    /// All dependencies have completed; the node can start.
    Ready,
    /// The node has started.
    Running,
    /// The node succeeded; final.
    Completed,
    /// The node failed and becomes ready again: a caller never sees this state.
    Failed,
    /// The node, or one that it depends on, was aborted; final.
    Aborted,
}

/// The steps that a node can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeStep {
    /// The last of its dependencies completed.
    Unblock,
    /// The node got a dependency that has not completed.
    Block,
    Start,
    Complete,
    Fail,
    /// The node becomes ready after a failure.
    Retry,
    Abort,
}

impl NodeState {
    /// The number of states.
    pub(super) const COUNT: usize = Self::Aborted as usize + 1;

    /// Returns whether the node is completed or aborted.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Aborted)
    }

    /// Returns the state after a step, or `None` if the step is not allowed. Only this function
    /// knows the rules.
    pub(super) fn after(self, step: NodeStep) -> Option<Self> {
        Some(match (self, step) {
            (Self::Pending, NodeStep::Unblock) => Self::Ready,
            (Self::Ready, NodeStep::Block) => Self::Pending,
            (Self::Ready, NodeStep::Start) => Self::Running,
            (Self::Running, NodeStep::Complete) => Self::Completed,
            (Self::Running, NodeStep::Fail) => Self::Failed,
            (Self::Failed, NodeStep::Retry) => Self::Ready,
            (Self::Pending | Self::Ready | Self::Running, NodeStep::Abort) => Self::Aborted,
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
