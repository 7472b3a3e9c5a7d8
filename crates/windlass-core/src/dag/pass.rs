//! A pass over the whole graph, sources first: the topological order, and the check of many edges
//! at once (Kahn's algorithm).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::{Dag, EdgeError, EdgeKind, Link, Node, Role, spaced};
use crate::column::Column;

type NewEdge = (usize, usize, EdgeKind);

impl Dag {
    /// Returns all nodes, sources before targets, otherwise in the order in which they were added.
    #[must_use]
    pub(crate) fn topological_order(&self) -> Vec<usize> {
        Pass::new(self, &[]).run(BinaryHeap::new())
    }

    /// Returns a cycle that these edges would close, if they do.
    pub(super) fn cycle_with(&self, edges: &[NewEdge]) -> Option<Vec<usize>> {
        let mut pass = Pass::new(self, edges);
        pass.run(Vec::new());
        pass.cycle()
    }

    /// Assigns places that agree with all edges and these new ones; changes nothing if that is
    /// impossible.
    pub(super) fn reorder_all(&mut self, edges: &[NewEdge]) -> Result<(), EdgeError> {
        let mut pass = Pass::new(self, edges);
        let order = pass.run(Vec::new());
        if let Some(path) = pass.cycle() {
            return Err(EdgeError::Cycle { path });
        }
        for (rank, node) in order.into_iter().enumerate() {
            self.nodes[node].place = spaced(rank);
        }
        Ok(())
    }

    /// Iterates over the nodes that are ordered behind `node`, once for each link.
    fn outgoing(&self, node: usize) -> impl Iterator<Item = usize> {
        let mut next = self.nodes[node].outgoing.first;
        let targets = std::iter::from_fn(move || {
            let link = self.link(next?);
            next = link.next_out;
            Some(link.to())
        });
        targets.filter(|&target| self.nodes.get(target).is_some())
    }
}

/// The nodes that may come next. The check accepts any order and uses the cheapest container; a
/// visible order has to be deterministic.
trait Frontier {
    fn put(&mut self, node: usize);
    fn take(&mut self) -> Option<usize>;
}

impl Frontier for Vec<usize> {
    fn put(&mut self, node: usize) {
        self.push(node);
    }

    fn take(&mut self) -> Option<usize> {
        self.pop()
    }
}

impl Frontier for BinaryHeap<Reverse<usize>> {
    fn put(&mut self, node: usize) {
        self.push(Reverse(node));
    }

    fn take(&mut self) -> Option<usize> {
        self.pop().map(|Reverse(node)| node)
    }
}

struct Pass<'a> {
    dag: &'a Dag,
    edges: &'a [NewEdge],
    nodes: Column<Visit>,
    /// For each new edge, the next one out of the same node.
    next: Vec<Option<usize>>,
}

struct Visit {
    /// The number of its sources that were not passed.
    waits: usize,
    /// The first new edge out of it.
    first: Option<usize>,
}

impl<'a> Pass<'a> {
    fn new(dag: &'a Dag, edges: &'a [NewEdge]) -> Self {
        let nodes = dag.nodes.map(|_: &Node| Visit { waits: 0, first: None });
        let mut pass = Self { dag, edges, nodes, next: vec![None; edges.len()] };
        for (node, _) in dag.nodes.iter() {
            pass.nodes[node].waits = pass.live_sources(node).count();
        }
        for (index, &(from, to, _)) in edges.iter().enumerate().rev() {
            pass.next[index] = pass.nodes[from].first.replace(index);
            pass.nodes[to].waits += 1;
        }
        pass
    }

    /// Returns the nodes that can be ordered, which are all of them unless there is a cycle.
    fn run(&mut self, mut frontier: impl Frontier) -> Vec<usize> {
        let free = self.nodes.iter().filter(|(_, visit)| visit.waits == 0);
        free.for_each(|(node, _)| frontier.put(node));
        let mut order = Vec::new();
        while let Some(node) = frontier.take() {
            order.push(node);
            let dag = self.dag;
            dag.outgoing(node).for_each(|target| self.pass_by(target, &mut frontier));
            let mut next = self.nodes[node].first;
            while let Some(index) = next {
                self.pass_by(self.edges[index].1, &mut frontier);
                next = self.next[index];
            }
        }
        order
    }

    /// Counts one source of `node` as passed.
    fn pass_by(&mut self, node: usize, frontier: &mut impl Frontier) {
        let waits = &mut self.nodes[node].waits;
        *waits -= 1;
        if *waits == 0 {
            frontier.put(node);
        }
    }

    /// Returns, after a run, a cycle among the remaining nodes, which begins with the first of the
    /// new edges on it.
    fn cycle(&self) -> Option<Vec<usize>> {
        let (start, _) = self.nodes.iter().find(|(_, visit)| visit.waits > 0)?;
        let new_sources = self.new_sources();
        // Each remaining node has a remaining source, so a walk towards sources finds a cycle.
        let mut steps: Vec<WalkStep> = Vec::new();
        let mut seen = BTreeMap::new();
        let mut node = start;
        while !seen.contains_key(&node) {
            seen.insert(node, steps.len());
            let step = self.step_back(node, &new_sources);
            node = step.from;
            steps.push(step);
        }
        steps.drain(..seen[&node]);
        steps.reverse();
        let first = (0..steps.len()).filter(|&at| steps[at].new.is_some());
        let first = first.min_by_key(|&at| steps[at].new).expect("the graph had no cycle before");
        steps.rotate_left(first);
        let mut path: Vec<_> = steps.iter().map(|step| step.from).collect();
        path.push(path[0]);
        Some(path)
    }

    /// Returns a remaining source of `node`.
    fn step_back(&self, node: usize, new_sources: &BTreeMap<usize, WalkStep>) -> WalkStep {
        let mut old = self.live_sources(node).filter(|&from| self.nodes[from].waits > 0);
        let old = old.next().map(|from| WalkStep { from, new: None });
        old.or_else(|| new_sources.get(&node).copied()).expect("a node that waits has a source")
    }

    /// Returns, for each node, the first new edge into it from a remaining node.
    fn new_sources(&self) -> BTreeMap<usize, WalkStep> {
        let mut sources = BTreeMap::new();
        for (index, &(from, to, _)) in self.edges.iter().enumerate() {
            if self.nodes[from].waits > 0 {
                sources.entry(to).or_insert(WalkStep { from, new: Some(index) });
            }
        }
        sources
    }

    fn live_sources(&self, node: usize) -> impl Iterator<Item = usize> {
        let ordering = self.dag.incoming(node).filter(|link| link.role != Role::Settled);
        ordering.map(Link::from).filter(|&from| self.dag.nodes.get(from).is_some())
    }
}

/// The source of an edge on the walk, and its index if it is new.
#[derive(Clone, Copy)]
struct WalkStep {
    from: usize,
    new: Option<usize>,
}
