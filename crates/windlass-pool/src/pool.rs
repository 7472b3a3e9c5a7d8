//! What the workers of a pool share: the queues, the sleep protocol, the counters.
//!
//! A task goes to the deque of the worker that spawns it. Tasks that do not fit there, and tasks
//! from other threads, go to the injector. Knows nothing of lifetimes, for which the scope is
//! responsible.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError, Weak},
    thread::JoinHandle,
    time::Instant,
};

use crate::{
    asymmetric,
    config::SchedulerConfig,
    job::{QueuedTask, TaskHandle},
    node::{Disposition, Node, ScopeRoot},
    sleep::{Notified, Sleep},
    stats::{CountedEvent, PoolCounters},
    timer::Timer,
    trace::{TraceKind, Tracer},
    wait_table,
    worker::{self, TaskDeque, Worker},
};

mod queues;
mod races;

pub(crate) use queues::Queues;
use races::Races;
pub(crate) use races::{RECHECK_INTERVAL, any_running_anywhere};

/// The shared part of a pool.
pub(crate) struct Pool {
    pub(crate) config: SchedulerConfig,
    pub(crate) queues: Queues,
    pub(crate) sleep: Sleep,
    pub(crate) counters: PoolCounters,
    pub(crate) tracer: Tracer,
    /// The parent of the detached tasks.
    pub(crate) detached: ScopeRoot,
    pub(crate) timer: Timer,
    spares: Mutex<Vec<JoinHandle<()>>>,
    pub(crate) races: Races,
    this: Weak<Pool>,
}

impl Pool {
    /// Creates a pool without threads.
    pub(crate) fn new(config: SchedulerConfig, deques: &[TaskDeque], tracer: Tracer) -> Arc<Self> {
        asymmetric::prepare();
        Arc::new_cyclic(|this| Self {
            queues: Queues::new(&config, deques),
            sleep: Sleep::new(deques.len()),
            counters: PoolCounters::new(deques.len()),
            tracer,
            detached: ScopeRoot::detached(),
            timer: Timer::default(),
            spares: Mutex::new(Vec::new()),
            races: Races::new(),
            this: this.clone(),
            config,
        })
    }

    /// Accepts a new task: queues it, or discards it at once.
    #[inline]
    pub(crate) fn submit(&self, queued: QueuedTask, disposition: Disposition) {
        worker::with(|worker| match worker {
            Some(worker) if disposition == Disposition::Run && worker.belongs_to(self) => {
                worker.submit(queued);
            }
            _ => self.submit_elsewhere(worker, queued, disposition, Self::inject),
        });
    }

    /// Accepts a task that has to start even if all workers are busy.
    pub(crate) fn submit_urgent(&self, queued: QueuedTask, disposition: Disposition) {
        worker::with(|worker| {
            self.submit_elsewhere(worker, queued, disposition, Self::inject_urgent);
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

    /// Queues a task for all workers.
    pub(crate) fn inject(&self, queued: QueuedTask) {
        self.queues.push(queued);
        self.notify();
    }

    /// Queues a task that has to start even if all workers are busy.
    pub(crate) fn inject_urgent(&self, queued: QueuedTask) {
        self.queues.push_urgent(queued);
        self.notify_urgent();
    }

    fn discard(&self, worker: Option<&Worker>, queued: QueuedTask) {
        if let Some(claimed) = queued.claim() {
            let task = claimed.id();
            self.tracer.emit(|| worker?.index(), || TraceKind::Started(task));
            let ended = claimed.discard();
            let end = ended.end();
            self.count(worker, CountedEvent::Ended(end));
            self.tracer.emit(|| worker?.index(), || TraceKind::ended(task, end));
            drop(ended.close());
        }
    }

    fn count(&self, worker: Option<&Worker>, event: CountedEvent) {
        match worker {
            Some(worker) => worker.count(event),
            None => self.counters.count_other(event),
        }
    }

    /// Ensures that a worker finds the tasks that were queued before this call.
    #[inline]
    pub(crate) fn notify(&self) {
        if self.sleep.notify() == Notified::NeedsSpare
            && let Err(error) = self.start_spare()
        {
            self.sleep.leave_spare();
            panic!("cannot start a spare worker thread: {error}");
        }
    }

    /// Ensures that the urgent tasks that were queued before this call start.
    #[cold]
    pub(crate) fn notify_urgent(&self) {
        if self.sleep.notify_urgent() == Notified::NeedsSpare && self.start_spare().is_err() {
            // The system has no thread left: the task starts when a worker is free.
            self.sleep.leave_spare();
        }
    }

    /// Notifies if there is work. A worker calls this before it stops taking tasks from the queues.
    pub(crate) fn notify_if_work(&self) {
        if self.queues.has_urgent() {
            self.notify_urgent();
        } else if self.queues.has_work(None) {
            self.notify();
        }
    }

    /// Notifies if there is work, even if all workers are busy. A worker that waits while a race
    /// runs calls this now and then; see `pool/races.rs`.
    pub(crate) fn recheck(&self) {
        let awake = usize::try_from(self.sleep.awake()).expect("a count of threads");
        if !self.races.is_recheck_due(self.queues.worker_count(), awake) {
            return;
        }
        if !self.queues.is_stealing_enabled() {
            // A busy worker may hold the task on which the race depends.
            (0..self.queues.worker_count()).for_each(|index| self.queues.move_to_injector(index));
        }
        if self.queues.has_work(None) {
            self.notify_urgent();
        }
    }

    /// Waits for a node of this pool to complete. A worker of this pool helps meanwhile.
    pub(crate) fn wait(&self, awaited: &Node) {
        worker::with(|worker| match worker {
            Some(worker) if worker.belongs_to(self) => worker.wait(awaited),
            Some(worker) => drop(worker.block_on(self, awaited, None)),
            None => drop(wait_table::sleep_until_complete(awaited, None)),
        });
    }

    /// Waits for a task whose handle the caller has, for at most until `limit`. A worker of this
    /// pool runs the task itself if it has not started. Returns whether the task is complete.
    pub(crate) fn wait_for_task<T>(&self, task: &TaskHandle<T>, limit: Option<Instant>) -> bool {
        worker::with(|worker| match worker {
            Some(worker) if worker.belongs_to(self) => worker.wait_for_task(task, limit),
            Some(worker) => worker.block_on(self, task, limit),
            None => wait_table::sleep_until_complete(task, limit),
        })
    }

    /// Starts a spare worker, which ends when no task is left for it.
    #[cold]
    fn start_spare(&self) -> io::Result<()> {
        let pool = self.this.upgrade().expect("the caller keeps the pool alive");
        let thread = worker::start(pool, None)?;
        let mut spares = self.spares.lock().unwrap_or_else(PoisonError::into_inner);
        spares.retain(|earlier| !earlier.is_finished());
        spares.push(thread);
        Ok(())
    }

    /// Returns the threads of the spare workers that have not been joined.
    pub(crate) fn take_spares(&self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut *self.spares.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
