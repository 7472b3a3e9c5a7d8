//! Who waits for whom: flat edges, and for each work how many of those it waits for are missing.
//!
//! Edges only lead from works that exist to a new one, so there is no cycle to look for. Knows
//! nothing of phases: the engine tells which sources have succeeded.

use crate::WorkId;

#[derive(Clone, Debug, Default)]
pub(crate) struct Dag {
    nodes: Vec<Node>,
    edges: Vec<Edge>,
}

#[derive(Clone, Debug)]
struct Node {
    unmet: u32,
    /// Its outgoing edges, in the order in which they were added, as a list within `edges`.
    first: u32,
    last: u32,
    /// Where its incoming edges begin within `edges`, and how many they are.
    sources: u32,
    sources_len: u32,
}

#[derive(Clone, Debug)]
struct Edge {
    from: WorkId,
    to: WorkId,
    /// The next edge out of `from`.
    next: u32,
}

const NONE: u32 = u32::MAX;

impl Dag {
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Adds the next work; `unmet` of `after` have not succeeded yet.
    pub(crate) fn push(&mut self, after: &[WorkId], unmet: usize) {
        let work = WorkId::from_index(self.nodes.len());
        let sources = number(self.edges.len());
        let sources_len = number(after.len());
        let unmet = number(unmet);
        self.nodes.push(Node { unmet, first: NONE, last: NONE, sources, sources_len });
        after.iter().for_each(|&from| self.connect(from, work));
    }

    /// Counts one source of `work` as met; whether none is missing now.
    pub(crate) fn meet(&mut self, work: WorkId) -> bool {
        let node = &mut self.nodes[work.index()];
        node.unmet -= 1;
        node.unmet == 0
    }

    /// How many sources of `work` have not succeeded.
    pub(crate) fn unmet(&self, work: WorkId) -> usize {
        self.nodes[work.index()].unmet as usize
    }

    pub(crate) fn sources(&self, work: WorkId) -> impl Iterator<Item = WorkId> {
        let node = &self.nodes[work.index()];
        let start = node.sources as usize;
        self.edges[start..start + node.sources_len as usize].iter().map(|edge| edge.from)
    }

    pub(crate) fn first_out(&self, work: WorkId) -> Cursor {
        Cursor(self.nodes[work.index()].first)
    }

    /// The work that the edge at `cursor` leads to, and the next edge out of the same work.
    pub(crate) fn follow(&self, cursor: Cursor) -> Option<(WorkId, Cursor)> {
        let edge = self.edges.get(cursor.0 as usize)?;
        Some((edge.to, Cursor(edge.next)))
    }

    fn connect(&mut self, from: WorkId, to: WorkId) {
        let edge = number(self.edges.len());
        self.edges.push(Edge { from, to, next: NONE });
        let node = &mut self.nodes[from.index()];
        let last = std::mem::replace(&mut node.last, edge);
        if last == NONE {
            node.first = edge;
        } else {
            self.edges[last as usize].next = edge;
        }
    }
}

/// A place in a work's list of outgoing edges; it stays valid while the graph grows.
#[derive(Clone, Copy)]
pub(crate) struct Cursor(u32);

fn number(count: usize) -> u32 {
    u32::try_from(count).ok().filter(|&n| n != NONE).expect("fewer than 2^32 - 1 edges")
}
