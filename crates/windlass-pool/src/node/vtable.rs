//! What a task can do and how it can end, as far as its node has to know.

use std::ptr::NonNull;

use super::Node;

/// What becomes of a claimed task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Disposition {
    /// Its body runs.
    Run,
    /// Its body is dropped, because the task was cancelled before it began.
    Discard,
}

/// How the body of a task ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TaskEnd {
    Completed,
    Cancelled,
    Panicked,
}

/// Whether a concluded body has left behind anything that must be dropped or reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NeedsDrop {
    No,
    Yes,
}

/// What a vtable of task does; a root has none.
pub(crate) struct TaskVTable {
    /// Runs or drops the body and stores what came of it. Does not unwind.
    ///
    /// # Safety
    /// The node is a task of this vtable, and the caller is the one that claimed it.
    pub(crate) run_or_discard: unsafe fn(NonNull<Node>, Disposition) -> (TaskEnd, NeedsDrop),
    /// Drops what the body returned, if it is still there.
    ///
    /// # Safety
    /// The node is a task of this vtable, its body has ended, nobody else looks at its outcome, and
    /// the root of its scope is alive.
    pub(crate) drop_outcome: unsafe fn(NonNull<Node>),
    /// Frees the memory.
    ///
    /// # Safety
    /// The node is a task of this vtable, and nothing refers to it any more.
    pub(crate) free: unsafe fn(NonNull<Node>),
}
