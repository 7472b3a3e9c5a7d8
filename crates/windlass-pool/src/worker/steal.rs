//! Where a worker whose own deque is empty searches for a task.
//!
//! First it takes tasks from queues: urgent tasks, those of the injector, then those of other
//! workers. If it has found none for a while and would have to sleep, it steals a fork of another
//! worker. That interrupts all threads of the process for a moment (`asymmetric.rs`). It is seldom
//! necessary, because other workers share a fork at their next join while a worker searches.

use std::iter;

use super::Worker;
use crate::{
    job::{ClaimedTask, QueuedTask},
    stats::CountedEvent,
    trace::TraceKind,
};

/// A worker prefers the injector to its own deque once in this many searches, so that the injector
/// is not starved.
const INJECTOR_INTERVAL: u32 = 4;

impl Worker {
    /// Takes a task from any queue.
    pub(super) fn find(&self) -> Option<ClaimedTask> {
        let tick = self.tick.get().wrapping_add(1);
        self.tick.set(tick);
        if let Some(claimed) = self.pool.queues.pop_urgent() {
            return Some(claimed);
        }
        if tick.is_multiple_of(INJECTOR_INTERVAL)
            && let Some(claimed) = self.take_injected()
        {
            return Some(claimed);
        }
        self.pop().or_else(|| self.take_injected()).or_else(|| self.steal())
    }

    /// Takes the newest task from the worker's own deque.
    #[inline]
    pub(super) fn pop(&self) -> Option<ClaimedTask> {
        let local = self.local.as_ref()?;
        iter::from_fn(|| local.deque.pop()).find_map(QueuedTask::claim_own)
    }

    fn take_injected(&self) -> Option<ClaimedTask> {
        match &self.local {
            Some(local) => self.pool.queues.pop_injected_batch(&local.deque),
            None => self.pool.queues.pop_injected(),
        }
    }

    /// Takes a task from another worker's deque, and moves some more to the worker's own.
    fn steal(&self) -> Option<ClaimedTask> {
        self.victims().find_map(|victim| {
            let claimed = match &self.local {
                Some(local) => self.pool.queues.steal_batch(victim, &local.deque),
                None => self.pool.queues.steal(victim),
            };
            claimed.inspect(|_| self.note_steal(victim))
        })
    }

    /// Takes one task from another worker's deque.
    pub(super) fn steal_one(&self) -> Option<ClaimedTask> {
        self.victims()
            .find_map(|victim| self.pool.queues.steal(victim).inspect(|_| self.note_steal(victim)))
    }

    /// Steals the outermost fork of another worker, and makes it a task.
    pub(super) fn steal_fork(&self) -> Option<ClaimedTask> {
        let (victim, fork) = self.pool.queues.steal_fork(self, self.tick.get() as usize)?;
        let claimed = fork.into_task();
        self.count(CountedEvent::Spawned);
        self.pool.tracer.emit(|| self.index(), || TraceKind::Spawned(claimed.id()));
        match victim {
            Some(victim) => self.note_steal(victim),
            None => self.count(CountedEvent::Steal),
        }
        Some(claimed)
    }

    fn note_steal(&self, from: usize) {
        self.count(CountedEvent::Steal);
        self.pool.tracer.emit(|| self.index(), || TraceKind::Stole { from });
    }

    /// Returns the indices of the other workers, beginning with a different one each time.
    fn victims(&self) -> impl Iterator<Item = usize> + use<> {
        let (own, queues) = (self.index(), &self.pool.queues);
        let count = if queues.is_stealing_enabled() { queues.worker_count() } else { 0 };
        let first = self.tick.get() as usize;
        (0..count).map(move |step| (first + step) % count).filter(move |&other| Some(other) != own)
    }
}
