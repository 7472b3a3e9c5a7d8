//! How a pool is set up.

use std::{num::NonZero, thread};

/// How many workers a pool has and how they behave.
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
    /// Number of worker threads; 0 means one per CPU.
    pub worker_count: usize,

    /// Size of each worker's local queue; what does not fit goes to the shared one.
    pub local_queue_size: usize,

    /// Enable task stealing. Without it a task runs on the worker that spawned it, unless that
    /// worker has to wait.
    pub enable_stealing: bool,

    /// Spin count before parking: how often an idle worker looks for work before it sleeps. One
    /// that keeps being woken as soon as it sleeps looks up to eight times as often.
    pub spin_count: u32,
}

impl SchedulerConfig {
    /// The number of workers that `worker_count` stands for.
    pub(crate) fn workers(&self) -> usize {
        match self.worker_count {
            0 => thread::available_parallelism().map_or(1, NonZero::get),
            count => count,
        }
    }
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        Self { worker_count: 0, local_queue_size: 1 << 20, enable_stealing: true, spin_count: 32 }
    }
}
