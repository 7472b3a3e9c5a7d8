//! The five shapes, and the check that a run was right.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A graph as flat lists. The dependencies of a node have smaller numbers.
pub(crate) struct Graph {
    sources: Flat,
    targets: Flat,
}

/// A list of numbers for each node.
struct Flat {
    starts: Vec<usize>,
    items: Vec<usize>,
}

impl Flat {
    fn of(lists: &[Vec<usize>]) -> Self {
        let starts = lists.iter().scan(0, |end, list| {
            *end += list.len();
            Some(*end)
        });
        Self { starts: std::iter::once(0).chain(starts).collect(), items: lists.concat() }
    }

    fn get(&self, node: usize) -> &[usize] {
        &self.items[self.starts[node]..self.starts[node + 1]]
    }
}

pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) make: fn(usize) -> Graph,
}

pub(crate) const SHAPES: [Shape; 5] = [
    Shape { name: "independent", make: |nodes| Graph::new(nodes, |_| Vec::new()) },
    Shape {
        name: "chain",
        make: |nodes| Graph::new(nodes, |node| node.checked_sub(1).into_iter().collect()),
    },
    Shape { name: "tree", make: |nodes| Graph::new(nodes, tree) },
    Shape { name: "layered", make: |nodes| Graph::new(nodes, layered) },
    Shape {
        name: "wavefront",
        make: |nodes| {
            let side = nodes.isqrt();
            Graph::new(side * side, |node| wavefront(side, node))
        },
    },
];

/// A binary tree: each node after its parent in a heap.
fn tree(node: usize) -> Vec<usize> {
    node.checked_sub(1).map(|node| node / 2).into_iter().collect()
}

/// Layers of 100 nodes, each after three of the layer before.
fn layered(node: usize) -> Vec<usize> {
    const WIDTH: usize = 100;
    let Some(layer) = (node / WIDTH).checked_sub(1) else { return Vec::new() };
    [0, 1, 7].map(|offset| layer * WIDTH + (node + offset) % WIDTH).to_vec()
}

/// A square, each node after those above and to the left of it.
fn wavefront(side: usize, node: usize) -> Vec<usize> {
    let above = node.checked_sub(side);
    let left = (!node.is_multiple_of(side)).then(|| node - 1);
    above.into_iter().chain(left).collect()
}

impl Graph {
    fn new(nodes: usize, sources: impl Fn(usize) -> Vec<usize>) -> Self {
        let sources: Vec<_> = (0..nodes).map(sources).collect();
        let mut targets = vec![Vec::new(); nodes];
        for (node, sources) in sources.iter().enumerate() {
            sources.iter().for_each(|&source| targets[source].push(node));
        }
        Self { sources: Flat::of(&sources), targets: Flat::of(&targets) }
    }

    pub(crate) fn len(&self) -> usize {
        self.sources.starts.len() - 1
    }

    pub(crate) fn sources(&self, node: usize) -> &[usize] {
        self.sources.get(node)
    }

    pub(crate) fn targets(&self, node: usize) -> &[usize] {
        self.targets.get(node)
    }

    /// Returns the nodes without dependencies.
    pub(crate) fn roots(&self) -> impl Iterator<Item = usize> {
        (0..self.len()).filter(|&node| self.sources(node).is_empty())
    }
}

/// Which nodes have run.
pub(crate) struct Ran(Vec<AtomicBool>);

impl Ran {
    pub(crate) fn new(graph: &Graph) -> Self {
        Self((0..graph.len()).map(|_| AtomicBool::new(false)).collect())
    }

    /// Records that a node runs, and checks that it runs once and after its dependencies.
    pub(crate) fn note(&self, graph: &Graph, node: usize) {
        // Relaxed: the contender has to make the dependencies visible by its own synchronisation.
        let in_order = graph.sources(node).iter().all(|&source| self.0[source].load(Relaxed));
        assert!(in_order, "node {node} runs before one it follows");
        let before = self.0[node].load(Relaxed);
        assert!(!before, "node {node} runs twice");
        self.0[node].store(true, Relaxed);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.iter().filter(|ran| ran.load(Relaxed)).count()
    }
}
