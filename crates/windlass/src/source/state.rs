//! What a source keeps under its lock: its engine, and a task for each work that has not ended.

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::sync::Arc;

use windlass_core::{
    Amount, Arrival, Begun, CapacityTree, Column, CostError, CostId, Dependency, Engine,
    EngineConfig, Grant, Input, LevelId, ResourceCost, SLOTS, Submission, Timestamp, Transition,
    WorkId, WorkState, World,
};

use crate::capacity::Client;

/// What is under the lock.
pub(crate) struct State<T> {
    pub(super) engine: Engine,
    pub(super) client: Arc<Client>,
    /// By the index of the work.
    pub(super) entries: Column<Entry<T>>,
    pub(super) closing: Closing,
    price: Price<T>,
    priced: Option<Priced>,
    /// Tasks that have not ended and can never run with the current capacity. A task that a puller or a runner
    /// has is reported only if it is queued again.
    pub(super) impossible: Vec<(WorkId, CostError)>,
    /// Tasks that a runner has under way and that are to be stopped.
    pub(super) stops: Vec<WorkId>,
    pub(super) memory: Memory,
    pub(super) transitions: Vec<Transition>,
    /// Tasks that are over, to be dropped outside the lock.
    pub(super) over: Vec<T>,
}

/// A task that has begun, for the runner that has it.
pub(crate) struct Started<T> {
    pub(crate) grant: Grant,
    pub(crate) task: T,
}

/// A task that has not ended.
pub(super) struct Entry<T> {
    /// None while a runner has it.
    pub(super) task: Option<T>,
    /// What it says that it takes, while a runner has it.
    cost: Option<ResourceCost>,
    pub(super) hands: Hands,
    /// Those that wait for it.
    pub(super) dependents: Vec<WorkId>,
}

/// Which side has a task: none while it is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hands {
    Free,
    Puller(Grant),
    Runner,
}

/// Until when tasks are taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    Open,
    /// Until all there are have ended.
    WhenDone,
    Closed,
}

/// Whether ended works are remembered, so that others may depend on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    Keep,
    Forget,
}

/// What a task says that it takes; none if it says nothing.
pub(crate) type Price<T> = fn(&T) -> Option<&ResourceCost>;

/// The cost that was asked for last: most tasks are alike.
struct Priced {
    said: Option<ResourceCost>,
    revision: u64,
    number: Result<CostId, CostError>,
}

/// The resource of which a task takes one unless it says what it takes.
const CAPACITY: &str = "capacity";

impl<T> Entry<T> {
    fn new(task: T) -> Self {
        Self { task: Some(task), cost: None, hands: Hands::Free, dependents: Vec::new() }
    }
}

impl<T> State<T> {
    pub(super) fn new(
        config: EngineConfig,
        client: Client,
        closing: Closing,
        memory: Memory,
    ) -> Self {
        Self {
            engine: Engine::new(config, client.id),
            client: Arc::new(client),
            entries: Column::default(),
            closing,
            price: |_| None,
            priced: None,
            impossible: Vec::new(),
            stops: Vec::new(),
            memory,
            transitions: Vec::new(),
            over: Vec::new(),
        }
    }

    pub(super) fn add(
        &mut self,
        world: &mut World<'_>,
        task: T,
        priority: i64,
        after: &[WorkId],
    ) -> Result<WorkId, T> {
        if self.closing == Closing::Closed || self.has_ended() {
            return Err(task);
        }
        let priced = self.priced(world.capacity, &task);
        let cost = match &priced {
            Ok(cost) => *cost,
            Err(_) => {
                let nothing = ResourceCost::new().with(SLOTS, Amount::ZERO);
                self.engine.cost(world.capacity, &nothing).expect("nothing can be had")
            }
        };
        let dependencies: Vec<_> = after.iter().copied().map(Dependency::from).collect();
        let submission = Submission {
            after: &dependencies,
            priority,
            retries: u32::MAX,
            ..Submission::of(cost)
        };
        let work = self.engine.submit(world, submission).expect("what it waits for is known");
        let index = self.entries.push(Entry::new(task));
        assert_eq!(index, work.index(), "works are numbered one by one");
        for source in after {
            if let Some(source) = self.entries.get_mut(source.index()) {
                source.dependents.push(work);
            }
        }
        self.impossible.extend(priced.err().map(|error| (work, error)));
        Ok(work)
    }

    /// Adds all of these, in order.
    pub(super) fn add_all(
        &mut self,
        world: &mut World<'_>,
        tasks: &mut VecDeque<T>,
        priority: fn(&T) -> i64,
    ) {
        for task in tasks.drain(..) {
            let priority = priority(&task);
            let refused = self.add(world, task, priority, &[]).err();
            self.over.extend(refused);
        }
    }

    /// The number of what a task takes, as long as nothing was declared since the last one's.
    #[inline]
    fn priced(&mut self, capacity: &CapacityTree, task: &T) -> Result<CostId, CostError> {
        let said = (self.price)(task);
        let revision = capacity.revision();
        match &self.priced {
            Some(Priced { said: last, revision: at, number })
                if *at == revision && last.as_ref() == said =>
            {
                number.clone()
            }
            _ => self.price_anew(capacity, said.cloned()),
        }
    }

    fn price_anew(
        &mut self,
        capacity: &CapacityTree,
        said: Option<ResourceCost>,
    ) -> Result<CostId, CostError> {
        let revision = capacity.revision();
        let cost = cost_at(capacity, self.client.level, said.as_ref());
        let number = self.engine.cost(capacity, &cost);
        self.priced = Some(Priced { said, revision, number: number.clone() });
        number
    }

    /// The engine has left where it was, and takes as the new client.
    pub(super) fn arrive(&mut self, price: Price<T>, now: Timestamp) {
        let Self { engine, client, entries, .. } = self;
        let arrival = Arrival { client: client.id, now, there: client.capacity.now() };
        let mut tree = client.capacity.lock();
        // Told beforehand, as prices depend on what the tree declares.
        let priced = |(index, entry): (usize, &Entry<T>)| {
            let work = WorkId::from_index(index);
            let said = entry.task.as_ref().map_or(entry.cost.as_ref(), price);
            (work, cost_at(&tree, client.level, said))
        };
        let prices: BTreeMap<_, _> = entries.iter().map(priced).collect();
        let price_of = |work| prices.get(&work).cloned().unwrap_or_default();
        self.impossible = engine.arrive(&mut tree, arrival, price_of);
        drop(tree);
        (self.price, self.priced) = (price, None);
    }

    /// The next task that may start. None of them is ever suspended.
    pub(super) fn begin_next(&mut self, world: &mut World<'_>) -> Option<Grant> {
        let (Begun::Started(grant) | Begun::Resumed(grant)) = self.engine.begin_next(world)?;
        Some(grant)
    }

    /// Begins everything that fits, for a runner.
    pub(super) fn start_what_fits(
        &mut self,
        world: &mut World<'_>,
        started: &mut VecDeque<Started<T>>,
    ) {
        if self.impossible.iter().any(|(work, _)| self.is_in_line(*work)) {
            return;
        }
        while let Some(grant) = self.begin_next(world) {
            let entry = &mut self.entries[grant.work.index()];
            entry.hands = Hands::Runner;
            let task = entry.task.take().expect("a task in the queue is in its entry");
            entry.cost = (self.price)(&task).cloned();
            started.push_back(Started { grant, task });
        }
    }

    /// What can never start ends here, and so does all that waits for it. One that has ended by that is
    /// not told of.
    pub(super) fn take_impossible(&mut self, world: &mut World<'_>) -> Vec<(WorkId, T, CostError)> {
        let mut taken = Vec::new();
        for (work, error) in mem::take(&mut self.impossible) {
            if !self.is_in_line(work) {
                self.impossible.push((work, error));
                continue;
            }
            let ended = self.engine.phase(work).is_none_or(|phase| phase.state().is_terminal());
            let entry = self.entries.get_mut(work.index()).filter(|_| !ended);
            if let Some(task) = entry.and_then(|entry| entry.task.take()) {
                self.engine.apply(world, Input::Cancel(work)).expect("it has not ended");
                taken.push((work, task, error));
            }
        }
        taken
    }

    /// Returns whether this task is queued: neither a puller nor a runner has it, and it has not ended.
    fn is_in_line(&self, work: WorkId) -> bool {
        self.entries.get(work.index()).is_some_and(|entry| entry.hands == Hands::Free)
    }

    /// Returns whether a puller or a runner has a task.
    pub(super) fn is_under_way(&self) -> bool {
        self.engine.metrics().count(WorkState::Running) > 0
    }

    pub(super) fn has_ended(&self) -> bool {
        self.closing != Closing::Open && self.engine.is_done()
    }

    /// Removes the entries of tasks that have ended. A task that is forgotten can no longer be a dependency.
    pub(super) fn bury(
        &mut self,
        capacity: &mut CapacityTree,
        transitions: &[Transition],
        now: Timestamp,
    ) {
        for transition in transitions.iter().filter(|t| t.to.state().is_terminal()) {
            let entry = self.entries.take(transition.work.index());
            self.over.extend(entry.and_then(|entry| entry.task));
            self.impossible.retain(|(work, _)| *work != transition.work);
            if self.memory == Memory::Forget {
                let mut wakes = Vec::new();
                let mut world =
                    World { now, capacity, facts: None, transitions: None, wakes: &mut wakes };
                let forgotten = self.engine.apply(&mut world, Input::Forget(transition.work));
                forgotten.expect("it has ended");
            }
        }
    }
}

/// Returns what a task takes at a level. A task without a cost takes one of `capacity`, if a level declares
/// that.
fn cost_at(tree: &CapacityTree, level: LevelId, said: Option<&ResourceCost>) -> ResourceCost {
    if let Some(cost) = said {
        return cost.clone();
    }
    let one = ResourceCost::new().with(CAPACITY, Amount::from(1));
    match tree.demand(level, &one) {
        Err(CostError::Unknown { .. }) => ResourceCost::new(),
        _ => one,
    }
}
