//! The costs of an engine's works, by id: works of equal cost form one group of the queue.

use std::collections::BTreeMap;

use crate::capacity::{CapacityTree, CostError, Demand, SLOTS};
use crate::{Amount, CostId, LevelId, ResourceCost};

/// The costs in use on one tree.
#[derive(Clone, Debug, Default)]
pub(super) struct Costs {
    /// By [`CostId`].
    demands: Vec<Demand>,
    known: BTreeMap<Demand, CostId>,
    recent: RecentCosts,
}

/// The ids of recently submitted costs: many works cost the same.
#[derive(Clone, Debug, Default)]
struct RecentCosts {
    /// The revision of the tree at that time.
    revision: u64,
    known: Vec<(ResourceCost, CostId)>,
    /// The entry that is replaced next.
    oldest: usize,
}

/// The number of cached entries: scanning them must cost less than a check by the tree.
const KEPT: usize = 8;

impl Costs {
    /// Returns the id of a cost at `level`, which includes one slot unless it names slots itself.
    /// Refuses a cost that can never be met.
    pub(super) fn number(
        &mut self,
        capacity: &CapacityTree,
        level: LevelId,
        cost: &ResourceCost,
    ) -> Result<CostId, CostError> {
        let revision = capacity.revision();
        if let Some(number) = self.recent.find(revision, cost) {
            return Ok(number);
        }
        let one_slot = ResourceCost::new().with(SLOTS, Amount::from(1));
        let whole = one_slot.iter().chain(cost.iter()).map(|(name, n)| (name.to_owned(), n));
        let number = self.number_of(capacity.demand(level, &whole.collect())?);
        self.recent.remember(revision, cost, number);
        Ok(number)
    }

    /// Returns the id of the empty cost.
    pub(super) fn nothing(&mut self) -> CostId {
        self.number_of(Demand::default())
    }

    #[inline]
    pub(super) fn demand(&self, cost: CostId) -> &Demand {
        &self.demands[cost.index()]
    }

    fn number_of(&mut self, demand: Demand) -> CostId {
        let next = CostId::at(self.demands.len());
        *self.known.entry(demand).or_insert_with_key(|demand| {
            self.demands.push(demand.clone());
            next
        })
    }
}

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
