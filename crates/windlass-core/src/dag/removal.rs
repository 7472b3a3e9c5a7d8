//! Removes edges whose target need no longer wait for their source.

use super::{Dag, Link, Role};

impl Dag {
    /// Removes all edges from `from`, which may be forgotten, to `to`. Returns how many of them were not settled
    /// when they were added; the caller knows whether they are unmet. Takes time linear in the edges of both.
    pub(crate) fn remove_edges(&mut self, from: usize, to: usize) -> usize {
        let removed = |link: &Link| link.from() == from && link.role != Role::Family;
        let taken = self.take_incoming(to, |_, link| !removed(link));
        let waits = taken.iter().filter(|id| self.link(**id).role == Role::Wait).count();
        taken.into_iter().for_each(|id| self.release_end(id));
        if self.nodes.get(from).is_some() {
            self.remove_outgoing(from, to);
            if let Some(targets) = self.settled.get_mut(&from) {
                targets.retain(|target| *target != to);
            }
        }
        waits
    }

    /// Removes the links to `to` from the list of those out of `from`.
    fn remove_outgoing(&mut self, from: usize, to: usize) {
        let mut next = std::mem::take(&mut self.nodes[from].outgoing).first;
        while let Some(id) = next {
            let link = self.link_mut(id);
            next = link.next_out.take();
            match link.role == Role::Wait && link.to() == to {
                true => self.release_end(id),
                false => self.append_outgoing(from, id),
            }
        }
    }
}
