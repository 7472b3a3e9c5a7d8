//! The handle to a task in a scope.

use std::{
    fmt, panic,
    time::{Duration, Instant},
};

use crate::{
    cancellation, checkpoint::CancelUnwind, error::TaskError, job::TaskHandle, node::ScopeRoot,
    pool::Pool,
};

/// Where a task stands.
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
    /// Created, and nobody has begun to run it.
    New,
    /// Its body is running.
    Running,
    /// Its body has returned, but its child tasks have not all ended.
    Completing,
    /// It and its child tasks have ended; the result is available.
    Completed,
    /// It was asked to stop and has not ended.
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

/// Handle to a spawned task. It cannot leave the scope the task was spawned in.
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
    /// A body that returned gives its value also if the task was cancelled meanwhile. On a worker,
    /// the task is run here if nobody has begun it, and otherwise the worker makes itself useful.
    ///
    /// # Errors
    /// [`TaskError::Cancelled`] if the body never ran or was unwound by
    /// [`checkpoint`](crate::checkpoint); [`TaskError::Panicked`] if it panicked, and then the
    /// panic is not raised again at the end of the scope.
    ///
    /// # ScopePanics
    /// If the result was taken before, by [`Task::try_result`] or [`Task::await_timeout`].
    pub fn await_result(mut self) -> Result<T, TaskError> {
        self.pool.wait_for_task(&self.handle, None);
        self.take().expect("the result of a task is taken once")
    }

    /// As [`Task::await_result`], but waits no longer than `limit`; `None` if that was too short.
    ///
    /// A worker that runs the task itself is not interrupted by the limit.
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
        // A limit beyond the end of time is none.
        self.pool.wait_for_task(&self.handle, Instant::now().checked_add(limit));
        self.take()
    }

    /// The result, if the task has ended and the result has not been taken. Never waits.
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

    /// Asks the task, its child tasks and the scopes inside them to stop.
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

    /// Where the task stands. See [`TaskState`] for an example.
    pub fn state(&self) -> TaskState {
        TaskState::of(&self.handle)
    }

    /// The value; what kept the task from having one goes on here.
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
