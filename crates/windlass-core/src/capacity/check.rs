//! The invariants of a tree, verified the slow way: from its clients alone.

use std::collections::{BTreeMap, BTreeSet};

use super::CapacityTree;
use super::cell::Cell;
use super::client::Client;
use super::line::Line;
use crate::{ClientId, LevelId, ResourceId};

impl CapacityTree {
    /// Verifies that everything the levels keep follows from what the clients hold and ask for.
    ///
    /// # Panics
    ///
    /// If it does not: a bug in the tree.
    pub fn check(&self) {
        self.check_in_use();
        self.check_lines();
        self.check_watchers();
        self.check_tenants();
    }

    /// What is in use at every level is the sum over the clients at and below it.
    fn check_in_use(&self) {
        let mut sums = BTreeMap::new();
        for (_, client) in self.present() {
            assert!(client.held.iter().all(|held| *held >= 0), "nobody holds less than nothing");
            for level in self.chain(client.level) {
                for (resource, held) in client.held.iter().enumerate() {
                    *sums.entry((level, ResourceId::at(resource))).or_insert(0) += held;
                }
            }
        }
        for (place, cell) in self.all_cells() {
            let sum = sums.remove(&place).unwrap_or(0);
            assert_eq!(cell.in_use, sum, "in use is the sum over the clients");
        }
        assert!(sums.values().all(|sum| *sum == 0), "everything in use has its cell");
    }

    /// Each line holds exactly the requests that stand there, and each level counts its own.
    fn check_lines(&self) {
        let mut lines = BTreeSet::new();
        let mut standing = vec![0; self.levels.len()];
        for (_, client) in self.present() {
            let Some(request) = &client.standing else { continue };
            lines.extend(request.cells.iter().map(|place| (*place, request.turn)));
            self.chain(client.level).for_each(|level| standing[level.index()] += 1);
        }
        for (place, cell) in self.all_cells() {
            let mut sum = 0;
            for (turn, wanted) in cell.line().into_iter().flat_map(Line::iter) {
                assert!(lines.remove(&(place, turn)), "who is in line stands there");
                assert_eq!(cell.set_aside(turn), sum, "set aside before turn {turn}");
                sum += i128::from(wanted.steps());
            }
            assert_eq!(cell.set_aside(u64::MAX), sum, "set aside in all");
        }
        assert!(lines.is_empty(), "who stands somewhere is in line there");
        let counted: Vec<_> = self.levels.iter().map(|level| level.standing).collect();
        assert_eq!(counted, standing, "requests that stand at or below each level");
    }

    fn check_watchers(&self) {
        for ((level, _), cell) in self.all_cells() {
            for client in cell.watchers() {
                let client = self.clients[client.index()].as_ref();
                let bound = client.is_some_and(|c| self.chain(c.level).any(|bound| bound == level));
                assert!(bound, "only who is bound by a level watches there");
            }
        }
    }

    /// Each level counts who takes there and what stands right under it; who has left is gone.
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

    fn all_cells(&self) -> impl Iterator<Item = ((LevelId, ResourceId), &Cell)> {
        self.levels.iter().enumerate().flat_map(|(level, entry)| {
            let cells = entry.cells.iter().enumerate();
            cells.map(move |(r, cell)| ((LevelId::at(level), ResourceId::at(r)), cell))
        })
    }
}
