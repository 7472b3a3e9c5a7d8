//! The engine behind a source: what is in it, who pulls from it, and where it takes from.
//!
//! One lock for the engine, taken before that of the tree it takes from; tasks are dropped and
//! others are woken when neither is held.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;
use windlass_core::{
    Ageing, CostError, EngineConfig, Grant, Input, Phase, ResourceCost, Timestamp, WorkId, World,
};

use super::state::{Closing, Memory, Price, Started, State};
use crate::capacity::{Clock, ImpossibleCost, ResourceCapacity};

/// A handle on an engine with a `T` for each work that has not ended.
pub(crate) struct Queue<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    clock: Clock,
    /// Whether it matters since when a task has been in line.
    ages: bool,
    /// Tells all who listen that something has changed.
    changed: Arc<Notify>,
    ears: AtomicUsize,
}

/// What came of looking for a task.
pub(crate) enum Pulled<P> {
    Task(P),
    Nothing { due: Option<Instant> },
    Ended,
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
        let state = State::new(config, client, closing, memory);
        let shared = Shared {
            state: Mutex::new(state),
            clock: Clock::default(),
            ages: ageing != Ageing::NONE,
            changed: Arc::new(Notify::new()),
            ears: AtomicUsize::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Has the engine take from this capacity from now on, each task as much as `price` says. If it does so
    /// already it stays there with what is under way, so that nobody else gets any of that meanwhile.
    pub(crate) fn take_from(&self, capacity: &ResourceCapacity, price: Price<T>) {
        let client = capacity.join(&ResourceCost::new());
        let now = self.shared.clock.now();
        let mut state = self.state();
        if state.is_under_way() && state.client.capacity.is_same(capacity) {
            return;
        }
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
        let clock = &self.shared.clock;
        let now = if self.shared.ages { clock.now() } else { clock.last() };
        self.call_at(now, |state, world| state.add(world, task, priority, after))
    }

    /// The next task for one who pulls by hand.
    pub(super) fn pull<P>(
        &self,
        hand_out: impl FnOnce(&mut State<T>, &mut World<'_>, Grant) -> P,
    ) -> Pulled<P> {
        self.call(|state, world| {
            if let Some(grant) = state.begin_next(world) {
                return Pulled::Task(hand_out(state, world, grant));
            }
            if state.has_ended() {
                return Pulled::Ended;
            }
            let due = state.engine.next_wakeup().and_then(|at| self.shared.clock.instant(at));
            Pulled::Nothing { due }
        })
    }

    /// Takes these in, which wait for nobody; then everything that can start now, for a runner, and
    /// what can never start. Those who listen are not told, as it is one of them who does this.
    pub(crate) fn start_what_fits(
        &self,
        new: &mut VecDeque<T>,
        priority: fn(&T) -> i64,
        started: &mut VecDeque<Started<T>>,
    ) -> Vec<(WorkId, T, CostError)> {
        self.call(|state, world| {
            state.add_all(world, new, priority);
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
            state.engine.apply(world, Input::RetrySearch).expect("one may always look");
        });
        self.tell_others();
    }

    pub(crate) fn close(&self) {
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
        self.state().engine.queue_len()
    }

    /// Where a work stands; none if it is forgotten.
    pub(super) fn phase(&self, work: WorkId) -> Option<Phase> {
        self.state().engine.phase(work)
    }

    /// The first in line, as `see` sees it.
    pub(super) fn peek<R>(&self, see: impl FnOnce(WorkId, &T) -> R) -> Option<R> {
        self.call(|state, world| {
            state.engine.apply(world, Input::Tick).expect("time may always pass");
            let first = state.engine.first_in_queue()?;
            let task = state.entries.get(first.index())?.task.as_ref()?;
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
        self.call_at(self.shared.clock.now(), call)
    }

    fn call_at<R>(
        &self,
        now: Timestamp,
        call: impl FnOnce(&mut State<T>, &mut World<'_>) -> R,
    ) -> R {
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
