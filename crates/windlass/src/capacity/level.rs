//! What all handles of one level have in common: its number, and who takes there on their behalf.

use std::sync::{Arc, OnceLock};

use windlass_core::{CapacityTree, ClientId, Demand, LevelId, ResourceCost, Timestamp};

use super::lane::PlanId;
use super::ledger::TreeGuard;
use super::metrics::History;
use super::shared::Shared;
use crate::sync::Mutex;

pub(super) struct Level {
    pub(super) shared: Arc<Shared>,
    pub(super) id: LevelId,
    /// Who holds what permits stand for. None until somebody takes, so that a tree with a single
    /// scheduler on it is not shared.
    permits: OnceLock<ClientId>,
    /// Who holds what was taken without a permit.
    immediate: OnceLock<ClientId>,
    /// What is taken here again and again, the first few of it; filled in order.
    plans: [OnceLock<Plan>; PLANS],
    pub(super) history: Mutex<History>,
}

/// So many costs of a level may go past the lock. Looking through them has to be cheap.
const PLANS: usize = 4;

/// A cost that somebody takes here again and again.
pub(super) struct Plan {
    pub(super) id: PlanId,
    cost: ResourceCost,
    pub(super) demand: Demand,
}

impl Level {
    pub(super) fn new(shared: Arc<Shared>, id: LevelId) -> Self {
        let history = Mutex::new(History::new(shared.clock.now()));
        let (permits, immediate) = (OnceLock::new(), OnceLock::new());
        Self { shared, id, permits, immediate, plans: Default::default(), history }
    }

    /// The place of the plan for `cost`.
    #[inline]
    pub(super) fn planned(&self, cost: &ResourceCost) -> Option<usize> {
        let plans = self.plans.iter().map_while(OnceLock::get);
        plans.enumerate().find(|(_, plan)| plan.cost == *cost).map(|(place, _)| place)
    }

    #[inline]
    pub(super) fn plan(&self, place: usize) -> &Plan {
        self.plans[place].get().expect("a plan stays as long as its level")
    }

    /// Has `cost` go past the lock from now on, as far as that goes.
    pub(super) fn plan_for(&self, tree: &mut TreeGuard<'_>, cost: &ResourceCost, demand: &Demand) {
        if self.planned(cost).is_none()
            && let Some(vacant) = self.plans.iter().find(|plan| plan.get().is_none())
            && let client = self.permits(tree)
            && let Some(id) = tree.0.enter(client, demand.clone())
        {
            let plan = Plan { id, cost: cost.clone(), demand: demand.clone() };
            assert!(vacant.set(plan).is_ok(), "plans are made under the lock");
        }
    }

    pub(super) fn permits(&self, tree: &mut CapacityTree) -> ClientId {
        *self.permits.get_or_init(|| tree.add_client(self.id))
    }

    pub(super) fn immediate(&self, tree: &mut CapacityTree) -> ClientId {
        *self.immediate.get_or_init(|| tree.add_client(self.id))
    }

    /// The time, if it makes any difference in this tree.
    #[inline]
    pub(super) fn now(&self, tree: &CapacityTree) -> Timestamp {
        if tree.is_timed() { self.shared.clock.now() } else { Timestamp::ZERO }
    }
}

impl Drop for Level {
    /// Permits keep their level, so all that can be left here was taken without one.
    fn drop(&mut self) {
        let mut tree = self.shared.lock();
        let clients = [self.permits.get(), self.immediate.get()].into_iter().flatten();
        let wakes: Vec<_> = clients.flat_map(|client| tree.remove_client(*client)).collect();
        self.plans.iter().filter_map(OnceLock::get).for_each(|plan| tree.0.strike(plan.id));
        tree.remove_level(self.id);
        drop(tree);
        self.shared.unname(self.id);
        self.shared.ring(&wakes);
    }
}
