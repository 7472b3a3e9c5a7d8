//! Tracks which nodes can start: nodes by key, their dependencies, and the state of each.
//!
//! Every change returns its direct result and adds events that the caller drains; there are no
//! callbacks. A refused call leaves the graph unchanged. All orders are defined: nodes are listed
//! in the order in which they entered their state, dependents and dependencies in the order in
//! which they were connected.
//!
//! Knows nothing of priorities, capacity, time, or what the nodes mean.

use std::borrow::Borrow;
use std::collections::{BTreeMap, VecDeque};

use crate::dag::Dag;

mod add;
mod error;
mod state;

pub use error::{AddEdgeError, AddNodeError, NodeError};
pub use state::NodeState;
use state::NodeStep;

/// A graph of dependencies between keys, with a state for each key.
///
/// ```
/// use windlass_core::{DependencyGraph, NodeEvent};
///
/// let mut graph = DependencyGraph::new();
/// graph.add_node("fetch-data", [])?; // no dependencies: ready at once
/// graph.add_node("parse", ["fetch-data"])?;
/// graph.add_node("validate", ["parse"])?;
/// graph.add_node("transform", ["parse"])?;
/// graph.add_node("save", ["validate", "transform"])?;
///
/// graph.start("fetch-data")?;
/// assert_eq!(graph.complete("fetch-data")?, ["parse"]);
///
/// graph.start("parse")?;
/// assert_eq!(graph.complete("parse")?, ["validate", "transform"]);
///
/// // Both can run side by side.
/// graph.start("validate")?;
/// graph.start("transform")?;
/// assert!(graph.complete("validate")?.is_empty());
/// assert_eq!(graph.complete("transform")?, ["save"]);
///
/// assert!(!graph.is_done(), "save is ready");
/// graph.start("save")?;
/// graph.complete("save")?;
/// assert!(graph.is_done());
///
/// let events: Vec<_> = graph.drain_events().collect();
/// assert_eq!(events[0], NodeEvent::Ready("fetch-data"));
/// assert_eq!(events[1], NodeEvent::Completed("fetch-data"));
/// assert_eq!(events[2], NodeEvent::Ready("parse"));
/// assert_eq!(events.last(), Some(&NodeEvent::Completed("save")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct DependencyGraph<K> {
    /// By node id in `dag`.
    nodes: Vec<Node<K>>,
    numbers: BTreeMap<K, usize>,
    dag: Dag,
    /// By state: the nodes in it, ordered by the sequence number with which they entered it.
    members: [BTreeMap<u64, usize>; NodeState::COUNT],
    /// The undrained events: which node entered which state, by sequence number.
    events: BTreeMap<u64, (usize, NodeState)>,
    next_turn: u64,
}

#[derive(Clone, Debug)]
struct Node<K> {
    key: K,
    state: NodeState,
    /// The sequence number with which it entered its state.
    turn: u64,
    /// The sequence number of its last `Ready` event, drained or not.
    ready_event: Option<u64>,
}

/// A change of a node's state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeEvent<K> {
    /// The node can start.
    Ready(K),
    /// The node succeeded.
    Completed(K),
    /// The node was aborted before or while it ran.
    Aborted(K),
}

impl<K> Default for DependencyGraph<K> {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            numbers: BTreeMap::new(),
            dag: Dag::new(),
            members: Default::default(),
            events: BTreeMap::new(),
            next_turn: 0,
        }
    }
}

impl<K: Clone + Ord> DependencyGraph<K> {
    /// Creates an empty graph.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves a node from ready to running.
    pub fn start(&mut self, key: impl Borrow<K>) -> Result<(), NodeError<K>> {
        let key = key.borrow();
        let node = self.expect_known(key)?;
        match self.nodes[node].state {
            NodeState::Ready => self.step(node, NodeStep::Start),
            state => return Err(NodeError::NotReady { key: key.clone(), state }),
        }
        Ok(())
    }

    /// Moves a node from running to completed. Returns the nodes that became ready by it, in the
    /// order in which they were connected to it.
    pub fn complete(&mut self, key: impl Borrow<K>) -> Result<Vec<K>, NodeError<K>> {
        let key = key.borrow();
        let node = self.expect_known(key)?;
        match self.nodes[node].state {
            NodeState::Running => self.step(node, NodeStep::Complete),
            state => return Err(NodeError::NotRunning { key: key.clone(), state }),
        }
        Ok(self.unblock_dependents(node))
    }

    /// Moves a node from running back to ready, for another attempt.
    pub fn fail(&mut self, key: impl Borrow<K>) -> Result<(), NodeError<K>> {
        let key = key.borrow();
        let node = self.expect_known(key)?;
        match self.nodes[node].state {
            NodeState::Running => self.step(node, NodeStep::Fail),
            state => return Err(NodeError::NotRunning { key: key.clone(), state }),
        }
        self.step(node, NodeStep::Retry);
        Ok(())
    }

    /// Aborts a node that has not ended, and all its direct and indirect dependents. Returns all
    /// nodes that this call aborted, level by level.
    ///
    /// ```
    /// use windlass_core::DependencyGraph;
    ///
    /// let mut graph = DependencyGraph::new();
    /// graph.add_node("a", [])?;
    /// graph.add_node("b", ["a"])?;
    /// graph.add_node("c", ["b"])?;
    /// graph.add_node("d", ["b"])?;
    ///
    /// graph.start("a")?;
    /// assert_eq!(graph.abort("a")?, ["a", "b", "c", "d"]);
    /// assert!(graph.is_done());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn abort(&mut self, key: impl Borrow<K>) -> Result<Vec<K>, NodeError<K>> {
        let key = key.borrow();
        let node = self.expect_known(key)?;
        match self.nodes[node].state {
            state if state.is_terminal() => Err(NodeError::Ended { key: key.clone(), state }),
            _ => Ok(self.abort_with_dependents(node)),
        }
    }

    fn expect_known(&self, key: &K) -> Result<usize, NodeError<K>> {
        self.number(key).ok_or_else(|| NodeError::Unknown { key: key.clone() })
    }

    /// Removes and returns the events since the last call, in order.
    ///
    /// Events are kept until drained, at most three per node: of a node that became ready several
    /// times, only the last `Ready` is kept.
    pub fn drain_events(&mut self) -> impl Iterator<Item = NodeEvent<K>> {
        let events = std::mem::take(&mut self.events);
        events.into_values().map(|(node, state)| {
            let key = self.nodes[node].key.clone();
            match state {
                NodeState::Ready => NodeEvent::Ready(key),
                NodeState::Completed => NodeEvent::Completed(key),
                NodeState::Aborted => NodeEvent::Aborted(key),
                state => unreachable!("no event tells that a node is {state}"),
            }
        })
    }

    /// Returns whether the graph has a node with this key.
    #[must_use]
    pub fn has(&self, key: impl Borrow<K>) -> bool {
        self.numbers.contains_key(key.borrow())
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether the graph has no nodes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the state of a node, or `None` if it is not in the graph.
    #[must_use]
    pub fn state(&self, key: impl Borrow<K>) -> Option<NodeState> {
        self.number(key.borrow()).map(|node| self.nodes[node].state)
    }

    /// Returns the dependencies of a node in the order in which they were connected, or `None` if
    /// it is not in the graph.
    pub fn dependencies(&self, key: impl Borrow<K>) -> Option<impl Iterator<Item = &K>> {
        let node = self.number(key.borrow())?;
        Some(self.dag.sources(node).map(|edge| &self.nodes[edge.node].key))
    }

    /// Returns the dependents of a node in the order in which they were connected, or `None` if it
    /// is not in the graph.
    pub fn dependents(&self, key: impl Borrow<K>) -> Option<impl Iterator<Item = &K>> {
        let node = self.number(key.borrow())?;
        Some(self.dag.targets(node).map(|edge| &self.nodes[edge.node].key))
    }

    /// Returns the nodes that wait for dependencies, in the order in which they became pending.
    pub fn pending(&self) -> impl ExactSizeIterator<Item = &K> {
        self.members(NodeState::Pending)
    }

    /// Returns the nodes that can start, in the order in which they became ready.
    pub fn ready(&self) -> impl ExactSizeIterator<Item = &K> {
        self.members(NodeState::Ready)
    }

    /// Returns the running nodes, in the order in which they started.
    pub fn running(&self) -> impl ExactSizeIterator<Item = &K> {
        self.members(NodeState::Running)
    }

    /// Returns the completed nodes, in the order in which they completed.
    pub fn completed(&self) -> impl ExactSizeIterator<Item = &K> {
        self.members(NodeState::Completed)
    }

    /// Returns the aborted nodes, in the order in which they were aborted.
    pub fn aborted(&self) -> impl ExactSizeIterator<Item = &K> {
        self.members(NodeState::Aborted)
    }

    /// Returns whether all nodes are completed or aborted.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.completed().len() + self.aborted().len() == self.len()
    }

    /// Returns all keys, dependencies before dependents, otherwise in the order in which they were
    /// added.
    #[must_use]
    pub fn topological_sort(&self) -> Vec<&K> {
        self.dag.topological_order().into_iter().map(|node| &self.nodes[node].key).collect()
    }

    /// Returns whether the graph has a cycle, by a pass over the whole graph. It never has, because
    /// every change that would close one is refused; this is for assertions.
    #[must_use]
    pub fn has_cycle(&self) -> bool {
        self.dag.topological_order().len() < self.len()
    }

    fn number(&self, key: &K) -> Option<usize> {
        self.numbers.get(key).copied()
    }

    fn members(&self, state: NodeState) -> impl ExactSizeIterator<Item = &K> {
        self.members[state as usize].values().map(|&node| &self.nodes[node].key)
    }

    fn unblock_dependents(&mut self, node: usize) -> Vec<K> {
        let mut ready = Vec::new();
        let mut cursor = self.dag.first_target(node);
        while let Some((edge, next)) = self.dag.follow(cursor) {
            cursor = next;
            let left = self.dag.meet(edge.node);
            if left == 0 && self.nodes[edge.node].state == NodeState::Pending {
                self.step(edge.node, NodeStep::Unblock);
                ready.push(self.nodes[edge.node].key.clone());
            }
        }
        ready
    }

    fn abort_with_dependents(&mut self, node: usize) -> Vec<K> {
        self.step(node, NodeStep::Abort);
        let mut aborted = vec![self.nodes[node].key.clone()];
        let mut level = VecDeque::from([node]);
        while let Some(node) = level.pop_front() {
            let mut cursor = self.dag.first_target(node);
            while let Some((edge, next)) = self.dag.follow(cursor) {
                cursor = next;
                if !self.nodes[edge.node].state.is_terminal() {
                    self.step(edge.node, NodeStep::Abort);
                    aborted.push(self.nodes[edge.node].key.clone());
                    level.push_back(edge.node);
                }
            }
        }
        aborted
    }

    /// Changes the state of a node. Only this function does, and it updates everything derived from
    /// states.
    fn step(&mut self, node: usize, step: NodeStep) {
        let entry = &mut self.nodes[node];
        let from = entry.state;
        let to = from.after(step).unwrap_or_else(|| panic!("{step:?} of a node that is {from}"));
        self.members[from as usize].remove(&entry.turn);
        entry.state = to;
        self.enter(node);
    }

    /// Lists the node under its new state and adds the event.
    fn enter(&mut self, node: usize) {
        let turn = self.next_turn;
        self.next_turn += 1;
        let entry = &mut self.nodes[node];
        entry.turn = turn;
        self.members[entry.state as usize].insert(turn, node);
        match entry.state {
            NodeState::Ready => {
                if let Some(earlier) = entry.ready_event.replace(turn) {
                    self.events.remove(&earlier);
                }
            }
            NodeState::Completed | NodeState::Aborted => {}
            NodeState::Pending | NodeState::Running | NodeState::Failed => return,
        }
        self.events.insert(turn, (node, entry.state));
    }
}
