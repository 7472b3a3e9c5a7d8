//! What is under a tree's lock: the tree, and the plans that may go past the lock.

use std::ops::{Deref, DerefMut};

use windlass_core::{CapacityTree, ClientId, Demand, ResourceCost};

use super::lane::{Passed, PlanId};
use crate::sync::MutexGuard;

pub(super) struct Ledger {
    pub(super) tree: CapacityTree,
    /// By number; none where a level has gone with its plans.
    plans: Vec<Option<Plan>>,
    vacant: Vec<PlanId>,
    /// What took last with the lock held.
    last: Option<PlanId>,
    /// With how much room the lane was opened.
    pub(super) room: u64,
}

/// Someone who takes the same again and again.
struct Plan {
    client: ClientId,
    demand: Demand,
}

/// A tree, locked. Nothing of what went past the lock is missing from it.
pub(crate) struct TreeGuard<'a>(pub(super) MutexGuard<'a, Ledger>);

impl Ledger {
    pub(super) fn new(limits: &ResourceCost) -> Self {
        let tree = CapacityTree::new(limits);
        Self { tree, plans: Vec::new(), vacant: Vec::new(), last: None, room: 0 }
    }

    /// A number for a plan; none if there are too many.
    pub(super) fn enter(&mut self, client: ClientId, demand: Demand) -> Option<PlanId> {
        let plan = self.vacant.pop().or_else(|| PlanId::at(self.plans.len()))?;
        if plan.index() == self.plans.len() {
            self.plans.push(None);
        }
        self.plans[plan.index()] = Some(Plan { client, demand });
        Some(plan)
    }

    /// Nobody takes by this plan any more; its number may be used again.
    pub(super) fn strike(&mut self, plan: PlanId) {
        self.plans[plan.index()] = None;
        self.vacant.push(plan);
        self.last = None;
    }

    /// Something else has taken under the lock.
    #[inline]
    pub(super) fn note_other(&mut self) {
        self.last = None;
    }

    /// How many numbers were ever given out.
    #[cfg(all(test, not(windlass_loom)))]
    pub(super) fn plan_numbers(&self) -> usize {
        self.plans.len()
    }

    /// Puts down what went through the lane.
    pub(super) fn put_down(&mut self, passed: Passed) {
        let Plan { client, demand } =
            self.plans[passed.plan.index()].as_ref().expect("a plan goes with the lane closed");
        let given_back = passed.room + passed.taken - self.room;
        self.tree.put_down(*client, demand, passed.taken, given_back);
    }

    /// A plan has just taken: how much room it has past the lock, if it took before that, too. One
    /// that takes in turn with others would only have the lane opened and closed for it.
    pub(super) fn room_past(&mut self, taker: PlanId) -> Option<u64> {
        if self.last.replace(taker) != Some(taker) {
            return None;
        }
        let Plan { client, demand } = self.plans[taker.index()].as_ref()?;
        self.tree.takes_at_ease(*client, demand)
    }
}

impl Deref for TreeGuard<'_> {
    type Target = CapacityTree;

    #[inline]
    fn deref(&self) -> &CapacityTree {
        &self.0.tree
    }
}

impl DerefMut for TreeGuard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut CapacityTree {
        &mut self.0.tree
    }
}
