//! Edges of families: a parent ends after its children, which only the search for cycles uses.

use super::{Dag, EdgeError, EdgeKind, Link, Role};

impl Dag {
    /// Orders `before` in front of `after` as an edge would, without adding one. Fails if it is
    /// already ordered behind it.
    pub(crate) fn order(&mut self, before: usize, after: usize) -> Result<(), EdgeError> {
        if self.nodes[before].place >= self.nodes[after].place {
            self.reorder(before, after)?;
        }
        Ok(())
    }

    /// Makes `child` end before `parent`.
    pub(crate) fn add_child(&mut self, child: usize, parent: usize) -> Result<(), EdgeError> {
        self.order(child, parent)?;
        let id = self.store_outgoing(child, parent, EdgeKind::Done, Role::Family);
        self.append_incoming(parent, id);
        Ok(())
    }

    /// Frees the edges from forgotten children of `parent`. Takes time linear in the edges into it.
    pub(crate) fn prune_children(&mut self, parent: usize) {
        let keeps = |dag: &Self, link: &Link| {
            link.role != Role::Family || dag.nodes.get(link.from()).is_some()
        };
        for id in self.take_incoming(parent, keeps) {
            assert_eq!(self.link(id).ends, 1, "its other end went with the child");
            self.release_end(id);
        }
    }
}
