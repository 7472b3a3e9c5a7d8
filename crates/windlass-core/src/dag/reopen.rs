//! Reopens edges whose sources are tried again.

use std::collections::BTreeSet;

use super::{Count, Dag, EdgeError, EdgeKind, EdgeOutcome, Link, LinkId, Role};

impl Dag {
    /// Returns `source` and its direct and indirect targets, sorted by id. Visits only their own
    /// edges.
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

    /// Records an edge that its source does not list. Drops forgotten targets before the list
    /// grows, so that its length stays proportional to the live ones.
    pub(super) fn remember_settled(&mut self, from: usize, to: usize) {
        let targets = self.settled.entry(from).or_default();
        if targets.len() == targets.capacity() {
            targets.retain(|target| self.nodes.get(*target).is_some());
            // Doubles the capacity: otherwise each of the next calls would scan the whole list.
            targets.reserve(targets.len() + 4);
        }
        targets.push(to);
    }

    /// Stores the outcomes of the edges out of `node`, which has ended and is about to be
    /// forgotten.
    pub(crate) fn record_outcomes(&mut self, node: usize, says: impl Fn(EdgeKind) -> EdgeOutcome) {
        let mut next = self.nodes[node].outgoing.first;
        while let Some(id) = next {
            let link = self.link_mut(id);
            next = link.next_out;
            link.outcome = says(link.kind);
        }
    }

    /// Iterates over the outcomes of the edges into `node` whose sources are forgotten.
    pub(crate) fn outcomes_of_forgotten(&self, node: usize) -> impl Iterator<Item = EdgeOutcome> {
        let waits = self.incoming(node).filter(|link| link.role != Role::Family);
        let forgotten = waits.filter(|link| self.nodes.get(link.from()).is_none());
        forgotten.map(|link| link.outcome)
    }

    /// Checks that the edges among `nodes` can be reopened without a cycle: an edge that was
    /// settled when it was added does not affect the order until then.
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

    /// Counts the edges into `node` again: those whose source `is_open` are unmet again, including
    /// edges that were settled when they were added.
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
