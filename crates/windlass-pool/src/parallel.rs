//! Parallel loops over slices and ranges.
//!
//! A [`join`] splits the items into halves, recursively, down to chunks that one worker runs without
//! a break. So an idle worker can steal every item that no worker has started, however long the
//! other items take. Chunks start with one item and grow until they take some tens of microseconds,
//! so neither tiny nor huge items need tuning. Knows nothing of how a join runs.

use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

use crate::{
    checkpoint::checkpoint,
    collect::{self, FilledSlice, VacantSlice},
    join::join,
    scheduler::Scheduler,
    source::{Source, sealed::Split},
    worker,
};

/// How long a chunk should take: much longer than reading a clock, but not longer than a few
/// wake-ups.
const TARGET_CHUNK_TIME: Duration = Duration::from_micros(30);

/// Calls `f` with each item, on as many workers as are idle, in no particular order.
///
/// A few large items run at the same time from the start, as many as there are idle workers.
///
/// Runs on the calling worker's scheduler; on other threads, on the [global](Scheduler::global) one.
/// Calls [`checkpoint`] between chunks of items, so a cancelled task does not run to the end. A panic
/// continues in the caller.
///
/// ```
/// let mut numbers = [1, 2, 3];
/// windlass_pool::for_each(&mut numbers[..], |number| *number *= 10);
/// assert_eq!(numbers, [10, 20, 30]);
/// ```
pub fn for_each<S: Source>(source: S, f: impl Fn(S::Item) + Sync) {
    run_chunks(source, &|part: S| part.items().for_each(&f), &|(), ()| ());
}

/// Returns the results of `f` for each item, in the order of the items.
///
/// Uses the same workers and checkpoints as [`for_each`].
///
/// ```
/// let lengths = windlass_pool::map(&["one", "three"][..], |word| word.len());
/// assert_eq!(lengths, [3, 5]);
/// ```
pub fn map<S: Source, U: Send>(source: S, f: impl Fn(S::Item) -> U + Sync) -> Vec<U> {
    collect::collect_vec(source.count(), |output| {
        let chunk =
            |MapInput { source, output }| VacantSlice::fill(output, S::items(source).map(&f));
        run_chunks(MapInput { source, output }, &chunk, &FilledSlice::append)
    })
}

/// Applies `f` to each item and reduces the results with `combine`, in the order of the items.
/// Returns `None` if there are no items.
///
/// `combine` must be associative, because calls differ in where they split the items. Uses the same
/// workers and checkpoints as [`for_each`].
///
/// ```
/// let sum = windlass_pool::map_reduce(0..1000_u64, |n| n * n, |a, b| a + b);
/// assert_eq!(sum, Some(332_833_500));
/// ```
pub fn map_reduce<S, U>(
    source: S,
    f: impl Fn(S::Item) -> U + Sync,
    combine: impl Fn(U, U) -> U + Sync,
) -> Option<U>
where
    S: Source,
    U: Send,
{
    let chunk = |part: S| part.items().map(&f).reduce(&combine);
    let combine = |left: Option<U>, right: Option<U>| match (left, right) {
        (Some(left), Some(right)) => Some(combine(left, right)),
        (left, right) => left.or(right),
    };
    run_chunks(source, &chunk, &combine).flatten()
}

/// Items, and the part of the output for their results.
struct MapInput<'a, S, U> {
    source: S,
    output: VacantSlice<'a, U>,
}

impl<S: Split, U: Send> Split for MapInput<'_, S, U> {
    fn count(&self) -> usize {
        self.source.count()
    }

    fn split_at(self, count: usize) -> (Self, Self) {
        let (left, right) = self.source.split_at(count);
        let (left_output, right_output) = self.output.split_at(count);
        (Self { source: left, output: left_output }, Self { source: right, output: right_output })
    }
}

/// Calls `chunk` with parts of the items and reduces the results with `combine`, on the workers of
/// the calling thread's scheduler.
fn run_chunks<P, R>(
    part: P,
    chunk: &(impl Fn(P) -> R + Sync),
    combine: &(impl Fn(R, R) -> R + Sync),
) -> Option<R>
where
    P: Split,
    R: Send,
{
    let chunk_size = ChunkSize::new();
    match worker::with(|worker| worker.is_some()) {
        true => chunk_size.run(part, chunk, combine),
        false => Scheduler::global().run(|| chunk_size.run(part, chunk, combine)),
    }
}

/// How many items a chunk has, adjusted while the loop runs.
struct ChunkSize {
    items: AtomicUsize,
}

impl ChunkSize {
    fn new() -> Self {
        Self { items: AtomicUsize::new(1) }
    }

    /// Runs `part` and reduces the results of its chunks.
    fn run<P, R>(
        &self,
        part: P,
        chunk: &(impl Fn(P) -> R + Sync),
        combine: &(impl Fn(R, R) -> R + Sync),
    ) -> Option<R>
    where
        P: Split,
        R: Send,
    {
        let count = part.count();
        // Relaxed, here and in `adjust`: an estimate, on which no other memory depends.
        if count > self.items.load(Relaxed) {
            let (left, right) = part.split_at(count / 2);
            let halves =
                join(|| self.run(left, chunk, combine), || self.run(right, chunk, combine));
            return match halves {
                (Some(left), Some(right)) => Some(combine(left, right)),
                (left, right) => left.or(right),
            };
        }
        if count == 0 {
            return None;
        }
        checkpoint();
        let started = Instant::now();
        let result = chunk(part);
        self.adjust(count, started.elapsed());
        Some(result)
    }

    /// Adjusts the size of later chunks to how long a chunk of `count` items took.
    fn adjust(&self, count: usize, took: Duration) {
        let items = self.items.load(Relaxed);
        let adjusted = match took {
            // A chunk at the end of a half may have fewer items than the size, so it never lowers
            // the size by being short.
            short if short < TARGET_CHUNK_TIME / 2 => items.max(count.saturating_mul(2)),
            long if long > TARGET_CHUNK_TIME * 2 => (count / 2).clamp(1, items),
            _ => items,
        };
        if adjusted != items {
            self.items.store(adjusted, Relaxed);
        }
    }
}
