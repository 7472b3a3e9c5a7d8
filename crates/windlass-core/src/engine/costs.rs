//! What works take, numbered: those who take the same are one group in line.

use super::Engine;
use crate::capacity::{CapacityTree, CostError, Demand, SLOTS};
use crate::{Amount, CostId, ResourceCost};

/// What a cost meant the last time that somebody asked.
#[derive(Clone, Debug)]
pub(super) struct RecentCost {
    cost: ResourceCost,
    /// Of what the tree declared then.
    revision: u64,
    number: CostId,
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
        if let Some(recent) = &self.recent_cost
            && recent.revision == revision
            && recent.cost == *cost
        {
            return Ok(recent.number);
        }
        let one_slot = ResourceCost::new().with(SLOTS, Amount::from(1));
        let whole = one_slot.iter().chain(cost.iter()).map(|(name, n)| (name.to_owned(), n));
        let demand = capacity.demand(capacity.level_of(self.client), &whole.collect())?;
        let number = self.number_of(demand);
        self.recent_cost = Some(Box::new(RecentCost { cost: cost.clone(), revision, number }));
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
