//! The engine behind a source: its tasks, its pullers and its capacity.
//!
//! One mutex protects the engine and an entry per task. A session is one critical section, as in a scheduler:
//! the engine is called with a [`SessionWorld`], the entries follow its transitions, and what others notice
//! (wake-ups, drops of tasks) is collected in [`Effects`] and carried out after the unlock.
//!
//! The rest is a source's own. Its entries are tasks of the caller's type, which are handed out and come
//! back. It moves from one capacity to another, so it has a clock of its own. Nothing is begun before a
//! puller or a runner asks, so no run has to be woken, only the listeners that poll.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;
use windlass_core::{
    Ageing, ClientId, CostError, EngineConfig, Grant, Input, Phase, ResourceCost, Timestamp,
    WorkId, World,
};

use super::state::{Closing, Memory, Price, Started, State};
use crate::capacity::{Client, Clock, ImpossibleCost, ResourceCapacity};
use crate::id::Issuer;
use crate::panic::drop_quietly;
use crate::world::SessionWorld;

/// A handle on an engine with a `T` for each work that has not ended.
pub(crate) struct Queue<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    issuer: Issuer,
    clock: Clock,
    /// Whether tasks age.
    ages: bool,
    /// Notifies all listeners of a change.
    changed: Arc<Notify>,
    listeners: AtomicUsize,
}

/// What came of looking for a task.
pub(crate) enum Pulled<P> {
    Task(P),
    Nothing { due: Option<Instant> },
    Ended,
}

/// What a session leaves to be done once no lock is held.
#[must_use]
pub(super) struct Effects<T> {
    client: Arc<Client>,
    /// Other clients of the capacity that should look again.
    wakes: Vec<ClientId>,
    /// Tasks that are over, whose destructors may do anything.
    over: Vec<T>,
}

impl<T> Effects<T> {
    pub(super) fn carry_out(self) {
        self.client.capacity.notify(&self.wakes);
        self.over.into_iter().for_each(drop_quietly);
    }
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
            issuer: Issuer::new(),
            clock: Clock::default(),
            ages: ageing != Ageing::NONE,
            changed: Arc::new(Notify::new()),
            listeners: AtomicUsize::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Has the engine take from this capacity from now on, each task as much as `price` says. If it does so
    /// already it stays there with what is under way, so that no other client can take it meanwhile.
    pub(crate) fn take_from(&self, capacity: &ResourceCapacity, price: Price<T>) {
        let client = capacity.join(&ResourceCost::new());
        let now = self.shared.clock.now();
        let mut state = self.state();
        if state.is_under_way() && state.client.capacity.is_same(capacity) {
            return;
        }
        let old = mem::replace(&mut state.client, Arc::new(client));
        let wakes = state.engine.depart(&mut old.capacity.lock());
        state.arrive(price, now);
        drop(state);
        old.capacity.notify(&wakes);
        drop(old);
        self.tell_all();
    }

    /// Returns what issues the ids of the tasks.
    pub(crate) fn issuer(&self) -> Issuer {
        self.shared.issuer
    }

    /// Adds a task, or returns it if the source is closed. The caller carries out the effects and notifies the
    /// listeners with [`Queue::tell_all`] once it holds no lock.
    pub(super) fn add(
        &self,
        task: T,
        priority: i64,
        after: &[WorkId],
    ) -> (Result<WorkId, T>, Effects<T>) {
        let clock = &self.shared.clock;
        let now = if self.shared.ages { clock.now() } else { clock.last() };
        self.session(now, |state, world| state.add(world, task, priority, after))
    }

    /// Returns the next task for a caller that pulls by hand.
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

    /// Adds these tasks, which have no dependencies; then starts everything that fits, for a runner, and finds
    /// what can never start. Listeners are not notified, because the caller is one of them.
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

    /// Returns why a cost can never be met by the capacity of this source.
    pub(crate) fn impossible(&self, error: CostError) -> ImpossibleCost {
        let capacity = self.state().client.capacity.clone();
        capacity.impossible(error)
    }

    /// The capacity has notified this source: something may fit now.
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

    /// Closes the source once all its tasks have ended.
    pub(super) fn close_when_done(&self) {
        self.state().closing = Closing::WhenDone;
    }

    pub(super) fn is_closed(&self) -> bool {
        let state = self.state();
        state.closing == Closing::Closed || state.has_ended()
    }

    /// Returns how many tasks are queued.
    pub(crate) fn len(&self) -> usize {
        self.state().engine.queue_len()
    }

    /// Returns the phase of a work; none if it is forgotten.
    pub(super) fn phase(&self, work: WorkId) -> Option<Phase> {
        self.state().engine.phase(work)
    }

    /// Calls `see` with the first task in the queue.
    pub(super) fn peek<R>(&self, see: impl FnOnce(WorkId, &T) -> R) -> Option<R> {
        self.call(|state, world| {
            state.engine.apply(world, Input::Tick).expect("time may always pass");
            let first = state.engine.first_in_queue()?;
            let task = state.entries.get(first.index())?.task.as_ref()?;
            Some(see(first, task))
        })
    }

    /// Returns what is notified when this source has changed, and when its capacity may have room.
    pub(super) fn wakeups(&self) -> (Arc<Notify>, Arc<Notify>) {
        (Arc::clone(&self.shared.changed), Arc::clone(&self.state().client.wakeup))
    }

    pub(super) fn count_listeners(&self, change: isize) {
        // Relaxed: a change that does not see a new listener is seen by that listener at its first look.
        match change {
            1 => self.shared.listeners.fetch_add(1, Ordering::Relaxed),
            _ => self.shared.listeners.fetch_sub(1, Ordering::Relaxed),
        };
    }

    pub(super) fn tell_all(&self) {
        self.shared.changed.notify_waiters();
    }

    /// Notifies the listeners, unless the caller is the only one.
    pub(super) fn tell_others(&self) {
        if self.shared.listeners.load(Ordering::Relaxed) > 1 {
            self.tell_all();
        }
    }

    /// Runs `call` on the locked state; then, with the lock free, carries out its effects.
    pub(super) fn call<R>(&self, call: impl FnOnce(&mut State<T>, &mut World<'_>) -> R) -> R {
        let (result, effects) = self.session(self.shared.clock.now(), call);
        effects.carry_out();
        result
    }

    /// As [`Queue::call`], for a caller that has to free another lock before the effects.
    fn session<R>(
        &self,
        now: Timestamp,
        call: impl FnOnce(&mut State<T>, &mut World<'_>) -> R,
    ) -> (R, Effects<T>) {
        let mut state = self.state();
        let client = Arc::clone(&state.client);
        let mut session = SessionWorld::at(&client, now);
        let (mut transitions, mut wakes) = (mem::take(&mut state.transitions), Vec::new());
        let result = call(&mut state, &mut session.world(&mut transitions, &mut wakes));
        state.bury(session.tree(), &transitions, now);
        transitions.clear();
        state.transitions = transitions;
        let over = mem::take(&mut state.over);
        drop((session, state));
        (result, Effects { client, wakes, over })
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
