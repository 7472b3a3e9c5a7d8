//! What the workers of a pool share: the queues, the sleep, the counters.
//!
//! A task goes to the deque of the worker that spawns it; what does not fit there, and what comes
//! from elsewhere, goes to the injector. Knows nothing of lifetimes; those are the scope's concern.

use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    thread::JoinHandle,
    time::Instant,
};

use crossbeam_deque::{Injector, Stealer};

use crate::{
    config::SchedulerConfig,
    job::{Held, Queued},
    node::{Fate, Node, Root},
    sleep::{Call, Sleep},
    stats::{Count, Ledger},
    timer::Timer,
    trace::{TraceKind, Tracer},
    wait,
    worker::{self, Deque, Worker},
};

/// The shared part of a pool.
pub(crate) struct Pool {
    pub(crate) config: SchedulerConfig,
    pub(crate) injector: Injector<Queued>,
    pub(crate) stealers: Box<[Stealer<Queued>]>,
    pub(crate) sleep: Sleep,
    pub(crate) ledger: Ledger,
    pub(crate) tracer: Tracer,
    /// Everything that was spawned on the pool itself rather than in a scope.
    pub(crate) detached: Root,
    pub(crate) timer: Timer,
    reliefs: Mutex<Vec<JoinHandle<()>>>,
    own: Weak<Pool>,
}

impl Pool {
    /// A pool without threads yet.
    pub(crate) fn new(config: SchedulerConfig, deques: &[Deque], tracer: Tracer) -> Arc<Self> {
        Arc::new_cyclic(|own| Self {
            injector: Injector::new(),
            stealers: deques.iter().map(Deque::stealer).collect(),
            sleep: Sleep::new(deques.len()),
            ledger: Ledger::new(deques.len()),
            tracer,
            detached: Root::detached(),
            timer: Timer::default(),
            reliefs: Mutex::new(Vec::new()),
            own: own.clone(),
            config,
        })
    }

    /// Takes in a new task: queues it, or discards it at once.
    #[inline]
    pub(crate) fn submit(&self, queued: Queued, fate: Fate) {
        worker::with(|worker| match worker {
            Some(worker) if fate == Fate::Run && worker.serves(self) => worker.submit(queued),
            _ => self.submit_elsewhere(worker, queued, fate),
        });
    }

    #[cold]
    fn submit_elsewhere(&self, worker: Option<&Worker>, queued: Queued, fate: Fate) {
        let worker = worker.filter(|worker| worker.serves(self));
        self.count(worker, Count::Spawned);
        self.tracer.emit(|| worker?.index(), || TraceKind::Spawned(queued.id()));
        match fate {
            Fate::Run => self.inject(queued),
            Fate::Discard => self.discard(worker, queued),
        }
    }

    /// Queues a task where everybody looks.
    pub(crate) fn inject(&self, queued: Queued) {
        self.injector.push(queued);
        self.notify();
    }

    fn discard(&self, worker: Option<&Worker>, queued: Queued) {
        if let Some(claimed) = queued.claim() {
            let finished = claimed.discard();
            self.count(worker, Count::Ended(finished.end()));
            drop(finished.close());
        }
    }

    fn count(&self, worker: Option<&Worker>, count: Count) {
        match worker {
            Some(worker) => worker.count(count),
            None => self.ledger.count_other(count),
        }
    }

    /// Sees to it that what was queued before will be found.
    #[inline]
    pub(crate) fn notify(&self) {
        if self.sleep.notify() == Call::Relief {
            self.start_relief();
        }
    }

    /// Whether there is anything to take from a queue other than that of worker `own`.
    pub(crate) fn has_work(&self, own: Option<usize>) -> bool {
        let stealers = || self.stealers.iter().enumerate();
        let stealable = || stealers().any(|(index, queue)| Some(index) != own && !queue.is_empty());
        !self.injector.is_empty() || self.config.enable_stealing && stealable()
    }

    /// Waits for a node of this pool to complete, in the way that suits the calling thread.
    pub(crate) fn wait(&self, goal: &Node) {
        worker::with(|worker| match worker {
            Some(worker) if worker.serves(self) => worker.wait(goal),
            Some(worker) => drop(worker.block_on(goal, None)),
            None => drop(wait::sleep_until_complete(goal, None)),
        });
    }

    /// As [`Pool::wait`], for a task whose handle the caller has; no longer than until `limit`.
    pub(crate) fn wait_for_task<T>(&self, task: &Held<T>, limit: Option<Instant>) -> bool {
        worker::with(|worker| match worker {
            Some(worker) if worker.serves(self) => worker.wait_for_task(task, limit),
            Some(worker) => worker.block_on(task, limit),
            None => wait::sleep_until_complete(task, limit),
        })
    }

    /// Starts a worker that runs what is queued and goes when nothing is left.
    #[cold]
    fn start_relief(&self) {
        let pool = self.own.upgrade().expect("whoever notifies a pool holds it");
        let thread = worker::start(pool, None);
        let mut reliefs = self.reliefs.lock().unwrap_or_else(PoisonError::into_inner);
        reliefs.retain(|earlier| !earlier.is_finished());
        reliefs.push(thread);
    }

    /// The relief workers that have been started and not been joined.
    pub(crate) fn take_reliefs(&self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut *self.reliefs.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
