//! The references to a job: its place in a queue, its claim and its handle.

use std::{
    marker::PhantomData,
    mem::{self, ManuallyDrop},
    ops::Deref,
    ptr::NonNull,
};

use super::{Header, Outcome};
use crate::{
    error::{Panic, TaskError},
    node::{self, Disposition, EndedBody, Node, PendingGuard, ScopeRoot, TaskEnd},
    panics::Payload,
    trace::TaskId,
};

/// Creates the references to a new job.
///
/// # Safety
/// `task` must be a new job with a `Header<T>`, and this must be the only call for it.
#[inline]
pub(super) unsafe fn of_new_job<T>(task: NonNull<Node>) -> (TaskHandle<T>, QueuedTask) {
    (TaskHandle { task, value: PhantomData }, QueuedTask { task })
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
