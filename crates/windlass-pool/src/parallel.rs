//! The same for each of many: over slices and ranges, on all workers.
//!
//! The items are divided in two by a [`join`], and each half again, down to chunks that one worker
//! works through in one go. So all that no worker has begun is in reach of every worker without work,
//! whatever the items take. A chunk is as long as takes a few dozen microseconds, measured as the
//! call goes on and beginning with one item: neither tiny nor huge items need any tuning.

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

/// How long a chunk should take: long against looking at a generation, short against a wake-up.
const TARGET_CHUNK_TIME: Duration = Duration::from_micros(30);

/// Calls `f` with each item, on as many workers as are free, in no particular order.
///
/// Few large items run at the same time from the first one on, as many as there are free workers.
///
/// Runs on the calling worker's scheduler, elsewhere on the [global](Scheduler::global) one.
/// Between chunks of the work there is a [`checkpoint`], so in a cancelled task it does not go on
/// to the end. A panic goes on in the caller.
///
/// ```
/// let mut numbers = [1, 2, 3];
/// windlass_pool::for_each(&mut numbers[..], |number| *number *= 10);
/// assert_eq!(numbers, [10, 20, 30]);
/// ```
pub fn for_each<S: Source>(source: S, f: impl Fn(S::Item) + Sync) {
    run_chunks(source, &|part: S| part.items().for_each(&f), &|(), ()| ());
}

/// What `f` makes of each item, in the order of the items.
///
/// Runs where [`for_each`] does, with the same checkpoints.
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

/// What `f` makes of each item, put together two by two with `combine`, in the order of the items;
/// `None` if there are none.
///
/// `combine` must be associative: where the work is divided differs from call to call. Runs where
/// [`for_each`] does, with the same checkpoints.
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

/// Items on their way to an output.
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

/// How many items make a chunk.
struct ChunkSize {
    items: AtomicUsize,
}

impl ChunkSize {
    fn new() -> Self {
        Self { items: AtomicUsize::new(1) }
    }

    /// Works through one part, and puts the results of its chunks together.
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
        // Relaxed: it is a guess, and no other memory depends on it.
        if count > self.items.load(Relaxed) {
            let (left, right) = part.split_at(count / 2);
            let sides = join(|| self.run(left, chunk, combine), || self.run(right, chunk, combine));
            return match sides {
                (Some(left), Some(right)) => Some(combine(left, right)),
                (left, right) => left.or(right),
            };
        }
        if count == 0 {
            return None;
        }
        checkpoint();
        let began = Instant::now();
        let result = chunk(part);
        self.adjust(count, began.elapsed());
        Some(result)
    }

    /// Makes later chunks longer or shorter, after one of `count` items.
    fn adjust(&self, count: usize, took: Duration) {
        let items = self.items.load(Relaxed);
        let adjusted = match took {
            // A chunk may be shorter than it could be, and tells little about longer ones then.
            short if short < TARGET_CHUNK_TIME / 2 => items.max(count.saturating_mul(2)),
            long if long > TARGET_CHUNK_TIME * 2 => (count / 2).clamp(1, items),
            _ => items,
        };
        if adjusted != items {
            self.items.store(adjusted, Relaxed);
        }
    }
}
