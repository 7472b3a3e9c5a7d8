//! What a worker does while the task it runs has to wait.
//!
//! It waits for a *goal*: the task it awaits, or the end of a scope. In this order it
//!
//! 1. runs the awaited task itself, if nobody has begun it;
//! 2. runs tasks from its own queue, then from the shared one, then stolen ones, as long as they
//!    are below the goal or below the task that waits, and at last right sides of other workers'
//!    joins, on the same condition;
//! 3. sleeps until the goal is complete or there may be something to help with.
//!
//! The condition in the second step is what keeps waits from deadlocking. A task that runs on top
//! of a waiting one must end before that one can go on. If it waited, however indirectly, for the
//! task underneath it, neither could ever go on. But what is below the goal or below the waiting
//! task has to end before the waiting task can end anyway; so if it waits for that task, the wait
//! is circular in the program itself. A task that is not eligible goes to the shared queue, and the
//! worker from then on only sleeps: it could otherwise carry the same tasks about for ever.
//!
//! What no waiting worker may run, a free one does. If there is none, because all of them wait_table, a
//! relief worker is started; see `sleep`. The same holds where a stack would grow too deep. Without
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
    sleep::Rest,
    sync::Arc,
    wait_table::{self, Registration, WakeTarget},
};

/// How many tasks may be stacked by awaits before a worker no longer runs anything on top.
const MAX_DEPTH: usize = 192;
/// How many may be stacked before it no longer goes looking outside its own queue.
const MAX_STEAL_DEPTH: usize = 96;

/// How often a worker that waits beside a race looks after the queues.
const RACE_LOOK: Duration = Duration::from_millis(1);

/// Whether a waiting worker may still look for something to help with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Helpfulness {
    /// It takes what is eligible from anywhere.
    Anywhere,
    /// Only from its own queue.
    OwnQueue,
    /// It only sleeps.
    None,
}

impl Worker {
    /// Waits until `goal` is complete.
    pub(crate) fn wait(&self, goal: &Node) {
        let mut helpfulness = self.helpfulness();
        while !goal.is_complete() {
            if self.deferred.is_last_of(goal) {
                self.deferred.flush();
            } else if let Some(claimed) = self.pop_below(goal, helpfulness) {
                self.stop_search();
                self.execute(claimed);
            } else if self.deferred.flush() {
                continue;
            } else if let Some(claimed) = self.take_below(goal, &mut helpfulness) {
                self.stop_search();
                self.execute(claimed);
            } else if self.spin_until(goal, helpfulness) {
                continue;
            } else if let Some(claimed) = self.steal_fork_below(goal, &mut helpfulness) {
                self.stop_search();
                self.execute(claimed);
            } else {
                self.sleep_until(goal, helpfulness);
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

    /// Sleeps until `goal` is complete, or until `limit`, without helping.
    pub(crate) fn block_on(&self, goal: &Node, limit: Option<Instant>) -> bool {
        self.deferred.flush();
        loop {
            if goal.is_complete() {
                return true;
            }
            if limit.is_some_and(|limit| Instant::now() >= limit) {
                return false;
            }
            self.block(goal, |parker| match limit {
                None => self.park_beside_races(parker),
                Some(limit) => drop(parker.park_until(limit)),
            });
        }
    }

    fn helpfulness(&self) -> Helpfulness {
        match self.depth.get() {
            depth if depth < MAX_STEAL_DEPTH => Helpfulness::Anywhere,
            depth if depth < MAX_DEPTH => Helpfulness::OwnQueue,
            _ => Helpfulness::None,
        }
    }

    /// A task from the own queue that may run on top of the waiting one.
    fn pop_below(&self, goal: &Node, helpfulness: Helpfulness) -> Option<ClaimedTask> {
        if helpfulness == Helpfulness::None {
            return None;
        }
        let claimed = self.pop()?;
        if is_eligible(&claimed, goal) {
            return Some(claimed);
        }
        self.push(claimed.unclaim());
        None
    }

    /// A task from elsewhere that may run on top of the waiting one.
    fn take_below(&self, goal: &Node, helpfulness: &mut Helpfulness) -> Option<ClaimedTask> {
        if *helpfulness != Helpfulness::Anywhere {
            return None;
        }
        if let Some(urgent) = self.take_urgent() {
            return self.keep_if_eligible(urgent, goal, helpfulness, Pool::inject_urgent);
        }
        let claimed = claim_first(|| self.pool.injector.steal()).or_else(|| self.steal_one())?;
        self.keep_if_eligible(claimed, goal, helpfulness, Pool::inject)
    }

    /// The right side of a join of another worker that may run on top of the waiting task.
    fn steal_fork_below(&self, goal: &Node, helpfulness: &mut Helpfulness) -> Option<ClaimedTask> {
        if *helpfulness != Helpfulness::Anywhere {
            return None;
        }
        let claimed = self.steal_fork()?;
        self.keep_if_eligible(claimed, goal, helpfulness, Pool::inject)
    }

    /// Returns the task if it may run on top of the waiting one, else gives it back.
    fn keep_if_eligible(
        &self,
        claimed: ClaimedTask,
        goal: &Node,
        helpfulness: &mut Helpfulness,
        give_back: fn(&Pool, QueuedTask),
    ) -> Option<ClaimedTask> {
        if is_eligible(&claimed, goal) {
            return Some(claimed);
        }
        *helpfulness = Helpfulness::OwnQueue;
        self.stop_search();
        give_back(&self.pool, claimed.unclaim());
        None
    }

    /// Looks again and again for a while; false if there is nothing left but sleep.
    fn spin_until(&self, goal: &Node, helpfulness: Helpfulness) -> bool {
        for round in 0..self.pool.config.spin_count {
            if goal.is_complete() {
                return true;
            }
            if helpfulness == Helpfulness::Anywhere {
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
    fn sleep_until(&self, goal: &Node, helpfulness: Helpfulness) {
        if helpfulness == Helpfulness::Anywhere && !self.has_queue() {
            self.start_search();
            self.listen(goal);
        } else {
            self.stop_search();
            self.block(goal, |parker| self.park_beside_races(parker));
        }
    }

    /// Sleeps until the goal is complete or there is work somewhere.
    fn listen(&self, goal: &Node) {
        if self.register(goal) == Registration::AlreadyComplete {
            return;
        }
        let sleep = &self.pool.sleep;
        sleep.doze(&self.parker, Rest::Waiting);
        if !self.pool.has_work(Some(self)) {
            self.sleep_and_look();
        }
        sleep.rise(&self.parker);
        wait_table::deregister(goal, &self.parker);
    }

    /// Sleeps until the goal is complete; somebody else has to see to everything that is queued.
    fn block(&self, goal: &Node, how: impl FnOnce(&Parker)) {
        if !self.pool.config.enable_stealing {
            self.give_away_queue();
        }
        if self.register(goal) == Registration::AlreadyComplete {
            return;
        }
        self.pool.sleep.block();
        self.pool.look_after_queues();
        self.park(how);
        self.pool.sleep.unblock();
        wait_table::deregister(goal, &self.parker);
    }

    /// Parks. While a race runs, it looks every now and then whether nobody runs what is queued: see
    /// [`Pool::look_after_queues_beside_races`].
    fn park_beside_races(&self, parker: &Parker) {
        while self.pool.has_races() {
            if parker.park_until(Instant::now() + RACE_LOOK) {
                return;
            }
            self.pool.look_after_queues_beside_races();
        }
        parker.park();
    }

    fn register(&self, goal: &Node) -> Registration {
        wait_table::register(goal, WakeTarget::Thread(Arc::clone(&self.parker)))
    }

    /// Empties the own queue into the shared one, oldest first.
    fn give_away_queue(&self) {
        let Some(place) = &self.place else { return };
        while let Steal::Success(queued) = self.pool.stealers[place.index].steal() {
            self.pool.injector.push(queued);
        }
    }
}

/// Whether a task has to end before the waiting one can.
#[inline]
fn is_eligible(claimed: &ClaimedTask, goal: &Node) -> bool {
    claimed.is_in_scope_of(goal)
        || node::with_current(|waiting| claimed.is_within([Some(goal), waiting]))
}
