//! Scopes with a deadline.
//!
//! The deadline cancels a root around the scope, not the scope itself. So the timer entry can stay
//! until everything inside the scope has ended, and is removed after that.

use std::{
    panic,
    time::{Duration, Instant},
};

use crate::{
    abort::AbortOnUnwind,
    cancellation,
    checkpoint::CancelUnwind,
    node::{self, ScopeRoot},
    pool::Pool,
    scheduler::Scheduler,
    scope::Scope,
    worker,
};

/// Runs `body` in a scope that is cancelled after `limit`. Returns `None` if the deadline passed
/// before the body and all tasks had ended.
///
/// Body and tasks see the deadline as a cancel, by [`cancelled`](crate::cancelled) or
/// [`checkpoint`](crate::checkpoint). A body that does not check is not interrupted. If the deadline
/// has passed when the scope opens, the body runs in a cancelled scope, and no task starts. A
/// deadline inside another is never later than the outer one. A panic continues in the caller,
/// whether the deadline has passed or not.
///
/// On a worker, the scope uses the worker's scheduler; on other threads, the
/// [global](Scheduler::global) one. [`with_deadline_on`] uses a given scheduler.
///
/// ```
/// use std::time::Duration;
/// use windlass_pool::with_deadline;
/// # fn long_running_task() -> u32 { 1 }
///
/// let result = with_deadline(Duration::from_secs(5), |scope| {
///     scope.spawn(|| long_running_task()).await_result()
/// });
///
/// match result {
///     Some(value) => println!("Completed: {:?}", value),
///     None => println!("Deadline exceeded"),
/// }
/// ```
pub fn with_deadline<'env, F, R>(limit: Duration, body: F) -> Option<R>
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
{
    worker::with(|worker| match worker {
        Some(worker) => run(worker.pool(), limit, body),
        None => run(Scheduler::global().pool(), limit, body),
    })
}

/// Runs `body` in a scope with a deadline, as [`with_deadline`] does, on the given scheduler.
///
/// ```
/// use std::time::Duration;
/// use windlass_pool::{Scheduler, cancelled, with_deadline_on};
///
/// let scheduler = Scheduler::new(2);
/// let result = with_deadline_on(&scheduler, Duration::from_millis(1), |scope| {
///     scope.spawn(|| while !cancelled() {}).await_result()
/// });
/// assert!(result.is_none());
/// ```
pub fn with_deadline_on<'env, F, R>(scheduler: &Scheduler, limit: Duration, body: F) -> Option<R>
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
{
    run(scheduler.pool(), limit, body)
}

fn run<'env, F, R>(pool: &Pool, limit: Duration, body: F) -> Option<R>
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
{
    // A limit that `Instant` cannot represent is no limit.
    let own = Instant::now().checked_add(limit);
    let root = ScopeRoot::new(own);
    let is_over = || root.deadline().is_some_and(|deadline| Instant::now() >= deadline);
    let timer_entry = match own {
        _ if is_over() => {
            cancellation::cancel(root.node());
            None
        }
        // If the outer deadline is the earlier one, its cancel reaches this scope too.
        Some(own) if root.deadline() == Some(own) => Some(pool.timer.schedule(own, root.guard())),
        _ => None,
    };
    let abort =
        AbortOnUnwind::new("a scope with a deadline unwound before its timer entry was removed");
    let result = root.inside(|| node::open(pool, body));
    let passed = is_over();
    drop(timer_entry);
    if !root.end_body() {
        pool.wait(root.node());
    }
    abort.disarm();
    match result {
        Ok(value) => (!passed).then_some(value),
        Err(payload) if passed && payload.is::<CancelUnwind>() => None,
        Err(payload) => panic::resume_unwind(payload),
    }
}
