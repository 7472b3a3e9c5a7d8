//! The same for each of many: over slices and ranges, on all workers.
//!
//! The work is divided only when somebody asks for a part of it. A worker goes through its part
//! piece by piece, from the front, and between two pieces looks whether another worker has nothing
//! to do; if so, it gives away the latter half of what is left. A piece is as long as takes a few
//! dozen microseconds, measured as it goes, so neither tiny nor huge items need any tuning.

use std::time::{Duration, Instant};

use crate::{
    checkpoint::checkpoint,
    fork::{self, Filled, Space},
    join::join,
    scheduler::Scheduler,
    source::{Source, sealed::Divide},
    worker,
};

/// How long a piece should take: long against looking at a clock, short against a wake-up.
const PIECE: Duration = Duration::from_micros(30);

/// Calls `f` with each item, on as many workers as are free, in no particular order.
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
    fork::collect(source.count(), |output| {
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
    match worker::with(|worker| worker.is_some()) {
        true => Pace { items: 1 }.drive(part, piece, and),
        false => Scheduler::global().run(|| Pace { items: 1 }.drive(part, piece, and)),
    }
}

/// How many items make a piece.
#[derive(Clone, Copy)]
struct Pace {
    items: usize,
}

impl Pace {
    /// Works through one part and puts the results of its pieces together.
    fn drive<P, R>(
        mut self,
        part: P,
        piece: &(impl Fn(P) -> R + Sync),
        and: &(impl Fn(R, R) -> R + Sync),
    ) -> Option<R>
    where
        P: Divide,
        R: Send,
    {
        let (mut rest, mut done) = (part, None);
        let mut began = Instant::now();
        while rest.count() > 0 {
            checkpoint();
            let left = rest.count();
            if left > 1 && worker::with(|worker| worker.is_some_and(fork::should_divide)) {
                let (near, far) = rest.divide(left / 2);
                let sides = join(|| self.drive(near, piece, and), || self.drive(far, piece, and));
                return [done, sides.0, sides.1].into_iter().flatten().reduce(and);
            }
            let (now, later) = rest.divide(self.items.min(left));
            let result = piece(now);
            done = Some(match done {
                Some(earlier) => and(earlier, result),
                None => result,
            });
            rest = later;
            began = self.adjust(began);
        }
        done
    }

    /// Makes the next piece longer or shorter; returns when it begins.
    fn adjust(&mut self, began: Instant) -> Instant {
        let now = Instant::now();
        match now - began {
            short if short < PIECE / 2 => self.items = self.items.saturating_mul(2),
            long if long > PIECE * 2 => self.items = (self.items / 2).max(1),
            _ => {}
        }
        now
    }
}
