//! The same for each of many: over slices and ranges, on all workers.
//!
//! The items are divided in two by a [`join`], and each half again, down to pieces that one worker
//! works through in one go. So all that no worker has begun is in reach of every worker without work,
//! whatever the items take. A piece is as long as takes a few dozen microseconds, measured as the
//! call goes on and beginning with one item: neither tiny nor huge items need any tuning.

use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

use crate::{
    checkpoint::checkpoint,
    join::join,
    output::{self, Filled, Space},
    scheduler::Scheduler,
    source::{Source, sealed::Divide},
    worker,
};

/// How long a piece should take: long against looking at a generation, short against a wake-up.
const PIECE: Duration = Duration::from_micros(30);

/// Calls `f` with each item, on as many workers as are free, in no particular order.
///
/// Few large items run at the same time from the first one on, as many as there are free workers.
///
/// Runs on the calling worker's scheduler, elsewhere on the [global](Scheduler::global) one.
/// Between pieces of the work there is a [`checkpoint`], so in a cancelled task it does not go on
/// to the end. A panic goes on in the caller.
///
/// ```
/// let mut numbers = [1, 2, 3];
/// windlass_pool::for_each(&mut numbers[..], |number| *number *= 10);
/// assert_eq!(numbers, [10, 20, 30]);
/// ```
pub fn for_each<S: Source>(source: S, f: impl Fn(S::Item) + Sync) {
    work_through(source, &|part: S| part.items().for_each(&f), &|(), ()| ());
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
    output::collect(source.count(), |output| {
        let piece = |Mapping { source, output }| Space::fill(output, S::items(source).map(&f));
        work_through(Mapping { source, output }, &piece, &Filled::and)
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
    let piece = |part: S| part.items().map(&f).reduce(&combine);
    let combine = |left: Option<U>, right: Option<U>| match (left, right) {
        (Some(left), Some(right)) => Some(combine(left, right)),
        (left, right) => left.or(right),
    };
    work_through(source, &piece, &combine).flatten()
}

/// Items on their way to an output.
struct Mapping<'a, S, U> {
    source: S,
    output: Space<'a, U>,
}

impl<S: Divide, U: Send> Divide for Mapping<'_, S, U> {
    fn count(&self) -> usize {
        self.source.count()
    }

    fn divide(self, count: usize) -> (Self, Self) {
        let (near, far) = self.source.divide(count);
        let (near_output, far_output) = self.output.split_at(count);
        (Self { source: near, output: near_output }, Self { source: far, output: far_output })
    }
}

fn work_through<P, R>(
    part: P,
    piece: &(impl Fn(P) -> R + Sync),
    and: &(impl Fn(R, R) -> R + Sync),
) -> Option<R>
where
    P: Divide,
    R: Send,
{
    let pace = Pace::new();
    match worker::with(|worker| worker.is_some()) {
        true => pace.drive(part, piece, and),
        false => Scheduler::global().run(|| pace.drive(part, piece, and)),
    }
}

/// How many items make a piece.
struct Pace {
    items: AtomicUsize,
}

impl Pace {
    fn new() -> Self {
        Self { items: AtomicUsize::new(1) }
    }

    /// Works through one part, and puts the results of its pieces together.
    fn drive<P, R>(
        &self,
        part: P,
        piece: &(impl Fn(P) -> R + Sync),
        and: &(impl Fn(R, R) -> R + Sync),
    ) -> Option<R>
    where
        P: Divide,
        R: Send,
    {
        let count = part.count();
        // Relaxed: it is a guess, and no other memory depends on it.
        if count > self.items.load(Relaxed) {
            let (near, far) = part.divide(count / 2);
            let sides = join(|| self.drive(near, piece, and), || self.drive(far, piece, and));
            return match sides {
                (Some(near), Some(far)) => Some(and(near, far)),
                (near, far) => near.or(far),
            };
        }
        if count == 0 {
            return None;
        }
        checkpoint();
        let began = Instant::now();
        let result = piece(part);
        self.adjust(count, began.elapsed());
        Some(result)
    }

    /// Makes later pieces longer or shorter, after one of `count` items.
    fn adjust(&self, count: usize, took: Duration) {
        let items = self.items.load(Relaxed);
        let adjusted = match took {
            // A piece may be shorter than it could be, and tells little about longer ones then.
            short if short < PIECE / 2 => items.max(count.saturating_mul(2)),
            long if long > PIECE * 2 => (count / 2).clamp(1, items),
            _ => items,
        };
        if adjusted != items {
            self.items.store(adjusted, Relaxed);
        }
    }
}
