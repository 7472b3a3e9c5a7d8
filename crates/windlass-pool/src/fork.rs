//! Fork-join: the right closure of a join, which another worker may run.
//!
//! A join keeps its right closure in its own stack frame, as a *fork*, and pushes a pointer to it to
//! its worker's [`ForkDeque`]. Usually it pops the fork a moment later and runs it, and no other
//! thread has seen it. A fork that was *taken* from the deque becomes a task, a child of the task in
//! which the join runs. The join returns after that task is complete, so the frame stays valid.
//!
//! A fork is taken in two ways. If the owner forks while another worker is idle, it takes its own
//! outermost fork, most likely the largest, and queues it. And a worker that has found no task in
//! any queue steals a fork before it sleeps, whatever the owner does; see `worker/steal.rs`. The
//! first is cheap and frequent. The second costs a system call. It is for an owner that forks no more
//! because its left closure computes or blocks for long.
//!
//! No fork stays hidden from an idle worker. The owner pushes the fork, then reads the counts of
//! `sleep`. If they show an idle worker, the owner passes a fence and notifies, by the protocol of
//! `sleep`. If they show none, it passes no fence, so that the common case is fast; then a worker
//! that becomes idle at this moment may miss the fork. But that worker changes the counts before it
//! checks the fork deques, and checks them again a millisecond after it fell asleep. The owner pushed
//! the fork before it read the old counts, and a store reaches other processors within microseconds:
//! the second check sees the fork. This argument about time only affects how soon a fork is found,
//! never which thread runs it.
//!
//! A fork runs even in a cancelled task, because a join has to return two values. If the fork's task
//! was discarded because of a cancel, the join runs the closure itself.

#![allow(unsafe_code)]

use std::{
    cell::UnsafeCell,
    panic::{self, AssertUnwindSafe, catch_unwind},
    ptr::NonNull,
    sync::{
        OnceLock,
        atomic::{Ordering::SeqCst, compiler_fence},
    },
    thread,
};

use crate::{
    abort::AbortOnUnwind,
    cancellation,
    job::{self, ClaimedTask, IfCancelled, TaskHandle},
    node::{self, Node, PendingGuard},
    panics::{self, Payload},
    worker::Worker,
};

mod deque;
mod deques;

pub(crate) use deque::{ForkDeque, Popped};
pub(crate) use deques::ForkDeques;

/// The part of a fork that does not depend on types.
pub(crate) struct ForkHeader {
    /// Runs the closure and stores its result.
    ///
    /// # Safety
    /// The header must be the first field of the fork for which this function was made. The fork
    /// must be alive, and no other thread may access its closure or result meanwhile.
    run: unsafe fn(NonNull<ForkHeader>),
    /// The task in which the join runs.
    node: NonNull<Node>,
    /// The task of the fork, once the fork has been taken.
    task: OnceLock<TaskHandle<()>>,
}

/// The right closure of a join.
#[repr(C)]
struct Fork<F, R> {
    header: ForkHeader,
    closure: UnsafeCell<Option<F>>,
    result: UnsafeCell<Option<thread::Result<R>>>,
}

/// Runs both closures, possibly at the same time, and returns both results.
#[inline]
pub(crate) fn join<A, B, RA, RB>(worker: &Worker, a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA,
    B: FnOnce() -> RB + Send,
    RB: Send,
{
    let node = node::current_ptr().expect("a worker runs only tasks");
    let fork = Fork {
        header: ForkHeader { run: Fork::<B, RB>::run, node, task: OnceLock::new() },
        closure: UnsafeCell::new(Some(b)),
        result: UnsafeCell::new(None),
    };
    let header = NonNull::from(&fork).cast();
    if !worker.fork_deque().push(header) {
        return fork.join_without_room(worker, a);
    }
    // Keeps the compiler from reading the counts before the push; see the module's header.
    compiler_fence(SeqCst);
    if worker.has_idle_worker() {
        share_outermost(worker);
    }
    // Nothing may unwind from here to the pop, since the fork deque points into this frame.
    match catch_unwind(AssertUnwindSafe(a)) {
        Ok(left) if worker.fork_deque().pop() == Popped::Untouched => (left, fork.run_here()),
        Ok(left) => (left, fork.finish(worker)),
        Err(payload) => fork.abandon(worker.fork_deque().pop(), worker, payload),
    }
}

impl<F: FnOnce() -> R, R> Fork<F, R> {
    /// Runs the closure and stores its result.
    ///
    /// # Safety
    /// The contract of `ForkHeader::run`, for a `Fork<F, R>`.
    unsafe fn run(header: NonNull<ForkHeader>) {
        let fork = header.cast::<Self>().as_ptr();
        // SAFETY: by the contract of `ForkHeader::run`.
        let closure = unsafe { (*(*fork).closure.get()).take() }.expect("a fork runs once");
        let result = catch_unwind(AssertUnwindSafe(closure));
        // SAFETY: as above.
        unsafe { *(*fork).result.get() = Some(result) };
    }

    /// Runs a fork that was not taken. Not through `run`, which stores the result: moving it would
    /// cost more than the rest of the join.
    #[inline]
    fn run_here(&self) -> R {
        // SAFETY: the fork was popped untouched, so no other thread can access its closure.
        let closure = unsafe { (*self.closure.get()).take() };
        (closure.expect("a fork runs once"))()
    }

    /// Joins when the fork deque is full: the fork becomes a task at once.
    #[cold]
    fn join_without_room<A, RA>(&self, worker: &Worker, a: A) -> (RA, R)
    where
        A: FnOnce() -> RA,
    {
        let fork = TakenFork(NonNull::from(self).cast());
        worker.submit(fork.into_task().unclaim());
        match catch_unwind(AssertUnwindSafe(a)) {
            Ok(left) => (left, self.finish(worker)),
            Err(payload) => self.abandon(Popped::Taken, worker, payload),
        }
    }

    /// Returns the result of a fork that was taken: waits for its task, or runs it here if no other
    /// worker has started it.
    #[cold]
    fn finish(&self, worker: &Worker) -> R {
        self.wait_for_task(worker);
        // SAFETY: the task is complete, so no other thread can access closure and result.
        let (result, closure) =
            unsafe { ((*self.result.get()).take(), (*self.closure.get()).take()) };
        match result {
            Some(Ok(value)) => value,
            Some(Err(payload)) => panic::resume_unwind(payload),
            None => (closure.expect("a discarded fork has not run"))(),
        }
    }

    /// Continues the panic of the left closure, after the fork has been cancelled and has ended.
    #[cold]
    fn abandon(&self, popped: Popped, worker: &Worker, payload: Payload) -> ! {
        if popped == Popped::Taken {
            cancellation::cancel(self.header.task.wait());
            self.wait_for_task(worker);
        }
        // SAFETY: the fork was not taken or its task is complete, so no other thread can access
        // closure and result.
        let unused = unsafe { ((*self.closure.get()).take(), (*self.result.get()).take()) };
        // A second panic, out of a drop, would abort the process.
        panics::drop_quietly(unused);
        panic::resume_unwind(payload)
    }

    /// Waits until the task of a taken fork is complete, so that no other thread can reach the fork.
    fn wait_for_task(&self, worker: &Worker) {
        let abort = AbortOnUnwind::new("a join unwound before its right closure had ended");
        // A thief that has taken the fork sets `task` before it does anything else.
        worker.wait_for_task(self.header.task.wait(), None);
        abort.disarm();
    }
}

/// Gives an idle worker something to run: queues the outermost fork, unless the worker's deque
/// still holds a task.
#[cold]
fn share_outermost(worker: &Worker) {
    if !worker.pool().queues.is_stealing_enabled() {
        return;
    }
    if !worker.has_queued_tasks()
        && let Some(fork) = worker.fork_deque().share()
    {
        return worker.submit(TakenFork(fork).into_task().unclaim());
    }
    // The idle worker can take a queued task, or steal the fork.
    worker.pool().notify();
}

/// A fork that was taken from a [`ForkDeque`] and has no task yet.
pub(crate) struct TakenFork(NonNull<ForkHeader>);

// SAFETY: `join` demands a closure and a result that are `Send`. Of the header, other threads use
// only what is `Sync`.
unsafe impl Send for TakenFork {}

impl TakenFork {
    /// Takes the outermost fork of another worker.
    pub(crate) fn steal(from: &ForkDeque<ForkHeader>) -> Option<Self> {
        from.steal().map(Self)
    }

    /// Creates the task that runs the fork. It is claimed, so the join cannot return before this
    /// call has.
    pub(crate) fn into_task(self) -> ClaimedTask {
        // SAFETY: the join of this fork waits for `task` to be set before it returns.
        let ForkHeader { node, task, .. } = unsafe { self.0.as_ref() };
        // SAFETY: the join runs in the body of this node, so the node has its body's bias.
        let (guard, root) = unsafe { (PendingGuard::of(*node), node::root_of(*node).as_ref()) };
        // SAFETY: the join waits for the task to complete before it leaves the frame into which the
        // task's body points. The task returns no value.
        let (handle, queued) =
            unsafe { job::make(guard, root, IfCancelled::Discard, move || self.run()) };
        let claimed = queued.claim().expect("no other thread knows the task");
        task.set(handle).unwrap_or_else(|_| unreachable!("a fork is taken once"));
        claimed
    }

    fn run(self) {
        let header = self.0;
        // SAFETY: the join waits for the task whose body this is, so the fork is alive. A task's
        // body runs once, and the join accesses closure and result only afterwards.
        unsafe { ((*header.as_ptr()).run)(header) }
    }
}
