//! Runs two closures at the same time for the first result.

use std::{
    panic,
    sync::{Mutex, PoisonError},
};

use crate::{
    checkpoint::CancelUnwind, node, panics, pool::Pool, scheduler::Scheduler, scope::Scope, worker,
};

/// Runs `a` and `b` at the same time and returns the result of the one that returns first.
///
/// Both start even if all workers are busy: the pool then starts a spare worker for them.
///
/// The other closure is cancelled, and `race` waits for it. It should check
/// [`cancelled`](crate::cancelled) or call [`checkpoint`](crate::checkpoint) now and then. If it has
/// not started by then, it never does. A panic also ends the race, and continues in the caller. If
/// both closures are cancelled from outside and neither returns, the caller is unwound as by a
/// checkpoint.
///
/// Runs on the calling worker's scheduler; on other threads, on the [global](Scheduler::global) one.
///
/// ```
/// use windlass_pool::{checkpoint, race};
///
/// let winner = race(
///     || "the one that ends",
///     || loop {
///         checkpoint();
///     },
/// );
/// assert_eq!(winner, "the one that ends");
/// ```
pub fn race<A, B, R>(a: A, b: B) -> R
where
    A: FnOnce() -> R + Send,
    B: FnOnce() -> R + Send,
    R: Send,
{
    worker::with(|worker| match worker {
        Some(worker) => run(worker.pool(), a, b),
        None => run(Scheduler::global().pool(), a, b),
    })
}

fn run<R: Send>(pool: &Pool, a: impl FnOnce() -> R + Send, b: impl FnOnce() -> R + Send) -> R {
    let first = Mutex::new(None);
    let _counted = pool.races.count();
    let ended = node::open(pool, |scope| {
        scope.spawn_urgent(|| run_contender(scope, &first, a));
        scope.spawn_urgent(|| run_contender(scope, &first, b));
    });
    let first = first.into_inner().unwrap_or_else(PoisonError::into_inner);
    match (ended, first) {
        (Ok(()), Some(value)) => value,
        (Ok(()), None) => panic::resume_unwind(Box::new(CancelUnwind)),
        (Err(payload), value) => {
            // A second panic, out of a drop, would abort the process.
            panics::drop_quietly(value);
            panic::resume_unwind(payload)
        }
    }
}

/// Runs one closure. However it ends, cancels the other one.
fn run_contender<R>(
    scope: &Scope<'_, '_>,
    first: &Mutex<Option<R>>,
    contender: impl FnOnce() -> R,
) {
    struct CancelOnDrop<'a, 'scope, 'env>(&'a Scope<'scope, 'env>);
    impl Drop for CancelOnDrop<'_, '_, '_> {
        fn drop(&mut self) {
            self.0.cancel();
        }
    }
    let cancel = CancelOnDrop(scope);
    let late = keep_first(first, contender());
    drop(cancel);
    // Dropped last, because its drop is user code: no lock is held, and the other closure has been
    // cancelled.
    drop(late);
}

/// Stores `value` unless the other closure has returned first. Returns it in that case.
fn keep_first<R>(first: &Mutex<Option<R>>, value: R) -> Option<R> {
    let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
    match *first {
        None => first.replace(value),
        Some(_) => Some(value),
    }
}
