//! The errors of a graph. A call that fails changes nothing.

use thiserror::Error;

use super::NodeState;

/// Nodes that were not added.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AddNodeError<K> {
    /// A key exists already or is repeated.
    #[error("duplicate key {key:?}")]
    Duplicate {
        /// The duplicate key.
        key: K,
    },
    /// A dependency is neither in the graph nor among the new nodes.
    #[error("{key:?} depends on {dependency:?}, which is not in the graph")]
    UnknownDependency {
        /// The node to add.
        key: K,
        /// The unknown dependency.
        dependency: K,
    },
    /// Nodes depend on each other.
    #[error("a cycle of dependencies: {path:?}")]
    Cycle {
        /// The cycle, each key before the one that depends on it; it ends with its first key.
        path: Vec<K>,
    },
}

/// An edge that was not added.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AddEdgeError<K> {
    /// One of its ends is not in the graph.
    #[error("{key:?} is not in the graph")]
    UnknownNode {
        /// The unknown key.
        key: K,
    },
    /// The dependent has begun or ended.
    #[error("{key:?} is {state}, too late for another dependency")]
    TooLate {
        /// The dependent.
        key: K,
        /// Its state.
        state: NodeState,
    },
    /// The node would depend on itself.
    #[error("a cycle of dependencies: {path:?}")]
    Cycle {
        /// The cycle, each key before the one that depends on it: along the refused edge, and back
        /// to its first key.
        path: Vec<K>,
    },
}

/// A change of state that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NodeError<K> {
    /// The node is not in the graph.
    #[error("{key:?} is not in the graph")]
    Unknown {
        /// The unknown key.
        key: K,
    },
    /// Only a ready node can start.
    #[error("{key:?} is {state}, not ready")]
    NotReady {
        /// The node.
        key: K,
        /// Its state.
        state: NodeState,
    },
    /// Only a running node can complete or fail.
    #[error("{key:?} is {state}, not running")]
    NotRunning {
        /// The node.
        key: K,
        /// Its state.
        state: NodeState,
    },
    /// A node that has ended cannot be aborted.
    #[error("{key:?} is {state}, which is final")]
    Ended {
        /// The node.
        key: K,
        /// Its state.
        state: NodeState,
    },
}
