//! Verifies what follows from what clients hold. For tests and simulation.

use std::collections::BTreeSet;

use super::{WorkerIndex, Workers};

impl Workers {
    /// Verifies that free room, reservations and watches agree with each other.
    ///
    /// # Panics
    ///
    /// Panics if they do not: a bug in this module.
    pub(crate) fn check(&self) {
        let mut free = self.rooms.total.clone();
        let mut executing = vec![0; self.workers.len()];
        for ((_, id, shape), count) in &self.holds {
            executing[id.index()] += count;
            for (column, steps) in shape.wants() {
                free[column][id.index()] -= steps * *count as i128;
            }
        }
        assert_eq!(free, self.rooms.free, "free is what clients do not hold");
        let counted: Vec<_> = self.workers.iter().map(|worker| worker.executing).collect();
        assert_eq!(executing, counted, "what clients hold is executed");
        let reserved = self.workers.iter().enumerate().filter_map(|(index, worker)| {
            Some((worker.reserved.as_ref()?.client, WorkerIndex::at(index)))
        });
        let reserved: BTreeSet<_> = reserved.collect();
        let known = self.reservations.iter().map(|(client, id)| (*client, *id)).collect();
        assert_eq!(reserved, known, "each reservation belongs to a client");
        for (_, id) in reserved {
            let shape = &self.workers[id.index()].reserved.as_ref().expect("it is reserved").shape;
            assert!(self.could_take(id.index(), shape), "a reserved worker can take the work");
        }
        for (name, id) in &self.numbers {
            assert_eq!(*name, self.workers[id.index()].name, "a worker has its name");
            assert!(!self.vacant.contains(id), "a worker that is here keeps its number");
        }
        assert_eq!(self.numbers.len() + self.vacant.len(), self.workers.len());
    }
}
