//! The clients of a tree: adding and removing them, and what they hold.

use super::level::grown;
use super::reservation::Reservation;
use super::{CapacityTree, Demand, ReleaseError, in_order};
use crate::{Amount, ClientId, LevelId, ResourceId};

#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) level: LevelId,
    pub(super) priority: i16,
    /// What this client has in use, by resource.
    pub(super) held: Vec<i128>,
    /// The number of its takes that are not released.
    pub(super) in_flight: u64,
    pub(super) reservation: Option<Reservation>,
}

const IS_HERE: &str = "a client is used from when it is added until it is removed";

impl CapacityTree {
    /// Adds a client of priority 0 at `level`.
    pub fn add_client(&mut self, level: LevelId) -> ClientId {
        self.add_client_with(level, 0)
    }

    /// Adds a client at `level`. What is reserved for its starts comes before what is reserved for those of
    /// clients with a smaller priority, and equal clients are served in turn.
    pub fn add_client_with(&mut self, level: LevelId, priority: i16) -> ClientId {
        self.levels[level.index()].tenants += 1;
        let client = self.vacant.pop().unwrap_or_else(|| {
            self.clients.push(None);
            ClientId::at(self.clients.len() - 1)
        });
        self.clients[client.index()] =
            Some(Client { level, priority, held: Vec::new(), in_flight: 0, reservation: None });
        client
    }

    /// Removes a client: releases all it holds, ends its reservation and its watches. Its id may be
    /// reused. Returns the clients to wake.
    ///
    /// # Panics
    ///
    /// Panics if the client was removed before.
    pub fn remove_client(&mut self, client: ClientId) -> Vec<ClientId> {
        self.climb(self.level_of(client), |level| {
            level.counters.iter_mut().for_each(|counter| counter.unwatch(client));
        });
        let mut wakes = self.withdraw(client);
        self.workers.remove_client(client);
        self.land(client, self.client(client).in_flight);
        let Client { level, held, .. } = self.clients[client.index()].take().expect(IS_HERE);
        for (resource, held) in held.into_iter().enumerate().filter(|(_, held)| *held != 0) {
            self.climb(level, |level| {
                level.counters[resource].give_back(client, held, &mut wakes);
            });
        }
        self.subscribers.remove(&client);
        self.vacant.push(client);
        self.vacate(level);
        in_order(wakes)
    }

    /// Transfers what `from` holds to `to`, a client of the same level. No counter changes.
    ///
    /// # Panics
    ///
    /// Panics if the two clients have different levels, or `from` holds less.
    pub fn hand_over(&mut self, from: ClientId, to: ClientId, demand: &Demand) {
        assert_eq!(self.level_of(from), self.level_of(to), "both are bound by the same limits");
        assert!(self.holds(from, demand), "a client hands over at most what it holds");
        let giver = self.client_mut(from);
        demand.iter().for_each(|(r, amount)| giver.held[r.index()] -= i128::from(amount.steps()));
        let moved = giver.in_flight.min(1);
        giver.in_flight -= moved;
        let taker = self.client_mut(to);
        taker.in_flight += moved;
        for (resource, amount) in demand.iter() {
            *grown(&mut taker.held, resource.index()) += i128::from(amount.steps());
        }
    }

    /// Returns whether the tree has more than one client.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.clients.len() - self.vacant.len() > 1
    }

    /// Returns the level of `client`.
    #[must_use]
    #[inline]
    pub fn level_of(&self, client: ClientId) -> LevelId {
        self.client(client).level
    }

    /// Returns what `client` has in use, by resource id, in steps of 1/10 000.
    #[inline]
    pub(crate) fn held(&self, client: ClientId) -> &[i128] {
        &self.client(client).held
    }

    #[inline]
    pub(super) fn client(&self, client: ClientId) -> &Client {
        self.clients[client.index()].as_ref().expect(IS_HERE)
    }

    #[inline]
    pub(super) fn client_mut(&mut self, client: ClientId) -> &mut Client {
        self.clients[client.index()].as_mut().expect(IS_HERE)
    }

    /// Returns whether the client holds all of `demand`.
    #[inline]
    pub(super) fn holds(&self, client: ClientId, demand: &Demand) -> bool {
        let held = self.held(client);
        let at_least = |held: &i128, amount: Amount| *held >= i128::from(amount.steps());
        demand.iter().all(|(r, amount)| held.get(r.index()).is_some_and(|h| at_least(h, amount)))
    }

    pub(super) fn expect_held(
        &self,
        client: ClientId,
        demand: &Demand,
    ) -> Result<(), ReleaseError> {
        if self.holds(client, demand) {
            return Ok(());
        }
        let held = |resource: ResourceId| self.held(client).get(resource.index()).copied();
        let held = |resource| u64::try_from(held(resource).unwrap_or(0)).unwrap_or(u64::MAX);
        let mut short = demand.iter().map(|(r, amount)| (r, amount, Amount::from_steps(held(r))));
        let short = short.find(|(_, released, held)| released > held);
        let (resource, released, held) = short.expect("it does not hold all of it");
        Err(ReleaseError { name: self.name(resource).to_owned(), released, held })
    }
}
