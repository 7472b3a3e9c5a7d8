//! Runs two closures, possibly at the same time.

use crate::{fork, scheduler::Scheduler, worker};

/// Runs `a` and `b`, possibly at the same time, and returns both results.
///
/// Runs on the calling worker's scheduler; on other threads, on the [global](Scheduler::global) one.
/// Costs little more than calling both closures, so recursion needs no sequential cut-off: another
/// worker runs `b` only if it is idle. An idle worker finds `b` whatever `a` does, even if the worker
/// becomes idle while `a` computes or blocks. So if there is an idle worker, `a` may wait for `b`.
///
/// A panic continues in the caller; if both closures panic, that of `a`. If `a` panics, `b` is
/// cancelled, or never starts. Inside a cancelled scope or task, both
/// closures run nevertheless.
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
