//! The errors of sources.

use std::fmt::Debug;

use thiserror::Error;

/// The source is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the source is closed, so nothing can be added to it")]
pub struct SourceClosed;

/// Why a task was not added; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EnqueueError<K: Debug> {
    /// The source is closed.
    #[error(transparent)]
    Closed(#[from] SourceClosed),
    /// The source has a task with this key.
    #[error("duplicate key {key:?}")]
    Twice {
        /// The key.
        key: K,
    },
    /// The source has no task with the key of this dependency.
    #[error("unknown dependency {key:?}")]
    UnknownDependency {
        /// The unknown key.
        key: K,
    },
}

/// Why no source can be created from a graph and tasks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SourceError<K: Debug> {
    /// A node of the graph that has not ended has no task.
    #[error("node {key:?} of the graph has no task, so its dependents would wait for ever")]
    NoTask {
        /// The key.
        key: K,
    },
    /// A node has two tasks.
    #[error("node {key:?} has two tasks")]
    Twice {
        /// The key.
        key: K,
    },
    /// A task is not in the graph.
    #[error("task {key:?} is not in the graph, so it would never start")]
    NotInGraph {
        /// The key.
        key: K,
    },
}

/// Why a report about a task was refused; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReportError<K: Debug> {
    /// The source never had this key.
    #[error("unknown task {key:?}")]
    Unknown {
        /// The key.
        key: K,
    },
    /// Another source issued this key.
    #[error("task {key:?} belongs to another source")]
    OtherSource {
        /// The key.
        key: K,
    },
    /// The task has not been pulled, or is queued again.
    #[error("task {key:?} is not under way")]
    NotUnderWay {
        /// The key.
        key: K,
    },
    /// The end of the task was reported before, by a caller or a runner.
    #[error("the end of task {key:?} was reported before")]
    AlreadyReported {
        /// The key.
        key: K,
    },
    /// A runner has the task and reports its end.
    #[error("a runner has task {key:?} and reports its end")]
    RunByRunner {
        /// The key.
        key: K,
    },
}

impl<K: Debug> ReportError<K> {
    /// Returns the same error about another key for the same task.
    pub(super) fn about<L: Debug>(self, key: L) -> ReportError<L> {
        match self {
            Self::Unknown { .. } => ReportError::Unknown { key },
            Self::OtherSource { .. } => ReportError::OtherSource { key },
            Self::NotUnderWay { .. } => ReportError::NotUnderWay { key },
            Self::AlreadyReported { .. } => ReportError::AlreadyReported { key },
            Self::RunByRunner { .. } => ReportError::RunByRunner { key },
        }
    }
}
