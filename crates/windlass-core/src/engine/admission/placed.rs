//! The workers of an engine's attempts: which one executes each, and what the engine calls them.
//!
//! An engine numbers the workers that it has used, in the order in which it first did. A tree may number
//! the same workers in another way, and a replay may find other workers there, or none.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::capacity::{CapacityTree, Demand};
use crate::placement::WorkerIndex;
use crate::{ClientId, CostId, WorkId, WorkerId};

#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct Placed {
    /// The names of the workers, by number.
    names: Vec<Arc<str>>,
    /// Where the works that hold their cost hold it.
    holding: BTreeMap<WorkId, WorkerIndex>,
    /// The worker that the last search has chosen, until the work that it found takes its cost.
    chosen: Option<WorkerIndex>,
    /// The costs under which works are queued that have to go to a certain worker.
    pins: BTreeMap<WorkId, CostId>,
}

impl Placed {
    pub(in crate::engine) fn choose(&mut self, chosen: Option<WorkerIndex>) {
        self.chosen = chosen;
    }

    /// Gives a worker the next number. Only the workers of a replay are named by the driver.
    pub(in crate::engine) fn name(&mut self, name: &str) -> WorkerId {
        let known = self.names.iter().position(|known| **known == *name);
        WorkerId::at(known.unwrap_or_else(|| {
            self.names.push(Arc::from(name));
            self.names.len() - 1
        }))
    }

    pub(in crate::engine) fn name_of(&self, worker: WorkerId) -> Option<&str> {
        self.names.get(worker.index()).map(|name| &**name)
    }

    pub(in crate::engine) fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    /// Returns the number of the worker at which a work that was granted, or was found just now, starts.
    pub(in crate::engine) fn number_for(
        &mut self,
        capacity: &CapacityTree,
        work: WorkId,
    ) -> Option<WorkerId> {
        let at = self.holding.get(&work).copied().or(self.chosen)?;
        let name = capacity.workers().name(at).clone();
        Some(self.name(&name))
    }

    /// Takes what a demand asks of a worker: of the one that was chosen, or the one of a replay.
    #[inline]
    pub(in crate::engine) fn take(
        &mut self,
        capacity: &mut CapacityTree,
        client: ClientId,
        work: WorkId,
        demand: &Demand,
        replayed: Option<WorkerId>,
    ) {
        if let Some(shape) = demand.shape() {
            let replayed = || self.names.get(replayed?.index());
            let at = match self.chosen.take() {
                Some(chosen) => {
                    capacity.workers_mut().take(chosen, shape, client);
                    chosen
                }
                None => match replayed() {
                    Some(name) => capacity.workers_mut().take_at(name, shape, client),
                    None => return,
                },
            };
            self.holding.insert(work, at);
        }
    }

    /// Gives back what a work has of its worker.
    #[inline]
    pub(in crate::engine) fn give_back(
        &mut self,
        capacity: &mut CapacityTree,
        client: ClientId,
        work: WorkId,
        demand: &Demand,
    ) {
        if let Some(shape) = demand.shape()
            && let Some(at) = self.holding.remove(&work)
        {
            capacity.workers_mut().give_back(at, shape, client);
        }
    }

    /// Returns the worker that executes a work.
    pub(in crate::engine) fn of(&self, work: WorkId) -> Option<WorkerIndex> {
        self.holding.get(&work).copied()
    }

    /// Queues a work under a cost for one worker.
    pub(in crate::engine) fn pin(&mut self, work: WorkId, cost: CostId) {
        self.pins.insert(work, cost);
    }

    pub(in crate::engine) fn unpin(&mut self, work: WorkId) {
        if !self.pins.is_empty() {
            self.pins.remove(&work);
        }
    }

    /// Returns the cost under which a work is queued, if that is not its own.
    #[inline]
    pub(in crate::engine) fn pinned(&self, work: WorkId) -> Option<CostId> {
        if self.pins.is_empty() { None } else { self.pins.get(&work).copied() }
    }

    pub(in crate::engine) fn pinned_costs(&self) -> impl Iterator<Item = CostId> {
        self.pins.values().copied()
    }

    /// Forgets what works hold and where they have to go: the engine leaves its tree.
    pub(in crate::engine) fn clear(&mut self) {
        self.holding.clear();
        self.pins.clear();
        self.chosen = None;
    }
}
