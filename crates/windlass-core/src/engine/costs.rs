//! The costs of an engine's works, by id: works of equal cost form one group of the queue.
//!
//! An id that no work has any more is given to another cost, so that an engine whose works all cost
//! something else does not grow for ever. Such ids are looked for when as many were added as the
//! search visits, so a new cost costs a constant.

use std::collections::{BTreeMap, BTreeSet};

use crate::capacity::{CapacityTree, CostError, Demand, SLOTS};
use crate::{Amount, CostId, LevelId, ResourceCost};

/// The costs in use on one tree.
#[derive(Clone, Debug, Default)]
pub(super) struct Costs {
    /// By [`CostId`]; empty where `vacant`.
    demands: Vec<Demand>,
    known: BTreeMap<Demand, CostId>,
    /// Ids of costs that no work has, for reuse.
    vacant: Vec<CostId>,
    /// The empty cost, once it was asked for: drivers keep its id.
    empty: Option<CostId>,
    recent: RecentCosts,
    /// The number of costs that were in use at the last search for those that are not.
    in_use: usize,
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

/// The number of new costs for which it is worth to search for those that no work has.
const FEW: usize = 64;

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
        let number = self.number_of(capacity.demand(level, &Self::with_slot(cost))?);
        self.recent.remember(revision, cost, number);
        if cost.is_empty() {
            self.empty = Some(number);
        }
        Ok(number)
    }

    /// Returns a cost with one slot, unless it names slots itself.
    pub(super) fn with_slot(cost: &ResourceCost) -> ResourceCost {
        let one_slot = ResourceCost::new().with(SLOTS, Amount::from(1));
        one_slot.iter().chain(cost.iter()).map(|(name, n)| (name.to_owned(), n)).collect()
    }

    /// Returns the id of the empty cost.
    pub(super) fn nothing(&mut self) -> CostId {
        self.number_of(Demand::default())
    }

    #[inline]
    pub(super) fn demand(&self, cost: CostId) -> &Demand {
        &self.demands[cost.index()]
    }

    /// Returns whether so many costs are new that it is worth to search among so many works for
    /// those that are in use.
    #[inline]
    pub(super) fn may_be_vacated(&self, works: usize) -> bool {
        self.known.len() >= self.in_use + FEW.max(works / 4)
    }

    /// Vacates the ids that are not in use. Returns them.
    pub(super) fn vacate(&mut self, used: impl Iterator<Item = CostId>) -> Vec<CostId> {
        let mut used: BTreeSet<CostId> = used.collect();
        used.extend(self.empty);
        used.extend(self.recent.known.iter().map(|(_, number)| *number));
        let unused: Vec<CostId> =
            self.known.extract_if(.., |_, number| !used.contains(number)).map(|(_, n)| n).collect();
        for number in &unused {
            self.demands[number.index()] = Demand::default();
        }
        self.vacant.extend(&unused);
        self.in_use = self.known.len();
        unused
    }

    /// Returns the id of a demand on the engine's tree.
    pub(super) fn number_of(&mut self, demand: Demand) -> CostId {
        if let Some(&number) = self.known.get(&demand) {
            return number;
        }
        let number = match self.vacant.pop() {
            Some(number) => {
                self.demands[number.index()] = demand.clone();
                number
            }
            None => {
                self.demands.push(demand.clone());
                CostId::at(self.demands.len() - 1)
            }
        };
        self.known.insert(demand, number);
        number
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
