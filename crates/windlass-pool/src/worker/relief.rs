//! A relief worker: one that is started when there is work that no other worker can run.
//!
//! It is started when all workers wait, or for urgent work when all of them are busy. It runs what
//! is urgent, and other tasks as long as no more workers are awake than the pool has; then it ends.

use super::Worker;
use crate::job::Claimed;

impl Worker {
    /// Runs tasks until there are none, or until the relief worker is one too many. It no longer
    /// counts before it looks a last time.
    pub(super) fn relieve(&self) {
        while let Some(claimed) = self.next_for_relief() {
            self.stop_search();
            self.execute(claimed);
        }
        self.owed.pay();
        self.start_search();
        self.pool.forks.remove_relief(&self.forks);
        self.pool.sleep.leave();
        self.pool.look_after_queues();
    }

    fn next_for_relief(&self) -> Option<Claimed> {
        if self.pool.sleep.awake() > self.pool.stealers.len() as u64 {
            return self.take_urgent();
        }
        self.find().or_else(|| self.search_and_steal())
    }
}
