//! A directed acyclic graph: nodes by dense id, and three kinds of edges between them.
//!
//! Every node has a place in a topological order, and every edge leads from a lower place to a
//! higher one. An edge that agrees with the order is added at once. For another edge, [`sweep`]
//! moves as few nodes as needed, and refuses the edge if it would close a cycle. Many edges at once
//! are checked in one pass over the graph ([`pass`]).
//!
//! Knows nothing of phases or readiness: it counts the unmet edges into a node, and the caller
//! reports which edges are met.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use thiserror::Error;

use crate::column::Column;

mod family;
mod pass;
mod removal;
mod reopen;
mod sweep;

/// A directed graph without cycles, whose nodes are numbers from 0.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dag {
    nodes: Column<Node>,
    links: Column<Link>,
    /// The head of the free list of links, chained by `next_out`.
    free: Option<LinkId>,
    /// By source: the targets of edges that were added after their source had ended. Some targets
    /// may be forgotten.
    settled: BTreeMap<usize, Vec<usize>>,
}

/// The end of a source that meets an edge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EdgeKind {
    /// The source succeeded.
    #[default]
    Success,
    /// The source ended in any way.
    Done,
    /// The source failed.
    Failed,
}

impl EdgeKind {
    /// Returns the word for it: `success`, `done` or `failed`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

/// The outcome of an edge once its source has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeOutcome {
    /// The source ended as required.
    Met,
    /// The source succeeded, and the target is needed only if it fails.
    Unneeded,
    /// The source can no longer end as required.
    Blocks,
}

/// An edge, seen from one of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Edge {
    /// The node at the other end.
    pub node: usize,
    /// The end of the source that meets the edge.
    pub kind: EdgeKind,
}

/// Edges that were refused; the graph is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub(crate) enum EdgeError {
    /// An edge begins or ends at a node that was never added, or is forgotten.
    #[error("unknown node {node}")]
    UnknownNode {
        /// The unknown node.
        node: usize,
    },
    /// The edges would close a cycle.
    #[error("the edges would close a cycle: {}", arrows(path))]
    Cycle {
        /// The cycle. It begins with a refused edge and ends with its first node.
        path: Vec<usize>,
    },
}

fn arrows(path: &[usize]) -> String {
    path.iter().map(usize::to_string).collect::<Vec<_>>().join(" -> ")
}

/// A position in a node's list of targets; it stays valid while the graph grows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor(Option<LinkId>);

/// Small, because graphs have millions of nodes: whatever is needed seldom is found by a search.
#[derive(Clone, Debug)]
struct Node {
    /// The place in the topological order: above its sources and below its targets.
    place: i64,
    /// The last incoming link, which points to the first.
    last_in: Option<LinkId>,
    outgoing: List,
    unmet: Count,
}

/// A count plus one, so that `Option` needs no extra space.
#[derive(Clone, Copy, Debug)]
struct Count(NonZeroU32);

impl Count {
    const ZERO: Self = Self(NonZeroU32::MIN);

    fn get(self) -> u32 {
        self.0.get() - 1
    }

    fn up(&mut self) {
        self.0 = self.0.checked_add(1).expect("fewer than 2^32 edges into a node");
    }

    fn down(&mut self) {
        self.0 = NonZeroU32::new(self.0.get() - 1).expect("an edge is met once");
    }
}

/// Links in the order in which they were added.
#[derive(Clone, Copy, Debug, Default)]
struct List {
    first: Option<LinkId>,
    last: Option<LinkId>,
}

/// An edge as stored: a member of its source's list of outgoing links and of its target's list of
/// incoming ones.
#[derive(Clone, Debug)]
struct Link {
    from: Number,
    to: Number,
    /// The links form a ring: the last points to the first. `None` if there is only one.
    next_in: Option<LinkId>,
    next_out: Option<LinkId>,
    kind: EdgeKind,
    /// The number of its ends whose node is not forgotten.
    ends: u8,
    role: Role,
    /// The outcome, if its source is forgotten or had ended before the edge was added.
    outcome: EdgeOutcome,
}

/// A node id in six bytes: ids are below 2^43.
#[derive(Clone, Copy, Debug)]
struct Number([u16; 3]);

/// The purpose of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The target waits for the source.
    Wait,
    /// The source had ended before the edge was added, so the edge orders nothing.
    Settled,
    /// The target is the parent of the source and ends after it. The edge delays no start, so it is
    /// not counted as unmet, and only the search for cycles uses it.
    Family,
}

/// A link's index plus one, so that `Option` needs no extra space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LinkId(NonZeroU32);

const _: () = assert!(size_of::<Option<Node>>() == 24);
const _: () = assert!(size_of::<Option<Link>>() <= 24);

/// The distance between the places of new nodes: space for nodes that move in between.
const SPACING: i64 = 1 << 20;

impl Dag {
    /// Creates an empty graph.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Returns how many nodes were ever added.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.nodes.pushed()
    }

    /// Adds a node behind its sources and returns its id, which is the number of nodes added before.
    /// Two edges may have the same source; each counts.
    ///
    /// An edge that has an outcome already is *settled*, because its source has ended: it is listed
    /// among the node's [sources](Dag::sources), but it is never met, never visited from its source,
    /// and does not affect the order.
    #[inline]
    pub(crate) fn add_node(
        &mut self,
        sources: impl IntoIterator<Item = (Edge, Option<EdgeOutcome>)>,
    ) -> usize {
        let place = spaced(self.nodes.pushed());
        let mut new = Node { place, last_in: None, outgoing: List::default(), unmet: Count::ZERO };
        let node = self.nodes.pushed();
        let mut first = None;
        for (source, outcome) in sources {
            let id = match outcome {
                None => {
                    new.unmet.up();
                    new.place = new.place.max(self.nodes[source.node].place + 1);
                    self.store_outgoing(source.node, node, source.kind, Role::Wait)
                }
                Some(outcome) => self.store_settled(source, node, outcome),
            };
            match new.last_in.replace(id) {
                None => first = Some(id),
                Some(before) => self.link_mut(before).next_in = Some(id),
            }
        }
        if let Some(last) = new.last_in.filter(|last| Some(*last) != first) {
            self.link_mut(last).next_in = first;
        }
        self.nodes.push(new)
    }

    /// Leaves out the next node, which counts as forgotten.
    pub(crate) fn skip_node(&mut self) {
        self.nodes.push_absent();
    }

    /// Adds an edge from `from` to `to`. Two nodes may have several edges; each counts.
    ///
    /// This takes constant time if `to` was added after `from` and the nodes between them were not
    /// reordered. Otherwise the search visits only nodes between the places of the two, from both
    /// sides in turn, and stops when one side is done.
    pub(crate) fn add_edge(
        &mut self,
        from: usize,
        to: usize,
        kind: EdgeKind,
    ) -> Result<(), EdgeError> {
        if self.expect_node(from)?.place >= self.expect_node(to)?.place {
            self.reorder(from, to)?;
        }
        self.connect(from, to, kind);
        Ok(())
    }

    /// Adds all of these edges `(from, to, kind)`, or none, as [`Dag::add_edge`] does.
    ///
    /// Takes time linear in the number of edges if they agree with the topological order, and
    /// otherwise linear in the size of the graph.
    pub(crate) fn add_edges(
        &mut self,
        edges: &[(usize, usize, EdgeKind)],
    ) -> Result<(), EdgeError> {
        for &(from, to, _) in edges {
            self.expect_node(from)?;
            self.expect_node(to)?;
        }
        let agrees = |&(from, to, _): &_| self.nodes[from].place < self.nodes[to].place;
        if !edges.iter().all(agrees) {
            self.reorder_all(edges)?;
        }
        edges.iter().for_each(|&(from, to, kind)| self.connect(from, to, kind));
        Ok(())
    }

    /// Iterates over the edges into `node` in the order in which they were added, including those
    /// whose source is forgotten.
    ///
    /// # Panics
    ///
    /// Panics if there is no such node.
    pub(crate) fn sources(&self, node: usize) -> impl Iterator<Item = Edge> {
        let waits = self.incoming(node).filter(|link| link.role != Role::Family);
        waits.map(|link| Edge { node: link.from(), kind: link.kind })
    }

    /// Iterates over the edges out of `node` in the order in which they were added, except those to
    /// forgotten nodes.
    ///
    /// # Panics
    ///
    /// Panics if there is no such node.
    pub(crate) fn targets(&self, node: usize) -> impl Iterator<Item = Edge> {
        let mut cursor = self.first_target(node);
        std::iter::from_fn(move || {
            let (edge, next) = self.follow(cursor)?;
            cursor = next;
            Some(edge)
        })
    }

    /// Returns whether `node` has, or ever had, an outgoing edge.
    #[inline]
    pub(crate) fn has_targets(&self, node: usize) -> bool {
        self.nodes[node].outgoing.first.is_some()
    }

    pub(crate) fn first_target(&self, node: usize) -> Cursor {
        Cursor(self.nodes[node].outgoing.first)
    }

    /// Returns the edge at `cursor` and the cursor of the next one. Skips forgotten targets.
    pub(crate) fn follow(&self, mut cursor: Cursor) -> Option<(Edge, Cursor)> {
        loop {
            let link = self.link(cursor.0?);
            cursor = Cursor(link.next_out);
            if link.role != Role::Family && self.nodes.get(link.to()).is_some() {
                return Some((Edge { node: link.to(), kind: link.kind }, cursor));
            }
        }
    }

    /// Returns the node's place in the topological order: higher than those of all its sources.
    pub(crate) fn place(&self, node: usize) -> i64 {
        self.nodes[node].place
    }

    /// Returns how many edges into `node` are unmet.
    pub(crate) fn unmet(&self, node: usize) -> u32 {
        self.nodes[node].unmet.get()
    }

    /// Counts one edge into `node` as met, and returns how many are left.
    pub(crate) fn meet(&mut self, node: usize) -> u32 {
        let unmet = &mut self.nodes[node].unmet;
        unmet.down();
        unmet.get()
    }

    /// Removes `node`. Each of its edges is freed once the node at its other end is forgotten too.
    #[inline]
    pub(crate) fn forget(&mut self, node: usize) {
        let Node { last_in, outgoing, .. } = self.nodes[node];
        if last_in.is_some() || outgoing.first.is_some() {
            let next_in = |id, link: &Link| link.next_in.filter(|_| Some(id) != last_in);
            self.release(self.first_in(node), next_in);
            self.release(outgoing.first, |_, link| link.next_out);
        }
        if !self.settled.is_empty() {
            self.settled.remove(&node);
        }
        self.nodes.take(node).expect("only a known node is forgotten");
    }

    fn expect_node(&self, node: usize) -> Result<&Node, EdgeError> {
        self.nodes.get(node).ok_or(EdgeError::UnknownNode { node })
    }

    fn incoming(&self, node: usize) -> impl Iterator<Item = &Link> {
        let mut next = self.first_in(node);
        std::iter::from_fn(move || {
            let id = next?;
            next = self.next_in(id);
            Some(self.link(id))
        })
    }

    fn first_in(&self, node: usize) -> Option<LinkId> {
        self.nodes[node].last_in.map(|last| self.link(last).next_in.unwrap_or(last))
    }

    /// Returns the link after `id` among those with the same target.
    fn next_in(&self, id: LinkId) -> Option<LinkId> {
        let link = self.link(id);
        link.next_in.filter(|_| self.nodes[link.to()].last_in != Some(id))
    }

    fn connect(&mut self, from: usize, to: usize, kind: EdgeKind) {
        let id = self.store_outgoing(from, to, kind, Role::Wait);
        self.nodes[to].unmet.up();
        self.append_incoming(to, id);
    }

    fn append_incoming(&mut self, to: usize, id: LinkId) {
        if let Some(before) = self.nodes[to].last_in.replace(id) {
            let first = self.link_mut(before).next_in.replace(id);
            self.link_mut(id).next_in = first.or(Some(before));
        }
    }

    /// Takes the links that `keeps` refuses out of the list of those into `node`, and returns them.
    fn take_incoming(&mut self, node: usize, keeps: impl Fn(&Self, &Link) -> bool) -> Vec<LinkId> {
        let mut taken = Vec::new();
        let mut next = self.first_in(node);
        let last = self.nodes[node].last_in.take();
        while let Some(id) = next {
            next = self.link_mut(id).next_in.take().filter(|_| Some(id) != last);
            match keeps(self, self.link(id)) {
                true => self.append_incoming(node, id),
                false => taken.push(id),
            }
        }
        taken
    }

    fn append_outgoing(&mut self, from: usize, id: LinkId) {
        if let Some(before) = self.nodes[from].outgoing.append(id) {
            self.link_mut(before).next_out = Some(id);
        }
    }

    /// Stores an edge and lists it at its source.
    fn store_outgoing(&mut self, from: usize, to: usize, kind: EdgeKind, role: Role) -> LinkId {
        let id = self.store(Link::new(from, to, kind, role));
        self.append_outgoing(from, id);
        id
    }

    /// Stores an edge from a source that has ended.
    #[cold]
    fn store_settled(&mut self, source: Edge, to: usize, outcome: EdgeOutcome) -> LinkId {
        // A forgotten source is never tried again.
        if self.nodes.get(source.node).is_some() {
            self.remember_settled(source.node, to);
        }
        let link = Link::new(source.node, to, source.kind, Role::Settled);
        self.store(Link { ends: 1, outcome, ..link })
    }

    fn store(&mut self, link: Link) -> LinkId {
        let Some(id) = self.free else {
            return LinkId::at(self.links.push(link));
        };
        let reused = std::mem::replace(self.link_mut(id), link);
        self.free = reused.next_out;
        id
    }

    /// Removes one end of each link in the list, and frees links without a remaining end.
    fn release(&mut self, first: Option<LinkId>, next: impl Fn(LinkId, &Link) -> Option<LinkId>) {
        let mut following = first;
        while let Some(id) = following {
            following = next(id, self.link(id));
            self.release_end(id);
        }
    }

    /// Removes one end of a link, and frees the link if that was the last one.
    fn release_end(&mut self, id: LinkId) {
        let free = self.free;
        let link = self.link_mut(id);
        link.ends -= 1;
        if link.ends == 0 {
            link.next_out = free;
            self.free = Some(id);
        }
    }

    fn link(&self, id: LinkId) -> &Link {
        &self.links[id.index()]
    }

    fn link_mut(&mut self, id: LinkId) -> &mut Link {
        &mut self.links[id.index()]
    }
}

impl Link {
    /// Creates a link that is the last of both lists.
    fn new(from: usize, to: usize, kind: EdgeKind, role: Role) -> Self {
        let (from, to) = (Number::of(from), Number::of(to));
        let (next_in, next_out, outcome) = (None, None, EdgeOutcome::Met);
        Self { from, to, next_in, next_out, kind, ends: 2, role, outcome }
    }

    #[inline]
    fn from(&self) -> usize {
        self.from.get()
    }

    #[inline]
    fn to(&self) -> usize {
        self.to.get()
    }
}

impl Number {
    #[inline]
    fn of(node: usize) -> Self {
        let node = node as u64;
        debug_assert!(node >> 48 == 0, "fewer than 2^43 nodes");
        Self([0, 16, 32].map(|shift| (node >> shift) as u16))
    }

    #[inline]
    fn get(self) -> usize {
        let [low, middle, high] = self.0.map(u64::from);
        (low | middle << 16 | high << 32) as usize
    }
}

impl List {
    /// Makes `id` the last link. Returns the previous last link, which has to point to it, unless
    /// `id` is the first.
    fn append(&mut self, id: LinkId) -> Option<LinkId> {
        let before = self.last.replace(id);
        if before.is_none() {
            self.first = Some(id);
        }
        before
    }
}

impl LinkId {
    fn at(index: usize) -> Self {
        let number = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        Self(number.expect("fewer than 2^32 edges at a time"))
    }

    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// Returns the place of a node with `rank` nodes before it.
fn spaced(rank: usize) -> i64 {
    let rank = i64::try_from(rank).ok();
    rank.and_then(|rank| rank.checked_mul(SPACING)).expect("fewer than 2^43 nodes")
}

#[cfg(test)]
mod tests;
