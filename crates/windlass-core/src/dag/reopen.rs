//! Edges that were decided and are open again, because their sources are tried once more.

use super::{Dag, LinkId, Role};

impl Dag {
    /// Whoever follows one of `sources`, at any distance, with the sources themselves, in the order
    /// of their numbers. Looks at every edge.
    pub(crate) fn followers(&self, sources: usize) -> Vec<usize> {
        let mut targets: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        for (node, _) in self.nodes.iter() {
            self.sources(node).for_each(|edge| targets[edge.node].push(node));
        }
        let mut found = vec![false; self.nodes.len()];
        let mut open = vec![sources];
        while let Some(node) = open.pop() {
            if !std::mem::replace(&mut found[node], true) {
                open.extend(&targets[node]);
            }
        }
        (0..found.len()).filter(|&node| found[node]).collect()
    }

    /// Counts the edges into `node` anew: those whose source `is_open` are to be met again, also if
    /// they were settled when they were added.
    pub(crate) fn reopen_edges(&mut self, node: usize, is_open: impl Fn(usize) -> bool) {
        let mut unmet = 0;
        let mut next = self.nodes[node].incoming.first;
        while let Some(id) = next {
            next = self.link(id).next_in;
            if self.link(id).role == Role::Family || !is_open(self.link(id).from) {
                continue;
            }
            unmet += 1;
            if self.link(id).role == Role::Settled {
                self.unsettle(id);
            }
        }
        self.nodes[node].unmet = unmet;
    }

    fn unsettle(&mut self, id: LinkId) {
        let (from, to) = (self.link(id).from, self.link(id).to);
        self.order(from, to).expect("whoever had ended before can follow nobody behind it");
        let link = self.link_mut(id);
        link.role = Role::Wait;
        link.ends += 1;
        self.append_outgoing(from, id);
    }
}
