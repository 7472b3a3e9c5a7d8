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
/// assert_eq!(dag.followers(fetch).collect::<Vec<_>>(), [build]);
/// # Ok::<(), windlass_pool::DagError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Dag {
    /// Where the followers of each node begin in `targets`; one more at the end.
    starts: Box<[u32]>,
    targets: Box<[u32]>,
    /// How many edges lead to each node.
    sources: Box<[u32]>,
    /// The nodes to which none leads.
    roots: Box<[u32]>,
}

impl Dag {
    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.sources.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// The nodes that follow `node`, once for each edge.
    ///
    /// # ScopePanics
    /// If there is no such node.
    pub fn followers(&self, node: usize) -> impl ExactSizeIterator<Item = usize> {
        self.targets_of(node).iter().map(|&target| target as usize)
    }

    #[inline]
    pub(crate) fn targets_of(&self, node: usize) -> &[u32] {
        &self.targets[self.starts[node] as usize..self.starts[node + 1] as usize]
    }

    pub(crate) fn sources(&self) -> &[u32] {
        &self.sources
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
    fault: Option<DagError>,
    /// Whether an edge leads to a smaller number; without one there is no cycle.
    descends: bool,
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
            return self.refuse(DagError::UnknownNode { node: before.max(after), nodes });
        };
        if source == target {
            return self.refuse(DagError::SelfEdge { node: before });
        }
        self.descends |= target < source;
        self.edges.push(Edge { source, target });
    }

    #[cold]
    fn refuse(&mut self, fault: DagError) {
        self.fault.get_or_insert(fault);
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
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let dag = flatten(self.nodes, &self.edges);
        if self.descends
            && let Some(path) = cycle(&dag)
        {
            return Err(DagError::Cycle { path });
        }
        Ok(dag)
    }
}

/// Sorts the edges by their source, by counting.
fn flatten(nodes: usize, edges: &[Edge]) -> Dag {
    let (mut starts, mut sources) = (vec![0; nodes + 1], vec![0; nodes]);
    for edge in edges {
        starts[edge.source as usize] += 1;
        sources[edge.target as usize] += 1;
    }
    // From counts to where each node's edges end; filling them in from the back leaves the starts.
    let mut end = 0;
    for start in &mut starts {
        end += *start;
        *start = end;
    }
    let mut targets = vec![0; edges.len()];
    for edge in edges.iter().rev() {
        let place = &mut starts[edge.source as usize];
        *place -= 1;
        targets[*place as usize] = edge.target;
    }
    let roots = (0..nodes as u32).filter(|&node| sources[node as usize] == 0).collect();
    Dag { starts: starts.into(), targets: targets.into(), sources: sources.into(), roots }
}

/// A cycle, if there is one: takes away what follows nothing, again and again.
fn cycle(dag: &Dag) -> Option<Vec<usize>> {
    let mut unmet = dag.sources.to_vec();
    let mut free = dag.roots.to_vec();
    let mut left = dag.len();
    while let Some(node) = free.pop() {
        left -= 1;
        for &target in dag.targets_of(node as usize) {
            unmet[target as usize] -= 1;
            if unmet[target as usize] == 0 {
                free.push(target);
            }
        }
    }
    (left > 0).then(|| walk_back(dag, &unmet))
}

/// Each node that is left follows another one that is left; so the way back runs into itself.
fn walk_back(dag: &Dag, unmet: &[u32]) -> Vec<usize> {
    let is_left = |node: usize| unmet[node] > 0;
    let mut before = vec![None; dag.len()];
    for node in (0..dag.len()).filter(|&node| is_left(node)) {
        dag.followers(node).for_each(|target| before[target] = Some(node));
    }
    let mut place = (0..dag.len()).find(|&node| is_left(node)).expect("some are left");
    let mut steps = vec![None; dag.len()];
    let mut path = Vec::new();
    while steps[place].is_none() {
        steps[place] = Some(path.len());
        path.push(place);
        place = before[place].expect("what is left follows what is left");
    }
    path.push(place);
    let mut path = path.split_off(steps[place].expect("it has been here"));
    path.reverse();
    path
}
