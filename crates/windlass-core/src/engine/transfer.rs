//! Moving an engine to another capacity, in two steps, so that no two trees are needed at once.
//!
//! Everything stays as it is, also who has waited for how long; only what works take is asked anew.
//! The clock of the other tree may show another time: from then on the engine translates.

use super::costs::RecentCosts;
use super::step::line;
use super::{Engine, Lines};
use crate::capacity::{CapacityTree, CostError};
use crate::{ClientId, ResourceCost, Timestamp, WorkId};

/// Where an engine takes from next.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// As whom.
    pub client: ClientId,
    /// The time of the engine.
    pub now: Timestamp,
    /// The same moment by the clock of the tree.
    pub there: Timestamp,
}

impl Engine {
    /// Leaves its tree: gives back what is held there and its place in line. Nothing may be asked of
    /// it before [`Engine::arrive`]. Returns who should look again.
    pub fn depart(&mut self, capacity: &mut CapacityTree) -> Vec<ClientId> {
        let mut wakes = capacity.withdraw(self.client);
        for (_, entry) in self.works.iter().filter(|(_, entry)| entry.phase.holds()) {
            wakes.extend(capacity.give_back(self.client, &self.costs[entry.cost.index()]));
        }
        (self.standing, self.owed) = (None, None);
        self.lines = Lines::new(self.config.ageing);
        self.costs.clear();
        self.known_costs.clear();
        self.recent_costs = RecentCosts::default();
        wakes.retain(|client| *client != self.client);
        wakes.sort_unstable();
        wakes.dedup();
        wakes
    }

    /// Takes from another tree from now on. `price` tells what a work that has not ended takes there.
    /// What is under way is counted, whether it fits or not. Returns the works whose cost can never
    /// be met there: those take nothing.
    pub fn arrive(
        &mut self,
        capacity: &mut CapacityTree,
        arrival: Arrival,
        price: impl Fn(WorkId) -> ResourceCost,
    ) -> Vec<(WorkId, CostError)> {
        let Arrival { client, now, there } = arrival;
        self.client = client;
        self.now = self.now.max(now);
        self.ahead = i128::from(there.as_nanos()) - i128::from(self.now.as_nanos());
        let nothing = capacity.demand(capacity.level_of(client), &ResourceCost::new());
        let nothing = self.number_of(nothing.expect("nothing can always be had"));
        let mut impossible = Vec::new();
        for work in self.works().collect::<Vec<_>>() {
            let ended = self.works[work.index()].phase.state().is_terminal();
            let cost = if ended { Ok(nothing) } else { self.cost(capacity, &price(work)) };
            self.works[work.index()].cost = cost.unwrap_or_else(|error| {
                impossible.push((work, error));
                nothing
            });
        }
        self.take_anew(capacity);
        self.line_up();
        impossible
    }

    /// How many works stand in line, to start or to go on.
    #[must_use]
    pub fn in_line(&self) -> usize {
        self.lines.len()
    }

    /// What is under way takes what it takes.
    fn take_anew(&self, capacity: &mut CapacityTree) {
        for (_, entry) in self.works.iter().filter(|(_, entry)| entry.phase.holds()) {
            capacity.take_again(self.client, &self.costs[entry.cost.index()]);
        }
    }

    /// Those who stood in line stand there again, in the same order.
    fn line_up(&mut self) {
        let standing = self.works.iter().filter(|(_, entry)| line(entry.phase).is_some());
        let mut standing: Vec<_> = standing.map(|(index, entry)| (entry.ticket, index)).collect();
        standing.sort_unstable();
        for (_, index) in standing {
            let entry = &self.works[index];
            let line = line(entry.phase).expect("it stands in line");
            let waiting = entry.waiting(WorkId::from_index(index));
            self.lines.insert(line, entry.listing(), waiting, self.now);
        }
    }

    /// The time by the clock of the tree.
    #[inline]
    pub(super) fn there(&self) -> Timestamp {
        if self.ahead == 0 { self.now } else { shifted(self.now, self.ahead) }
    }
}

/// A time by the clock of a tree that is `ahead`, by the engine's own.
pub(super) fn earlier(there: Timestamp, ahead: i128) -> Timestamp {
    if there == Timestamp::MAX { there } else { shifted(there, -ahead) }
}

#[inline]
fn shifted(at: Timestamp, nanos: i128) -> Timestamp {
    let shifted = i128::from(at.as_nanos()) + nanos;
    Timestamp::from_nanos(u64::try_from(shifted.max(0)).unwrap_or(u64::MAX))
}
