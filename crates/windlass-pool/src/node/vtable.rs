//! What a node knows of its task: how to run and free it, and how its body ended.

use std::ptr::NonNull;

use super::Node;

/// What is done with the body of a claimed task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Disposition {
    /// The body runs.
    Run,
    /// The body is dropped, because the task was cancelled before it started.
    Discard,
}

/// How the body of a task ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TaskEnd {
    Completed,
    Cancelled,
    Panicked,
}

/// Whether an ended body has stored an outcome that must be dropped or reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NeedsDrop {
    No,
    Yes,
}

/// The functions of a task whose body's type has been erased.
pub(crate) struct TaskVTable {
    /// Runs or drops the body and stores the outcome. Does not unwind.
    ///
    /// # Safety
    /// The node must be a task with this vtable, and the caller must have claimed it.
    pub(crate) run_or_discard: unsafe fn(NonNull<Node>, Disposition) -> (TaskEnd, NeedsDrop),
    /// Drops the outcome, if it has not been taken.
    ///
    /// # Safety
    /// The node must be a task with this vtable whose body has ended, no other thread may access its
    /// outcome, and the root of its scope must be alive.
    pub(crate) drop_outcome: unsafe fn(NonNull<Node>),
    /// Frees the memory.
    ///
    /// # Safety
    /// The node must be a task with this vtable, and nothing may refer to it any more.
    pub(crate) free: unsafe fn(NonNull<Node>),
}
