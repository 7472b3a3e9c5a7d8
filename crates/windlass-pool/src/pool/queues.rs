//! The queues from which several threads take tasks.
//!
//! A pool has an injector, an injector for urgent tasks, and one stealer and one fork deque per
//! worker. Tasks that another thread has claimed meanwhile are skipped. Knows nothing of sleeping
//! workers: a thread that adds a task has to notify the pool.

use crossbeam_deque::{Injector, Steal, Stealer};

use crate::{
    config::SchedulerConfig,
    fork::{ForkDeques, TakenFork},
    job::{ClaimedTask, QueuedTask},
    worker::{TaskDeque, Worker},
};

/// Whether workers take tasks from each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stealing {
    Enabled,
    Disabled,
}

/// The queues of a pool.
pub(crate) struct Queues {
    injector: Injector<QueuedTask>,
    /// Tasks that have to start even if all workers are busy.
    urgent: Injector<QueuedTask>,
    stealers: Box<[Stealer<QueuedTask>]>,
    fork_deques: ForkDeques,
    stealing: Stealing,
}

impl Queues {
    pub(super) fn new(config: &SchedulerConfig, deques: &[TaskDeque]) -> Self {
        Self {
            injector: Injector::new(),
            urgent: Injector::new(),
            stealers: deques.iter().map(TaskDeque::stealer).collect(),
            fork_deques: ForkDeques::new(deques.len()),
            stealing: if config.enable_stealing { Stealing::Enabled } else { Stealing::Disabled },
        }
    }

    pub(crate) fn worker_count(&self) -> usize {
        self.stealers.len()
    }

    pub(crate) fn fork_deques(&self) -> &ForkDeques {
        &self.fork_deques
    }

    #[inline]
    pub(crate) fn is_stealing_enabled(&self) -> bool {
        self.stealing == Stealing::Enabled
    }

    pub(super) fn push(&self, task: QueuedTask) {
        self.injector.push(task);
    }

    pub(super) fn push_urgent(&self, task: QueuedTask) {
        self.urgent.push(task);
    }

    pub(crate) fn has_urgent(&self) -> bool {
        !self.urgent.is_empty()
    }

    /// Returns whether there is a task or a fork that `own` could take, if it is given, or that some
    /// worker could take.
    pub(crate) fn has_work(&self, own: Option<&Worker>) -> bool {
        let has_forks = || self.fork_deques.have_some(own.map(Worker::fork_deque));
        self.has_tasks(own) || self.is_stealing_enabled() && has_forks()
    }

    /// Returns whether there is a task that `own` could take from the injectors or from another
    /// worker.
    pub(crate) fn has_tasks(&self, own: Option<&Worker>) -> bool {
        let own = own.and_then(Worker::index);
        let stealers = || self.stealers.iter().enumerate();
        let stealable = || stealers().any(|(index, queue)| Some(index) != own && !queue.is_empty());
        !self.injector.is_empty()
            || !self.urgent.is_empty()
            || self.is_stealing_enabled() && stealable()
    }

    #[inline]
    pub(crate) fn pop_urgent(&self) -> Option<ClaimedTask> {
        if self.urgent.is_empty() { None } else { claim_first(|| self.urgent.steal()) }
    }

    /// Takes a task from the injector.
    pub(crate) fn pop_injected(&self) -> Option<ClaimedTask> {
        claim_first(|| self.injector.steal())
    }

    /// Takes a task from the injector, and moves some more to `deque` if others can steal them there.
    pub(crate) fn pop_injected_batch(&self, deque: &TaskDeque) -> Option<ClaimedTask> {
        match self.stealing {
            Stealing::Enabled => claim_first(|| self.injector.steal_batch_and_pop(deque)),
            Stealing::Disabled => self.pop_injected(),
        }
    }

    /// Takes a task from the deque of worker `victim`.
    pub(crate) fn steal(&self, victim: usize) -> Option<ClaimedTask> {
        claim_first(|| self.stealers[victim].steal())
    }

    /// Takes a task from the deque of worker `victim`, and moves some more to `deque`.
    pub(crate) fn steal_batch(&self, victim: usize, deque: &TaskDeque) -> Option<ClaimedTask> {
        claim_first(|| self.stealers[victim].steal_batch_and_pop(deque))
    }

    /// Takes the outermost fork of a worker other than `thief`, beginning with worker `first`.
    /// Returns it with the index of its worker, which a spare worker does not have.
    pub(crate) fn steal_fork(
        &self,
        thief: &Worker,
        first: usize,
    ) -> Option<(Option<usize>, TakenFork)> {
        match self.stealing {
            Stealing::Enabled => self.fork_deques.find(thief.fork_deque(), first, TakenFork::steal),
            Stealing::Disabled => None,
        }
    }

    /// Moves the tasks in the deque of worker `index` to the injector, oldest first.
    pub(crate) fn move_to_injector(&self, index: usize) {
        loop {
            match self.stealers[index].steal() {
                Steal::Success(queued) => self.injector.push(queued),
                Steal::Retry => continue,
                Steal::Empty => return,
            }
        }
    }
}

/// Returns the first task from `source` that no other thread has claimed.
fn claim_first(source: impl Fn() -> Steal<QueuedTask>) -> Option<ClaimedTask> {
    loop {
        match source() {
            Steal::Success(queued) => match queued.claim() {
                Some(claimed) => return Some(claimed),
                None => continue,
            },
            Steal::Empty => return None,
            Steal::Retry => continue,
        }
    }
}
