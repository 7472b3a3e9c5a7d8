//! Counts what the workers of a pool do.
//!
//! Each worker has counters of its own, on cache lines of their own, to which no other thread
//! writes. Threads outside the pool and spare workers share one more set.

use std::{
    iter::Sum,
    ops::Add,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use crossbeam_utils::CachePadded;

use crate::node::TaskEnd;

/// The counts of one worker, or of several.
///
/// When no task is left, `spawned` is the sum of `completed`, `cancelled` and `panicked`.
///
/// ```
/// use windlass_pool::{Scheduler, with_scope};
///
/// let scheduler = Scheduler::new(2);
/// with_scope(&scheduler, |scope| {
///     scope.spawn(|| ());
///     scope.cancel();
///     scope.spawn(|| unreachable!());
/// });
/// let total = scheduler.stats().total();
/// assert_eq!(total.spawned, 2);
/// assert_eq!(total.completed + total.cancelled, 2);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerStats {
    /// Tasks spawned by code that ran on this worker.
    pub spawned: u64,
    /// Tasks whose body returned on this worker.
    pub completed: u64,
    /// Tasks that never started, or that [`checkpoint`](crate::checkpoint) unwound.
    pub cancelled: u64,
    /// Tasks whose body panicked.
    pub panicked: u64,
    /// How often this worker stole tasks from another worker.
    pub steals: u64,
    /// How often this worker went to sleep.
    pub parks: u64,
}

impl Add for WorkerStats {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            spawned: self.spawned + other.spawned,
            completed: self.completed + other.completed,
            cancelled: self.cancelled + other.cancelled,
            panicked: self.panicked + other.panicked,
            steals: self.steals + other.steals,
            parks: self.parks + other.parks,
        }
    }
}

impl Sum for WorkerStats {
    fn sum<I: Iterator<Item = Self>>(stats: I) -> Self {
        stats.fold(Self::default(), Add::add)
    }
}

/// The counts of a pool.
///
/// ```
/// let scheduler = windlass_pool::Scheduler::new(3);
/// assert_eq!(scheduler.stats().workers.len(), 3);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchedulerStats {
    /// One entry per worker.
    pub workers: Vec<WorkerStats>,
    /// The counts of all other threads: those that spawn from outside the pool, and the spare
    /// workers that the pool starts while its workers wait.
    pub others: WorkerStats,
}

impl SchedulerStats {
    /// Returns the sum over all threads.
    pub fn total(&self) -> WorkerStats {
        self.workers.iter().copied().sum::<WorkerStats>() + self.others
    }
}

/// An event that is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CountedEvent {
    Spawned,
    Ended(TaskEnd),
    Steal,
    Park,
}

/// The counters of one worker.
#[derive(Default)]
pub(crate) struct WorkerCounters {
    spawned: AtomicU64,
    completed: AtomicU64,
    cancelled: AtomicU64,
    panicked: AtomicU64,
    steals: AtomicU64,
    parks: AtomicU64,
}

impl WorkerCounters {
    fn counter(&self, event: CountedEvent) -> &AtomicU64 {
        match event {
            CountedEvent::Spawned => &self.spawned,
            CountedEvent::Ended(TaskEnd::Completed) => &self.completed,
            CountedEvent::Ended(TaskEnd::Cancelled) => &self.cancelled,
            CountedEvent::Ended(TaskEnd::Panicked) => &self.panicked,
            CountedEvent::Steal => &self.steals,
            CountedEvent::Park => &self.parks,
        }
    }

    /// Counts an event. Only one thread may call this.
    #[inline]
    pub(crate) fn count(&self, event: CountedEvent) {
        let counter = self.counter(event);
        // Relaxed, and no read-modify-write: no other thread writes to these counters.
        counter.store(counter.load(Relaxed) + 1, Relaxed);
    }

    fn read(&self) -> WorkerStats {
        // Relaxed: the counters publish nothing. A caller that has waited for its tasks sees their
        // counts, because the wait synchronises with their ends.
        WorkerStats {
            spawned: self.spawned.load(Relaxed),
            completed: self.completed.load(Relaxed),
            cancelled: self.cancelled.load(Relaxed),
            panicked: self.panicked.load(Relaxed),
            steals: self.steals.load(Relaxed),
            parks: self.parks.load(Relaxed),
        }
    }
}

/// The counters of a pool.
pub(crate) struct PoolCounters {
    workers: Box<[Arc<CachePadded<WorkerCounters>>]>,
    others: CachePadded<WorkerCounters>,
}

impl PoolCounters {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            workers: (0..workers).map(|_| Arc::default()).collect(),
            others: CachePadded::default(),
        }
    }

    /// Returns the counters of worker `index`, for its own thread.
    pub(crate) fn of_worker(&self, index: usize) -> Arc<CachePadded<WorkerCounters>> {
        Arc::clone(&self.workers[index])
    }

    /// Counts an event on a thread without counters of its own.
    pub(crate) fn count_other(&self, event: CountedEvent) {
        // Relaxed: as in `read`.
        self.others.counter(event).fetch_add(1, Relaxed);
    }

    pub(crate) fn read(&self) -> SchedulerStats {
        SchedulerStats {
            workers: self.workers.iter().map(|counters| counters.read()).collect(),
            others: self.others.read(),
        }
    }
}
