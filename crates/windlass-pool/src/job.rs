//! A *job*: the memory of one task, with its node, its outcome and its body.
//!
//! Small jobs lie in recycled blocks, so a spawn usually allocates nothing. The type of the body is
//! erased as soon as the job is written. Three kinds of reference lead to the job, each of which
//! keeps it alive:
//!
//! * [`QueuedTask`], one per task: its place in a queue;
//! * [`ClaimedTask`], at most one at a time: the right and the duty to run or discard the body;
//! * [`TaskHandle`], one per task: the right to the outcome.
//!
//! A body that borrows is run or discarded before its borrows end, because its scope waits for its
//! root; the contract of [`make`] makes its caller responsible for that. Knows nothing of workers
//! and scopes.

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

/// How a body ended, and its value.
enum Outcome<T> {
    Pending,
    Value(T),
    Cancelled,
    Panicked,
    Taken,
}

/// The part of a job that does not depend on its body's type.
#[repr(C)]
struct Header<T> {
    node: Node,
    outcome: UnsafeCell<Outcome<T>>,
}

/// The memory of one task.
#[repr(C)]
struct Job<F, T> {
    header: Header<T>,
    body: UnsafeCell<ManuallyDrop<F>>,
}

/// Whether a task runs that was cancelled before it started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IfCancelled {
    Discard,
    Run,
}

/// Creates a task in the scope of `root`. `guard` is its count in its parent.
///
/// # Safety
/// What `F` and `T` borrow, and `root`, must stay valid until the task is complete and its handle has
/// been dropped.
#[inline]
pub(crate) unsafe fn make<F, T>(
    guard: PendingGuard,
    root: &ScopeRoot,
    if_cancelled: IfCancelled,
    body: F,
) -> (TaskHandle<T>, QueuedTask)
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    let vtable = match if_cancelled {
        IfCancelled::Discard => Job::<F, T>::VTABLE,
        IfCancelled::Run => Job::<F, T>::VTABLE_THAT_ALWAYS_RUNS,
    };
    let job = Job {
        header: Header {
            node: Node::task(guard, root, vtable),
            outcome: UnsafeCell::new(Outcome::Pending),
        },
        body: UnsafeCell::new(ManuallyDrop::new(body)),
    };
    let task = job.into_memory();
    (TaskHandle { task, value: PhantomData }, QueuedTask { task })
}

/// Creates a task whose body borrows nothing, as [`make`] does.
pub(crate) fn make_static<F, T>(
    guard: PendingGuard,
    root: &ScopeRoot,
    body: F,
) -> (TaskHandle<T>, QueuedTask)
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    // SAFETY: there are no borrows that could end. A root without a scope belongs to a pool, which
    // waits for its tasks and which its handles keep alive.
    unsafe { make(guard, root, IfCancelled::Discard, body) }
}

impl<F: FnOnce() -> T, T> Job<F, T> {
    const VTABLE: &'static TaskVTable = &TaskVTable {
        run_or_discard: Self::run_or_discard,
        drop_outcome: drop_outcome::<T>,
        free: Self::free,
    };

    const VTABLE_THAT_ALWAYS_RUNS: &'static TaskVTable =
        &TaskVTable { run_or_discard: Self::run_always, ..*Self::VTABLE };

    // Always inline, as `into_block`: otherwise the job would be built elsewhere and then moved.
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
        // SAFETY: the block is unused, and large and aligned enough; no other thread knows it.
        unsafe { job.write(self) };
        job.cast()
    }

    /// Frees the job's memory.
    ///
    /// # Safety
    /// The contract of `TaskVTable::free`, for a `Job<F, T>`.
    unsafe fn free(task: NonNull<Node>) {
        let layout = Layout::new::<Self>();
        // Nothing in the job needs dropping: the body was moved out to run or discard it, and the
        // outcome was dropped or taken before the last reference was dropped.
        if Small::fits(layout) {
            // SAFETY: `into_memory` put a job of this layout into such a block.
            Small::recycle(unsafe { Box::from_raw(task.cast().as_ptr()) });
        } else if Medium::fits(layout) {
            // SAFETY: as above.
            Medium::recycle(unsafe { Box::from_raw(task.cast().as_ptr()) });
        } else {
            // SAFETY: `into_memory` put a job of this layout into a box of its own.
            drop(unsafe { Box::<Self>::from_raw(task.cast().as_ptr()) });
        }
    }

    /// Runs the body, even if the task was cancelled, and stores the outcome.
    ///
    /// # Safety
    /// The contract of `TaskVTable::run_or_discard`, for a `Job<F, T>`.
    unsafe fn run_always(task: NonNull<Node>, _: Disposition) -> (TaskEnd, NeedsDrop) {
        // SAFETY: by the same contract.
        unsafe { Self::run_or_discard(task, Disposition::Run) }
    }

    /// Runs or drops the body and stores the outcome.
    ///
    /// # Safety
    /// The contract of `TaskVTable::run_or_discard`, for a `Job<F, T>`.
    unsafe fn run_or_discard(
        task: NonNull<Node>,
        disposition: Disposition,
    ) -> (TaskEnd, NeedsDrop) {
        let job = task.cast::<Self>().as_ptr();
        // SAFETY: the job is alive, and other threads access only the node's atomics meanwhile.
        let node = unsafe { &(*job).header.node };
        // SAFETY: the caller has the claim and uses it once, so the body is there and no other
        // thread accesses it.
        let body = unsafe { ManuallyDrop::take(&mut *(*job).body.get()) };
        let (end, outcome) =
            match catch_unwind(AssertUnwindSafe(|| run_or_discard(node, body, disposition))) {
                Ok(outcome @ Outcome::Cancelled) => (TaskEnd::Cancelled, outcome),
                Ok(outcome) => (TaskEnd::Completed, outcome),
                Err(payload) if payload.is::<CancelUnwind>() => {
                    (TaskEnd::Cancelled, Outcome::Cancelled)
                }
                Err(payload) => {
                    // SAFETY: the pending count contains the body's bias, so the task is not complete.
                    unsafe { node.root() }.panics().record(node.address(), payload);
                    (TaskEnd::Panicked, Outcome::Panicked)
                }
            };
        let needs_drop = match outcome {
            Outcome::Value(_) | Outcome::Panicked => NeedsDrop::Yes,
            Outcome::Pending | Outcome::Cancelled | Outcome::Taken => NeedsDrop::No,
        };
        // SAFETY: until `end_body`, only the thread with the claim accesses the outcome.
        unsafe { *(*job).header.outcome.get() = outcome };
        (end, needs_drop)
    }
}

/// Runs or drops the body. Drops a value to which no handle leads, so that a panic in that drop
/// counts as a panic of the body.
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

/// Drops the outcome of a task, if it has not been taken.
///
/// # Safety
/// The contract of `TaskVTable::drop_outcome`, for a job with a `Header<T>`.
unsafe fn drop_outcome<T>(task: NonNull<Node>) {
    let header = task.cast::<Header<T>>().as_ptr();
    // SAFETY: by the contract, no other thread accesses the outcome.
    let outcome = mem::replace(unsafe { &mut *(*header).outcome.get() }, Outcome::Taken);
    if let Outcome::Panicked = outcome {
        // SAFETY: by the same contract the node is alive.
        let node = unsafe { &(*header).node };
        // SAFETY: by the same contract the root is alive.
        unsafe { node.root() }.panics().mark_unobserved(node.address());
    }
}

/// A task's place in a queue.
#[must_use]
pub(crate) struct QueuedTask {
    task: NonNull<Node>,
}

// SAFETY: `make` demands a body and a value that are `Send`.
unsafe impl Send for QueuedTask {}

impl QueuedTask {
    /// Claims the task. Returns `None` if another thread has claimed it.
    #[inline]
    pub(crate) fn claim(self) -> Option<ClaimedTask> {
        // SAFETY: the place in the queue keeps the node alive.
        let claimed = unsafe { self.task.as_ref() }.claim();
        claimed.then(|| ClaimedTask { task: ManuallyDrop::new(self).task, from_queue: true })
    }

    /// Claims the task, as [`QueuedTask::claim`] does. Cheaper for a task that this thread spawned.
    #[inline]
    pub(crate) fn claim_own(self) -> Option<ClaimedTask> {
        // SAFETY: the place in the queue keeps the node alive.
        let claimed = unsafe { self.task.as_ref() }.claim_from_queue();
        claimed.then(|| ClaimedTask { task: ManuallyDrop::new(self).task, from_queue: true })
    }

    pub(crate) fn id(&self) -> TaskId {
        TaskId(self.task.addr().get())
    }

    /// Returns whether the task has been cancelled and is not complete.
    pub(crate) fn is_cancelled(&self) -> bool {
        // SAFETY: the place in the queue keeps the node alive.
        unsafe { PendingGuard::of_incomplete(self.task) }.is_some_and(|guard| guard.is_cancelled())
    }
}

impl Drop for QueuedTask {
    fn drop(&mut self) {
        // SAFETY: this value is the place in the queue. Queues are emptied before they are dropped, so
        // a task that is dropped here has been claimed through its handle.
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

    /// Returns whether the task is one of `tops` or a descendant of one.
    pub(crate) fn is_within(&self, tops: [Option<&Node>; 2]) -> bool {
        // SAFETY: until the claim is used, the body's bias keeps the node from completing.
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
        // SAFETY: this value is the claim, and the body's bias keeps the node from completing.
        let run_or_discard = || unsafe { (vtable.run_or_discard)(self.task, disposition) };
        // SAFETY: as above; no other thread runs the body, and `run_or_discard` does not unwind.
        let ((end, needs_drop), spawned) = unsafe { node::inside_body(self.task, run_or_discard) };
        let body = EndedBody { from_queue: self.from_queue, needs_drop, spawned };
        EndedTask { task: self.task, end, body }
    }

    pub(crate) fn id(&self) -> TaskId {
        TaskId(self.address())
    }

    /// Gives up the claim of a task that was taken from a queue.
    pub(crate) fn unclaim(self) -> QueuedTask {
        debug_assert!(self.from_queue, "a claim through a handle is never given up");
        (*self).unclaim();
        QueuedTask { task: self.task }
    }
}

impl Deref for ClaimedTask {
    type Target = Node;

    fn deref(&self) -> &Node {
        // SAFETY: until the claim is used, the body's bias keeps the node alive.
        unsafe { self.task.as_ref() }
    }
}

/// A task whose body has ended, before its node records that.
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

    /// Records the end in the node, and wakes the waiters of a task that is now complete. Returns the
    /// guard that a complete task held in its parent.
    #[inline]
    pub(crate) fn close(self) -> Option<PendingGuard> {
        // SAFETY: the body was run or discarded under a claim, and this is the last access.
        unsafe { node::end_body(self.task, self.body) }
    }
}

/// The right to the outcome of a task.
#[must_use]
pub(crate) struct TaskHandle<T> {
    task: NonNull<Node>,
    value: PhantomData<T>,
}

// SAFETY: a handle sends a value to another thread, which `T: Send` allows.
unsafe impl<T: Send> Send for TaskHandle<T> {}
// SAFETY: a shared handle gives access to the node only, not to the value.
unsafe impl<T> Sync for TaskHandle<T> {}

impl<T> TaskHandle<T> {
    /// Claims the task. Returns `None` if another thread has claimed it.
    pub(crate) fn claim(&self) -> Option<ClaimedTask> {
        Node::claim(self).then_some(ClaimedTask { task: self.task, from_queue: false })
    }

    /// Takes the outcome. Returns `None` if the task is not complete or the outcome was taken before.
    /// `root` must be the root of the task's scope.
    pub(crate) fn take(&mut self, root: &ScopeRoot) -> Option<Result<T, TaskError>> {
        if !self.is_complete() {
            return None;
        }
        let header = self.task.cast::<Header<T>>().as_ptr();
        // SAFETY: the task is complete, so only the handle accesses the outcome, and the handle is
        // borrowed mutably.
        match mem::replace(unsafe { &mut *(*header).outcome.get() }, Outcome::Taken) {
            Outcome::Value(value) => Some(Ok(value)),
            Outcome::Cancelled => Some(Err(TaskError::Cancelled)),
            Outcome::Panicked => Some(Err(TaskError::Panicked(Panic::new(self.panic(root))))),
            Outcome::Taken => None,
            Outcome::Pending => unreachable!("a complete task has an outcome"),
        }
    }

    /// Returns whether the task has been cancelled and is not complete.
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
