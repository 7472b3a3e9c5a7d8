//! Memory that the two sides of a fork share: the right side of a join, and the parts of an output.
//!
//! A join leaves its right side on its own stack and notes the place on its worker's [`ForkStack`].
//! Usually it takes it back a moment later and runs it, and nobody else ever knew of it. Only when
//! another worker is hungry, the oldest right side, most likely the largest, is *shared*: it gets a
//! task, a child of the task the join runs in, which anybody may claim. The join does not return
//! before that task is complete, so the stack it points into stays.
//!
//! Also here, because a join must find it in no time: which worker the calling thread is.
//!
//! A side always runs, also in a cancelled task: a join has to return two values. If its task was
//! discarded because of a cancel, the join runs the side itself.

#![allow(unsafe_code)]

use std::{
    cell::{Cell, UnsafeCell},
    marker::PhantomData,
    mem,
    panic::{self, AssertUnwindSafe, catch_unwind},
    ptr::{self, NonNull},
    thread,
};

use crate::{
    job::{self, Held},
    node::{self, Node, Unit},
    panics::Payload,
    watch,
    worker::Worker,
};

thread_local! {
    static WORKER: Cell<Option<NonNull<Worker>>> = const { Cell::new(None) };
}

/// Runs `f` on the calling thread as `worker`.
pub(crate) fn run_as(worker: &Worker, f: impl FnOnce()) {
    struct Back(Option<NonNull<Worker>>);
    impl Drop for Back {
        fn drop(&mut self) {
            WORKER.set(self.0);
        }
    }
    let _back = Back(WORKER.replace(Some(NonNull::from(worker))));
    f();
}

/// Calls `f` with the worker that the calling thread is, if it is one.
#[inline(always)]
pub(crate) fn with_worker<R>(f: impl FnOnce(Option<&Worker>) -> R) -> R {
    // SAFETY: `run_as` borrows the worker for as long as it is noted, and `f` returns before that
    // can end, since it runs on the same thread.
    f(WORKER.get().map(|worker| unsafe { worker.as_ref() }))
}

/// How many joins may be nested before the inner ones just run both sides one after the other.
const CAPACITY: usize = 1024;

/// The part of a fork that does not depend on types.
struct Header {
    /// Runs the right side and stores its result.
    ///
    /// # Safety
    /// The header is the first field of the fork this function was made for, which is alive, and
    /// nobody else looks at its body or result meanwhile.
    run: unsafe fn(NonNull<Header>),
    /// The task in which the join stands.
    node: NonNull<Node>,
    /// The task for the right side, once it is shared.
    shared: Cell<Option<Held<()>>>,
}

/// The right side of a join.
#[repr(C)]
struct Fork<F, R> {
    header: Header,
    body: UnsafeCell<Option<F>>,
    result: UnsafeCell<Option<thread::Result<R>>>,
}

/// The right sides of the joins that a worker is in the middle of, outermost first.
pub(crate) struct ForkStack {
    places: Box<[Cell<Option<NonNull<Header>>>]>,
    len: Cell<usize>,
    /// How many of them, counted from the outermost, have been shared.
    shared: Cell<usize>,
}

impl ForkStack {
    pub(crate) fn new() -> Self {
        let places = (0..CAPACITY).map(|_| Cell::new(None)).collect();
        Self { places, len: Cell::new(0), shared: Cell::new(0) }
    }

    /// Notes a right side; false if there is no room.
    #[inline]
    fn push(&self, header: NonNull<Header>) -> bool {
        let len = self.len.get();
        let Some(place) = self.places.get(len) else { return false };
        place.set(Some(header));
        self.len.set(len + 1);
        true
    }

    /// Takes the innermost right side off; true if it was never shared.
    #[inline]
    fn pop(&self) -> bool {
        let len = self.len.get() - 1;
        self.len.set(len);
        let private = len >= self.shared.get();
        if !private {
            self.shared.set(len);
        }
        private
    }

    /// The outermost right side that has not been shared, which from now on counts as shared.
    fn next_to_share(&self) -> Option<NonNull<Header>> {
        let next = self.shared.get();
        let header = self.places[..self.len.get()].get(next)?.get();
        self.shared.set(next + 1);
        header
    }
}

/// Runs both sides, possibly at the same time, and returns what both returned.
#[inline]
pub(crate) fn join<A, B, RA, RB>(worker: &Worker, a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA,
    B: FnOnce() -> RB + Send,
    RB: Send,
{
    let node = node::current_ptr().expect("a worker runs nothing but tasks");
    let fork = Fork {
        header: Header { run: Fork::<B, RB>::run, node, shared: Cell::new(None) },
        body: UnsafeCell::new(Some(b)),
        result: UnsafeCell::new(None),
    };
    let header = NonNull::from(&fork).cast();
    if !worker.forks().push(header) {
        let left = a();
        return (left, fork.run_here());
    }
    if worker.is_anyone_hungry() {
        share_oldest(worker);
    }
    // From here to the pop nothing may unwind: the stack of forks points to this frame.
    match catch_unwind(AssertUnwindSafe(a)) {
        Ok(left) if worker.forks().pop() => (left, fork.run_here()),
        Ok(left) => (left, fork.finish(worker)),
        Err(payload) => fork.abandon(worker, payload),
    }
}

impl<F: FnOnce() -> R, R> Fork<F, R> {
    /// # Safety
    ///
    /// The contract of `Header::run`: `header` is that of a `Fork<F, R>` whose side is the caller's
    /// to run.
    unsafe fn run(header: NonNull<Header>) {
        let fork = header.cast::<Self>().as_ptr();
        // SAFETY: by the contract of `Header::run`.
        let body = unsafe { (*(*fork).body.get()).take() }.expect("a side runs once");
        let result = catch_unwind(AssertUnwindSafe(body));
        // SAFETY: as above.
        unsafe { *(*fork).result.get() = Some(result) };
    }

    /// Runs a side that nobody else has or will. In place: to move it would cost more than the
    /// rest.
    #[inline]
    fn run_here(&self) -> R {
        // SAFETY: nobody else knows of this side, so its body is ours.
        let body = unsafe { (*self.body.get()).take() };
        (body.expect("a side runs once"))()
    }

    /// The value of a side that was shared: waits for it, or runs it here if nobody has begun it.
    /// Must not be moved before it has settled, since the task knows where it is.
    #[cold]
    fn finish(&self, worker: &Worker) -> R {
        self.settle(worker);
        // SAFETY: the task is complete, so body and result are this side's alone.
        let (result, body) = unsafe { ((*self.result.get()).take(), (*self.body.get()).take()) };
        match result {
            Some(Ok(value)) => value,
            Some(Err(payload)) => panic::resume_unwind(payload),
            None => (body.expect("a discarded side has not run"))(),
        }
    }

    /// The left side has panicked: the right one is to stop, or not even to begin.
    #[cold]
    fn abandon(&self, worker: &Worker, payload: Payload) -> ! {
        if !worker.forks().pop() {
            self.cancel();
            self.settle(worker);
        }
        panic::resume_unwind(payload)
    }

    fn cancel(&self) {
        let task = self.header.shared.take();
        task.iter().for_each(|task| watch::cancel(task));
        self.header.shared.set(task);
    }

    /// Waits until nobody else can reach this fork.
    fn settle(&self, worker: &Worker) {
        let task = self.header.shared.take().expect("a shared side has a task");
        worker.wait_for_task(&task, None);
    }
}

/// Whether another worker is hungry and there is nothing to give it but a part of the work in hand.
#[inline]
pub(crate) fn should_divide(worker: &Worker) -> bool {
    worker.is_anyone_hungry() && !share_oldest(worker)
}

/// Shares the oldest right side, unless the worker's queue still holds something for the hungry;
/// says whether there is now something in the queue.
#[cold]
fn share_oldest(worker: &Worker) -> bool {
    if worker.has_queue() {
        return true;
    }
    let Some(header) = worker.forks().next_to_share() else { return false };
    let fork = Reached(header);
    // SAFETY: a noted header is alive until its join takes it off, on this very thread.
    let Header { node, shared, .. } = unsafe { header.as_ref() };
    // SAFETY: the join stands in the body of this node, which therefore has a unit.
    let (unit, root) = unsafe { (Unit::of(*node), node::root_of(*node).as_ref()) };
    // SAFETY: the join waits for the task to be complete before it leaves the frame that the body
    // points into; the task returns nothing.
    let (task, queued) = unsafe { job::make(unit, root, move || fork.run()) };
    shared.set(Some(task));
    worker.submit(queued);
    true
}

/// A way to a fork, for the task that may run its right side.
struct Reached(NonNull<Header>);

// SAFETY: `join` demands a right side and a result that may go to other threads, and of the header
// the task uses nothing but `run`.
unsafe impl Send for Reached {}

impl Reached {
    fn run(self) {
        let header = self.0;
        // SAFETY: the join waits for the task whose body this is, so the fork is alive; a task's
        // body runs once, and the join looks at body and result only after it.
        unsafe { ((*header.as_ptr()).run)(header) }
    }
}

/// A stretch of an output that is yet to be filled.
///
/// All stretches of one output are offsets from one pointer: a reference to a stretch would claim
/// it for itself, and neighbours could not become one again.
pub(crate) struct Space<'a, U> {
    base: *mut U,
    start: usize,
    len: usize,
    output: PhantomData<&'a mut [U]>,
}

// SAFETY: a stretch belongs to one side alone, which may write values there that may go to other
// threads.
unsafe impl<U: Send> Send for Space<'_, U> {}

impl<'a, U> Space<'a, U> {
    /// The first `len` places, and the rest.
    pub(crate) fn split_at(self, len: usize) -> (Self, Self) {
        let rest = self.len.checked_sub(len).expect("a stretch is divided where it is");
        (Self { len, ..self }, Self { start: self.start + len, len: rest, ..self })
    }

    /// Fills it with `values`, as far as they go.
    pub(crate) fn fill(self, values: impl Iterator<Item = U>) -> Filled<'a, U> {
        let mut filled = Filled { space: Self { len: 0, ..self } };
        for value in values.take(self.len) {
            // SAFETY: not more than `len` values are written, so this place is in the stretch,
            // which is ours alone.
            unsafe { self.base.add(self.start + filled.space.len).write(value) };
            filled.space.len += 1;
        }
        filled
    }
}

/// A stretch of an output that has been filled; dropping it drops what is in there.
pub(crate) struct Filled<'a, U> {
    space: Space<'a, U>,
}

impl<U> Filled<'_, U> {
    /// Two neighbouring stretches as one.
    pub(crate) fn and(mut self, next: Self) -> Self {
        let end = self.space.start + self.space.len;
        assert_eq!(end, next.space.start, "an output is filled without gaps");
        self.space.len += mem::ManuallyDrop::new(next).space.len;
        self
    }
}

impl<U> Drop for Filled<'_, U> {
    fn drop(&mut self) {
        let Space { base, start, len, .. } = self.space;
        // SAFETY: so many values were written from there on, all in one output, and they belong to
        // this stretch alone.
        unsafe { ptr::slice_from_raw_parts_mut(base.add(start), len).drop_in_place() };
    }
}

/// A vector of `len` values, which `fill` puts into the space it is given.
pub(crate) fn collect<U>(
    len: usize,
    fill: impl for<'a> FnOnce(Space<'a, U>) -> Option<Filled<'a, U>>,
) -> Vec<U> {
    let mut values = Vec::with_capacity(len);
    let base = values.as_mut_ptr();
    let filled = fill(Space { base, start: 0, len, output: PhantomData }).map_or(0, |filled| {
        assert_eq!(filled.space.start, 0, "an output is filled from its start on");
        mem::ManuallyDrop::new(filled).space.len
    });
    assert_eq!(filled, len, "every value of an output is written");
    // SAFETY: `fill` can return nothing but what was filled of this space, since no other has its
    // lifetime; so that many values were written at the start, and nobody drops them any more.
    unsafe { values.set_len(filled) };
    values
}
