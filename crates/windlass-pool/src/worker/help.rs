//! What a worker does while its task waits.
//!
//! The worker waits for the *awaited* node: a task, or the root of a scope. In this order it
//!
//! 1. runs the awaited task itself, if no other thread has started it;
//! 2. runs *eligible* tasks from its own deque, from the injector, from other workers' deques, and
//!    finally eligible forks of other workers;
//! 3. sleeps until the awaited node is complete or there may be an eligible task.
//!
//! A task is eligible if it is a descendant of the awaited node or of the waiting task. This keeps
//! waits from deadlocking. A task that runs on top of a waiting task must end before the waiting task
//! can continue. If it waited for that task, however indirectly, neither could ever continue. But an
//! eligible task has to end before the waiting task can end in any case; so if it waits for the
//! waiting task, the program itself has a circular wait. A task that is not eligible goes to the
//! injector, and the worker takes no more tasks from outside its own deque: otherwise it could move
//! the same tasks around for ever.
//!
//! A free worker runs the tasks that no waiting worker may run. If all workers wait, the pool starts
//! a spare worker; see `sleep`. The same holds where a stack would grow too deep. Without stealing,
//! no other worker can reach a worker's deque, so the worker moves its tasks to the injector before
//! it sleeps.

use std::time::Instant;

use super::{Worker, pause};
use crate::{
    job::{ClaimedTask, QueuedTask, TaskHandle},
    node::{self, Node},
    parker::Parker,
    pool::{self, Pool, RECHECK_INTERVAL},
    sleep::SleepReason,
    sync::Arc,
    wait_table::{self, Registration, WakeTarget},
};

/// With this many tasks on its stack, a waiting worker runs nothing on top of them.
const MAX_DEPTH: usize = 192;
/// With this many tasks on its stack, a waiting worker runs only tasks from its own deque.
const MAX_STEAL_DEPTH: usize = 96;

/// Where a waiting worker may take eligible tasks from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HelpFrom {
    /// From any queue.
    Anywhere,
    /// From its own deque only.
    OwnQueue,
    /// From nowhere: it only sleeps.
    Nowhere,
}

impl Worker {
    /// Waits until `awaited` is complete, and helps meanwhile.
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

    /// Waits until `task` is complete, or until `limit`. Returns whether it is complete.
    ///
    /// With a limit, the worker helps only with the task itself.
    pub(crate) fn wait_for_task<T>(&self, task: &TaskHandle<T>, limit: Option<Instant>) -> bool {
        let claimed = if self.depth.get() < MAX_DEPTH { task.claim() } else { None };
        let has_run = claimed.map(|claimed| self.execute(claimed)).is_some();
        if limit.is_none() {
            self.wait(task);
            return true;
        }
        if has_run && has_passed(limit) {
            self.deferred.flush();
            return task.is_complete();
        }
        self.block_on(&self.pool, task, limit)
    }

    /// Sleeps until `awaited`, a node of `pool`, is complete, or until `limit`, without helping.
    /// Returns whether it is complete.
    ///
    /// Even if the limit has passed, the worker counts as blocked once, so that other workers take what
    /// is queued. Otherwise a task that polls could keep what it polls for from running.
    pub(crate) fn block_on(&self, pool: &Pool, awaited: &Node, limit: Option<Instant>) -> bool {
        self.deferred.flush();
        while !awaited.is_complete() {
            self.block(awaited, |parker| self.park_and_recheck(parker, pool, limit));
            if has_passed(limit) {
                return awaited.is_complete();
            }
        }
        true
    }

    fn help_from(&self) -> HelpFrom {
        match self.depth.get() {
            depth if depth < MAX_STEAL_DEPTH => HelpFrom::Anywhere,
            depth if depth < MAX_DEPTH => HelpFrom::OwnQueue,
            _ => HelpFrom::Nowhere,
        }
    }

    /// Takes an eligible task from the worker's own deque.
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

    /// Takes an eligible task from another queue.
    fn take_below(&self, awaited: &Node, help_from: &mut HelpFrom) -> Option<ClaimedTask> {
        if *help_from != HelpFrom::Anywhere {
            return None;
        }
        if let Some(urgent) = self.pool.queues.pop_urgent() {
            return self.keep_if_eligible(urgent, awaited, help_from, Pool::inject_urgent);
        }
        let claimed = self.pool.queues.pop_injected().or_else(|| self.steal_one())?;
        self.keep_if_eligible(claimed, awaited, help_from, Pool::inject)
    }

    /// Steals an eligible fork.
    fn steal_fork_below(&self, awaited: &Node, help_from: &mut HelpFrom) -> Option<ClaimedTask> {
        if *help_from != HelpFrom::Anywhere {
            return None;
        }
        let claimed = self.steal_fork()?;
        self.keep_if_eligible(claimed, awaited, help_from, Pool::inject)
    }

    /// Returns the task if it is eligible. Otherwise queues it again.
    fn keep_if_eligible(
        &self,
        claimed: ClaimedTask,
        awaited: &Node,
        help_from: &mut HelpFrom,
        requeue: fn(&Pool, QueuedTask),
    ) -> Option<ClaimedTask> {
        if is_eligible(&claimed, awaited) {
            return Some(claimed);
        }
        *help_from = HelpFrom::OwnQueue;
        self.stop_search();
        requeue(&self.pool, claimed.unclaim());
        None
    }

    /// Spins until `awaited` is complete or a task is queued. Returns false if the spin count is
    /// reached first.
    fn spin_until(&self, awaited: &Node, help_from: HelpFrom) -> bool {
        for round in 0..self.pool.config.spin_count {
            if awaited.is_complete() {
                return true;
            }
            if help_from == HelpFrom::Anywhere {
                self.start_search();
                if self.pool.queues.has_tasks(Some(self)) {
                    return true;
                }
            }
            pause(round);
        }
        false
    }

    /// Sleeps, and can be woken for work if that is enough to find all work.
    fn sleep_until(&self, awaited: &Node, help_from: HelpFrom) {
        if help_from == HelpFrom::Anywhere && !self.has_hidden_work() {
            self.start_search();
            self.sleep_wakeable(awaited);
        } else {
            self.stop_search();
            self.block(awaited, |parker| self.park_and_recheck(parker, &self.pool, None));
        }
    }

    /// Returns whether there may be work for which this worker would not be woken. It may not run
    /// what is left in its own deque, so another worker has to be notified. And without stealing, a
    /// worker that runs the loser of a race may hold a task that only a recheck finds.
    fn has_hidden_work(&self) -> bool {
        let is_reachable = self.pool.queues.is_stealing_enabled();
        self.has_queued_tasks() || !is_reachable && self.pool.races.any_running()
    }

    /// Sleeps until `awaited` is complete or there is work.
    fn sleep_wakeable(&self, awaited: &Node) {
        if self.register(awaited) == Registration::AlreadyComplete {
            return;
        }
        let sleep = &self.pool.sleep;
        sleep.fall_asleep(&self.parker, SleepReason::Waiting);
        if !self.pool.queues.has_work(Some(self)) {
            self.sleep_and_recheck();
        }
        sleep.wake_up(&self.parker);
        wait_table::deregister(awaited, &self.parker);
    }

    /// Sleeps until `awaited` is complete. Other workers have to run everything that is queued.
    fn block(&self, awaited: &Node, how: impl FnOnce(&Parker)) {
        if !self.pool.queues.is_stealing_enabled()
            && let Some(index) = self.index()
        {
            self.pool.queues.move_to_injector(index);
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

    /// Parks, at most until `limit`. While a race runs, rechecks the worker's pool and `awaited_in`,
    /// the pool of the awaited node: now and then, and when the limit is reached, because the caller
    /// may wait again and again with a short limit.
    fn park_and_recheck(&self, parker: &Parker, awaited_in: &Pool, limit: Option<Instant>) {
        let other = Some(awaited_in).filter(|pool| !self.belongs_to(pool));
        while self.pool.races.any_running() || other.is_some() && pool::any_running_anywhere() {
            let recheck = Instant::now() + RECHECK_INTERVAL;
            let next = limit.map_or(recheck, |limit| limit.min(recheck));
            if parker.park_until(Some(next)) {
                return;
            }
            self.pool.recheck();
            other.into_iter().for_each(Pool::recheck);
            if limit == Some(next) {
                return;
            }
        }
        parker.park_until(limit);
    }

    fn register(&self, awaited: &Node) -> Registration {
        wait_table::register(awaited, WakeTarget::Thread(Arc::clone(&self.parker)))
    }
}

fn has_passed(limit: Option<Instant>) -> bool {
    limit.is_some_and(|limit| Instant::now() >= limit)
}

/// Returns whether the task has to end before the waiting task can.
#[inline]
fn is_eligible(claimed: &ClaimedTask, awaited: &Node) -> bool {
    claimed.is_in_scope_of(awaited)
        || node::with_current(|waiting| claimed.is_within([Some(awaited), waiting]))
}
