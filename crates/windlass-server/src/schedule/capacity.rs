//! The capacity tree from which the steps of a run take: its own, or one that several runs share.
//!
//! Each run has a level of its own in the tree, with the limits of its plan, so that levels above bind
//! all runs together. A run that gives something back may wake others; their engines search again when
//! the scheduler asks for [`SharedCapacity::take_woken`].

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_core::{
    Amount, CapacityTree, ClientId, LevelId, Rate, ResourceCost, SLOTS, Timestamp,
};
use windlass_workflow::{Plan, ResourceKind};

/// A capacity tree; clones share it.
#[derive(Clone)]
pub(crate) struct SharedCapacity {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    tree: CapacityTree,
    woken: BTreeSet<ClientId>,
}

/// The place of a run in a capacity tree, which it gives up when this is dropped.
pub(super) struct RunCapacity {
    shared: SharedCapacity,
    client: ClientId,
    /// The levels that go with the run, from the lowest.
    levels: Vec<LevelId>,
}

impl SharedCapacity {
    /// Creates a tree with these limits for all runs together.
    pub(crate) fn new(limits: &ResourceCost) -> Self {
        let inner = Inner { tree: CapacityTree::new(limits), woken: BTreeSet::new() };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A call that panicked has ended its process.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the limits for all runs together.
    pub(crate) fn set_limits(&self, limits: &ResourceCost) {
        let inner = &mut *self.inner();
        inner.woken.extend(inner.tree.set_limits(CapacityTree::ROOT, limits));
    }

    /// Takes the clients that may get now what was refused to them.
    pub(crate) fn take_woken(&self) -> BTreeSet<ClientId> {
        std::mem::take(&mut self.inner().woken)
    }
}

impl RunCapacity {
    /// Gives a run a tree of its own, in which at most `slots` of its steps run at a time.
    pub(super) fn alone(plan: &Plan, slots: u32) -> Self {
        let shared = SharedCapacity::new(&plan.limits());
        Self::add(&shared, CapacityTree::ROOT, plan, Some(slots), Vec::new())
    }

    /// Gives a run a place in a tree that it shares with others.
    pub(super) fn within(shared: &SharedCapacity, plan: &Plan) -> Self {
        let add = |inner: &mut Inner| inner.tree.add_level(CapacityTree::ROOT, &plan.limits());
        let level = add(&mut shared.inner());
        Self::add(shared, level, plan, plan.concurrency, vec![level])
    }

    fn add(
        shared: &SharedCapacity,
        run: LevelId,
        plan: &Plan,
        slots: Option<u32>,
        mut levels: Vec<LevelId>,
    ) -> Self {
        let tree = &mut shared.inner().tree;
        for resource in &plan.resources {
            if let ResourceKind::Rate { rate, burst } = resource.kind {
                let (amount, per) = (Amount::from(rate.count), rate.per);
                let rate = Rate { amount, per, burst: Amount::from(burst) };
                // It counts from time zero, so that a resumed run counts the starts it replays at
                // the times at which they were.
                let set = tree.set_rate(run, &resource.name, rate, Timestamp::ZERO);
                set.expect("a plan's rates make sense");
            }
        }
        let limit = slots.map(|slots| ResourceCost::new().with(SLOTS, Amount::from(slots)));
        let level = tree.add_level(run, &limit.unwrap_or_default());
        levels.insert(0, level);
        let client = tree.add_client_with(level, plan.priority);
        Self { shared: shared.clone(), client, levels }
    }

    pub(super) fn client(&self) -> ClientId {
        self.client
    }

    /// Looks at the tree.
    pub(super) fn look<T>(&self, look: impl FnOnce(&CapacityTree) -> T) -> T {
        look(&self.shared.inner().tree)
    }

    /// Looks at the tree as if there were no limit for all runs together. What a step needs is judged by
    /// the limits of its plan, because workers come and go.
    pub(super) fn look_within_plan<T>(&self, look: impl FnOnce(&CapacityTree) -> T) -> T {
        let inner = &mut *self.shared.inner();
        let limits = inner.tree.limits(CapacityTree::ROOT);
        let is_shared = self.levels.len() > 1;
        if !is_shared || limits.amount(SLOTS).is_none() {
            return look(&inner.tree);
        }
        let lifted = ResourceCost::new().with(SLOTS, Amount::from(u32::MAX));
        inner.woken.extend(inner.tree.set_limits(CapacityTree::ROOT, &lifted));
        let result = look(&inner.tree);
        inner.woken.extend(inner.tree.set_limits(CapacityTree::ROOT, &limits));
        result
    }

    /// Changes the tree; the clients to wake are collected.
    pub(super) fn change<T>(
        &self,
        change: impl FnOnce(&mut CapacityTree, &mut Vec<ClientId>) -> T,
    ) -> T {
        let inner = &mut *self.shared.inner();
        let mut woken = Vec::new();
        let result = change(&mut inner.tree, &mut woken);
        inner.woken.extend(woken);
        result
    }
}

impl Drop for RunCapacity {
    fn drop(&mut self) {
        let inner = &mut *self.shared.inner();
        inner.woken.extend(inner.tree.remove_client(self.client));
        self.levels.iter().for_each(|level| inner.tree.remove_level(*level));
    }
}
