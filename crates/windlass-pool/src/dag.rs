//! An immutable directed acyclic graph, in compressed sparse row form.
//!
//! Nodes are numbered from 0. A graph is built once, and any number of threads may read it. Knows
//! nothing of how a graph is run.

use thiserror::Error;

/// A directed acyclic graph, for [`run_graph`](crate::run_graph).
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
    /// Where the successors of each node begin in `targets`, and the length of `targets`.
    offsets: Box<[u32]>,
    /// The successors of all nodes, sorted by their source.
    targets: Box<[u32]>,
    /// How many edges lead to each node.
    in_degrees: Box<[u32]>,
    /// The nodes without predecessors.
    roots: Box<[u32]>,
}

impl Dag {
    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.in_degrees.len()
    }

    /// Returns whether the graph has no nodes.
    pub fn is_empty(&self) -> bool {
        self.in_degrees.is_empty()
    }

    /// Returns the successors of `node`, one for each edge.
    ///
    /// # Panics
    /// If `node` is out of range.
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

/// Why a graph could not be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DagError {
    /// An edge leads from or to a node that did not exist when the edge was added.
    #[error("node {node} is out of range: the graph has {nodes} nodes")]
    UnknownNode {
        /// The node that does not exist.
        node: usize,
        /// How many nodes the graph had.
        nodes: usize,
    },
    /// An edge leads from a node to itself.
    #[error("node {node} cannot depend on itself")]
    SelfEdge {
        /// The node with the edge.
        node: usize,
    },
    /// The edges form a cycle.
    #[error("the graph has a cycle: {}", arrows(path))]
    Cycle {
        /// The nodes of the cycle; the first one is also the last.
        path: Vec<usize>,
    },
    /// The graph has more nodes or edges than fit into 32 bits.
    #[error("the graph is too large: the maximum is {} nodes and as many edges", u32::MAX)]
    TooLarge,
}

fn arrows(path: &[usize]) -> String {
    path.iter().map(usize::to_string).collect::<Vec<_>>().join(" -> ")
}

/// Builds a [`Dag`] from nodes and edges. [`DagBuilder::build`] reports what is wrong with them.
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
    /// The error of the first invalid edge.
    error: Option<DagError>,
    /// Whether an edge leads to a smaller number. Without one there is no cycle.
    has_descending_edge: bool,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    source: u32,
    target: u32,
}

impl DagBuilder {
    /// Creates a builder with the nodes `0..nodes`.
    pub fn with_nodes(nodes: usize) -> Self {
        Self { nodes, ..Self::default() }
    }

    /// Adds a node and returns its number, which is the number of nodes before.
    pub fn add_node(&mut self) -> usize {
        self.nodes = self.nodes.saturating_add(1);
        self.nodes - 1
    }

    /// Adds an edge, so that `after` runs after `before`. Both nodes must have been added before;
    /// [`DagBuilder::build`] reports an invalid edge.
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

    /// Builds the graph.
    ///
    /// # Errors
    /// [`DagError::TooLarge`]; otherwise the error of the first edge that leads from or to an
    /// unknown node, or from a node to itself; otherwise a [`DagError::Cycle`], if there is one.
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

/// Converts edges to compressed sparse row form, by a counting sort on their source.
fn to_csr(nodes: usize, edges: &[Edge]) -> Dag {
    let (mut offsets, mut in_degrees) = (vec![0; nodes + 1], vec![0; nodes]);
    for edge in edges {
        offsets[edge.source as usize] += 1;
        in_degrees[edge.target as usize] += 1;
    }
    // Turns counts into the ends of each node's range. Filling the ranges from the back then turns
    // the ends into the starts.
    let mut end = 0;
    for offset in &mut offsets {
        end += *offset;
        *offset = end;
    }
    let mut targets = vec![0; edges.len()];
    for edge in edges.iter().rev() {
        let offset = &mut offsets[edge.source as usize];
        *offset -= 1;
        targets[*offset as usize] = edge.target;
    }
    let roots = (0..nodes as u32).filter(|&node| in_degrees[node as usize] == 0).collect();
    Dag { offsets: offsets.into(), targets: targets.into(), in_degrees: in_degrees.into(), roots }
}

/// Returns a cycle, if there is one. Removes nodes without predecessors until none is left (Kahn's
/// algorithm); what remains contains every cycle.
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

/// Returns a cycle among the nodes with pending predecessors. Each of them has such a predecessor, so
/// the walk back from any of them reaches a node a second time.
fn cycle_among(dag: &Dag, pending: &[u32]) -> Vec<usize> {
    let is_remaining = |node: usize| pending[node] > 0;
    let mut before = vec![None; dag.len()];
    for node in (0..dag.len()).filter(|&node| is_remaining(node)) {
        dag.successors(node).for_each(|target| before[target] = Some(node));
    }
    let mut node = (0..dag.len()).find(|&node| is_remaining(node)).expect("a node remains");
    let mut steps = vec![None; dag.len()];
    let mut path = Vec::new();
    while steps[node].is_none() {
        steps[node] = Some(path.len());
        path.push(node);
        node = before[node].expect("a remaining node has a remaining predecessor");
    }
    path.push(node);
    let mut path = path.split_off(steps[node].expect("the walk has visited it"));
    path.reverse();
    path
}
