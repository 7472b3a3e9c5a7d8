//! Edges that were decided and are open again, because their sources are tried once more.

use std::collections::BTreeSet;

use super::{Count, Dag, EdgeError, EdgeKind, EdgeOutcome, Link, LinkId, Role};

impl Dag {
    /// Returns the nodes that follow `source`, at any distance, and `source` itself, in the order of their
    /// numbers. Looks only at their own edges.
    pub(crate) fn followers(&self, source: usize) -> Vec<usize> {
        let mut found = BTreeSet::new();
        let mut open = vec![source];
        while let Some(node) = open.pop() {
            if found.insert(node) {
                open.extend(self.targets(node).map(|edge| edge.node));
                let settled = self.settled.get(&node).into_iter().flatten().copied();
                open.extend(settled.filter(|target| self.nodes.get(*target).is_some()));
            }
        }
        found.into_iter().collect()
    }

    /// Notes an edge that its source does not list. Forgotten targets are dropped before the list would
    /// grow, so that it stays in proportion to the others.
    pub(super) fn remember_settled(&mut self, from: usize, to: usize) {
        let targets = self.settled.entry(from).or_default();
        if targets.len() == targets.capacity() {
            targets.retain(|target| self.nodes.get(*target).is_some());
            // Room for as many again: otherwise the next few calls would look at all of them once more.
            targets.reserve(targets.len() + 4);
        }
        targets.push(to);
    }

    /// The edges out of `node`, which has ended and is about to be forgotten, remember what they say.
    pub(crate) fn record_outcomes(&mut self, node: usize, says: impl Fn(EdgeKind) -> EdgeOutcome) {
        let mut next = self.nodes[node].outgoing.first;
        while let Some(id) = next {
            let link = self.link_mut(id);
            next = link.next_out;
            link.outcome = says(link.kind);
        }
    }

    /// What the edges into `node` say whose sources are forgotten.
    pub(crate) fn outcomes_of_forgotten(&self, node: usize) -> impl Iterator<Item = EdgeOutcome> {
        let waits = self.incoming(node).filter(|link| link.role != Role::Family);
        let forgotten = waits.filter(|link| self.nodes.get(link.from()).is_none());
        forgotten.map(|link| link.outcome)
    }

    /// Refuses to open the edges among `nodes` again if some of them would follow themselves then:
    /// one that was settled when it was added was in nobody's way.
    pub(crate) fn expect_reopenable(&self, nodes: &[usize]) -> Result<(), EdgeError> {
        let known: BTreeSet<_> = nodes.iter().copied().collect();
        let reopens = |link: &&Link| link.role == Role::Settled && known.contains(&link.from());
        let into = |&node: &usize| self.incoming(node).filter(reopens);
        let edges = nodes.iter().flat_map(into).map(|link| (link.from(), link.to(), link.kind));
        let edges: Vec<_> = edges.collect();
        let agrees = |&(from, to, _): &_| self.nodes[from].place < self.nodes[to].place;
        if edges.iter().all(agrees) {
            return Ok(());
        }
        self.cycle_with(&edges).map_or(Ok(()), |path| Err(EdgeError::Cycle { path }))
    }

    /// Counts the edges into `node` anew: those whose source `is_open` are to be met again, also if
    /// they were settled when they were added.
    pub(crate) fn reopen_edges(&mut self, node: usize, is_open: impl Fn(usize) -> bool) {
        let mut unmet = Count::ZERO;
        let mut next = self.first_in(node);
        while let Some(id) = next {
            next = self.next_in(id);
            if self.link(id).role == Role::Family || !is_open(self.link(id).from()) {
                continue;
            }
            unmet.up();
            if self.link(id).role == Role::Settled {
                self.unsettle(id);
            }
        }
        self.nodes[node].unmet = unmet;
    }

    fn unsettle(&mut self, id: LinkId) {
        let (from, to) = (self.link(id).from(), self.link(id).to());
        self.order(from, to).expect("that was looked at before anything was opened");
        let link = self.link_mut(id);
        link.role = Role::Wait;
        link.ends += 1;
        self.append_outgoing(from, id);
    }
}
