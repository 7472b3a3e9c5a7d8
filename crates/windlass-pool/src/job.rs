//! A task in memory: its node, what its body returned, and the body itself, in one block.
//!
//! Small bodies lie in recycled blocks, so a spawn usually allocates nothing. The type of the body
//! is forgotten as soon as the block is filled; three kinds of reference lead back to it, each of
//! which keeps the block alive and is worth something:
//!
//! * [`QueuedTask`], one per task: a place in a queue;
//! * [`ClaimedTask`], at most one ever at a time: the right and the duty to run or discard the body;
//! * [`TaskHandle`], one per task: the right to the outcome.
//!
//! A body that borrows is run or discarded before its borrows end, because the scope it belongs to
//! waits for its root; [`make`] hands that duty to its caller. Knows nothing of workers and scopes.

#![allow(unsafe_code)]

use std::{
    alloc::Layout,
    cell::UnsafeCell,
    marker::PhantomData,
    mem::{self, ManuallyDrop},
    ops::Deref,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::NonNull,
};

use crate::{
    block_cache::{Block, Medium, Small},
    checkpoint::CancelUnwind,
    error::{Panic, TaskError},
    node::{
        self, Disposition, EndedBody, NeedsDrop, Node, PendingGuard, ScopeRoot, TaskEnd, TaskVTable,
    },
    panics::Payload,
    trace::TaskId,
};

/// What has come of a body.
enum Outcome<T> {
    Pending,
    Value(T),
    Cancelled,
    Panicked,
    Taken,
}

/// The part of a task that does not depend on its body's type.
#[repr(C)]
struct Header<T> {
    node: Node,
    outcome: UnsafeCell<Outcome<T>>,
}

#[repr(C)]
struct Job<F, T> {
    header: Header<T>,
    body: UnsafeCell<ManuallyDrop<F>>,
}

/// Makes a task below `guard`, in the scope of `root`.
///
/// # Safety
/// Nothing that `F` or `T` borrows may end before the task is complete and its handle is gone, and
/// `root` must not end before that either.
#[inline]
pub(crate) unsafe fn make<F, T>(
    guard: PendingGuard,
    root: &ScopeRoot,
    body: F,
) -> (TaskHandle<T>, QueuedTask)
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    let job = Job {
        header: Header {
            node: Node::task(guard, root, Job::<F, T>::VTABLE),
            outcome: UnsafeCell::new(Outcome::Pending),
        },
        body: UnsafeCell::new(ManuallyDrop::new(body)),
    };
    let task = job.into_memory();
    (TaskHandle { task, value: PhantomData }, QueuedTask { task })
}

/// As [`make`], for a body that borrows nothing.
pub(crate) fn make_static<F, T>(
    guard: PendingGuard,
    root: &ScopeRoot,
    body: F,
) -> (TaskHandle<T>, QueuedTask)
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    // SAFETY: there are no borrows that could end, and a root that is not tied to a scope belongs
    // to a pool, which its tasks and handles keep.
    unsafe { make(guard, root, body) }
}

impl<F: FnOnce() -> T, T> Job<F, T> {
    const VTABLE: &'static TaskVTable = &TaskVTable {
        run_or_discard: Self::run_or_discard,
        drop_outcome: drop_outcome::<T>,
        free: Self::free,
    };

    // Always inline, like the next: a job that is built elsewhere and then moved costs twice.
    #[inline(always)]
    fn into_memory(self) -> NonNull<Node> {
        let layout = Layout::new::<Self>();
        if Small::fits(layout) {
            self.into_block::<Small>()
        } else if Medium::fits(layout) {
            self.into_block::<Medium>()
        } else {
            NonNull::from(Box::leak(Box::new(self))).cast()
        }
    }

    #[inline(always)]
    fn into_block<B: Block>(self) -> NonNull<Node> {
        let job = NonNull::from(Box::leak(B::allocate())).cast::<Self>();
        // SAFETY: the block is ours, large and aligned enough, and holds nothing.
        unsafe { job.write(self) };
        job.cast()
    }

    unsafe fn free(task: NonNull<Node>) {
        let layout = Layout::new::<Self>();
        // Nothing in the job needs dropping: the body was taken out when it was concluded, and the
        // outcome was dropped or taken before the last reference went.
        if Small::fits(layout) {
            // SAFETY: `into_memory` put a job of this layout into such a block.
            Small::recycle(unsafe { Box::from_raw(task.cast().as_ptr()) });
        } else if Medium::fits(layout) {
            // SAFETY: as above.
            Medium::recycle(unsafe { Box::from_raw(task.cast().as_ptr()) });
        } else {
            // SAFETY: as above, in a box of its own.
            drop(unsafe { Box::<Self>::from_raw(task.cast().as_ptr()) });
        }
    }

    unsafe fn run_or_discard(
        task: NonNull<Node>,
        disposition: Disposition,
    ) -> (TaskEnd, NeedsDrop) {
        let job = task.cast::<Self>().as_ptr();
        // SAFETY: the block is alive; only atomics of the node are touched by others meanwhile.
        let node = unsafe { &(*job).header.node };
        // SAFETY: the claim is ours and is used once, so the body is there and nobody else's.
        let body = unsafe { ManuallyDrop::take(&mut *(*job).body.get()) };
        let (end, outcome) =
            match catch_unwind(AssertUnwindSafe(|| run_or_discard(node, body, disposition))) {
                Ok(outcome @ Outcome::Cancelled) => (TaskEnd::Cancelled, outcome),
                Ok(outcome) => (TaskEnd::Completed, outcome),
                Err(payload) if payload.is::<CancelUnwind>() => {
                    (TaskEnd::Cancelled, Outcome::Cancelled)
                }
                Err(payload) => {
                    // SAFETY: the claim goes with the body's guard, so the task is not complete.
                    unsafe { node.root() }.panics().record(node.address(), payload);
                    (TaskEnd::Panicked, Outcome::Panicked)
                }
            };
        let needs_drop = match outcome {
            Outcome::Value(_) | Outcome::Panicked => NeedsDrop::Yes,
            Outcome::Pending | Outcome::Cancelled | Outcome::Taken => NeedsDrop::No,
        };
        // SAFETY: until the body is ended by `end_body`, the outcome is the claimer's alone.
        unsafe { *(*job).header.outcome.get() = outcome };
        (end, needs_drop)
    }
}

/// Runs or drops the body; a value that nobody can ask for is dropped here as well, so that a panic
/// in its drop counts as one of the body.
fn run_or_discard<T>(
    node: &Node,
    body: impl FnOnce() -> T,
    disposition: Disposition,
) -> Outcome<T> {
    if disposition == Disposition::Discard {
        drop(body);
        return Outcome::Cancelled;
    }
    let value = body();
    if node.has_handle() {
        return Outcome::Value(value);
    }
    drop(value);
    Outcome::Taken
}

/// # Safety
///
/// The contract of `TaskVTable::drop_outcome`: `task` is a `Header<T>`, alive with its root, and its outcome
/// is the caller's.
unsafe fn drop_outcome<T>(task: NonNull<Node>) {
    let header = task.cast::<Header<T>>().as_ptr();
    // SAFETY: by the contract of `TaskVTable::drop_outcome` the outcome is ours.
    let outcome = mem::replace(unsafe { &mut *(*header).outcome.get() }, Outcome::Taken);
    if let Outcome::Panicked = outcome {
        // SAFETY: by the same contract node and root are alive.
        let node = unsafe { &(*header).node };
        // SAFETY: as above.
        unsafe { node.root() }.panics().mark_unobserved(node.address());
    }
}

/// A task's place in a queue.
#[must_use]
pub(crate) struct QueuedTask {
    task: NonNull<Node>,
}

// SAFETY: `make` demands a body and a value that may go to other threads.
unsafe impl Send for QueuedTask {}

impl QueuedTask {
    /// Takes the task on, unless somebody has done so already.
    #[inline]
    pub(crate) fn claim(self) -> Option<ClaimedTask> {
        // SAFETY: the place in the queue keeps the node alive.
        let claimed = unsafe { self.task.as_ref() }.claim();
        claimed.then(|| ClaimedTask { task: ManuallyDrop::new(self).task, from_queue: true })
    }

    /// As [`QueuedTask::claim`]; cheaper for a task that was made on this thread.
    #[inline]
    pub(crate) fn claim_own(self) -> Option<ClaimedTask> {
        // SAFETY: the place in the queue keeps the node alive.
        let claimed = unsafe { self.task.as_ref() }.claim_from_queue();
        claimed.then(|| ClaimedTask { task: ManuallyDrop::new(self).task, from_queue: true })
    }

    pub(crate) fn id(&self) -> TaskId {
        TaskId(self.task.addr().get())
    }

    /// Whether the task, if it is not complete, has been cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        // SAFETY: the place in the queue keeps the node alive.
        unsafe { PendingGuard::of_incomplete(self.task) }.is_some_and(|guard| guard.is_cancelled())
    }
}

impl Drop for QueuedTask {
    fn drop(&mut self) {
        // SAFETY: this value is the place in the queue. Queues are emptied before they go, so what
        // is dropped here was claimed by its awaiter.
        unsafe { node::leave_queue(self.task) };
    }
}

/// The right and the duty to run or discard a body.
#[must_use]
pub(crate) struct ClaimedTask {
    task: NonNull<Node>,
    from_queue: bool,
}

impl ClaimedTask {
    /// Runs the body, or drops it if the task has been cancelled.
    #[inline]
    pub(crate) fn run(self) -> EndedTask {
        let disposition = if self.is_cancelled() { Disposition::Discard } else { Disposition::Run };
        self.run_or_discard(disposition)
    }

    /// Runs the body even if the task has been cancelled.
    pub(crate) fn run_regardless(self) -> EndedTask {
        self.run_or_discard(Disposition::Run)
    }

    /// Whether the task is one of `tops` or below one of them.
    pub(crate) fn is_within(&self, tops: [Option<&Node>; 2]) -> bool {
        // SAFETY: the body's guard, which goes with the claim, keeps the node from completing.
        unsafe { node::is_within(self.task, tops) }
    }

    fn is_cancelled(&self) -> bool {
        // SAFETY: as above.
        unsafe { node::is_cancelled(self.task) }
    }

    /// Drops the body.
    pub(crate) fn discard(self) -> EndedTask {
        self.run_or_discard(Disposition::Discard)
    }

    #[inline]
    fn run_or_discard(self, disposition: Disposition) -> EndedTask {
        let vtable = self.vtable();
        // SAFETY: the claim is ours, and its guards keep the node from completing.
        let run_or_discard = || unsafe { (vtable.run_or_discard)(self.task, disposition) };
        // SAFETY: as above; this is how the body of the task is run, and it does not unwind.
        let ((end, needs_drop), spawned) = unsafe { node::inside_body(self.task, run_or_discard) };
        let body = EndedBody { from_queue: self.from_queue, needs_drop, spawned };
        EndedTask { task: self.task, end, body }
    }

    pub(crate) fn id(&self) -> TaskId {
        TaskId(self.address())
    }

    /// Puts a task that was taken from a queue back into its unclaimed state.
    pub(crate) fn unclaim(self) -> QueuedTask {
        debug_assert!(self.from_queue, "a handle's claim is never given up");
        (*self).unclaim();
        QueuedTask { task: self.task }
    }
}

impl Deref for ClaimedTask {
    type Target = Node;

    fn deref(&self) -> &Node {
        // SAFETY: the body's guard, which goes with the claim, keeps the node alive.
        unsafe { self.task.as_ref() }
    }
}

/// A body that has ended, of which nobody knows before it is closed.
#[must_use]
pub(crate) struct EndedTask {
    task: NonNull<Node>,
    end: TaskEnd,
    body: EndedBody,
}

impl EndedTask {
    #[inline]
    pub(crate) fn end(&self) -> TaskEnd {
        self.end
    }

    /// Tells everybody but the parent: if the task is complete, its guard of the parent is returned.
    #[inline]
    pub(crate) fn close(self) -> Option<PendingGuard> {
        // SAFETY: the body was concluded under a claim, and this is the last use of the node.
        unsafe { node::end_body(self.task, self.body) }
    }
}

/// The right to what comes of a task.
#[must_use]
pub(crate) struct TaskHandle<T> {
    task: NonNull<Node>,
    value: PhantomData<T>,
}

// SAFETY: through the handle a value can go to another thread, which `T: Send` allows.
unsafe impl<T: Send> Send for TaskHandle<T> {}
// SAFETY: a shared handle leads to the node only, never to the value.
unsafe impl<T> Sync for TaskHandle<T> {}

impl<T> TaskHandle<T> {
    /// Takes the task on, unless somebody has done so already.
    pub(crate) fn claim(&self) -> Option<ClaimedTask> {
        Node::claim(self).then_some(ClaimedTask { task: self.task, from_queue: false })
    }

    /// The outcome, once the task is complete and unless it has been taken; `root` is that of the
    /// task's scope.
    pub(crate) fn take(&mut self, root: &ScopeRoot) -> Option<Result<T, TaskError>> {
        if !self.is_complete() {
            return None;
        }
        let header = self.task.cast::<Header<T>>().as_ptr();
        // SAFETY: the task is complete, so the outcome belongs to the handle, which is borrowed
        // exclusively.
        match mem::replace(unsafe { &mut *(*header).outcome.get() }, Outcome::Taken) {
            Outcome::Value(value) => Some(Ok(value)),
            Outcome::Cancelled => Some(Err(TaskError::Cancelled)),
            Outcome::Panicked => Some(Err(TaskError::Panicked(Panic::new(self.panic(root))))),
            Outcome::Taken => None,
            Outcome::Pending => unreachable!("a complete task has an outcome"),
        }
    }

    /// Whether the task, if it is not complete, has been cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        // SAFETY: the handle keeps the node alive.
        unsafe { PendingGuard::of_incomplete(self.task) }.is_some_and(|guard| guard.is_cancelled())
    }

    fn panic(&self, root: &ScopeRoot) -> Payload {
        root.panics().take(self.address()).expect("a panic is kept until the handle takes it")
    }
}

impl<T> Deref for TaskHandle<T> {
    type Target = Node;

    fn deref(&self) -> &Node {
        // SAFETY: the handle keeps the node alive.
        unsafe { self.task.as_ref() }
    }
}

impl<T> Drop for TaskHandle<T> {
    fn drop(&mut self) {
        // SAFETY: this value is the handle.
        unsafe { node::drop_handle(self.task) };
    }
}
