//! Detached tasks: tasks that belong to no scope, and the futures that wait for them.
//!
//! They borrow nothing. Their parent is a root of the pool, and they are cancelled when the
//! scheduler is dropped.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use crate::{
    cancellation,
    error::TaskError,
    job::{self, TaskHandle},
    node::Disposition,
    pool::Pool,
    scheduler::Scheduler,
    task::TaskState,
    wait_table::{self, Registration, WakeTarget},
};

/// Handle to a detached task, spawned with [`Scheduler::spawn`]: a future, for async callers.
///
/// Dropping the handle detaches the task, which continues; [`JoinTask::cancel`] cancels it. The
/// future is ready when the task has ended, and must not be polled after that.
///
/// ```
/// use windlass_pool::{JoinTask, Scheduler};
///
/// async fn answer(scheduler: &Scheduler) -> u32 {
///     let task: JoinTask<u32> = scheduler.spawn(|| 6 * 7);
///     task.await.unwrap()
/// }
/// # let scheduler = Scheduler::new(1);
/// # let mut future = std::pin::pin!(answer(&scheduler));
/// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// # while future.as_mut().poll(&mut context).is_pending() {}
/// ```
pub struct JoinTask<T> {
    handle: TaskHandle<T>,
    pool: Arc<Pool>,
}

impl Scheduler {
    /// Spawns a detached task, which belongs to no scope.
    ///
    /// The task borrows nothing, and is not cancelled with the task that spawns it. Dropping the
    /// scheduler cancels the task and waits for it.
    ///
    /// ```
    /// let scheduler = windlass_pool::Scheduler::new(1);
    /// let task = scheduler.spawn(|| "done");
    /// assert_eq!(task.await_result().unwrap(), "done");
    /// ```
    pub fn spawn<F, T>(&self, body: F) -> JoinTask<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let pool = Arc::clone(self.pool());
        let (handle, queued) = job::make_static(pool.detached.guard(), &pool.detached, body);
        pool.submit(queued, Disposition::Run);
        JoinTask { handle, pool }
    }
}

impl<T> JoinTask<T> {
    /// Blocks the calling thread until the task has ended, and returns its result.
    ///
    /// # Errors
    /// As for [`Task::await_result`](crate::Task::await_result).
    ///
    /// # Panics
    /// If the result was taken before, by [`JoinTask::try_result`], [`JoinTask::await_timeout`] or a
    /// poll.
    pub fn await_result(mut self) -> Result<T, TaskError> {
        self.pool.wait_for_task(&self.handle, None);
        self.take().expect("the result of the task was taken before")
    }

    /// Waits for the result, as [`JoinTask::await_result`] does, for at most `limit`. Returns `None`
    /// if the task has not ended by then, or if the result was taken before.
    ///
    /// A worker runs the task itself if no other thread has started it; the limit does not interrupt this.
    /// It runs no other task, but other workers do, so a worker may poll with a limit of zero.
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass_pool::{Scheduler, cancelled};
    ///
    /// let scheduler = Scheduler::new(1);
    /// let mut task = scheduler.spawn(|| while !cancelled() {});
    /// assert!(task.await_timeout(Duration::from_millis(1)).is_none());
    /// task.cancel();
    /// assert!(task.await_timeout(Duration::from_secs(60)).is_some());
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
    /// let scheduler = windlass_pool::Scheduler::new(1);
    /// let mut task = scheduler.spawn(|| 1);
    /// let result = loop {
    ///     if let Some(result) = task.try_result() {
    ///         break result;
    ///     }
    /// };
    /// assert_eq!(result.unwrap(), 1);
    /// ```
    pub fn try_result(&mut self) -> Option<Result<T, TaskError>> {
        self.take()
    }

    /// Cancels the task and the scopes inside it.
    ///
    /// ```
    /// use windlass_pool::{Scheduler, cancelled};
    ///
    /// let scheduler = Scheduler::new(1);
    /// let task = scheduler.spawn(|| while !cancelled() {});
    /// task.cancel();
    /// let _ended_or_never_started = task.await_result();
    /// ```
    pub fn cancel(&self) {
        cancellation::cancel(&self.handle);
    }

    /// Returns the state of the task. See [`TaskState`] for an example.
    pub fn state(&self) -> TaskState {
        TaskState::of(&self.handle)
    }

    fn take(&mut self) -> Option<Result<T, TaskError>> {
        self.handle.take(&self.pool.detached)
    }
}

impl<T> Future for JoinTask<T> {
    type Output = Result<T, TaskError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let task = self.get_mut();
        if !task.handle.is_complete() {
            let target = WakeTarget::Future(context.waker().clone());
            if wait_table::register(&task.handle, target) == Registration::Registered {
                return Poll::Pending;
            }
        }
        Poll::Ready(task.take().expect("a ready future must not be polled again"))
    }
}

impl<T> Drop for JoinTask<T> {
    fn drop(&mut self) {
        wait_table::deregister_future(&self.handle);
    }
}

// The value is never pinned; it is moved out when the task has ended.
impl<T> Unpin for JoinTask<T> {}

impl<T> fmt::Debug for JoinTask<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinTask").field("state", &self.state()).finish_non_exhaustive()
    }
}
