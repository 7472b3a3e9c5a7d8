//! Scopes that have to be done by a certain time.
//!
//! The deadline cancels a node around the scope, not the scope itself, so that the alarm can be
//! held until everything inside has ended and be called off after that.

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
    wait_table, worker,
};

/// Runs `body` in a scope that is cancelled after `limit`; `None` if that came first.
///
/// More precisely, `None` if the deadline had passed before the body and all tasks had ended. If it
/// has passed when the scope opens, the body runs in a cancelled scope, and no task begins. Tasks
/// and body see the deadline as a cancel, by [`cancelled`](crate::cancelled) or
/// [`checkpoint`](crate::checkpoint); a body that does not look is not interrupted. A deadline
/// inside another is never later than the outer one. A panic goes on in the caller, deadline or
/// not.
///
/// On a worker this uses the worker's own scheduler, elsewhere the [global](Scheduler::global) one;
/// see [`with_deadline_on`] for a choice.
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

/// As [`with_deadline`], on a given scheduler.
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
    // A limit beyond the end of time is none.
    let own = Instant::now().checked_add(limit);
    let root = ScopeRoot::new(own);
    let is_over = || root.deadline().is_some_and(|deadline| Instant::now() >= deadline);
    let abort = AbortOnUnwind::new("a deadline must not be left before its alarm is called off");
    let timer_entry = match own {
        _ if is_over() => {
            cancellation::cancel(root.node());
            None
        }
        // If the outer deadline is the earlier one, its alarm reaches this scope too.
        Some(own) if root.deadline() == Some(own) => Some(pool.timer.schedule(own, root.guard())),
        _ => None,
    };
    let result = root.inside(|| node::open(pool, body));
    let passed = is_over();
    drop(timer_entry);
    if !root.end_body() {
        wait_table::sleep_until_complete(root.node(), None);
    }
    abort.disarm();
    match result {
        Ok(value) => (!passed).then_some(value),
        Err(payload) if passed && payload.is::<CancelUnwind>() => None,
        Err(payload) => panic::resume_unwind(payload),
    }
}
