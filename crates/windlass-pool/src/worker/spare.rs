//! Spare workers, which the pool starts for work that no other worker can run.
//!
//! A spare worker starts when all workers wait; when all of them are busy and an urgent task is
//! queued; or when a worker that waits while a race runs finds that no worker empties the queues. It
//! runs one task, then urgent tasks, and other tasks while no more workers are awake than the pool
//! has. Then it ends.

use super::Worker;
use crate::job::ClaimedTask;

impl Worker {
    /// Runs tasks until there are none, or until this spare worker is not needed any more.
    ///
    /// It checks the queues a last time after it has stopped counting as awake.
    pub(super) fn run_spare(&self) {
        // The task for which it was started may be in any queue.
        let mut next = self.find().or_else(|| self.search_and_steal());
        while let Some(claimed) = next {
            self.stop_search();
            self.execute(claimed);
            next = self.next_for_spare();
        }
        self.deferred.flush();
        self.start_search();
        self.pool.queues.fork_deques().remove_spare(&self.fork_deque);
        self.pool.sleep.leave_spare();
        self.pool.notify_if_work();
    }

    fn next_for_spare(&self) -> Option<ClaimedTask> {
        if self.pool.sleep.awake() > self.pool.queues.worker_count() as u64 {
            return self.pool.queues.pop_urgent();
        }
        self.find().or_else(|| self.search_and_steal())
    }
}
