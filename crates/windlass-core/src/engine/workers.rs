//! Works that go to workers: what they ask of one, and where their attempts are.

use super::Engine;
use crate::capacity::{CapacityTree, CostError};
use crate::placement::Selector;
use crate::{CostId, ResourceCost, WorkId, WorkerId};

impl Engine {
    /// As [`Engine::cost`], for works that go to workers of the tree: one worker has to have what the cost
    /// takes of slots and of resources named after [`WORKER`](crate::WORKER), and what `on` asks for. That no
    /// worker has it now is no error, because workers come and go.
    pub fn placed_cost(
        &mut self,
        capacity: &mut CapacityTree,
        cost: &ResourceCost,
        on: &Selector,
    ) -> Result<CostId, CostError> {
        if self.admission.costs_may_be_vacated(self.state.len()) {
            self.admission.vacate_costs(self.state.costs());
        }
        self.admission.placed_cost(capacity, cost, on)
    }

    /// Names the worker that facts to be replayed mean by the next number, from 0. Names are given in the
    /// order of their numbers, before the facts. Returns the number.
    pub fn name_worker(&mut self, name: &str) -> WorkerId {
        self.admission.placed_mut().name(name)
    }

    /// Returns the name of a worker that an attempt of this engine was at.
    #[must_use]
    pub fn worker_name(&self, worker: WorkerId) -> Option<&str> {
        self.admission.placed().name_of(worker)
    }

    /// Iterates over the names of all workers that attempts were at, in the order of their numbers.
    pub fn worker_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.admission.placed().names()
    }

    /// Returns the worker of the latest attempt of `work`.
    #[must_use]
    pub fn worker_of(&self, work: WorkId) -> Option<WorkerId> {
        self.state.latest_worker(work)
    }

    /// Returns the work for which the capacity reserves something.
    #[cfg(test)]
    pub(crate) fn reserved_for_work(&self) -> Option<WorkId> {
        self.admission.reserved_for()
    }

    /// Returns the name of the worker at which the granted attempt of `work` starts, or runs.
    #[must_use]
    pub fn placed_at<'a>(&self, capacity: &'a CapacityTree, work: WorkId) -> Option<&'a str> {
        let at = self.admission.placed().of(work)?;
        Some(capacity.workers().name(at))
    }
}
