//! The public handle of a pool: starts its threads, and ends them when it is dropped.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    thread::{self, JoinHandle},
};

use crate::{
    cancellation,
    config::SchedulerConfig,
    node,
    pool::Pool,
    scope::with_scope,
    stats::SchedulerStats,
    trace::{TraceEvent, Tracer},
    worker::{self, TaskDeque},
};

/// A work-stealing task scheduler: a fixed number of worker threads that run tasks.
///
/// Dropping it cancels the tasks of [`Scheduler::spawn`] that have not ended, waits for them, and
/// joins all threads. If one of its own tasks drops it, or code for which such a task waits, a thread
/// in the background does that. Scopes borrow the scheduler, so none can be open then.
///
/// ```
/// use windlass_pool::{Scheduler, with_scope};
///
/// let scheduler = Scheduler::new(2);
/// let mut numbers = [3, 1, 2];
/// with_scope(&scheduler, |scope| {
///     scope.spawn(|| numbers.sort());
/// });
/// assert_eq!(numbers, [1, 2, 3]);
/// ```
pub struct Scheduler {
    pool: Arc<Pool>,
    threads: Vec<JoinHandle<()>>,
}

impl Scheduler {
    /// Starts a scheduler with `worker_count` worker threads; 0 means one per CPU.
    ///
    /// # Panics
    /// If `worker_count` exceeds 32,767, or the system cannot start a thread.
    ///
    /// ```
    /// assert_eq!(windlass_pool::Scheduler::new(4).worker_count(), 4);
    /// ```
    pub fn new(worker_count: usize) -> Self {
        Self::with_config(SchedulerConfig { worker_count, ..SchedulerConfig::default() })
    }

    /// Starts a scheduler with the given settings.
    ///
    /// # Panics
    /// As [`Scheduler::new`].
    ///
    /// ```
    /// use windlass_pool::{Scheduler, SchedulerConfig};
    ///
    /// let config = SchedulerConfig { enable_stealing: false, ..SchedulerConfig::default() };
    /// let scheduler = Scheduler::with_config(config);
    /// assert!(scheduler.worker_count() > 0);
    /// ```
    pub fn with_config(config: SchedulerConfig) -> Self {
        Self::start(config, Tracer::default())
    }

    /// Starts a scheduler that calls `hook` for each [`TraceEvent`].
    ///
    /// The hook is called on the thread on which the event happens, so it should be quick. A panic in
    /// it is reported by the panic hook and changes nothing else. See [`TraceEvent`] for an example.
    ///
    /// # Panics
    /// As [`Scheduler::new`].
    pub fn with_trace(
        config: SchedulerConfig,
        hook: impl Fn(&TraceEvent) + Send + Sync + 'static,
    ) -> Self {
        Self::start(config, Tracer::new(hook))
    }

    /// Returns the global scheduler. It has one worker per CPU, is started at its first use, and never
    /// ends.
    ///
    /// ```
    /// use windlass_pool::{Scheduler, with_scope};
    ///
    /// let sum = with_scope(Scheduler::global(), |scope| {
    ///     scope.spawn(|| 1 + 1).await_result().unwrap()
    /// });
    /// assert_eq!(sum, 2);
    /// ```
    pub fn global() -> &'static Self {
        static GLOBAL: OnceLock<Scheduler> = OnceLock::new();
        GLOBAL.get_or_init(|| Self::new(0))
    }

    fn start(config: SchedulerConfig, tracer: Tracer) -> Self {
        let deques: Vec<TaskDeque> = (0..config.workers()).map(|_| TaskDeque::new_lifo()).collect();
        let pool = Pool::new(config, &deques, tracer);
        // If a thread cannot start, the drop of this value ends those that have.
        let mut scheduler = Self { pool, threads: Vec::with_capacity(deques.len()) };
        for local in deques.into_iter().enumerate() {
            let thread = worker::start(Arc::clone(&scheduler.pool), Some(local));
            scheduler.threads.push(thread.expect("cannot start a worker thread"));
        }
        scheduler
    }

    /// Returns the number of worker threads.
    ///
    /// ```
    /// assert_eq!(windlass_pool::Scheduler::new(3).worker_count(), 3);
    /// ```
    pub fn worker_count(&self) -> usize {
        self.threads.len()
    }

    /// Returns what the workers have done so far. See [`WorkerStats`](crate::WorkerStats) for an
    /// example.
    pub fn stats(&self) -> SchedulerStats {
        self.pool.counters.read()
    }

    /// Runs `f` on one of the workers and waits for it. On a worker of this scheduler, calls `f`
    /// directly.
    ///
    /// Inside `f`, [`join`](crate::join), [`race`](crate::race) and the parallel loops use this
    /// scheduler. `f` runs even inside a scope or task that has been cancelled. A panic in `f`
    /// continues in the caller.
    ///
    /// ```
    /// use windlass_pool::Scheduler;
    ///
    /// let scheduler = Scheduler::new(1);
    /// let name = scheduler.run(|| std::thread::current().name().map(str::to_owned));
    /// assert_eq!(name.as_deref(), Some("windlass-0"));
    /// ```
    pub fn run<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        if worker::with(|worker| worker.is_some_and(|worker| worker.belongs_to(&self.pool))) {
            return f();
        }
        with_scope(self, |scope| scope.spawn_always(f).into_value())
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler").field("config", &self.pool.config).finish_non_exhaustive()
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        let (pool, threads) = (Arc::clone(&self.pool), std::mem::take(&mut self.threads));
        cancellation::cancel(pool.detached.node());
        if runs_inside(&pool) {
            // The calling thread cannot wait for itself.
            thread::spawn(move || finish(&pool, threads));
        } else {
            finish(&pool, threads);
        }
    }
}

/// Returns whether the calling thread is a worker of `pool`, or runs code for which a detached task
/// of `pool` waits: a task on another pool, or a cancel callback.
fn runs_inside(pool: &Pool) -> bool {
    worker::with(|worker| worker.is_some_and(|worker| worker.belongs_to(pool)))
        || node::current_is_within(pool.detached.node())
}

/// Waits for the detached tasks, then ends the threads and joins them.
fn finish(pool: &Pool, threads: Vec<JoinHandle<()>>) {
    if !pool.detached.end_body() {
        pool.wait(pool.detached.node());
    }
    pool.timer.close();
    pool.sleep.close();
    // The destructor of a thread-local may drop the scheduler, on the thread of a spare worker that
    // ends. A thread cannot join itself.
    let is_other = |thread: &JoinHandle<()>| thread.thread().id() != thread::current().id();
    for thread in threads.into_iter().chain(pool.take_spares()).filter(is_other) {
        // There is no error to handle: a worker that panics aborts the process.
        let _ = thread.join();
    }
}
