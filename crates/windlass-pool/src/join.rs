//! Two things at a time.

use crate::{fork, scheduler::Scheduler, worker};

/// Runs `a` and `b`, possibly at the same time, and returns both results.
///
/// Runs on the calling worker's scheduler, elsewhere on the [global](Scheduler::global) one. Costs
/// little more than calling both, so there is no need to stop dividing early: `b` is run by another
/// worker only if one has nothing to do. Such a worker finds `b` whatever `a` does, also if it runs
/// out of work only while `a` computes or blocks; so with a worker to spare, `a` may wait for `b`.
///
/// A panic goes on in the caller, that of `a` before that of `b`; if `a` panics, `b` is cancelled,
/// or never begins. Both run also in a task that has been cancelled.
///
/// ```
/// use windlass_pool::join;
///
/// fn sum(numbers: &[u64]) -> u64 {
///     if numbers.len() < 100 {
///         return numbers.iter().sum();
///     }
///     let (left, right) = numbers.split_at(numbers.len() / 2);
///     let (left, right) = join(|| sum(left), || sum(right));
///     left + right
/// }
/// let numbers: Vec<u64> = (0..10_000).collect();
/// assert_eq!(sum(&numbers), 49_995_000);
/// ```
#[inline]
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    worker::with(|worker| match worker {
        Some(worker) => fork::join(worker, a, b),
        None => Scheduler::global().run(|| join(a, b)),
    })
}
