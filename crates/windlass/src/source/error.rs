//! Why a source refuses.

use std::fmt::Debug;

use thiserror::Error;

/// The source takes nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the source is closed, so nothing can be added to it")]
pub struct SourceClosed;

/// Why a task was not added; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EnqueueError<K: Debug> {
    /// The source takes nothing more.
    #[error(transparent)]
    Closed(#[from] SourceClosed),
    /// There is a task with this key already.
    #[error("{key:?} is there already")]
    Twice {
        /// The key.
        key: K,
    },
    /// It would wait for something that is not there.
    #[error("{key:?} is not there, so nothing can wait for it")]
    UnknownDependency {
        /// The missing key.
        key: K,
    },
}

/// Why no source can be made of a graph and tasks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SourceError<K: Debug> {
    /// A key that can start, or will, has nothing to start.
    #[error(
        "{key:?} is in the graph and has no task, so all that depends on it would wait for ever"
    )]
    NoTask {
        /// The key.
        key: K,
    },
    /// A key has two tasks, and only one of them could ever start.
    #[error("{key:?} has two tasks")]
    Twice {
        /// The key.
        key: K,
    },
    /// A task that nothing would ever start.
    #[error("{key:?} has a task and is not in the graph, so it would never start")]
    NotInGraph {
        /// The key.
        key: K,
    },
}

/// Why news about a task was refused; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReportError<K: Debug> {
    /// No such key was ever added.
    #[error("{key:?} is not there")]
    Unknown {
        /// The key.
        key: K,
    },
    /// Another source issued this key.
    #[error("{key:?} belongs to another source")]
    OtherSource {
        /// The key.
        key: K,
    },
    /// It has not been pulled, or is in line again.
    #[error("{key:?} is not under way")]
    NotUnderWay {
        /// The key.
        key: K,
    },
    /// Its end has been reported already, by a caller or by the runner.
    #[error("the end of {key:?} has been reported already")]
    AlreadyReported {
        /// The key.
        key: K,
    },
    /// A runner runs it and will report its end itself.
    #[error("{key:?} is run by a runner, which reports its end itself")]
    RunByRunner {
        /// The key.
        key: K,
    },
}

impl<K: Debug> ReportError<K> {
    /// The same about the key that stands for it elsewhere.
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
