//! A spare worker: one that is started when there is work that no other worker can run.
//!
//! It is started when all workers wait_table, or when all of them are busy and there is urgent work, or a worker
//! that waits beside a race finds that nobody runs what is queued. It runs one task, then what is urgent,
//! and other tasks as long as no more workers are awake than the pool has; then it ends.

use super::Worker;
use crate::job::ClaimedTask;

impl Worker {
    /// Runs tasks until there are none, or until the spare worker is one too many. It no longer
    /// counts before it looks a last time.
    pub(super) fn run_spare(&self) {
        // What it was started for may be any task.
        let mut next = self.find().or_else(|| self.search_and_steal());
        while let Some(claimed) = next {
            self.stop_search();
            self.execute(claimed);
            next = self.next_for_spare();
        }
        self.deferred.flush();
        self.start_search();
        self.pool.fork_deques.remove_spare(&self.fork_deque);
        self.pool.sleep.leave_spare();
        self.pool.notify_if_work();
    }

    fn next_for_spare(&self) -> Option<ClaimedTask> {
        if self.pool.sleep.awake() > self.pool.stealers.len() as u64 {
            return self.take_urgent();
        }
        self.find().or_else(|| self.search_and_steal())
    }
}
