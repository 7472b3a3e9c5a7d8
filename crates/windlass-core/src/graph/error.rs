//! Why a call on a graph was refused. Nothing has changed then.

use thiserror::Error;

use super::NodeState;

/// Why nodes were not added.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AddNodeError<K> {
    /// There is a node with this key already, or it is given twice.
    #[error("duplicate key {key:?}")]
    Duplicate {
        /// The key.
        key: K,
    },
    /// A node depends on one that is neither in the graph nor given with it.
    #[error("{key:?} depends on {dependency:?}, which is not in the graph")]
    UnknownDependency {
        /// The node to add.
        key: K,
        /// What it depends on.
        dependency: K,
    },
    /// Nodes depend on each other in a circle.
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

/// Why a node did not start, complete, fail or abort.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NodeError<K> {
    /// It is not there.
    #[error("{key:?} is not in the graph")]
    Unknown {
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
    /// Only a running node can complete or fail.
    #[error("{key:?} is {state}, not running")]
    NotRunning {
        /// The node.
        key: K,
        /// The state it is in.
        state: NodeState,
    },
    /// A node that has ended cannot be aborted: an end is final.
    #[error("{key:?} is {state}, which is final")]
    Ended {
        /// The node.
        key: K,
        /// The state it is in.
        state: NodeState,
    },
}
