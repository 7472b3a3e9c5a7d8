//! The pools that are compared, all with the same number of workers.

use std::num::NonZero;

use windlass_pool::Scheduler;

/// One pool of each kind.
pub(crate) struct Pools {
    pub(crate) windlass: Scheduler,
    pub(crate) rayon: rayon::ThreadPool,
    pub(crate) chili: chili::ThreadPool,
}

impl Pools {
    pub(crate) fn start(workers: usize) -> Self {
        let rayon = rayon::ThreadPoolBuilder::new().num_threads(workers);
        let chili =
            chili::Config { thread_count: NonZero::new(workers), ..chili::Config::default() };
        Self {
            windlass: Scheduler::new(workers),
            rayon: rayon.build().expect("threads can be started"),
            chili: chili::ThreadPool::with_config(chili),
        }
    }
}
