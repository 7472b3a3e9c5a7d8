//! Adding nodes and edges: one node, many in any order, or an edge between two existing nodes.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

use super::{AddEdgeError, AddNodeError, DependencyGraph, Node, NodeState, NodeStep};
use crate::dag::{Dag, Edge, EdgeError, EdgeKind};

impl<K: Clone + Ord> DependencyGraph<K> {
    /// Adds a node with its dependencies. Returns its state: ready if all of them have completed,
    /// aborted if one is aborted, pending otherwise. A repeated dependency counts once.
    pub fn add_node(
        &mut self,
        key: K,
        dependencies: impl IntoIterator<Item = K>,
    ) -> Result<NodeState, AddNodeError<K>> {
        if self.has(&key) {
            return Err(AddNodeError::Duplicate { key });
        }
        let mut sources = Vec::new();
        for dependency in dependencies {
            match self.number(&dependency) {
                Some(source) => sources.push(source),
                None if dependency == key => {
                    return Err(AddNodeError::Cycle { path: vec![dependency, key] });
                }
                None => return Err(AddNodeError::UnknownDependency { key, dependency }),
            }
        }
        let node = self.insert(key, sources);
        Ok(self.nodes[node].state)
    }

    /// Adds many nodes with their dependencies, or none. They may be given in any order: a node is
    /// added after its dependencies, otherwise in the given order. Returns the nodes that are ready
    /// at once, in that order.
    ///
    /// ```
    /// use windlass_core::DependencyGraph;
    ///
    /// let mut graph = DependencyGraph::new();
    /// let ready = graph.add_all([
    ///     ("save", vec!["validate", "transform"]),
    ///     ("fetch-data", vec![]),
    ///     ("parse", vec!["fetch-data"]),
    ///     ("validate", vec!["parse"]),
    ///     ("transform", vec!["parse"]),
    /// ])?;
    /// assert_eq!(ready, ["fetch-data"]);
    /// let order: Vec<_> = graph.topological_sort().into_iter().copied().collect();
    /// assert_eq!(order, ["fetch-data", "parse", "validate", "transform", "save"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_all<D: IntoIterator<Item = K>>(
        &mut self,
        nodes: impl IntoIterator<Item = (K, D)>,
    ) -> Result<Vec<K>, AddNodeError<K>> {
        let given: Vec<(K, Vec<K>)> = nodes
            .into_iter()
            .map(|(key, dependencies)| (key, dependencies.into_iter().collect()))
            .collect();
        let mut ready = Vec::new();
        for index in self.order_of(&given)? {
            let (key, dependencies) = &given[index];
            let sources = dependencies.iter().map(|dependency| self.numbers[dependency]).collect();
            let node = self.insert(key.clone(), sources);
            if self.nodes[node].state == NodeState::Ready {
                ready.push(key.clone());
            }
        }
        Ok(ready)
    }

    /// Makes `to` depend on `from` as well. Fails if `to` has begun. A ready node becomes pending,
    /// unless `from` has completed. Behind an aborted node it is aborted with all its dependents,
    /// which the events report. Returns the state of `to`. An existing edge changes nothing.
    pub fn add_edge(
        &mut self,
        from: impl Borrow<K>,
        to: impl Borrow<K>,
    ) -> Result<NodeState, AddEdgeError<K>> {
        let source = self.expect_end(from.borrow())?;
        let node = self.expect_end(to.borrow())?;
        let state = self.nodes[node].state;
        if !matches!(state, NodeState::Pending | NodeState::Ready) {
            return Err(AddEdgeError::TooLate { key: to.borrow().clone(), state });
        }
        if self.has_edge(source, node) {
            return Ok(state);
        }
        self.dag.add_edge(source, node, EdgeKind::Success).map_err(|error| self.named(error))?;
        self.wait_for(source, node);
        Ok(self.nodes[node].state)
    }

    fn expect_end(&self, key: &K) -> Result<usize, AddEdgeError<K>> {
        self.number(key).ok_or_else(|| AddEdgeError::UnknownNode { key: key.clone() })
    }

    /// An edge is in the lists of both its ends, so the search uses the shorter one.
    fn has_edge(&self, from: usize, to: usize) -> bool {
        let mut both = self.dag.targets(from).zip(self.dag.sources(to));
        both.any(|(target, source)| target.node == to || source.node == from)
    }

    fn named(&self, error: EdgeError) -> AddEdgeError<K> {
        let EdgeError::Cycle { path } = error else {
            unreachable!("both ends are in the graph: {error}")
        };
        let path = path.into_iter().map(|node| self.nodes[node].key.clone()).collect();
        AddEdgeError::Cycle { path }
    }

    /// Updates the node at the end of a new edge.
    fn wait_for(&mut self, source: usize, node: usize) {
        match self.nodes[source].state {
            NodeState::Completed => {
                self.dag.meet(node);
            }
            NodeState::Aborted => {
                self.abort_with_dependents(node);
            }
            _ if self.nodes[node].state == NodeState::Ready => self.step(node, NodeStep::Block),
            _ => {}
        }
    }

    /// Adds a node whose sources exist.
    fn insert(&mut self, key: K, mut sources: Vec<usize>) -> usize {
        let mut seen = BTreeSet::new();
        sources.retain(|source| seen.insert(*source));
        let edge = |&node: &usize| (Edge { node, kind: EdgeKind::Success }, None);
        let node = self.dag.add_node(sources.iter().map(edge));
        self.numbers.insert(key.clone(), node);
        self.nodes.push(Node { key, state: NodeState::Pending, turn: 0, ready_event: None });
        self.enter(node);
        for &source in &sources {
            if self.nodes[source].state == NodeState::Completed {
                self.dag.meet(node);
            }
        }
        if sources.iter().any(|&source| self.nodes[source].state == NodeState::Aborted) {
            self.step(node, NodeStep::Abort);
        } else if self.dag.unmet(node) == 0 {
            self.step(node, NodeStep::Unblock);
        }
        node
    }

    /// Returns an order in which the given nodes can be added. No existing node depends on them
    /// yet, so a cycle can only be among themselves.
    fn order_of(&self, given: &[(K, Vec<K>)]) -> Result<Vec<usize>, AddNodeError<K>> {
        let mut places = BTreeMap::new();
        for (place, (key, _)) in given.iter().enumerate() {
            if self.has(key) || places.insert(key, place).is_some() {
                return Err(AddNodeError::Duplicate { key: key.clone() });
            }
        }
        let mut draft = Dag::new();
        for _ in given {
            draft.add_node([]);
        }
        match draft.add_edges(&self.edges_among(given, &places)?) {
            Ok(()) => Ok(draft.topological_order()),
            Err(EdgeError::Cycle { path }) => {
                let path = path.into_iter().map(|place| given[place].0.clone()).collect();
                Err(AddNodeError::Cycle { path })
            }
            Err(error) => unreachable!("all places are nodes: {error}"),
        }
    }

    fn edges_among(
        &self,
        given: &[(K, Vec<K>)],
        places: &BTreeMap<&K, usize>,
    ) -> Result<Vec<(usize, usize, EdgeKind)>, AddNodeError<K>> {
        let mut edges = Vec::new();
        for (to, (key, dependencies)) in given.iter().enumerate() {
            for dependency in dependencies {
                match places.get(dependency) {
                    Some(&from) => edges.push((from, to, EdgeKind::Success)),
                    None if self.has(dependency) => {}
                    None => {
                        let (key, dependency) = (key.clone(), dependency.clone());
                        return Err(AddNodeError::UnknownDependency { key, dependency });
                    }
                }
            }
        }
        Ok(edges)
    }
}
