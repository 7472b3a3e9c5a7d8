//! Edges of families: a parent ends after its children, which only the search for cycles uses.

use super::{Dag, EdgeError, EdgeKind, Role};

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
        let mut next = self.first_in(parent);
        let last = self.nodes[parent].last_in.take();
        while let Some(id) = next {
            let free = self.free;
            let known = self.nodes.get(self.link(id).from()).is_some();
            let link = self.link_mut(id);
            next = link.next_in.take().filter(|_| Some(id) != last);
            if known || link.role != Role::Family {
                self.append_incoming(parent, id);
                continue;
            }
            link.ends -= 1;
            assert_eq!(link.ends, 0, "its other end went with the child");
            link.next_out = free;
            self.free = Some(id);
        }
    }
}
