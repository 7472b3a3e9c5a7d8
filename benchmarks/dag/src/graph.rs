//! The five shapes, and the proof that a run was right.

use std::sync::atomic::{AtomicU32, Ordering};

/// A graph as two lists per node. Sources always have smaller numbers.
pub(crate) struct Graph {
    pub(crate) sources: Vec<Vec<usize>>,
    pub(crate) targets: Vec<Vec<usize>>,
}

pub(crate) type Make = fn(usize) -> Graph;

pub(crate) const SHAPES: [(&str, Make); 5] = [
    ("independent", |nodes| Graph::new(nodes, |_| Vec::new())),
    ("chain", |nodes| Graph::new(nodes, |node| node.checked_sub(1).into_iter().collect())),
    ("tree", |nodes| {
        let parent = |node: usize| (node > 0).then(|| (node - 1) / 2);
        Graph::new(nodes, |node| parent(node).into_iter().collect())
    }),
    ("layered", |nodes| Graph::new(nodes, layered)),
    ("wavefront", |nodes| {
        let side = (nodes as f64).sqrt() as usize;
        Graph::new(side * side, |node| wavefront(side, node))
    }),
];

/// Layers of 100 nodes, each after three of the layer before.
fn layered(node: usize) -> Vec<usize> {
    const WIDTH: usize = 100;
    let Some(layer) = (node / WIDTH).checked_sub(1) else { return Vec::new() };
    [0, 1, 7].map(|offset| layer * WIDTH + (node + offset) % WIDTH).to_vec()
}

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
        Self { sources, targets }
    }

    pub(crate) fn len(&self) -> usize {
        self.sources.len()
    }
}

/// When each node ran; 0 if it did not.
pub(crate) struct Ran {
    clock: AtomicU32,
    at: Vec<AtomicU32>,
}

impl Ran {
    pub(crate) fn new(graph: &Graph) -> Self {
        let at = (0..graph.len()).map(|_| AtomicU32::new(0)).collect();
        Self { clock: AtomicU32::new(0), at }
    }

    /// The body of every node.
    pub(crate) fn run(&self, node: usize) {
        // The contenders order dependents after their sources; that order also orders these.
        let now = self.clock.fetch_add(1, Ordering::Relaxed) + 1;
        let before = self.at[node].swap(now, Ordering::Relaxed);
        assert_eq!(before, 0, "node {node} ran twice");
    }

    pub(crate) fn check(&self, graph: &Graph) {
        let at: Vec<_> = self.at.iter().map(|at| at.load(Ordering::Relaxed)).collect();
        for (node, sources) in graph.sources.iter().enumerate() {
            assert!(at[node] > 0, "node {node} did not run");
            let first = sources.iter().all(|&source| at[source] < at[node]);
            assert!(first, "node {node} ran before one it follows");
        }
    }
}
