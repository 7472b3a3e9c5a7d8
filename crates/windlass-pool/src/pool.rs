//! What the workers of a pool share: the queues, the sleep, the counters.
//!
//! A task goes to the deque of the worker that spawns it; what does not fit there, and what comes
//! from elsewhere, goes to the injector. Knows nothing of lifetimes; those are the scope's concern.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError, Weak},
    thread::JoinHandle,
    time::Instant,
};

use crossbeam_deque::{Injector, Stealer};

use crate::{
    asymmetric,
    config::SchedulerConfig,
    fork::ForkDeques,
    job::{QueuedTask, TaskHandle},
    node::{Disposition, Node, ScopeRoot},
    sleep::{Notified, Sleep},
    stats::{CountedEvent, PoolCounters},
    sync::{AtomicUsize, Relaxed},
    timer::Timer,
    trace::{TraceKind, Tracer},
    wait_table,
    worker::{self, TaskDeque, Worker},
};

/// The shared part of a pool.
pub(crate) struct Pool {
    pub(crate) config: SchedulerConfig,
    pub(crate) injector: Injector<QueuedTask>,
    /// Tasks that have to begin even if all workers are busy.
    pub(crate) urgent: Injector<QueuedTask>,
    pub(crate) stealers: Box<[Stealer<QueuedTask>]>,
    pub(crate) fork_deques: ForkDeques,
    pub(crate) sleep: Sleep,
    pub(crate) counters: PoolCounters,
    pub(crate) tracer: Tracer,
    /// Everything that was spawned on the pool itself rather than in a scope.
    pub(crate) detached: ScopeRoot,
    pub(crate) timer: Timer,
    spares: Mutex<Vec<JoinHandle<()>>>,
    /// How many races run.
    races: AtomicUsize,
    this: Weak<Pool>,
}

impl Pool {
    /// A pool without threads yet.
    pub(crate) fn new(config: SchedulerConfig, deques: &[TaskDeque], tracer: Tracer) -> Arc<Self> {
        asymmetric::prepare();
        Arc::new_cyclic(|this| Self {
            injector: Injector::new(),
            urgent: Injector::new(),
            fork_deques: ForkDeques::new(deques.len()),
            stealers: deques.iter().map(TaskDeque::stealer).collect(),
            sleep: Sleep::new(deques.len()),
            counters: PoolCounters::new(deques.len()),
            tracer,
            detached: ScopeRoot::detached(),
            timer: Timer::default(),
            spares: Mutex::new(Vec::new()),
            races: AtomicUsize::new(0),
            this: this.clone(),
            config,
        })
    }

    /// Takes in a new task: queues it, or discards it at once.
    #[inline]
    pub(crate) fn submit(&self, queued: QueuedTask, disposition: Disposition) {
        worker::with(|worker| match worker {
            Some(worker) if disposition == Disposition::Run && worker.belongs_to(self) => {
                worker.submit(queued)
            }
            _ => self.submit_elsewhere(worker, queued, disposition, Self::inject),
        });
    }

    /// As [`Pool::submit`], for a task that has to begin even if all workers are busy.
    pub(crate) fn submit_urgent(&self, queued: QueuedTask, disposition: Disposition) {
        worker::with(|worker| {
            self.submit_elsewhere(worker, queued, disposition, Self::inject_urgent)
        });
    }

    #[cold]
    fn submit_elsewhere(
        &self,
        worker: Option<&Worker>,
        queued: QueuedTask,
        disposition: Disposition,
        inject: fn(&Self, QueuedTask),
    ) {
        let worker = worker.filter(|worker| worker.belongs_to(self));
        self.count(worker, CountedEvent::Spawned);
        self.tracer.emit(|| worker?.index(), || TraceKind::Spawned(queued.id()));
        match disposition {
            Disposition::Run => inject(self, queued),
            Disposition::Discard => self.discard(worker, queued),
        }
    }

    /// Queues a task where everybody looks.
    pub(crate) fn inject(&self, queued: QueuedTask) {
        self.injector.push(queued);
        self.notify();
    }

    /// Queues a task that has to begin even if all workers are busy.
    pub(crate) fn inject_urgent(&self, queued: QueuedTask) {
        self.urgent.push(queued);
        self.notify_urgent();
    }

    fn discard(&self, worker: Option<&Worker>, queued: QueuedTask) {
        if let Some(claimed) = queued.claim() {
            let finished = claimed.discard();
            self.count(worker, CountedEvent::Ended(finished.end()));
            drop(finished.close());
        }
    }

    fn count(&self, worker: Option<&Worker>, count: CountedEvent) {
        match worker {
            Some(worker) => worker.count(count),
            None => self.counters.count_other(count),
        }
    }

    /// Sees to it that what was queued before will be found.
    #[inline]
    pub(crate) fn notify(&self) {
        if self.sleep.notify() == Notified::NeedsSpare {
            self.start_spare().expect("the system has room for one more thread");
        }
    }

    /// Sees to it that urgent tasks that were queued before will begin.
    #[cold]
    pub(crate) fn notify_urgent(&self) {
        if self.sleep.notify_urgent() == Notified::NeedsSpare && self.start_spare().is_err() {
            // No room for one more thread: the task begins when a worker is free.
            self.sleep.leave_spare();
        }
    }

    /// What a worker does that leaves the queues to others.
    pub(crate) fn notify_if_work(&self) {
        if !self.urgent.is_empty() {
            self.notify_urgent();
        } else if self.has_work(None) {
            self.notify();
        }
    }

    /// Counts one race until what it returns is dropped.
    pub(crate) fn count_race(&self) -> impl Drop + '_ {
        struct Race<'a>(&'a AtomicUsize);
        impl Drop for Race<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Relaxed);
            }
        }
        self.races.fetch_add(1, Relaxed);
        Race(&self.races)
    }

    /// Whether a race runs. Exact for what runs inside a race.
    pub(crate) fn has_races(&self) -> bool {
        // Relaxed: what runs inside a race was queued after the race was counted.
        self.races.load(Relaxed) > 0
    }

    /// What a worker does now and then that waits beside a race. The side of a race that loses may keep
    /// its worker busy until the other side ends, and that one may wait for what is queued; so a busy
    /// worker is no reason to leave the queues alone.
    pub(crate) fn notify_urgent_if_work(&self) {
        if self.has_work(None) {
            self.notify_urgent();
        }
    }

    /// Whether there is anything to take from a worker other than `own`, or from a shared queue.
    pub(crate) fn has_work(&self, own: Option<&Worker>) -> bool {
        let has_forks = || self.fork_deques.have_some(own.map(Worker::fork_deque));
        self.has_queued(own) || self.config.enable_stealing && has_forks()
    }

    /// As [`Pool::has_work`], without the right sides of joins.
    pub(crate) fn has_queued(&self, own: Option<&Worker>) -> bool {
        let own = own.and_then(Worker::index);
        let stealers = || self.stealers.iter().enumerate();
        let stealable = || stealers().any(|(index, queue)| Some(index) != own && !queue.is_empty());
        !self.injector.is_empty()
            || !self.urgent.is_empty()
            || self.config.enable_stealing && stealable()
    }

    /// Waits for a node of this pool to complete, in the way that suits the calling thread.
    pub(crate) fn wait(&self, awaited: &Node) {
        worker::with(|worker| match worker {
            Some(worker) if worker.belongs_to(self) => worker.wait(awaited),
            Some(worker) => drop(worker.block_on(awaited, None)),
            None => drop(wait_table::sleep_until_complete(awaited, None)),
        });
    }

    /// As [`Pool::wait`], for a task whose handle the caller has; no longer than until `limit`.
    pub(crate) fn wait_for_task<T>(&self, task: &TaskHandle<T>, limit: Option<Instant>) -> bool {
        worker::with(|worker| match worker {
            Some(worker) if worker.belongs_to(self) => worker.wait_for_task(task, limit),
            Some(worker) => worker.block_on(task, limit),
            None => wait_table::sleep_until_complete(task, limit),
        })
    }

    /// Starts a worker that runs what is queued and goes when nothing is left.
    #[cold]
    fn start_spare(&self) -> io::Result<()> {
        let pool = self.this.upgrade().expect("whoever notifies a pool holds it");
        let thread = worker::start(pool, None)?;
        let mut spares = self.spares.lock().unwrap_or_else(PoisonError::into_inner);
        spares.retain(|earlier| !earlier.is_finished());
        spares.push(thread);
        Ok(())
    }

    /// The spare workers that have been started and not been joined.
    pub(crate) fn take_spares(&self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut *self.spares.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
