//! The capacity tree from which the steps of a run take: its own, or one that several runs share.
//!
//! Each run has a level of its own in the tree, with the limits of its plan, so that levels above bind
//! all runs together. A run that gives something back may wake others; their engines search again when
//! the scheduler asks for [`SharedCapacity::take_woken`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_core::{
    Amount, CapacityTree, ClientId, CostError, CostId, Engine, LevelId, Rate, ResourceCost, SLOTS,
    Timestamp, WORKER, WorkId, WorkerKind, WorkerOffer,
};
use windlass_store::LimitRoom;
use windlass_workflow::{Plan, ResourceKind, SHARED, Step};

use super::worker_items::{ItemNames, WorkerItems};

/// A capacity tree; clones share it.
#[derive(Clone)]
pub(crate) struct SharedCapacity {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    tree: CapacityTree,
    woken: BTreeSet<ClientId>,
    items: WorkerItems,
}

/// The place of a run in a capacity tree, which it gives up when this is dropped.
pub(super) struct RunCapacity {
    shared: SharedCapacity,
    client: ClientId,
    /// The levels that go with the run, from the lowest.
    levels: Vec<LevelId>,
    /// Whether its steps go to workers.
    placed: bool,
}

impl SharedCapacity {
    /// Creates a tree with these limits for all runs together.
    pub(crate) fn new(limits: &ResourceCost) -> Self {
        let tree = CapacityTree::new(limits);
        let inner = Inner { tree, woken: BTreeSet::new(), items: WorkerItems::default() };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A call that panicked has ended its process.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a worker to which steps may go, or changes what it has.
    pub(crate) fn put_worker(&self, name: &str, offer: &WorkerOffer) {
        self.inner().tree.put_worker(name, offer);
    }

    pub(crate) fn remove_worker(&self, name: &str) {
        self.inner().tree.remove_worker(name);
    }

    /// Returns the worker with the most free slots, of those that take steps.
    pub(crate) fn idlest_worker(&self) -> Option<String> {
        self.inner().tree.idlest_worker().map(str::to_owned)
    }

    /// Takes of a worker what steps that no schedule here knows have there, for good.
    pub(crate) fn occupy(&self, worker: &str, cost: &ResourceCost) {
        let tree = &mut self.inner().tree;
        let client = tree.add_client(CapacityTree::ROOT);
        tree.occupy(client, worker, cost);
    }

    /// Offers room at workers to the runs that wait for it. Returns those that may have it now.
    pub(crate) fn pass_on(&self) -> Vec<ClientId> {
        self.inner().tree.pass_on()
    }

    /// Returns what each kind of worker lacks for a step if none could ever take it.
    pub(crate) fn never_placed(&self, step: &Step) -> Vec<WorkerKind> {
        let needs = &step.needs;
        self.inner().tree.never_placed(&with_slot(&needs.resources), &needs.on)
    }

    /// Lets all runs together take of these limits of the store what they have, and what `rooms` leave.
    pub(crate) fn share(&self, limits: &BTreeSet<String>, rooms: &BTreeMap<String, LimitRoom>) {
        let inner = &mut *self.inner();
        let limit = |name: &String| {
            let counted = format!("{SHARED}{name}");
            let free = rooms.get(name).map_or(Amount::ZERO, |room| room.free);
            let most = in_use(&inner.tree, &counted).saturating_add(free.steps());
            (counted, Amount::from_steps(most))
        };
        let limits: ResourceCost = limits.iter().map(limit).collect();
        inner.woken.extend(inner.tree.set_limits(CapacityTree::ROOT, &limits));
    }

    /// Makes limits of the store known that no run has used so far. How much there is, the store says.
    pub(super) fn declare(&self, limits: BTreeSet<String>) {
        if limits.is_empty() {
            return;
        }
        let inner = &mut *self.inner();
        let known = inner.tree.limits(CapacityTree::ROOT);
        let names = limits.into_iter().map(|name| format!("{SHARED}{name}"));
        let new = names.filter(|name| known.amount(name).is_none());
        let new: ResourceCost = new.map(|name| (name, Amount::MAX)).collect();
        inner.woken.extend(inner.tree.set_limits(CapacityTree::ROOT, &new));
    }

    /// Takes the clients that may get now what was refused to them.
    pub(crate) fn take_woken(&self) -> BTreeSet<ClientId> {
        std::mem::take(&mut self.inner().woken)
    }
}

/// Returns a cost without what it takes of a worker.
fn without_workers(cost: &ResourceCost) -> ResourceCost {
    if !cost.iter().any(|(name, _)| name.starts_with(WORKER)) {
        return cost.clone();
    }
    let rest = cost.iter().filter(|(name, _)| !name.starts_with(WORKER));
    rest.map(|(name, amount)| (name.to_owned(), amount)).collect()
}

/// Returns a cost with one slot, unless it names slots itself.
fn with_slot(cost: &ResourceCost) -> ResourceCost {
    let one = cost.amount(SLOTS).unwrap_or(Amount::from(1));
    cost.clone().with(SLOTS, one)
}

/// Returns how much of a resource all clients have together, in steps.
fn in_use(tree: &CapacityTree, name: &str) -> u64 {
    let limit = tree.limits(CapacityTree::ROOT).amount(name).unwrap_or_default();
    let free = tree.free(CapacityTree::ROOT, name).unwrap_or_default();
    u64::try_from(i128::from(limit.steps()) - free).unwrap_or_default()
}

impl RunCapacity {
    /// Gives a run a tree of its own, in which at most `slots` of its steps run at a time.
    pub(super) fn alone(plan: &Plan, slots: u32) -> Self {
        let shared = SharedCapacity::new(&plan.limits());
        shared.declare(plan.shared_limits());
        Self::add(&shared, CapacityTree::ROOT, plan, Some(slots), Vec::new())
    }

    /// Gives a run a place in a tree that it shares with others.
    pub(super) fn within(shared: &SharedCapacity, plan: &Plan) -> Self {
        shared.declare(plan.shared_limits());
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
        let placed = levels.len() > 1;
        Self { shared: shared.clone(), client, levels, placed }
    }

    /// Returns the tree.
    pub(super) fn shared(&self) -> &SharedCapacity {
        &self.shared
    }

    pub(super) fn client(&self) -> ClientId {
        self.client
    }

    /// Looks at the tree.
    pub(super) fn look<T>(&self, look: impl FnOnce(&CapacityTree) -> T) -> T {
        look(&self.shared.inner().tree)
    }

    /// Returns the id of what a step costs, as if there were no limit for all runs together: it is judged by
    /// the limits of its plan, because limits of the store change, and workers come and go. The steps of a run
    /// without workers ask for nothing of one.
    pub(super) fn cost(&self, engine: &mut Engine, step: &Step) -> Result<CostId, CostError> {
        let inner = &mut *self.shared.inner();
        let limits = inner.tree.limits(CapacityTree::ROOT);
        let lifted = limits.iter().filter(|(name, _)| name.starts_with(SHARED));
        let lifted: ResourceCost = lifted.map(|(name, _)| (name.to_owned(), Amount::MAX)).collect();
        let needs = &step.needs;
        let mut cost = |tree: &mut CapacityTree| match self.placed {
            true => engine.placed_cost(tree, &needs.resources, &needs.on),
            false => engine.cost(tree, &without_workers(&needs.resources)),
        };
        if lifted.is_empty() {
            return cost(&mut inner.tree);
        }
        inner.woken.extend(inner.tree.set_limits(CapacityTree::ROOT, &lifted));
        let result = cost(&mut inner.tree);
        inner.woken.extend(inner.tree.set_limits(CapacityTree::ROOT, &limits));
        result
    }

    /// Returns whether its steps go to workers.
    pub(super) fn is_placed(&self) -> bool {
        self.placed
    }

    /// Gives a step items of its worker.
    pub(super) fn take_items(
        &self,
        work: WorkId,
        worker: &str,
        has: &ItemNames,
        wanted: &BTreeMap<String, usize>,
    ) -> ItemNames {
        self.shared.inner().items.take((self.client, work), worker, has, wanted)
    }

    /// Notes the items that a step got from an earlier scheduler.
    pub(super) fn take_items_again(&self, work: WorkId, worker: &str, items: ItemNames) {
        self.shared.inner().items.take_again((self.client, work), worker, items);
    }

    pub(super) fn give_items_back(&self, work: WorkId) {
        self.shared.inner().items.give_back((self.client, work));
    }

    /// Returns the items of its worker that a step has.
    pub(super) fn items(&self, work: WorkId) -> ItemNames {
        self.shared.inner().items.of((self.client, work))
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

    /// Has at most `slots` steps of the run at a time.
    pub(super) fn set_slots(&self, slots: u32) {
        let inner = &mut *self.shared.inner();
        let limit = ResourceCost::new().with(SLOTS, Amount::from(slots));
        inner.woken.extend(inner.tree.set_limits(self.levels[0], &limit));
    }
}

impl Drop for RunCapacity {
    fn drop(&mut self) {
        let inner = &mut *self.shared.inner();
        inner.woken.extend(inner.tree.remove_client(self.client));
        inner.items.remove_client(self.client);
        self.levels.iter().for_each(|level| inner.tree.remove_level(*level));
    }
}
