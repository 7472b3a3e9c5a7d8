//! Two ways to one result.

use std::{
    panic,
    sync::{Mutex, PoisonError},
};

use crate::{
    checkpoint::CancelUnwind, node, pool::Pool, scheduler::Scheduler, scope::Scope, worker,
};

/// Runs `a` and `b` at the same time and returns the result of the one that returns first.
///
/// Both begin also if all workers are busy: the pool starts one more thread for them then.
///
/// The other one is cancelled, and waited for: it should look at [`cancelled`](crate::cancelled)
/// now and then, or pass a [`checkpoint`](crate::checkpoint). If it has not begun by then, it never
/// does. A panic ends the race too, and goes on in the caller. If both are cancelled from outside
/// and neither returns, the caller is unwound as if by a checkpoint.
///
/// Runs on the calling worker's scheduler, elsewhere on the [global](Scheduler::global) one.
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
    let _counted = pool.count_race();
    let ended = node::open(pool, |scope| {
        scope.spawn_urgent(|| run_contender(scope, &first, a));
        scope.spawn_urgent(|| run_contender(scope, &first, b));
    });
    if let Err(payload) = ended {
        panic::resume_unwind(payload);
    }
    let first = first.into_inner().unwrap_or_else(PoisonError::into_inner);
    first.unwrap_or_else(|| panic::resume_unwind(Box::new(CancelUnwind)))
}

/// Runs one side; however it ends, the other one may stop.
fn run_contender<R>(scope: &Scope<'_, '_>, first: &Mutex<Option<R>>, side: impl FnOnce() -> R) {
    struct Finish<'a, 'scope, 'env>(&'a Scope<'scope, 'env>);
    impl Drop for Finish<'_, '_, '_> {
        fn drop(&mut self) {
            self.0.cancel();
        }
    }
    let finish = Finish(scope);
    let value = side();
    first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(value);
    drop(finish);
}
