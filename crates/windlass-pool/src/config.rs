//! The settings of a pool.

use std::{num::NonZero, thread};

use crate::sleep::MAX_WORKERS;

/// The number of workers of a pool and how they behave.
///
/// ```
/// use windlass_pool::{Scheduler, SchedulerConfig};
///
/// let config = SchedulerConfig {
///     worker_count: 2,
///     local_queue_size: 1024,
///     enable_stealing: true,
///     spin_count: 32,
/// };
/// assert_eq!(Scheduler::with_config(config).worker_count(), 2);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerConfig {
    /// Number of worker threads; 0 means one per CPU. At most 32,767.
    pub worker_count: usize,

    /// Size of each worker's local queue. Tasks that do not fit go to the shared queue.
    pub local_queue_size: usize,

    /// Enable task stealing. Without it, a task runs on the worker that spawned it, unless that
    /// worker waits, or another worker waits while a race runs.
    pub enable_stealing: bool,

    /// Spin count before parking: how often an idle worker searches for tasks before it sleeps. A
    /// worker that is repeatedly woken right after falling asleep searches up to eight times as
    /// often.
    pub spin_count: u32,
}

impl SchedulerConfig {
    /// Returns the number of workers for which `worker_count` stands.
    ///
    /// # Panics
    /// If it exceeds the maximum.
    pub(crate) fn workers(&self) -> usize {
        let count = self.worker_count;
        assert!(count <= MAX_WORKERS, "worker_count is {count}, but the maximum is {MAX_WORKERS}");
        match count {
            0 => thread::available_parallelism().map_or(1, NonZero::get).min(MAX_WORKERS),
            count => count,
        }
    }
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        Self { worker_count: 0, local_queue_size: 1 << 20, enable_stealing: true, spin_count: 32 }
    }
}
