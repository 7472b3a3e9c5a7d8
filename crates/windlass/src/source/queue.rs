//! The engine behind a source: what is in it, who pulls from it, and where it takes from.
//!
//! One lock for the engine, taken before that of the tree it takes from; tasks are dropped and
//! others are woken when neither is held.

use std::collections::BTreeMap;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;
use windlass_core::{
    Ageing, Amount, Arrival, CapacityTree, CostError, CostId, Dependency, Engine, EngineConfig,
    Grant, Input, LevelId, ResourceCost, Submission, Timestamp, Transition, WorkId, World,
};

use super::entries::Entries;
use crate::capacity::{Client, Clock, ImpossibleCost, ResourceCapacity};

/// A handle on an engine with a `T` for each work that has not ended.
pub(crate) struct Queue<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    clock: Clock,
    /// Tells all who listen that something has changed.
    changed: Arc<Notify>,
    ears: AtomicUsize,
}

/// What is under the lock.
pub(crate) struct State<T> {
    pub(super) engine: Engine,
    client: Client,
    pub(super) entries: Entries<Entry<T>>,
    pub(super) closing: Closing,
    price: Price<T>,
    priced: Option<Priced>,
    /// Tasks that can never run where the engine takes from now, and have not been told of.
    pub(super) impossible: Vec<(WorkId, CostError)>,
    /// Tasks that a runner has under way and that are to be stopped.
    pub(super) stops: Vec<WorkId>,
    /// How many were ever added.
    pub(super) added: u64,
    pub(super) memory: Memory,
    transitions: Vec<Transition>,
    /// Tasks that are over, to be dropped outside the lock.
    pub(super) over: Vec<T>,
}

/// A task that has not ended.
pub(super) struct Entry<T> {
    /// None while a runner has it.
    pub(super) task: Option<T>,
    pub(super) hands: Hands,
    /// Those that wait for it.
    pub(super) dependents: Vec<WorkId>,
}

/// Who has a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hands {
    Nobody,
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

/// What came of looking for a task.
pub(crate) enum Pulled<P> {
    Task(P),
    Nothing { due: Option<Instant> },
    Ended,
}

/// A task that a runner starts.
pub(crate) struct Started<T> {
    pub(crate) grant: Grant,
    pub(crate) task: T,
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T> Queue<T> {
    pub(super) fn new(ageing: Ageing, closing: Closing, memory: Memory) -> Self {
        let client = ResourceCapacity::new(ResourceCost::new()).join(&ResourceCost::new());
        let mut config = EngineConfig::default();
        config.ageing = ageing;
        config.retry_delay = std::time::Duration::ZERO;
        let state = State {
            engine: Engine::new(config, client.id),
            client,
            entries: Entries::new(),
            closing,
            price: |_| None,
            priced: None,
            impossible: Vec::new(),
            stops: Vec::new(),
            added: 0,
            memory,
            transitions: Vec::new(),
            over: Vec::new(),
        };
        let shared = Shared {
            state: Mutex::new(state),
            clock: Clock::default(),
            changed: Arc::new(Notify::new()),
            ears: AtomicUsize::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Has the engine take from this capacity from now on, each task as much as `price` says.
    pub(crate) fn take_from(&self, capacity: &ResourceCapacity, price: Price<T>) {
        let client = capacity.join(&ResourceCost::new());
        let now = self.shared.clock.now();
        let mut state = self.state();
        let old = mem::replace(&mut state.client, client);
        let wakes = state.engine.depart(&mut old.capacity.lock());
        state.arrive(price, now);
        drop(state);
        old.capacity.ring(&wakes);
        drop(old);
        self.tell_all();
    }

    /// Takes a task in, or gives it back if nothing more is taken in. Who listens is to be told when
    /// no lock is held: [`Queue::tell_all`].
    pub(super) fn add(&self, task: T, priority: i64, after: &[WorkId]) -> Result<WorkId, T> {
        self.call(|state, world| state.add(world, task, priority, after))
    }

    /// The next task for one who pulls by hand.
    pub(super) fn pull<P>(
        &self,
        hand_out: impl FnOnce(&mut State<T>, &mut World<'_>, Grant) -> P,
    ) -> Pulled<P> {
        self.call(|state, world| {
            if let Some(grant) = state.engine.take_next(world) {
                state.begin(world, grant);
                return Pulled::Task(hand_out(state, world, grant));
            }
            if state.has_ended() {
                return Pulled::Ended;
            }
            let due = state.engine.next_wakeup().and_then(|at| self.shared.clock.instant(at));
            Pulled::Nothing { due }
        })
    }

    /// Everything that can start now, for a runner; and what can never start.
    pub(crate) fn start_what_fits(
        &self,
        started: &mut Vec<Started<T>>,
    ) -> Vec<(WorkId, T, CostError)> {
        self.call(|state, world| {
            state.start_what_fits(world, started);
            state.take_impossible(world)
        })
    }

    /// When to look again if nothing else happens; or that nothing ever will.
    pub(crate) fn outlook(&self) -> Pulled<()> {
        let state = self.state();
        if state.has_ended() {
            return Pulled::Ended;
        }
        let due = state.engine.next_wakeup().and_then(|at| self.shared.clock.instant(at));
        Pulled::Nothing { due }
    }

    /// Why a cost can never be met where the engine takes from.
    pub(crate) fn impossible(&self, error: CostError) -> ImpossibleCost {
        let capacity = self.state().client.capacity.clone();
        capacity.impossible(error)
    }

    /// The bell of the capacity has rung.
    pub(crate) fn look_again(&self) {
        self.call(|state, world| {
            state.engine.apply(world, Input::LookAgain).expect("one may always look");
        });
        self.tell_others();
    }

    pub(super) fn close(&self) {
        self.state().closing = Closing::Closed;
        self.tell_all();
    }

    /// Takes nothing more once all there are have ended.
    pub(super) fn close_when_done(&self) {
        self.state().closing = Closing::WhenDone;
    }

    pub(super) fn is_closed(&self) -> bool {
        let state = self.state();
        state.closing == Closing::Closed || state.has_ended()
    }

    /// How many stand in line.
    pub(crate) fn len(&self) -> usize {
        self.state().engine.in_line()
    }

    /// The first in line, as `see` sees it.
    pub(super) fn peek<R>(&self, see: impl FnOnce(WorkId, &T) -> R) -> Option<R> {
        self.call(|state, world| {
            state.engine.apply(world, Input::Tick).expect("time may always pass");
            let first = state.engine.first_in_line()?;
            let task = state.entries.get(first)?.task.as_ref()?;
            Some(see(first, task))
        })
    }

    /// The bells that tell when there is something new: of this source, and of the capacity.
    pub(super) fn bells(&self) -> (Arc<Notify>, Arc<Notify>) {
        (Arc::clone(&self.shared.changed), Arc::clone(&self.state().client.bell))
    }

    pub(super) fn count_ears(&self, change: isize) {
        // Relaxed: whoever misses a new listener is seen by it when it looks for the first time.
        match change {
            1 => self.shared.ears.fetch_add(1, Ordering::Relaxed),
            _ => self.shared.ears.fetch_sub(1, Ordering::Relaxed),
        };
    }

    pub(super) fn tell_all(&self) {
        self.shared.changed.notify_waiters();
    }

    /// For one who listens itself.
    pub(super) fn tell_others(&self) {
        if self.shared.ears.load(Ordering::Relaxed) > 1 {
            self.tell_all();
        }
    }

    pub(super) fn call<R>(&self, call: impl FnOnce(&mut State<T>, &mut World<'_>) -> R) -> R {
        let now = self.shared.clock.now();
        let mut wakes = Vec::new();
        let mut state = self.state();
        let capacity = state.client.capacity.clone();
        let mut transitions = mem::take(&mut state.transitions);
        let mut tree = capacity.lock();
        let mut world = World {
            now,
            capacity: &mut tree,
            facts: None,
            transitions: Some(&mut transitions),
            wakes: &mut wakes,
        };
        let result = call(&mut state, &mut world);
        state.bury(&mut tree, &transitions, now);
        drop(tree);
        transitions.clear();
        state.transitions = transitions;
        let over = mem::take(&mut state.over);
        drop(state);
        drop(over);
        capacity.ring(&wakes);
        result
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> State<T> {
    fn add(
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
        let nothing = ResourceCost::new();
        let cost = match &priced {
            Ok(cost) => *cost,
            Err(_) => self.engine.cost(world.capacity, &nothing).expect("a slot can be had"),
        };
        let dependencies: Vec<_> = after.iter().copied().map(Dependency::from).collect();
        let submission = Submission {
            after: &dependencies,
            priority,
            retries: u32::MAX,
            ..Submission::of(cost)
        };
        let work = self.engine.submit(world, submission).expect("what it waits for is known");
        self.added += 1;
        let entry = Entry { task: Some(task), hands: Hands::Nobody, dependents: Vec::new() };
        self.entries.insert(work, entry);
        for source in after {
            if let Some(source) = self.entries.get_mut(*source) {
                source.dependents.push(work);
            }
        }
        self.impossible.extend(priced.err().map(|error| (work, error)));
        Ok(work)
    }

    /// The number of what a task takes, as long as nothing was declared since the last one's.
    fn priced(&mut self, capacity: &CapacityTree, task: &T) -> Result<CostId, CostError> {
        let said = (self.price)(task);
        let revision = capacity.revision();
        if let Some(last) = &self.priced
            && last.revision == revision
            && last.said.as_ref() == said
        {
            return last.number.clone();
        }
        let cost = cost_at(capacity, self.client.level, said);
        let number = self.engine.cost(capacity, &cost);
        self.priced = Some(Priced { said: said.cloned(), revision, number: number.clone() });
        number
    }

    /// The engine has left where it was, and takes as the new client.
    fn arrive(&mut self, price: Price<T>, now: Timestamp) {
        let Self { engine, client, entries, .. } = self;
        let arrival = Arrival { client: client.id, now, there: client.capacity.now() };
        let mut tree = client.capacity.lock();
        // Told beforehand, as prices depend on what the tree declares. What a runner has under way
        // has gone from here and takes nothing.
        let priced = |(work, entry): (WorkId, &Entry<T>)| {
            Some((work, cost_at(&tree, client.level, price(entry.task.as_ref()?))))
        };
        let prices: BTreeMap<_, _> = entries.iter().filter_map(priced).collect();
        let price_of = |work| prices.get(&work).cloned().unwrap_or_default();
        self.impossible = engine.arrive(&mut tree, arrival, price_of);
        drop(tree);
        (self.price, self.priced) = (price, None);
    }

    pub(super) fn begin(&mut self, world: &mut World<'_>, grant: Grant) {
        self.engine.apply(world, Input::Begin(grant)).expect("it was granted just now");
    }

    pub(super) fn start_what_fits(&mut self, world: &mut World<'_>, started: &mut Vec<Started<T>>) {
        if !self.impossible.is_empty() {
            return;
        }
        while let Some(grant) = self.engine.take_next(world) {
            self.begin(world, grant);
            let entry = self.entries.get_mut(grant.work).expect("a work that starts has a task");
            entry.hands = Hands::Runner;
            let task = entry.task.take().expect("nobody has a task that stands in line");
            started.push(Started { grant, task });
        }
    }

    /// What can never start ends here, and so does all that waits for it.
    fn take_impossible(&mut self, world: &mut World<'_>) -> Vec<(WorkId, T, CostError)> {
        let mut taken = Vec::new();
        for (work, error) in mem::take(&mut self.impossible) {
            let task = self.entries.get_mut(work).and_then(|entry| entry.task.take());
            if let Some(task) = task {
                self.engine.apply(world, Input::Cancel(work)).expect("it has not ended");
                taken.push((work, task, error));
            }
        }
        taken
    }

    fn has_ended(&self) -> bool {
        self.closing != Closing::Open && self.engine.is_done() && self.impossible.is_empty()
    }

    /// What has ended needs no entry any more, and nobody can wait for it where it is forgotten.
    fn bury(&mut self, capacity: &mut CapacityTree, transitions: &[Transition], now: Timestamp) {
        for transition in transitions.iter().filter(|t| t.to.state().is_terminal()) {
            let entry = self.entries.remove(transition.work);
            self.over.extend(entry.and_then(|entry| entry.task));
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

/// What a task takes at a level. One that says nothing takes one of `capacity`, where somebody
/// declares that.
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
