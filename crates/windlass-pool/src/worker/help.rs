//! What a worker does while the task it runs has to wait.
//!
//! It waits for a *awaited*: the task it awaits, or the end of a scope. In this order it
//!
//! 1. runs the awaited task itself, if nobody has begun it;
//! 2. runs tasks from its own queue, then from the shared one, then stolen ones, as long as they
//!    are below the awaited or below the task that waits, and at last right sides of other workers'
//!    joins, on the same condition;
//! 3. sleeps until the awaited is complete or there may be something to help with.
//!
//! The condition in the second step is what keeps waits from deadlocking. A task that runs on top
//! of a waiting one must end before that one can go on. If it waited, however indirectly, for the
//! task underneath it, neither could ever go on. But what is below the awaited or below the waiting
//! task has to end before the waiting task can end anyway; so if it waits for that task, the wait
//! is circular in the program itself. A task that is not eligible goes to the shared queue, and the
//! worker from then on only sleeps: it could otherwise carry the same tasks about for ever.
//!
//! What no waiting worker may run, a free one does. If there is none, because all of them wait_table, a
//! spare worker is started; see `sleep`. The same holds where a stack would grow too deep. Without
//! stealing nobody else can reach a worker's own queue, so before it sleeps it empties it into the
//! shared one.

use std::time::{Duration, Instant};

use crossbeam_deque::Steal;

use super::{Worker, pause, steal::claim_first};
use crate::{
    job::{ClaimedTask, QueuedTask, TaskHandle},
    node::{self, Node},
    parker::Parker,
    pool::Pool,
    sleep::SleepReason,
    sync::Arc,
    wait_table::{self, Registration, WakeTarget},
};

/// How many tasks may be stacked by awaits before a worker no longer runs anything on top.
const MAX_DEPTH: usize = 192;
/// How many may be stacked before it no longer goes looking outside its own queue.
const MAX_STEAL_DEPTH: usize = 96;

/// How often a worker that waits beside a race looks after the queues.
const RACE_RECHECK_INTERVAL: Duration = Duration::from_millis(1);

/// Whether a waiting worker may still look for something to help with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HelpFrom {
    /// It takes what is eligible from anywhere.
    Anywhere,
    /// Only from its own queue.
    OwnQueue,
    /// It only sleeps.
    Nowhere,
}

impl Worker {
    /// Waits until `awaited` is complete.
    pub(crate) fn wait(&self, awaited: &Node) {
        let mut help_from = self.help_from();
        while !awaited.is_complete() {
            if self.deferred.is_last_of(awaited) {
                self.deferred.flush();
            } else if let Some(claimed) = self.pop_below(awaited, help_from) {
                self.stop_search();
                self.execute(claimed);
            } else if self.deferred.flush() {
                continue;
            } else if let Some(claimed) = self.take_below(awaited, &mut help_from) {
                self.stop_search();
                self.execute(claimed);
            } else if self.spin_until(awaited, help_from) {
                continue;
            } else if let Some(claimed) = self.steal_fork_below(awaited, &mut help_from) {
                self.stop_search();
                self.execute(claimed);
            } else {
                self.sleep_until(awaited, help_from);
            }
        }
        self.stop_search();
        self.deferred.flush();
    }

    /// Waits until `task` is complete, or until `limit`; says whether it is complete.
    ///
    /// With a limit it helps with nothing but the task itself.
    pub(crate) fn wait_for_task<T>(&self, task: &TaskHandle<T>, limit: Option<Instant>) -> bool {
        if self.depth.get() < MAX_DEPTH
            && let Some(claimed) = task.claim()
        {
            self.execute(claimed);
        }
        if limit.is_some() {
            return self.block_on(task, limit);
        }
        self.wait(task);
        true
    }

    /// Sleeps until `awaited` is complete, or until `limit`, without helping.
    pub(crate) fn block_on(&self, awaited: &Node, limit: Option<Instant>) -> bool {
        self.deferred.flush();
        loop {
            if awaited.is_complete() {
                return true;
            }
            if limit.is_some_and(|limit| Instant::now() >= limit) {
                return false;
            }
            self.block(awaited, |parker| match limit {
                None => self.park_beside_races(parker),
                Some(limit) => drop(parker.park_until(limit)),
            });
        }
    }

    fn help_from(&self) -> HelpFrom {
        match self.depth.get() {
            depth if depth < MAX_STEAL_DEPTH => HelpFrom::Anywhere,
            depth if depth < MAX_DEPTH => HelpFrom::OwnQueue,
            _ => HelpFrom::Nowhere,
        }
    }

    /// A task from the own queue that may run on top of the waiting one.
    fn pop_below(&self, awaited: &Node, help_from: HelpFrom) -> Option<ClaimedTask> {
        if help_from == HelpFrom::Nowhere {
            return None;
        }
        let claimed = self.pop()?;
        if is_eligible(&claimed, awaited) {
            return Some(claimed);
        }
        self.push(claimed.unclaim());
        None
    }

    /// A task from elsewhere that may run on top of the waiting one.
    fn take_below(&self, awaited: &Node, help_from: &mut HelpFrom) -> Option<ClaimedTask> {
        if *help_from != HelpFrom::Anywhere {
            return None;
        }
        if let Some(urgent) = self.take_urgent() {
            return self.keep_if_eligible(urgent, awaited, help_from, Pool::inject_urgent);
        }
        let claimed = claim_first(|| self.pool.injector.steal()).or_else(|| self.steal_one())?;
        self.keep_if_eligible(claimed, awaited, help_from, Pool::inject)
    }

    /// The right side of a join of another worker that may run on top of the waiting task.
    fn steal_fork_below(&self, awaited: &Node, help_from: &mut HelpFrom) -> Option<ClaimedTask> {
        if *help_from != HelpFrom::Anywhere {
            return None;
        }
        let claimed = self.steal_fork()?;
        self.keep_if_eligible(claimed, awaited, help_from, Pool::inject)
    }

    /// Returns the task if it may run on top of the waiting one, else gives it back.
    fn keep_if_eligible(
        &self,
        claimed: ClaimedTask,
        awaited: &Node,
        help_from: &mut HelpFrom,
        give_back: fn(&Pool, QueuedTask),
    ) -> Option<ClaimedTask> {
        if is_eligible(&claimed, awaited) {
            return Some(claimed);
        }
        *help_from = HelpFrom::OwnQueue;
        self.stop_search();
        give_back(&self.pool, claimed.unclaim());
        None
    }

    /// Looks again and again for a while; false if there is nothing left but sleep.
    fn spin_until(&self, awaited: &Node, help_from: HelpFrom) -> bool {
        for round in 0..self.pool.config.spin_count {
            if awaited.is_complete() {
                return true;
            }
            if help_from == HelpFrom::Anywhere {
                self.start_search();
                if self.pool.has_queued(Some(self)) {
                    return true;
                }
            }
            pause(round);
        }
        false
    }

    /// A worker listens for work only if its own queue is empty: what is left there it may not run,
    /// so somebody else has to be called.
    fn sleep_until(&self, awaited: &Node, help_from: HelpFrom) {
        if help_from == HelpFrom::Anywhere && !self.has_queued_tasks() {
            self.start_search();
            self.listen(awaited);
        } else {
            self.stop_search();
            self.block(awaited, |parker| self.park_beside_races(parker));
        }
    }

    /// Sleeps until the awaited is complete or there is work somewhere.
    fn listen(&self, awaited: &Node) {
        if self.register(awaited) == Registration::AlreadyComplete {
            return;
        }
        let sleep = &self.pool.sleep;
        sleep.fall_asleep(&self.parker, SleepReason::Waiting);
        if !self.pool.has_work(Some(self)) {
            self.sleep_and_recheck();
        }
        sleep.wake_up(&self.parker);
        wait_table::deregister(awaited, &self.parker);
    }

    /// Sleeps until the awaited is complete; somebody else has to see to everything that is queued.
    fn block(&self, awaited: &Node, how: impl FnOnce(&Parker)) {
        if !self.pool.config.enable_stealing {
            self.move_queue_to_injector();
        }
        if self.register(awaited) == Registration::AlreadyComplete {
            return;
        }
        self.pool.sleep.block();
        self.pool.notify_if_work();
        self.park(how);
        self.pool.sleep.unblock();
        wait_table::deregister(awaited, &self.parker);
    }

    /// Parks. While a race runs, it looks every now and then whether nobody runs what is queued: see
    /// [`Pool::notify_urgent_if_work`].
    fn park_beside_races(&self, parker: &Parker) {
        while self.pool.has_races() {
            if parker.park_until(Instant::now() + RACE_RECHECK_INTERVAL) {
                return;
            }
            self.pool.notify_urgent_if_work();
        }
        parker.park();
    }

    fn register(&self, awaited: &Node) -> Registration {
        wait_table::register(awaited, WakeTarget::Thread(Arc::clone(&self.parker)))
    }

    /// Empties the own queue into the shared one, oldest first.
    fn move_queue_to_injector(&self) {
        let Some(local) = &self.local else { return };
        while let Steal::Success(queued) = self.pool.stealers[local.index].steal() {
            self.pool.injector.push(queued);
        }
    }
}

/// Whether a task has to end before the waiting one can.
#[inline]
fn is_eligible(claimed: &ClaimedTask, awaited: &Node) -> bool {
    claimed.is_in_scope_of(awaited)
        || node::with_current(|waiting| claimed.is_within([Some(awaited), waiting]))
}
