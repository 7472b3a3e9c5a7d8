//! Moves an engine to another capacity tree, in two steps, so that the caller never needs both
//! trees.
//!
//! Works keep their phases and waiting times; only their costs are looked up again. The clock of
//! the other tree may show another time, and the engine converts from then on.

use super::{Admission, TreeClock, queue_of};
use crate::capacity::{CapacityTree, CostError};
use crate::engine::Engine;
use crate::engine::costs::Costs;
use crate::engine::state::{At, Work};
use crate::queue::Queues;
use crate::{ClientId, ResourceCost, Timestamp, WorkId};

/// The capacity tree that an engine moves to.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The engine's client there.
    pub client: ClientId,
    /// The time of the engine.
    pub now: Timestamp,
    /// The same time by the clock of the tree.
    pub there: Timestamp,
}

impl Engine {
    /// Leaves its tree: releases what its works hold there and its reservation. No other function
    /// may be called before [`Engine::arrive`]. Returns the clients to wake.
    pub fn depart(&mut self, capacity: &mut CapacityTree) -> Vec<ClientId> {
        let holding = self.state.works().filter(|(_, work)| work.phase().holds());
        self.admission.depart(capacity, holding)
    }

    /// Joins another tree. `price` returns what an unfinished work costs there. Attempts under way
    /// take their cost whether it fits or not. Returns the works whose cost can never be met there,
    /// which take nothing.
    pub fn arrive(
        &mut self,
        capacity: &mut CapacityTree,
        arrival: Arrival,
        price: impl Fn(WorkId) -> ResourceCost,
    ) -> Vec<(WorkId, CostError)> {
        let Self { state, admission, .. } = self;
        let Arrival { client, now, there } = arrival;
        admission.client = client;
        admission.clock = TreeClock::of(state.now().max(now), there);
        let nothing = admission.costs.nothing();
        let mut impossible = Vec::new();
        state.reprice(now, |work, entry| {
            let cost =
                if entry.is_open() { admission.cost(capacity, &price(work)) } else { Ok(nothing) };
            cost.unwrap_or_else(|error| {
                impossible.push((work, error));
                nothing
            })
        });
        admission.arrive(capacity, state.now(), || state.works());
        impossible
    }

    /// Returns how many works are queued, to start or to resume.
    #[must_use]
    pub fn queue_len(&self) -> usize {
        self.admission.queues.len()
    }
}

impl Admission {
    fn depart<'a>(
        &mut self,
        capacity: &mut CapacityTree,
        holding: impl Iterator<Item = (WorkId, &'a Work)>,
    ) -> Vec<ClientId> {
        let mut wakes = capacity.withdraw(self.client);
        for (id, work) in holding {
            let demand = self.costs.demand(work.cost);
            self.placed.give_back(capacity, self.client, id, demand);
            wakes.extend(capacity.give_back(self.client, self.costs.demand(work.cost)));
        }
        (self.reserved_for, self.pending_reservation) = (None, None);
        self.queues = Queues::new(self.ageing);
        self.idle = None;
        self.costs = Costs::default();
        self.placed.clear();
        wakes.retain(|client| *client != self.client);
        wakes.sort_unstable();
        wakes.dedup();
        wakes
    }

    /// Takes what the works under way hold, and queues the ready ones in the same order as before.
    fn arrive<'a, W: Iterator<Item = (WorkId, &'a Work)>>(
        &mut self,
        capacity: &mut CapacityTree,
        now: Timestamp,
        works: impl Fn() -> W,
    ) {
        for (_, work) in works().filter(|(_, work)| work.phase().holds()) {
            capacity.take_again(self.client, self.costs.demand(work.cost));
        }
        let mut queued: Vec<_> =
            works().filter(|(_, entry)| queue_of(entry.phase()).is_some()).collect();
        queued.sort_unstable_by_key(|(_, entry)| entry.seq);
        for (work, entry) in queued {
            self.enqueue(capacity, now, work, entry, At::default());
        }
    }
}
