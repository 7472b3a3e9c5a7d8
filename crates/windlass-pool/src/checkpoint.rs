//! Where a body asks whether it should stop.

use std::{panic, thread};

use crate::node;

/// What [`checkpoint`] unwinds with.
pub(crate) struct CancelUnwind;

/// Whether the task or scope that the caller is in has been cancelled, by itself, by something
/// around it, or by a deadline.
///
/// Costs a few loads, so it may stand in inner loops. Outside every scope the answer is `false`.
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

/// Ends the task that the caller is in if it has been cancelled.
///
/// The task is unwound, so everything on its stack is dropped, and its result is
/// [`TaskError::Cancelled`](crate::TaskError::Cancelled). In the body of a scope the unwinding goes
/// on through the scope, to the [`with_deadline`](crate::with_deadline) whose deadline has passed,
/// or to the task around it. Does nothing while the thread is unwinding anyway.
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
