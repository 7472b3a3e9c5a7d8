//! Parents end after their children: edges that only the search for cycles sees.

use super::{Dag, EdgeError, EdgeKind, Role};

impl Dag {
    /// Has `before` stand before `after` in the order, as an edge would, without an edge. Refused
    /// if it already has to stand behind it.
    pub(crate) fn order(&mut self, before: usize, after: usize) -> Result<(), EdgeError> {
        if self.nodes[before].place >= self.nodes[after].place {
            self.reorder(before, after)?;
        }
        Ok(())
    }

    /// Makes `child` end before `parent`.
    pub(crate) fn add_child(&mut self, child: usize, parent: usize) -> Result<(), EdgeError> {
        self.order(child, parent)?;
        self.link_up(child, parent, EdgeKind::Done, Role::Family);
        Ok(())
    }

    /// Lets go of what `parent` still keeps of its forgotten children. Takes time in proportion to
    /// all edges into it.
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
