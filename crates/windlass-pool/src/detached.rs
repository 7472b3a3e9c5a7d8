//! Tasks that belong to no scope, and the futures that wait for them.
//!
//! They borrow nothing, hang below a root that lives as long as the pool, and are cancelled when
//! the scheduler is dropped.

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

/// Handle to a task that was spawned on a [`Scheduler`] itself: a future, for async callers.
///
/// Dropping it lets the task go on; [`JoinTask::cancel`] asks it to stop. The future is ready when
/// the task has ended, and must not be polled again after that.
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
    /// Starts a task that belongs to no scope.
    ///
    /// It borrows nothing, and is not cancelled with the task that spawns it. When the scheduler is
    /// dropped, it is cancelled and waited for.
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
    /// Waits until the task has ended, on the calling thread.
    ///
    /// # Errors
    /// As for [`Task::await_result`](crate::Task::await_result).
    ///
    /// # ScopePanics
    /// If the result was taken before, by [`JoinTask::try_result`], [`JoinTask::await_timeout`] or a
    /// poll.
    pub fn await_result(mut self) -> Result<T, TaskError> {
        self.pool.wait_for_task(&self.handle, None);
        self.take().expect("the result of a task is taken once")
    }

    /// As [`JoinTask::await_result`], but waits no longer than `limit`. Returns `None` if that was
    /// too short, or if the result was taken before.
    ///
    /// A worker that runs the task itself is not interrupted by the limit.
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
        // A limit beyond the end of time is none.
        self.pool.wait_for_task(&self.handle, Instant::now().checked_add(limit));
        self.take()
    }

    /// The result, if the task has ended and the result has not been taken. Never waits.
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

    /// Asks the task and the scopes inside it to stop.
    ///
    /// ```
    /// use windlass_pool::{Scheduler, cancelled};
    ///
    /// let scheduler = Scheduler::new(1);
    /// let task = scheduler.spawn(|| while !cancelled() {});
    /// task.cancel();
    /// let _ended_or_never_begun = task.await_result();
    /// ```
    pub fn cancel(&self) {
        cancellation::cancel(&self.handle);
    }

    /// Where the task stands. See [`TaskState`] for an example.
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
        Poll::Ready(task.take().expect("a future is not polled after it was ready"))
    }
}

impl<T> Drop for JoinTask<T> {
    fn drop(&mut self) {
        wait_table::deregister_future(&self.handle);
    }
}

// The value is never pinned: it is moved out when the task has ended.
impl<T> Unpin for JoinTask<T> {}

impl<T> fmt::Debug for JoinTask<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinTask").field("state", &self.state()).finish_non_exhaustive()
    }
}
