//! The handle to a task of a scope.

use std::{
    fmt, panic,
    time::{Duration, Instant},
};

use crate::{
    cancellation, checkpoint::CancelUnwind, error::TaskError, job::TaskHandle, node::ScopeRoot,
    pool::Pool,
};

/// The state of a task.
///
/// ```
/// use windlass_pool::{Scheduler, TaskState, with_scope};
///
/// let scheduler = Scheduler::new(1);
/// with_scope(&scheduler, |scope| {
///     let mut task = scope.spawn(|| 7);
///     while task.state() != TaskState::Completed {
///         std::thread::yield_now();
///     }
///     assert_eq!(task.try_result().unwrap().unwrap(), 7);
/// });
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TaskState {
    /// No thread has started to run it.
    New,
    /// Its body is running.
    Running,
    /// Its body has returned, but not all of its child tasks have ended.
    Completing,
    /// It and its child tasks have ended; the result is available.
    Completed,
    /// It was cancelled, and its body has not ended.
    Cancelling,
}

impl TaskState {
    pub(crate) fn of<T>(task: &TaskHandle<T>) -> Self {
        let flags = task.flags();
        match () {
            () if flags.complete => Self::Completed,
            () if flags.body_ended => Self::Completing,
            () if task.is_cancelled() => Self::Cancelling,
            () if flags.claimed => Self::Running,
            () => Self::New,
        }
    }
}

/// Handle to a spawned task. It cannot leave the scope in which the task was spawned.
///
/// Dropping the handle does not affect the task.
///
/// ```
/// use windlass_pool::{Scheduler, with_scope};
///
/// let scheduler = Scheduler::new(2);
/// let text = String::from("windlass");
/// let length = with_scope(&scheduler, |scope| {
///     let task = scope.spawn(|| text.len());
///     task.await_result()
/// });
/// assert_eq!(length.unwrap(), 8);
/// ```
pub struct Task<'scope, T> {
    handle: TaskHandle<T>,
    root: &'scope ScopeRoot,
    pool: &'scope Pool,
}

impl<'scope, T> Task<'scope, T> {
    pub(crate) fn new(handle: TaskHandle<T>, root: &'scope ScopeRoot, pool: &'scope Pool) -> Self {
        Self { handle, root, pool }
    }

    /// Waits until the task and its child tasks have ended, and returns what its body returned.
    ///
    /// A body that returns has a value even if the task was cancelled meanwhile. A worker that calls
    /// this runs the task itself if no other thread has started it, and otherwise helps with other
    /// tasks while it waits: descendants of the awaited task, or of the task or scope that awaits. It
    /// continues only when they have ended, so they must not wait for what follows the await.
    ///
    /// # Errors
    /// [`TaskError::Cancelled`] if the body never started or [`checkpoint`](crate::checkpoint) unwound
    /// it. [`TaskError::Panicked`] if it panicked; the scope does not raise this panic again.
    ///
    /// # Panics
    /// If the result was taken before, by [`Task::try_result`] or [`Task::await_timeout`].
    pub fn await_result(mut self) -> Result<T, TaskError> {
        self.pool.wait_for_task(&self.handle, None);
        self.take().expect("the result of the task was taken before")
    }

    /// Waits for the result, as [`Task::await_result`] does, for at most `limit`. Returns `None` if the
    /// task has not ended by then, or if the result was taken before.
    ///
    /// A worker runs the task itself if no other thread has started it; the limit does not interrupt this.
    /// It runs no other task, but other workers do, so a worker may poll with a limit of zero.
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass_pool::{Scheduler, cancelled, with_scope};
    ///
    /// let scheduler = Scheduler::new(1);
    /// with_scope(&scheduler, |scope| {
    ///     let mut task = scope.spawn(|| while !cancelled() {});
    ///     assert!(task.await_timeout(Duration::from_millis(1)).is_none());
    ///     task.cancel();
    ///     assert!(task.await_timeout(Duration::from_secs(60)).is_some());
    /// });
    /// ```
    pub fn await_timeout(&mut self, limit: Duration) -> Option<Result<T, TaskError>> {
        // A limit that `Instant` cannot represent is no limit.
        self.pool.wait_for_task(&self.handle, Instant::now().checked_add(limit));
        self.take()
    }

    /// Returns the result if the task has ended and the result has not been taken. Never waits: a worker
    /// that polls should do so with `await_timeout`, which lets other workers run what is queued here.
    ///
    /// ```
    /// use windlass_pool::{Scheduler, cancelled, with_scope};
    ///
    /// let scheduler = Scheduler::new(1);
    /// with_scope(&scheduler, |scope| {
    ///     let mut task = scope.spawn(|| while !cancelled() {});
    ///     assert!(task.try_result().is_none());
    ///     task.cancel();
    /// });
    /// ```
    pub fn try_result(&mut self) -> Option<Result<T, TaskError>> {
        self.take()
    }

    /// Cancels the task, its child tasks and the scopes inside them.
    ///
    /// A task that has not started never does. A running task sees the cancel by
    /// [`cancelled`](crate::cancelled) or [`checkpoint`](crate::checkpoint).
    ///
    /// ```
    /// use std::{thread, time::Duration};
    /// use windlass_pool::{Cancelled, Scheduler, cancelled, with_scope};
    /// # fn do_work() {}
    ///
    /// # let scheduler = Scheduler::new(2);
    /// with_scope(&scheduler, |scope| {
    ///     let task = scope.spawn(|| -> Result<(), Cancelled> {
    ///         loop {
    ///             // Check for cancellation
    ///             if cancelled() {
    ///                 return Err(Cancelled);
    ///             }
    ///             do_work();
    ///         }
    ///     });
    ///
    ///     // Cancel after timeout
    ///     thread::sleep(Duration::from_secs(1));
    ///     task.cancel();
    /// });
    /// ```
    pub fn cancel(&self) {
        cancellation::cancel(&self.handle);
    }

    /// Returns the state of the task. See [`TaskState`] for an example.
    pub fn state(&self) -> TaskState {
        TaskState::of(&self.handle)
    }

    /// Waits for the value. Continues the task's panic or cancel on the calling thread.
    pub(crate) fn into_value(self) -> T {
        match self.await_result() {
            Ok(value) => value,
            Err(TaskError::Cancelled) => panic::resume_unwind(Box::new(CancelUnwind)),
            Err(TaskError::Panicked(panic)) => panic.resume(),
        }
    }

    fn take(&mut self) -> Option<Result<T, TaskError>> {
        self.handle.take(self.root)
    }
}

impl<T> fmt::Debug for Task<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("state", &self.state()).finish_non_exhaustive()
    }
}
