//! A graph that stands still: who follows whom, as flat arrays.
//!
//! Nodes are numbers from 0. Built once, read by as many as like; knows nothing of running.

use thiserror::Error;

/// A directed graph without cycles, for [`run_graph`](crate::run_graph).
///
/// ```
/// use windlass_pool::DagBuilder;
///
/// let mut builder = DagBuilder::default();
/// let (fetch, build, test) = (builder.add_node(), builder.add_node(), builder.add_node());
/// builder.add_edge(fetch, build);
/// builder.add_edge(build, test);
/// let dag = builder.build()?;
/// assert_eq!(dag.len(), 3);
/// assert_eq!(dag.successors(fetch).collect::<Vec<_>>(), [build]);
/// # Ok::<(), windlass_pool::DagError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Dag {
    /// Where the followers of each node begin in `targets`; one more at the end.
    offsets: Box<[u32]>,
    targets: Box<[u32]>,
    /// How many edges lead to each node.
    in_degrees: Box<[u32]>,
    /// The nodes to which none leads.
    roots: Box<[u32]>,
}

impl Dag {
    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.in_degrees.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.in_degrees.is_empty()
    }

    /// The nodes that follow `node`, once for each edge.
    ///
    /// # ScopePanics
    /// If there is no such node.
    pub fn successors(&self, node: usize) -> impl ExactSizeIterator<Item = usize> {
        self.successors_of(node).iter().map(|&target| target as usize)
    }

    #[inline]
    pub(crate) fn successors_of(&self, node: usize) -> &[u32] {
        &self.targets[self.offsets[node] as usize..self.offsets[node + 1] as usize]
    }

    pub(crate) fn in_degrees(&self) -> &[u32] {
        &self.in_degrees
    }

    pub(crate) fn roots(&self) -> &[u32] {
        &self.roots
    }
}

/// Why there is no such graph.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DagError {
    /// An edge names a node that does not exist.
    #[error("there is no node {node}, only {nodes} from 0")]
    UnknownNode {
        /// The node that was named.
        node: usize,
        /// How many there are.
        nodes: usize,
    },
    /// An edge from a node to itself.
    #[error("node {node} would follow itself")]
    SelfEdge {
        /// The node.
        node: usize,
    },
    /// Nodes that follow each other in a circle.
    #[error("the edges close a cycle: {}", arrows(path))]
    Cycle {
        /// The cycle, with its first node again at its end.
        path: Vec<usize>,
    },
    /// More nodes or edges than can be numbered with 32 bits.
    #[error("a graph has at most {} nodes and as many edges", u32::MAX)]
    TooLarge,
}

fn arrows(path: &[usize]) -> String {
    path.iter().map(usize::to_string).collect::<Vec<_>>().join(" -> ")
}

/// Collects nodes and edges. Whether they make a graph without cycles is found out at the end.
///
/// ```
/// use windlass_pool::{DagBuilder, DagError};
///
/// let mut builder = DagBuilder::with_nodes(3);
/// builder.add_edge(0, 1);
/// builder.add_edge(1, 2);
/// builder.add_edge(2, 1);
/// assert_eq!(builder.build().unwrap_err(), DagError::Cycle { path: vec![1, 2, 1] });
/// ```
#[derive(Clone, Debug, Default)]
pub struct DagBuilder {
    nodes: usize,
    edges: Vec<Edge>,
    /// The first edge that cannot be.
    error: Option<DagError>,
    /// Whether an edge leads to a smaller number; without one there is no cycle.
    has_descending_edge: bool,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    source: u32,
    target: u32,
}

impl DagBuilder {
    /// Begins with so many nodes: 0, 1, 2 and so on.
    pub fn with_nodes(nodes: usize) -> Self {
        Self { nodes, ..Self::default() }
    }

    /// One more node; returns its number, which is the next one.
    pub fn add_node(&mut self) -> usize {
        self.nodes = self.nodes.saturating_add(1);
        self.nodes - 1
    }

    /// Has `after` run only when `before` has. What cannot be is told by [`DagBuilder::build`].
    #[inline]
    pub fn add_edge(&mut self, before: usize, after: usize) {
        let nodes = self.nodes;
        let ends = (u32::try_from(before), u32::try_from(after));
        let (Ok(source), Ok(target), true) = (ends.0, ends.1, before.max(after) < nodes) else {
            return self.reject(DagError::UnknownNode { node: before.max(after), nodes });
        };
        if source == target {
            return self.reject(DagError::SelfEdge { node: before });
        }
        self.has_descending_edge |= target < source;
        self.edges.push(Edge { source, target });
    }

    #[cold]
    fn reject(&mut self, error: DagError) {
        self.error.get_or_insert(error);
    }

    /// The graph, or what is wrong with it.
    ///
    /// # Errors
    /// That there is too much of it; the first edge that names an unknown node or leads to its own
    /// source; else a cycle, if there is one.
    pub fn build(self) -> Result<Dag, DagError> {
        if self.nodes.max(self.edges.len()) > u32::MAX as usize {
            return Err(DagError::TooLarge);
        }
        if let Some(error) = self.error {
            return Err(error);
        }
        let dag = to_csr(self.nodes, &self.edges);
        if self.has_descending_edge
            && let Some(path) = find_cycle(&dag)
        {
            return Err(DagError::Cycle { path });
        }
        Ok(dag)
    }
}

/// Sorts the edges by their source, by counting.
fn to_csr(nodes: usize, edges: &[Edge]) -> Dag {
    let (mut offsets, mut in_degrees) = (vec![0; nodes + 1], vec![0; nodes]);
    for edge in edges {
        offsets[edge.source as usize] += 1;
        in_degrees[edge.target as usize] += 1;
    }
    // From counts to where each node's edges end; filling them in from the back leaves the offsets.
    let mut end = 0;
    for start in &mut offsets {
        end += *start;
        *start = end;
    }
    let mut targets = vec![0; edges.len()];
    for edge in edges.iter().rev() {
        let place = &mut offsets[edge.source as usize];
        *place -= 1;
        targets[*place as usize] = edge.target;
    }
    let roots = (0..nodes as u32).filter(|&node| in_degrees[node as usize] == 0).collect();
    Dag { offsets: offsets.into(), targets: targets.into(), in_degrees: in_degrees.into(), roots }
}

/// A cycle, if there is one: takes away what follows nothing, again and again.
fn find_cycle(dag: &Dag) -> Option<Vec<usize>> {
    let mut pending = dag.in_degrees.to_vec();
    let mut ready = dag.roots.to_vec();
    let mut remaining = dag.len();
    while let Some(node) = ready.pop() {
        remaining -= 1;
        for &target in dag.successors_of(node as usize) {
            pending[target as usize] -= 1;
            if pending[target as usize] == 0 {
                ready.push(target);
            }
        }
    }
    (remaining > 0).then(|| cycle_among(dag, &pending))
}

/// Each node that is remaining follows another one that is remaining; so the way back runs into itself.
fn cycle_among(dag: &Dag, pending: &[u32]) -> Vec<usize> {
    let is_remaining = |node: usize| pending[node] > 0;
    let mut before = vec![None; dag.len()];
    for node in (0..dag.len()).filter(|&node| is_remaining(node)) {
        dag.successors(node).for_each(|target| before[target] = Some(node));
    }
    let mut place = (0..dag.len()).find(|&node| is_remaining(node)).expect("some are remaining");
    let mut steps = vec![None; dag.len()];
    let mut path = Vec::new();
    while steps[place].is_none() {
        steps[place] = Some(path.len());
        path.push(place);
        place = before[place].expect("what is remaining follows what is remaining");
    }
    path.push(place);
    let mut path = path.split_off(steps[place].expect("it has been here"));
    path.reverse();
    path
}
