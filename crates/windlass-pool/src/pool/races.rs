//! The races of a pool, and how often they may cost the pool a spare worker.
//!
//! The loser of a race may keep its worker busy until the winner ends, and the winner may wait for a
//! queued task. So during a race a busy worker does not guarantee that the queues are emptied.
//! Workers that wait meanwhile *recheck*: now and then they have a spare worker started if there is
//! work. The more workers are already awake beyond those that the pool and its races need, the
//! longer the pool waits until the next one. So queued tasks that have nothing to do with the race
//! cannot fill the machine with threads.
//!
//! A closure of a race may wait for a task on another pool, whose workers may run the loser; and the
//! task may wait for a third pool. So a worker that waits for another pool rechecks that pool while
//! any race runs in the process.
//!
//! Knows nothing of queues.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// How often a worker that waits while a race runs rechecks.
pub(crate) const RECHECK_INTERVAL: Duration = Duration::from_millis(1);

/// How many workers the closures of one race keep busy.
const WORKERS_PER_RACE: usize = 2;

/// How many races are running in the process.
static RUNNING_ANYWHERE: AtomicUsize = AtomicUsize::new(0);

/// Returns whether a race is running in the process. Exact for a thread for which a race waits.
pub(crate) fn any_running_anywhere() -> bool {
    // Relaxed: as in `Races::any_running`.
    RUNNING_ANYWHERE.load(Relaxed) > 0
}

/// The races of a pool.
pub(crate) struct Races {
    running: AtomicUsize,
    last_recheck: Mutex<Option<Instant>>,
}

impl Races {
    pub(super) fn new() -> Self {
        Self { running: AtomicUsize::new(0), last_recheck: Mutex::new(None) }
    }

    /// Counts a race until the returned value is dropped.
    pub(crate) fn count(&self) -> impl Drop + '_ {
        struct Race<'a>(&'a AtomicUsize);
        impl Drop for Race<'_> {
            fn drop(&mut self) {
                // Relaxed: see `any_running`.
                self.0.fetch_sub(1, Relaxed);
                RUNNING_ANYWHERE.fetch_sub(1, Relaxed);
            }
        }
        // Relaxed: see `any_running`.
        self.running.fetch_add(1, Relaxed);
        RUNNING_ANYWHERE.fetch_add(1, Relaxed);
        Race(&self.running)
    }

    /// Returns whether a race is running. Exact for a thread that runs inside a race.
    pub(crate) fn any_running(&self) -> bool {
        // Relaxed: a task inside a race was queued after the race was counted, and the queue
        // synchronises the two threads.
        self.running.load(Relaxed) > 0
    }

    /// Returns whether a recheck is due, in a pool with `workers` of which `awake` are awake. If so,
    /// the caller has to recheck.
    pub(super) fn is_recheck_due(&self, workers: usize, awake: usize) -> bool {
        // Relaxed: an estimate.
        let needed = workers + WORKERS_PER_RACE * self.running.load(Relaxed);
        let surplus = u32::try_from(awake.saturating_sub(needed)).unwrap_or(u32::MAX);
        let interval = RECHECK_INTERVAL * (1 + surplus.saturating_pow(2) / 4);
        let now = Instant::now();
        let mut last = self.last_recheck.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| now.duration_since(last) >= interval);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}
