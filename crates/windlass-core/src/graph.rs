//! Tracks what may start: nodes by key, what each depends on, and how far each has come.
//!
//! Every change answers what became of it, and is an event to be drained; nothing is called back.
//! A refused call leaves the graph exactly as it was. All orders are defined: lists of nodes are in
//! the order in which they entered their state, dependents and dependencies in the order in which
//! they were connected.
//!
//! Knows nothing of what the nodes stand for, of priorities, capacity or time.

use std::borrow::Borrow;
use std::collections::{BTreeMap, VecDeque};

use crate::dag::Dag;

mod add;
mod error;
mod state;

pub use error::{AddEdgeError, AddNodeError, NodeError};
pub use state::NodeState;
use state::Step;

/// A graph of dependencies between keys, with a state for each.
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
    /// By number in `dag`.
    nodes: Vec<Node<K>>,
    numbers: BTreeMap<K, usize>,
    dag: Dag,
    /// For each state, who is in it: by turn, which is when they entered it.
    members: [BTreeMap<u64, usize>; NodeState::COUNT],
    /// What has happened since the last drain: who entered which state, by turn.
    events: BTreeMap<u64, (usize, NodeState)>,
    next_turn: u64,
}

#[derive(Clone, Debug)]
struct Node<K> {
    key: K,
    state: NodeState,
    /// When it entered its state.
    turn: u64,
    /// The last event about its becoming ready, drained or not.
    ready_event: Option<u64>,
}

/// What happened to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeEvent<K> {
    /// It can start.
    Ready(K),
    /// It ended well.
    Completed(K),
    /// It will never run, or run on.
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
    /// A graph without nodes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ready to running.
    pub fn start(&mut self, key: impl Borrow<K>) -> Result<(), NodeError<K>> {
        let key = key.borrow();
        let node = self.expect_known(key)?;
        match self.nodes[node].state {
            NodeState::Ready => self.step(node, Step::Start),
            state => return Err(NodeError::NotReady { key: key.clone(), state }),
        }
        Ok(())
    }

    /// Running to completed. Answers those that became ready by it, in the order in which they were
    /// connected to it.
    pub fn complete(&mut self, key: impl Borrow<K>) -> Result<Vec<K>, NodeError<K>> {
        let key = key.borrow();
        let node = self.expect_known(key)?;
        match self.nodes[node].state {
            NodeState::Running => self.step(node, Step::Complete),
            state => return Err(NodeError::NotRunning { key: key.clone(), state }),
        }
        Ok(self.unblock_dependents(node))
    }

    /// Running to ready, to be tried again.
    pub fn fail(&mut self, key: impl Borrow<K>) -> Result<(), NodeError<K>> {
        let key = key.borrow();
        let node = self.expect_known(key)?;
        match self.nodes[node].state {
            NodeState::Running => self.step(node, Step::Fail),
            state => return Err(NodeError::NotRunning { key: key.clone(), state }),
        }
        self.step(node, Step::Retry);
        Ok(())
    }

    /// Any state that is not final to aborted, and so all that depend on it at any depth. Answers
    /// all that were aborted by this call, level by level.
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

    /// Takes out what has happened since the last time, in order.
    ///
    /// They are kept until drained, but never more than three for a node: of one that became ready
    /// several times, only the last is told.
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

    /// Whether there is a node with this key.
    #[must_use]
    pub fn has(&self, key: impl Borrow<K>) -> bool {
        self.numbers.contains_key(key.borrow())
    }

    /// How many nodes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no nodes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The state of a node; none if it is not there.
    #[must_use]
    pub fn state(&self, key: impl Borrow<K>) -> Option<NodeState> {
        self.number(key.borrow()).map(|node| self.nodes[node].state)
    }

    /// What a node depends on, in the order in which it was connected; none if it is not there.
    pub fn dependencies(&self, key: impl Borrow<K>) -> Option<impl Iterator<Item = &K>> {
        let node = self.number(key.borrow())?;
        Some(self.dag.sources(node).map(|edge| &self.nodes[edge.node].key))
    }

    /// What depends on a node, in the order in which it was connected; none if it is not there.
    pub fn dependents(&self, key: impl Borrow<K>) -> Option<impl Iterator<Item = &K>> {
        let node = self.number(key.borrow())?;
        Some(self.dag.targets(node).map(|edge| &self.nodes[edge.node].key))
    }

    /// Those that wait for dependencies, in the order in which they began to.
    pub fn pending(&self) -> impl ExactSizeIterator<Item = &K> {
        self.members(NodeState::Pending)
    }

    /// Those that can start, in the order in which they became ready.
    pub fn ready(&self) -> impl ExactSizeIterator<Item = &K> {
        self.members(NodeState::Ready)
    }

    /// Those that have started, in the order in which they did.
    pub fn running(&self) -> impl ExactSizeIterator<Item = &K> {
        self.members(NodeState::Running)
    }

    /// Those that ended well, in the order in which they did.
    pub fn completed(&self) -> impl ExactSizeIterator<Item = &K> {
        self.members(NodeState::Completed)
    }

    /// Those that were aborted, in the order in which they were.
    pub fn aborted(&self) -> impl ExactSizeIterator<Item = &K> {
        self.members(NodeState::Aborted)
    }

    /// Whether all have ended: completed or aborted.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.completed().len() + self.aborted().len() == self.len()
    }

    /// All keys, dependencies before their dependents: as they were added, except behind their
    /// dependencies.
    #[must_use]
    pub fn topological_sort(&self) -> Vec<&K> {
        self.dag.topological_order().into_iter().map(|node| &self.nodes[node].key).collect()
    }

    /// Whether some depend on each other in a circle, found out by a pass over the whole graph. They
    /// never do, since every change that would close a cycle is refused; for assertions.
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
                self.step(edge.node, Step::Unblock);
                ready.push(self.nodes[edge.node].key.clone());
            }
        }
        ready
    }

    fn abort_with_dependents(&mut self, node: usize) -> Vec<K> {
        self.step(node, Step::Abort);
        let mut aborted = vec![self.nodes[node].key.clone()];
        let mut level = VecDeque::from([node]);
        while let Some(node) = level.pop_front() {
            let mut cursor = self.dag.first_target(node);
            while let Some((edge, next)) = self.dag.follow(cursor) {
                cursor = next;
                if !self.nodes[edge.node].state.is_terminal() {
                    self.step(edge.node, Step::Abort);
                    aborted.push(self.nodes[edge.node].key.clone());
                    level.push_back(edge.node);
                }
            }
        }
        aborted
    }

    /// The only place where a node changes its state. What depends on states is kept in step here.
    fn step(&mut self, node: usize, step: Step) {
        let entry = &mut self.nodes[node];
        let from = entry.state;
        let to = from.after(step).unwrap_or_else(|| panic!("{step:?} of a node that is {from}"));
        self.members[from as usize].remove(&entry.turn);
        entry.state = to;
        self.enter(node);
    }

    /// The node takes its place among those of its state, and the event is kept.
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
