//! The two sides of a join, and the memory they share.
//!
//! A join leaves its right side on its own stack and notes the place on its worker's [`ForkDeque`].
//! Usually it takes it back a moment later and runs it, and no other thread ever knew of it. A side
//! that was *taken* from that stack gets a task, a child of the task the join runs in, and the join
//! does not return before that task is complete, so the frame it points into stays.
//!
//! Two take: the owner, when it forks while another worker has nothing to do, shares its outermost
//! side, most likely the largest, in its queue. And a worker that found nothing in any queue takes
//! one itself before it sleeps, whatever the owner does meanwhile; see `worker/steal.rs`. The first
//! is cheap and happens often; the second costs a system call, and is there for an owner whose left
//! side computes or blocks for long and forks no more.
//!
//! So no side stays hidden from a worker that could run it. The owner notes the side, then reads the
//! counts of `sleep`. If they show a worker without work, the owner passes a fence and notifies, by
//! the protocol of `sleep`. If they show none, there is no fence, so that the common case is fast,
//! and a worker that runs out of work at this very moment may miss the side. But it says in the
//! counts that it has no work before it looks at the stacks, and looks once more a millisecond after
//! it fell asleep. The side was noted before the owner read the old counts, and neither takes
//! longer to get from one processor to another than some microseconds: the second look sees it. This
//! reasoning with time decides only how soon a side is found, never who runs it.
//!
//! Also here, because a join must find it in no time: which worker the calling thread is.
//!
//! A side always runs, also in a cancelled task: a join has to return two values. If its task was
//! discarded because of a cancel, the join runs the side itself.

#![allow(unsafe_code)]

use std::{
    cell::{Cell, UnsafeCell},
    panic::{self, AssertUnwindSafe, catch_unwind},
    ptr::NonNull,
    sync::{
        OnceLock,
        atomic::{Ordering::SeqCst, compiler_fence},
    },
    thread,
};

use crate::{
    cancellation,
    job::{self, ClaimedTask, TaskHandle},
    node::{self, Node, PendingGuard},
    panics::{self, Payload},
    worker::Worker,
};

mod deque;
mod deques;

pub(crate) use deque::{ForkDeque, Popped};
pub(crate) use deques::ForkDeques;

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

/// The part of a fork that does not depend on types.
pub(crate) struct ForkHeader {
    /// Runs the right side and stores its result.
    ///
    /// # Safety
    /// The header is the first field of the fork this function was made for, which is alive, and
    /// no other thread looks at its body or result meanwhile.
    run: unsafe fn(NonNull<ForkHeader>),
    /// The task in which the join stands.
    node: NonNull<Node>,
    /// The task for the right side, once it is taken.
    task: OnceLock<TaskHandle<()>>,
}

/// The right side of a join.
#[repr(C)]
struct Fork<F, R> {
    header: ForkHeader,
    body: UnsafeCell<Option<F>>,
    result: UnsafeCell<Option<thread::Result<R>>>,
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
        header: ForkHeader { run: Fork::<B, RB>::run, node, task: OnceLock::new() },
        body: UnsafeCell::new(Some(b)),
        result: UnsafeCell::new(None),
    };
    let header = NonNull::from(&fork).cast();
    if !worker.fork_deque().push(header) {
        return fork.join_without_room(worker, a);
    }
    // The counts are read after the side is noted, in the program as it is compiled, too.
    compiler_fence(SeqCst);
    if worker.has_idle_worker() {
        share_outermost(worker);
    }
    // From here to the pop nothing may unwind: the stack of forks points to this frame.
    match catch_unwind(AssertUnwindSafe(a)) {
        Ok(left) if worker.fork_deque().pop() == Popped::Untouched => (left, fork.run_here()),
        Ok(left) => (left, fork.finish(worker)),
        Err(payload) => fork.abandon(worker.fork_deque().pop(), worker, payload),
    }
}

impl<F: FnOnce() -> R, R> Fork<F, R> {
    /// # Safety
    ///
    /// The contract of `ForkHeader::run`: `header` is that of a `Fork<F, R>` whose side is the caller's
    /// to run.
    unsafe fn run(header: NonNull<ForkHeader>) {
        let fork = header.cast::<Self>().as_ptr();
        // SAFETY: by the contract of `ForkHeader::run`.
        let body = unsafe { (*(*fork).body.get()).take() }.expect("a side runs once");
        let result = catch_unwind(AssertUnwindSafe(body));
        // SAFETY: as above.
        unsafe { *(*fork).result.get() = Some(result) };
    }

    /// Runs a side that no other thread has or will. In place: to move it would cost more than the
    /// rest.
    #[inline]
    fn run_here(&self) -> R {
        // SAFETY: no other thread knows of this side, so its body is ours.
        let body = unsafe { (*self.body.get()).take() };
        (body.expect("a side runs once"))()
    }

    /// A join for which the stack has no room: its right side is shared at once.
    #[cold]
    fn join_without_room<A, RA>(&self, worker: &Worker, a: A) -> (RA, R)
    where
        A: FnOnce() -> RA,
    {
        let side = TakenFork(NonNull::from(self).cast());
        worker.submit(side.into_task().unclaim());
        match catch_unwind(AssertUnwindSafe(a)) {
            Ok(left) => (left, self.finish(worker)),
            Err(payload) => self.abandon(Popped::Taken, worker, payload),
        }
    }

    /// Returns the value of a side that was taken: waits for it, or runs it here if no other worker
    /// has begun it. The fork must not move before it has settled, since the task points to it.
    #[cold]
    fn finish(&self, worker: &Worker) -> R {
        self.wait_until_private(worker);
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
    fn abandon(&self, popped: Popped, worker: &Worker, payload: Payload) -> ! {
        if popped == Popped::Taken {
            cancellation::cancel(self.header.task.wait());
            self.wait_until_private(worker);
        }
        // SAFETY: untouched or complete, so body and result are this side's alone.
        let unused = unsafe { ((*self.body.get()).take(), (*self.result.get()).take()) };
        // The caller gets one panic; another one out of a drop would end the process.
        panics::drop_quietly(unused);
        panic::resume_unwind(payload)
    }

    /// Waits until no other thread can reach this fork.
    fn wait_until_private(&self, worker: &Worker) {
        // A thief that has taken the side is about to note its task.
        worker.wait_for_task(self.header.task.wait(), None);
    }
}

/// Lets a hungry worker have something: the outermost right side, unless the queue still holds
/// something else.
#[cold]
fn share_outermost(worker: &Worker) {
    if !worker.pool().config.enable_stealing {
        return;
    }
    if !worker.has_queued_tasks()
        && let Some(side) = worker.fork_deque().share()
    {
        return worker.submit(TakenFork(side).into_task().unclaim());
    }
    // What is on the stack can be found there, too.
    worker.pool().notify();
}

/// A right side that was taken from a [`ForkDeque`], and has no task yet.
pub(crate) struct TakenFork(NonNull<ForkHeader>);

// SAFETY: `join` demands a right side and a result that may go to other threads, and of the header
// other threads use nothing but what they may share.
unsafe impl Send for TakenFork {}

impl TakenFork {
    /// Takes the outermost right side of the joins of another worker.
    pub(crate) fn steal(from: &ForkDeque<ForkHeader>) -> Option<Self> {
        from.steal().map(Self)
    }

    /// Makes the task that runs the side. It is claimed, so that the join cannot leave before this
    /// call has returned.
    pub(crate) fn into_task(self) -> ClaimedTask {
        // SAFETY: the join that noted this side waits for `task` to be set before it leaves.
        let ForkHeader { node, task, .. } = unsafe { self.0.as_ref() };
        // SAFETY: the join stands in the body of this node, which therefore has a guard.
        let (guard, root) = unsafe { (PendingGuard::of(*node), node::root_of(*node).as_ref()) };
        // SAFETY: the join waits for the task to be complete before it leaves the frame that the
        // body points into; the task returns nothing.
        let (handle, queued) = unsafe { job::make(guard, root, move || self.run()) };
        let claimed = queued.claim().expect("no other thread knows of the task");
        let noted = task.set(handle);
        noted.unwrap_or_else(|_| unreachable!("a side is taken once"));
        claimed
    }

    fn run(self) {
        let header = self.0;
        // SAFETY: the join waits for the task whose body this is, so the fork is alive; a task's
        // body runs once, and the join looks at body and result only after it.
        unsafe { ((*header.as_ptr()).run)(header) }
    }
}
