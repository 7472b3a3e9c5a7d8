//! What works take, numbered: those who take the same are one group in line.

use super::Engine;
use crate::capacity::{CapacityTree, CostError, Demand, SLOTS};
use crate::{Amount, CostId, ResourceCost};

/// What costs mean that somebody has asked for of late: many works cost the same.
#[derive(Clone, Debug, Default)]
pub(super) struct RecentCosts {
    /// Of what the tree declared then.
    revision: u64,
    known: Vec<(ResourceCost, CostId)>,
    /// The one that makes way for the next.
    oldest: usize,
}

/// How many are remembered: to look through them must cost less than to ask the tree.
const KEPT: usize = 8;

impl RecentCosts {
    fn find(&self, revision: u64, cost: &ResourceCost) -> Option<CostId> {
        if self.revision != revision {
            return None;
        }
        let mut known = self.known.iter();
        let shared = known.find(|(known, _)| known.is_shared_with(cost));
        let found = shared.or_else(|| self.known.iter().find(|(known, _)| known == cost));
        found.map(|(_, number)| *number)
    }

    fn remember(&mut self, revision: u64, cost: &ResourceCost, number: CostId) {
        if self.revision != revision {
            *self = Self { revision, ..Self::default() };
        }
        let entry = (cost.clone(), number);
        if self.known.len() < KEPT {
            self.known.push(entry);
        } else {
            self.known[self.oldest] = entry;
            self.oldest = (self.oldest + 1) % KEPT;
        }
    }
}

impl Engine {
    /// The number of a cost, which is one slot unless it names slots itself. Refuses what can never
    /// be had.
    pub fn cost(
        &mut self,
        capacity: &CapacityTree,
        cost: &ResourceCost,
    ) -> Result<CostId, CostError> {
        let revision = capacity.revision();
        if let Some(number) = self.recent_costs.find(revision, cost) {
            return Ok(number);
        }
        let one_slot = ResourceCost::new().with(SLOTS, Amount::from(1));
        let whole = one_slot.iter().chain(cost.iter()).map(|(name, n)| (name.to_owned(), n));
        let demand = capacity.demand(capacity.level_of(self.client), &whole.collect())?;
        let number = self.number_of(demand);
        self.recent_costs.remember(revision, cost, number);
        Ok(number)
    }

    pub(super) fn number_of(&mut self, demand: Demand) -> CostId {
        let next = CostId::at(self.costs.len());
        *self.known_costs.entry(demand).or_insert_with_key(|demand| {
            self.costs.push(demand.clone());
            next
        })
    }
}
