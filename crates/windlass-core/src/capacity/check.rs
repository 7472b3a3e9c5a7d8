//! Verifies the invariants of a tree by recomputing its counters from its clients. For tests and
//! simulation: takes time linear in the size of the tree.

use std::collections::{BTreeMap, BTreeSet};

use super::CapacityTree;
use super::client::Client;
use super::counter::Counter;
use super::reservations::Reservations;
use crate::{ClientId, LevelId, ResourceId};

impl CapacityTree {
    /// Verifies that the counters of all levels follow from what the clients hold and reserve.
    ///
    /// # Panics
    ///
    /// Panics if they do not: a bug in the tree.
    pub fn check(&self) {
        self.check_in_use();
        self.check_reservations();
        self.check_watchers();
        self.check_tenants();
        self.workers.check();
    }

    /// What is in use at a level is the sum over the clients at and below it.
    fn check_in_use(&self) {
        let mut sums = BTreeMap::new();
        for (_, client) in self.present() {
            assert!(client.held.iter().all(|held| *held >= 0), "no client holds less than nothing");
            for level in self.chain(client.level) {
                for (resource, held) in client.held.iter().enumerate() {
                    *sums.entry((level, ResourceId::at(resource))).or_insert(0) += held;
                }
            }
        }
        for (place, counter) in self.all_counters() {
            let sum = sums.remove(&place).unwrap_or(0);
            assert_eq!(counter.in_use, sum, "in use is the sum over the clients");
        }
        assert!(sums.values().all(|sum| *sum == 0), "everything in use has its counter");
    }

    /// Each counter has exactly the reservations of its clients, and each level counts its own.
    fn check_reservations(&self) {
        let mut expected = BTreeSet::new();
        let mut reservation = vec![0; self.levels.len()];
        for (_, client) in self.present() {
            let Some(request) = &client.reservation else { continue };
            expected.extend(request.counters.iter().map(|place| (*place, request.turn)));
            self.chain(client.level).for_each(|level| reservation[level.index()] += 1);
        }
        for (place, counter) in self.all_counters() {
            let mut sum = 0;
            for (turn, wanted) in counter.reservations().into_iter().flat_map(Reservations::iter) {
                assert!(expected.remove(&(place, turn)), "each reservation belongs to a client");
                assert_eq!(counter.reserved_before(turn), sum, "reserved before turn {turn}");
                sum += i128::from(wanted.steps());
            }
            assert_eq!(counter.reserved_before(u64::MAX), sum, "reserved in all");
        }
        assert!(expected.is_empty(), "each client has its reservations");
        let counted: Vec<_> = self.levels.iter().map(|level| level.reservation).collect();
        assert_eq!(counted, reservation, "reservations at or below each level");
    }

    fn check_watchers(&self) {
        for ((level, _), counter) in self.all_counters() {
            for client in counter.watchers() {
                let client = self.clients[client.index()].as_ref();
                let bound = client.is_some_and(|c| self.chain(c.level).any(|bound| bound == level));
                assert!(bound, "only clients bound by a level watch there");
            }
        }
    }

    /// Each level counts its clients and the levels directly below it, and removed clients leave no
    /// trace.
    fn check_tenants(&self) {
        let mut tenants = vec![0; self.levels.len()];
        let parents = self.levels.iter().filter_map(|level| level.parent);
        let levels = self.present().map(|(_, client)| client.level).chain(parents);
        levels.for_each(|level| tenants[level.index()] += 1);
        let counted: Vec<_> = self.levels.iter().map(|level| level.tenants).collect();
        assert_eq!(counted, tenants, "clients and levels right under each level");
        let roots = self.levels.iter().filter(|level| level.parent.is_none()).count();
        let mut in_flight = vec![0; self.levels.len()];
        for (_, client) in self.present() {
            self.chain(client.level).for_each(|level| in_flight[level.index()] += client.in_flight);
        }
        let counted: Vec<_> = self.levels.iter().map(|level| level.in_flight).collect();
        assert_eq!(counted, in_flight, "taken and not given back at or below each level");
        assert_eq!(roots, 1 + self.vacant_levels.len(), "one root, and numbers without a level");
    }

    fn present(&self) -> impl Iterator<Item = (ClientId, &Client)> {
        let clients = self.clients.iter().enumerate();
        clients.filter_map(|(index, client)| Some((ClientId::at(index), client.as_ref()?)))
    }

    fn all_counters(&self) -> impl Iterator<Item = ((LevelId, ResourceId), &Counter)> {
        self.levels.iter().enumerate().flat_map(|(level, entry)| {
            let counters = entry.counters.iter().enumerate();
            counters.map(move |(r, counter)| ((LevelId::at(level), ResourceId::at(r)), counter))
        })
    }
}
