//! A worker: a thread that runs tasks, those of its own deque first, and sleeps when there are none.
//!
//! What a worker does while its task waits is in `worker/help.rs`. Knows nothing of scopes or
//! deadlines.

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
    fork::{ForkDeque, ForkHeader},
    job::{ClaimedTask, QueuedTask},
    node::DeferredRelease,
    parker::{self, Parker, ParkerRef},
    pool::Pool,
    sleep::SleepReason,
    stats::{CountedEvent, WorkerCounters},
    trace::TraceKind,
};

mod current;
mod help;
mod spare;
mod steal;

pub(crate) use current::with;

/// A worker's own queue of tasks.
pub(crate) type TaskDeque = CrossbeamDeque<QueuedTask>;

/// A sleep shorter than this should have been a longer search.
const SHORT_SLEEP: Duration = Duration::from_micros(200);
/// How many times as long as `spin_count` says a worker searches at most.
const MAX_SPIN_FACTOR: u32 = 8;
/// How long after falling asleep a worker checks for work once more. Much longer than the time after
/// which other processors see a store; see `fork`.
const RECHECK_DELAY: Duration = Duration::from_millis(1);

/// A worker of a pool, owned by its thread.
pub(crate) struct Worker {
    pool: Arc<Pool>,
    /// None for a spare worker, which has no queue.
    local: Option<WorkerLocal>,
    parker: ParkerRef,
    /// Whether the worker counts as searching in the sleep protocol.
    searching: Cell<bool>,
    /// By what `spin_count` is multiplied; see `adjust_spin_factor`.
    spin_factor: Cell<u32>,
    /// How many tasks are on this thread's stack, one on top of the other.
    depth: Cell<usize>,
    /// How often the worker has searched for a task.
    tick: Cell<u32>,
    fork_deque: Arc<ForkDeque<ForkHeader>>,
    /// The guards that ended tasks held in their common parent. They are kept only while sibling
    /// tasks run here, and until those end the parent cannot complete in any case.
    deferred: DeferredRelease,
}

/// What a regular worker has, but not a spare one: an index, a queue and counters.
struct WorkerLocal {
    index: usize,
    deque: TaskDeque,
    /// How many more tasks the deque takes at least.
    free_slots: Cell<usize>,
    counters: Arc<CachePadded<WorkerCounters>>,
}

impl WorkerLocal {
    fn new(pool: &Pool, index: usize, deque: TaskDeque) -> Self {
        let counters = pool.counters.of_worker(index);
        Self { index, deque, free_slots: Cell::new(0), counters }
    }

    /// Queues a task. Returns it if the deque is full.
    #[inline]
    fn push(&self, pool: &Pool, queued: QueuedTask) -> Result<(), QueuedTask> {
        if self.free_slots.get() == 0 && !self.update_free_slots(pool) {
            return Err(queued);
        }
        self.free_slots.set(self.free_slots.get() - 1);
        self.deque.push(queued);
        Ok(())
    }

    /// Counts the free slots again, including those of tasks that were taken out meanwhile. Returns
    /// whether there are any.
    #[cold]
    fn update_free_slots(&self, pool: &Pool) -> bool {
        self.free_slots.set(pool.config.local_queue_size.saturating_sub(self.deque.len()));
        self.free_slots.get() > 0
    }
}

/// Starts a thread for the worker with this index and deque, or for a spare worker.
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
        current::run_as(&worker, || worker.run());
    })
}

impl Worker {
    fn new(pool: Arc<Pool>, local: Option<WorkerLocal>) -> Self {
        let fork_deque = match &local {
            Some(local) => pool.queues.fork_deques().of_worker(local.index),
            None => pool.queues.fork_deques().add_spare(),
        };
        Self {
            pool,
            local,
            parker: parker::current(),
            // The sleep protocol counts a worker as searching from its start.
            searching: Cell::new(true),
            spin_factor: Cell::new(1),
            depth: Cell::new(0),
            tick: Cell::new(0),
            fork_deque,
            deferred: DeferredRelease::default(),
        }
    }

    /// Returns the index among the pool's workers; none for a spare worker.
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

    /// Returns whether another worker has nothing to run. A hint.
    #[inline]
    pub(crate) fn has_idle_worker(&self) -> bool {
        self.pool.sleep.has_idle_worker()
    }

    /// Returns whether this worker's deque holds tasks.
    pub(crate) fn has_queued_tasks(&self) -> bool {
        self.local.as_ref().is_some_and(|local| !local.deque.is_empty())
    }

    #[inline]
    pub(crate) fn count(&self, event: CountedEvent) {
        match &self.local {
            Some(local) => local.counters.count(event),
            None => self.pool.counters.count_other(event),
        }
    }

    pub(crate) fn belongs_to(&self, pool: &Pool) -> bool {
        std::ptr::eq(&raw const *self.pool, pool)
    }

    /// Accepts a new task.
    #[inline(never)]
    pub(crate) fn submit(&self, queued: QueuedTask) {
        self.count(CountedEvent::Spawned);
        self.pool.tracer.emit(|| self.index(), || TraceKind::Spawned(queued.id()));
        self.push(queued);
    }

    /// Queues a task in the worker's deque, or in the injector if the deque is full.
    #[inline(always)]
    pub(crate) fn push(&self, queued: QueuedTask) {
        let pushed = match &self.local {
            Some(local) => local.push(&self.pool, queued),
            None => Err(queued),
        };
        match pushed {
            Ok(()) if !self.pool.queues.is_stealing_enabled() => {}
            Ok(()) => self.pool.notify(),
            Err(queued) => self.pool.inject(queued),
        }
    }

    fn run(&self) {
        let abort = AbortOnUnwind::new("a worker thread panicked");
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
    // Always inline: there are few callers, and many bodies are as short as their loops.
    #[inline(always)]
    fn execute(&self, claimed: ClaimedTask) {
        self.depth.set(self.depth.get() + 1);
        self.deferred.flush_unless_parent_of(&claimed);
        let (tracer, task) = (&self.pool.tracer, claimed.id());
        tracer.emit(|| self.index(), || TraceKind::Started(task));
        let ended = claimed.run();
        let end = ended.end();
        self.count(CountedEvent::Ended(end));
        tracer.emit(|| self.index(), || TraceKind::ended(task, end));
        if let Some(guard) = ended.close() {
            self.deferred.add(guard);
        }
        self.depth.set(self.depth.get() - 1);
    }

    /// Returns the next task. Sleeps until there is one. Returns `None` when the pool closes.
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

    /// Searches the queues, then the fork deques of other workers.
    fn search_and_steal(&self) -> Option<ClaimedTask> {
        self.search().or_else(|| self.steal_fork())
    }

    /// Searches the queues repeatedly, as often as the spin count says, unless the pool closes.
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
        if !self.pool.queues.has_work(None) && !sleep.is_closed() {
            let fell_asleep = Instant::now();
            self.sleep_and_recheck();
            self.adjust_spin_factor(fell_asleep.elapsed());
        }
        sleep.wake_up(&self.parker);
    }

    /// Sleeps until it is woken, or until its second check finds work.
    ///
    /// The second check is for forks; see `fork`. Without a busy worker there is no join, and a
    /// worker that becomes busy later sees that this one sleeps, so the check is left out.
    fn sleep_and_recheck(&self) {
        let checks_again = self.pool.sleep.has_busy_worker();
        self.park(|parker| {
            let again = Instant::now() + RECHECK_DELAY;
            if !checks_again
                || !parker.park_until(Some(again)) && !self.pool.queues.has_work(Some(self))
            {
                parker.park();
            }
        });
    }

    /// Searches longer next time after a short sleep, and shorter after a long one: waking a worker
    /// costs the waker a system call, and searching in vain costs processor time.
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

    /// Stops searching. The last worker to do so notifies another one if there is still work.
    #[cold]
    fn pass_search_on(&self) {
        self.searching.set(false);
        let was_last = self.pool.sleep.stop_search();
        if self.pool.queues.has_urgent() {
            self.pool.notify_urgent();
        } else if was_last && self.pool.queues.has_work(None) {
            self.pool.notify();
        }
    }
}

/// Waits between two searches: a few instructions at first, then yields the processor.
///
/// Every search takes the cache line to which a deque's owner writes out of the owner's cache, and
/// the owner may be waiting for this processor.
pub(crate) fn pause(round: u32) {
    match round {
        0..3 => (0..4 << round).for_each(|_| std::hint::spin_loop()),
        _ => thread::yield_now(),
    }
}
