//! The workers of a tree: a demand that goes to a worker needs room there besides that of the levels.

use super::{CapacityTree, CostError, Demand, Place, in_order};
use crate::placement::{Asked, Selector, Shape, WORKER, WorkerIndex, WorkerOffer, Workers};
use crate::{ClientId, LevelId, ResourceCost, WorkerKind};

impl CapacityTree {
    /// Adds a worker, or changes what it has. What it executes stays.
    pub fn put_worker(&mut self, name: &str, offer: &WorkerOffer) {
        self.workers.put(name, offer);
    }

    /// Removes a worker. What it executes goes on to count until it is given back.
    pub fn remove_worker(&mut self, name: &str) {
        self.workers.remove(name);
    }

    /// Iterates over the names of the workers, in order.
    pub fn worker_names(&self) -> impl Iterator<Item = &str> {
        self.workers.names()
    }

    /// Returns the name of the worker with the most free slots, of those that take works: for what takes no
    /// room.
    #[must_use]
    pub fn idlest_worker(&self) -> Option<&str> {
        self.workers.idlest()
    }

    /// Takes of a worker what works that this tree does not know have there, as `client`.
    pub fn occupy(&mut self, client: ClientId, worker: &str, cost: &ResourceCost) {
        let shape = self.workers.shape(cost, &Selector::default());
        self.workers.take_at(worker, &shape, client);
    }

    /// Offers the room that workers have got to the clients that wait for it, and returns those to wake. A
    /// driver calls this before its clients search, and again once they have, until it returns none: clients
    /// may leave room to others.
    pub fn pass_on(&mut self) -> Vec<ClientId> {
        in_order(self.workers.pass_on())
    }

    /// Returns a cost as a demand of works that go to workers. The levels have to have it, and one worker its
    /// slots and what is named after [`WORKER`]. Fails if the levels could never meet it; workers come and
    /// go.
    pub fn placed_demand(
        &mut self,
        level: LevelId,
        cost: &ResourceCost,
        on: &Selector,
    ) -> Result<Demand, CostError> {
        let of_levels = cost.iter().filter(|(name, _)| !name.starts_with(WORKER));
        let of_levels = of_levels.map(|(name, amount)| (name.to_owned(), amount)).collect();
        let demand = self.demand(level, &of_levels)?;
        Ok(demand.with_shape(self.workers.shape(cost, on)))
    }

    /// Returns what each kind of worker lacks for a cost if none of them could ever meet it; nothing
    /// otherwise.
    pub fn never_placed(&mut self, cost: &ResourceCost, on: &Selector) -> Vec<WorkerKind> {
        let shape = self.workers.shape(cost, on);
        self.workers.never(&shape)
    }

    pub(crate) fn workers(&self) -> &Workers {
        &self.workers
    }

    pub(crate) fn workers_mut(&mut self) -> &mut Workers {
        &mut self.workers
    }

    /// Returns the worker at which a demand would start; none if no worker has room, or it goes to none.
    #[inline]
    pub(crate) fn worker_for(
        &self,
        client: ClientId,
        demand: &Demand,
        place: Place,
    ) -> Option<WorkerIndex> {
        self.workers.find(self.asked_of_workers(client, demand.shape()?, place))
    }

    /// Returns what each kind of worker lacks for a demand; nothing if one has room.
    pub(crate) fn lacking_workers(
        &self,
        client: ClientId,
        demand: &Demand,
        place: Place,
    ) -> Vec<WorkerKind> {
        let lacks = |shape| self.workers.lacks(self.asked_of_workers(client, shape, place));
        demand.shape().map(|shape| lacks(shape)).unwrap_or_default()
    }

    /// Has `client` told when a worker may have room for a demand, which it knows by a key.
    pub(crate) fn watch_workers(&mut self, client: ClientId, key: u32, demand: &Demand) {
        let turn = self.turn_of(client);
        let shape = demand.shape().expect("workers refuse what goes to one");
        self.workers.watch(client, key, turn, shape);
    }

    fn asked_of_workers<'a>(&self, client: ClientId, shape: &'a Shape, place: Place) -> Asked<'a> {
        Asked { shape, before: self.bound(client, place), goes_on: place.is_resuming() }
    }
}
