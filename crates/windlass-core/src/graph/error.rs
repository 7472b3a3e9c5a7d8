//! Why a call on a graph was refused: one enum for each operation. Nothing has changed then.

use thiserror::Error;

use super::NodeState;

/// Why a node was not added.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AddNodeError<K> {
    /// There is a node with this key already.
    #[error("{key:?} is in the graph already")]
    Duplicate {
        /// The key.
        key: K,
    },
    /// It depends on a node that is not there.
    #[error("{key:?} depends on {dependency:?}, which is not in the graph")]
    UnknownDependency {
        /// The node to add.
        key: K,
        /// What it depends on.
        dependency: K,
    },
    /// It depends on itself.
    #[error("a cycle of dependencies: {path:?}")]
    Cycle {
        /// The cycle, each before the one that depends on it; it ends with the key it begins with.
        path: Vec<K>,
    },
}

/// Why none of many nodes was added.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AddAllError<K> {
    /// There is a node with this key already, or it is given twice.
    #[error("{key:?} is given twice, or in the graph already")]
    Duplicate {
        /// The key.
        key: K,
    },
    /// One depends on a node that is neither there nor given.
    #[error("{key:?} depends on {dependency:?}, which is neither given nor in the graph")]
    UnknownDependency {
        /// The node to add.
        key: K,
        /// What it depends on.
        dependency: K,
    },
    /// Some depend on each other in a circle.
    #[error("a cycle of dependencies: {path:?}")]
    Cycle {
        /// The cycle, each before the one that depends on it; it ends with the key it begins with.
        path: Vec<K>,
    },
}

/// Why an edge was not added.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AddEdgeError<K> {
    /// One of its ends is not there.
    #[error("{key:?} is not in the graph")]
    UnknownNode {
        /// The key that is not there.
        key: K,
    },
    /// The node that should wait has begun or ended, and can wait for nothing more.
    #[error("{key:?} is {state}, too late for another dependency")]
    TooLate {
        /// The node that should wait.
        key: K,
        /// The state it is in.
        state: NodeState,
    },
    /// The node would depend on itself.
    #[error("a cycle of dependencies: {path:?}")]
    Cycle {
        /// The cycle, each before the one that depends on it: along the refused edge, and back to
        /// where it begins.
        path: Vec<K>,
    },
}

/// Why a node was not started.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StartError<K> {
    /// It is not there.
    #[error("{key:?} is not in the graph")]
    UnknownNode {
        /// The key that is not there.
        key: K,
    },
    /// Only a ready node can start.
    #[error("{key:?} is {state}, not ready")]
    NotReady {
        /// The node.
        key: K,
        /// The state it is in.
        state: NodeState,
    },
}

/// Why a node was not completed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CompleteError<K> {
    /// It is not there.
    #[error("{key:?} is not in the graph")]
    UnknownNode {
        /// The key that is not there.
        key: K,
    },
    /// Only a running node can complete.
    #[error("{key:?} is {state}, not running")]
    NotRunning {
        /// The node.
        key: K,
        /// The state it is in.
        state: NodeState,
    },
}

/// Why the failure of a node was not taken in.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FailError<K> {
    /// It is not there.
    #[error("{key:?} is not in the graph")]
    UnknownNode {
        /// The key that is not there.
        key: K,
    },
    /// Only a running node can fail.
    #[error("{key:?} is {state}, not running")]
    NotRunning {
        /// The node.
        key: K,
        /// The state it is in.
        state: NodeState,
    },
}

/// Why a node was not aborted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AbortError<K> {
    /// It is not there.
    #[error("{key:?} is not in the graph")]
    UnknownNode {
        /// The key that is not there.
        key: K,
    },
    /// It has ended: an end is final.
    #[error("{key:?} is {state}, which is final")]
    Ended {
        /// The node.
        key: K,
        /// The state it is in.
        state: NodeState,
    },
}
