//! A worker: a thread that runs tasks, its own first, then everybody's, and sleeps when there are
//! none.
//!
//! What it does while a task of its own has to wait is told in `worker/help.rs`. Knows nothing of
//! scopes or deadlines.

use std::{
    cell::Cell,
    io,
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crossbeam_deque::Worker as CrossbeamDeque;
use crossbeam_utils::CachePadded;

use crate::{
    abort::AbortOnUnwind,
    fork::{self, ForkDeque, ForkHeader},
    job::{ClaimedTask, QueuedTask},
    node::{DeferredRelease, TaskEnd},
    parker::{self, Parker, ParkerRef},
    pool::Pool,
    sleep::SleepReason,
    stats::{CountedEvent, WorkerCounters},
    trace::TraceKind,
};

mod help;
mod spare;
mod steal;

pub(crate) use crate::fork::with_worker as with;

/// A worker's own queue.
pub(crate) type TaskDeque = CrossbeamDeque<QueuedTask>;

/// A sleep that was not worth it.
const SHORT_SLEEP: Duration = Duration::from_micros(200);
/// A worker searches at most so many times as long as it is told to.
const MAX_SPIN_FACTOR: u32 = 8;
/// How long after it fell asleep a worker looks once more. Long against the time that a store takes
/// to be seen by other processors; see `fork`.
const RECHECK_DELAY: Duration = Duration::from_millis(1);

/// A pool's worker, in its own thread.
pub(crate) struct Worker {
    pool: Arc<Pool>,
    /// A spare worker has none, and queues nothing itself.
    local: Option<WorkerLocal>,
    parker: ParkerRef,
    searching: Cell<bool>,
    /// How many times as long as usual to search before sleeping; see `adjust_spin_factor`.
    spin_factor: Cell<u32>,
    /// How many tasks this thread is in the middle of, one on top of the other.
    depth: Cell<usize>,
    tick: Cell<u32>,
    fork_deque: Arc<ForkDeque<ForkHeader>>,
    /// What the tasks that ended here owe to the parent they have in common. It is paid back before
    /// anything but another task of that parent runs here: without it the parent could not complete
    /// earlier either.
    deferred: DeferredRelease,
}

/// The local of a worker among the pool's.
struct WorkerLocal {
    index: usize,
    deque: TaskDeque,
    /// The deque takes at least so many more.
    free_slots: Cell<usize>,
    counters: Arc<CachePadded<WorkerCounters>>,
}

impl WorkerLocal {
    fn new(pool: &Pool, index: usize, deque: TaskDeque) -> Self {
        let counters = pool.counters.of_worker(index);
        Self { index, deque, free_slots: Cell::new(0), counters }
    }

    /// Queues a task; returns it if there is no free_slots.
    #[inline]
    fn push(&self, pool: &Pool, queued: QueuedTask) -> Result<(), QueuedTask> {
        if self.free_slots.get() == 0 && !self.update_free_slots(pool) {
            return Err(queued);
        }
        self.free_slots.set(self.free_slots.get() - 1);
        self.deque.push(queued);
        Ok(())
    }

    /// Looks how much free_slots there is; what has been taken out since the last look counts again.
    #[cold]
    fn update_free_slots(&self, pool: &Pool) -> bool {
        self.free_slots.set(pool.config.local_queue_size.saturating_sub(self.deque.len()));
        self.free_slots.get() > 0
    }
}

/// Starts a thread for the worker at `local`, or for a spare worker.
pub(crate) fn start(
    pool: Arc<Pool>,
    local: Option<(usize, TaskDeque)>,
) -> io::Result<JoinHandle<()>> {
    let name = match &local {
        Some((index, _)) => format!("windlass-{index}"),
        None => "windlass-spare".to_owned(),
    };
    thread::Builder::new().name(name).spawn(move || {
        let local = local.map(|(index, deque)| WorkerLocal::new(&pool, index, deque));
        let worker = Worker::new(pool, local);
        fork::run_as(&worker, || worker.run());
    })
}

impl Worker {
    fn new(pool: Arc<Pool>, local: Option<WorkerLocal>) -> Self {
        let fork_deque = match &local {
            Some(local) => pool.fork_deques.of_worker(local.index),
            None => pool.fork_deques.add_spare(),
        };
        Self {
            pool,
            local,
            parker: parker::current(),
            // So it was counted when it was started.
            searching: Cell::new(true),
            spin_factor: Cell::new(1),
            depth: Cell::new(0),
            tick: Cell::new(0),
            fork_deque,
            deferred: DeferredRelease::default(),
        }
    }

    /// The local among the pool's workers.
    pub(crate) fn index(&self) -> Option<usize> {
        self.local.as_ref().map(|local| local.index)
    }

    #[inline]
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    #[inline]
    pub(crate) fn fork_deque(&self) -> &ForkDeque<ForkHeader> {
        &self.fork_deque
    }

    /// Whether some worker has nothing to run; a hint.
    #[inline]
    pub(crate) fn has_idle_worker(&self) -> bool {
        self.pool.sleep.has_idle_worker()
    }

    /// Whether there is something in this worker's queue that others could take.
    pub(crate) fn has_queued_tasks(&self) -> bool {
        self.local.as_ref().is_some_and(|local| !local.deque.is_empty())
    }

    #[inline]
    pub(crate) fn count(&self, count: CountedEvent) {
        match &self.local {
            Some(local) => local.counters.count(count),
            None => self.pool.counters.count_other(count),
        }
    }

    pub(crate) fn belongs_to(&self, pool: &Pool) -> bool {
        std::ptr::eq(&raw const *self.pool, pool)
    }

    /// Takes in a new task.
    #[inline(never)]
    pub(crate) fn submit(&self, queued: QueuedTask) {
        self.count(CountedEvent::Spawned);
        self.pool.tracer.emit(|| self.index(), || TraceKind::Spawned(queued.id()));
        self.push(queued);
    }

    /// Queues a task here, or where everybody looks if there is no free_slots.
    #[inline(always)]
    pub(crate) fn push(&self, queued: QueuedTask) {
        let pushed = match &self.local {
            Some(local) => local.push(&self.pool, queued),
            None => Err(queued),
        };
        match pushed {
            Ok(()) if !self.pool.config.enable_stealing => {}
            Ok(()) => self.pool.notify(),
            Err(queued) => self.pool.inject(queued),
        }
    }

    fn run(&self) {
        let abort = AbortOnUnwind::new("a worker must not end while tasks rely on it");
        match self.local {
            Some(_) => self.main_loop(),
            None => self.run_spare(),
        }
        abort.disarm();
    }

    fn main_loop(&self) {
        while let Some(claimed) = self.next() {
            self.execute(claimed);
        }
    }

    /// Runs a task and counts it.
    // Always inline: there are few callers, and their loops are as short as many bodies.
    #[inline(always)]
    fn execute(&self, claimed: ClaimedTask) {
        self.depth.set(self.depth.get() + 1);
        self.deferred.flush_unless_parent_of(&claimed);
        let (tracer, task) = (&self.pool.tracer, claimed.id());
        tracer.emit(|| self.index(), || TraceKind::Started(task));
        let finished = claimed.run();
        let end = finished.end();
        self.count(CountedEvent::Ended(end));
        tracer.emit(
            || self.index(),
            || match end {
                TaskEnd::Completed => TraceKind::Completed(task),
                TaskEnd::Cancelled => TraceKind::Cancelled(task),
                TaskEnd::Panicked => TraceKind::Panicked(task),
            },
        );
        if let Some(guard) = finished.close() {
            self.deferred.add(guard);
        }
        self.depth.set(self.depth.get() - 1);
    }

    /// The next task; sleeps until there is one, or until the pool closes.
    fn next(&self) -> Option<ClaimedTask> {
        loop {
            if let Some(claimed) = self.find().or_else(|| self.search_and_steal()) {
                self.stop_search();
                return Some(claimed);
            }
            if self.pool.sleep.is_closed() {
                self.stop_search();
                return None;
            }
            self.sleep_until_work();
        }
    }

    /// Searches the queues, then the stacks of other workers.
    fn search_and_steal(&self) -> Option<ClaimedTask> {
        self.search().or_else(|| self.steal_fork())
    }

    /// Looks for work again and again for a while, unless the pool closes.
    fn search(&self) -> Option<ClaimedTask> {
        self.deferred.flush();
        self.start_search();
        let rounds = self.pool.config.spin_count.saturating_mul(self.spin_factor.get());
        let rounds = (0..rounds).take_while(|_| !self.pool.sleep.is_closed());
        rounds.map(pause).find_map(|()| self.find())
    }

    fn sleep_until_work(&self) {
        let sleep = &self.pool.sleep;
        sleep.fall_asleep(&self.parker, SleepReason::Idle);
        if !self.pool.has_work(None) && !sleep.is_closed() {
            let fell_asleep = Instant::now();
            self.sleep_and_recheck();
            self.adjust_spin_factor(fell_asleep.elapsed());
        }
        sleep.wake_up(&self.parker);
    }

    /// Sleeps until it is woken, or finds at its second look that there is work elsewhere. Without a
    /// busy worker there is no join, and a worker that becomes busy later sees this one asleep.
    fn sleep_and_recheck(&self) {
        let looks_again = self.pool.sleep.has_busy_worker();
        self.park(|parker| {
            let again = Instant::now() + RECHECK_DELAY;
            if !looks_again || !parker.park_until(again) && !self.pool.has_work(Some(self)) {
                parker.park();
            }
        });
    }

    /// A worker that is woken as soon as it sleeps costs its waker a system call each time; it had
    /// better stayed up. One that slept for long searched for too long before.
    fn adjust_spin_factor(&self, slept: Duration) {
        let spin_factor = self.spin_factor.get();
        self.spin_factor.set(match slept {
            short if short < SHORT_SLEEP => (spin_factor * 2).min(MAX_SPIN_FACTOR),
            _ => (spin_factor / 2).max(1),
        });
    }

    fn park(&self, how: impl FnOnce(&Parker)) {
        self.count(CountedEvent::Park);
        self.pool.tracer.emit(|| self.index(), || TraceKind::Parked);
        how(&self.parker);
        self.pool.tracer.emit(|| self.index(), || TraceKind::Woken);
    }

    fn start_search(&self) {
        if !self.searching.replace(true) {
            self.pool.sleep.start_search();
        }
    }

    #[inline]
    fn stop_search(&self) {
        if self.searching.get() {
            self.pass_search_on();
        }
    }

    /// The last to stop searching passes the search on, if there is still something to find.
    #[cold]
    fn pass_search_on(&self) {
        self.searching.set(false);
        let was_last = self.pool.sleep.stop_search();
        if !self.pool.urgent.is_empty() {
            self.pool.notify_urgent();
        } else if was_last && self.pool.has_work(None) {
            self.pool.notify();
        }
    }
}

/// Waits between two looks at the queues: a few instructions at first, then for as long as the
/// system finds somebody else to run. Every look takes the line that a queue's owner is writing to
/// out of that owner's cache, and the owner may be waiting for this very processor.
pub(crate) fn pause(round: u32) {
    match round {
        0..3 => (0..4 << round).for_each(|_| std::hint::spin_loop()),
        _ => thread::yield_now(),
    }
}
