//! Where a worker that has nothing of its own looks for a task.
//!
//! First it takes tasks from queues: urgent ones, those of the shared queue, then those of other
//! workers. Only if that was in vain for a while, and it would have to sleep, it takes the right side
//! of a join from the stack of another worker. That interrupts all threads of the process for a
//! moment, and is seldom necessary: while it searches, other workers share at their next join.

use std::iter;

use crossbeam_deque::Steal;

use super::Worker;
use crate::{
    fork::TakenFork,
    job::{ClaimedTask, QueuedTask},
    stats::CountedEvent,
    trace::TraceKind,
};

/// Every so many tasks the shared queue comes first, so that it is never starved.
const INJECTOR_INTERVAL: u32 = 4;

impl Worker {
    /// Any task, from whichever queue.
    pub(super) fn find(&self) -> Option<ClaimedTask> {
        let tick = self.tick.get().wrapping_add(1);
        self.tick.set(tick);
        if let Some(claimed) = self.take_urgent() {
            return Some(claimed);
        }
        if tick.is_multiple_of(INJECTOR_INTERVAL)
            && let Some(claimed) = self.take_injected()
        {
            return Some(claimed);
        }
        self.pop().or_else(|| self.take_injected()).or_else(|| self.steal())
    }

    #[inline]
    pub(super) fn pop(&self) -> Option<ClaimedTask> {
        let local = self.local.as_ref()?;
        iter::from_fn(|| local.deque.pop()).find_map(QueuedTask::claim_own)
    }

    #[inline]
    pub(super) fn take_urgent(&self) -> Option<ClaimedTask> {
        let urgent = &self.pool.urgent;
        if urgent.is_empty() { None } else { claim_first(|| urgent.steal()) }
    }

    fn take_injected(&self) -> Option<ClaimedTask> {
        let injector = &self.pool.injector;
        match &self.local {
            Some(local) if self.pool.config.enable_stealing => {
                claim_first(|| injector.steal_batch_and_pop(&local.deque))
            }
            _ => claim_first(|| injector.steal()),
        }
    }

    fn steal(&self) -> Option<ClaimedTask> {
        self.victims().find_map(|victim| {
            let stealer = &self.pool.stealers[victim];
            let claimed = match &self.local {
                Some(local) => claim_first(|| stealer.steal_batch_and_pop(&local.deque)),
                None => claim_first(|| stealer.steal()),
            };
            claimed.inspect(|_| self.note_steal(victim))
        })
    }

    /// One task from the queue of another worker, and no more.
    pub(super) fn steal_one(&self) -> Option<ClaimedTask> {
        self.victims().find_map(|victim| {
            let claimed = claim_first(|| self.pool.stealers[victim].steal());
            claimed.inspect(|_| self.note_steal(victim))
        })
    }

    /// The outermost right side of a join that another worker is in the middle of.
    pub(super) fn steal_fork(&self) -> Option<ClaimedTask> {
        if !self.pool.config.enable_stealing {
            return None;
        }
        let first = self.tick.get() as usize;
        let (victim, side) =
            self.pool.fork_deques.find(&self.fork_deque, first, TakenFork::steal)?;
        let claimed = side.into_task();
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

    /// The other workers, beginning with a different one each time.
    fn victims(&self) -> impl Iterator<Item = usize> + use<> {
        let own = self.index();
        let count = if self.pool.config.enable_stealing { self.pool.stealers.len() } else { 0 };
        let first = self.tick.get() as usize;
        (0..count).map(move |step| (first + step) % count).filter(move |&other| Some(other) != own)
    }
}

/// The first task from `source` that no thread has claimed.
pub(super) fn claim_first(source: impl Fn() -> Steal<QueuedTask>) -> Option<ClaimedTask> {
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
