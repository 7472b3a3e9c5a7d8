//! Where a body checks whether it has been cancelled.

use std::{panic, thread};

use crate::node;

/// The payload with which [`checkpoint`] unwinds.
pub(crate) struct CancelUnwind;

/// Returns whether the current task or scope has been cancelled: directly, with a scope or task that
/// encloses it, or by a deadline.
///
/// Takes a few loads, so it is cheap enough for inner loops. Returns `false` outside every scope.
///
/// ```
/// use windlass_pool::{Scheduler, cancelled, with_scope};
///
/// let scheduler = Scheduler::new(1);
/// with_scope(&scheduler, |scope| {
///     assert!(!cancelled());
///     scope.cancel();
///     assert!(cancelled());
/// });
/// ```
pub fn cancelled() -> bool {
    node::current_is_cancelled()
}

/// Unwinds the current task if it has been cancelled.
///
/// Everything on the task's stack is dropped, and its result is
/// [`TaskError::Cancelled`](crate::TaskError::Cancelled). In the body of a scope, the unwinding
/// continues through the scope: to the [`with_deadline`](crate::with_deadline) whose deadline has
/// passed, or to the enclosing task. Does nothing while the thread is already unwinding.
///
/// ```
/// use windlass_pool::{Scheduler, TaskError, checkpoint, with_scope};
///
/// let scheduler = Scheduler::new(1);
/// with_scope(&scheduler, |scope| {
///     let task = scope.spawn(|| {
///         loop {
///             checkpoint();
///         }
///     });
///     task.cancel();
///     let result: Result<(), TaskError> = task.await_result();
///     assert!(matches!(result, Err(TaskError::Cancelled)));
/// });
/// ```
pub fn checkpoint() {
    if cancelled() && !thread::panicking() {
        panic::resume_unwind(Box::new(CancelUnwind));
    }
}
