//! A task for a runner: its body, its cost, and its hooks.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt};
use thiserror::Error;
use tokio::sync::mpsc;
use windlass_core::{ResourceCost, RetryPolicy};

use crate::capacity::ImpossibleCost;
use crate::panic::drop_quietly;
use crate::source::PRIORITY;

/// A task for a [`TaskPoolRunner`](crate::streams::TaskPoolRunner).
///
/// Its intermediate values have the type `I`, its result `O` and its error `E`. It is created from a function
/// that starts each attempt. Clones run the same function.
///
/// ```
/// use std::convert::Infallible;
/// use windlass::streams::ScheduledTask;
/// use windlass::ResourceCost;
///
/// // A future.
/// let plain = ScheduledTask::<(), _, Infallible>::new("plain", || async { Ok(42) });
///
/// // With intermediate values.
/// let streaming = ScheduledTask::streaming("streaming", |progress| async move {
///     progress.send("half of it").await;
///     Ok::<_, Infallible>("all of it")
/// });
///
/// // A computation, on the CPU pool.
/// let computing = ScheduledTask::<(), _, Infallible>::cpu("sum", || Ok((1..=100).sum::<u32>()))
///     .cost([("cpu", 1)])
///     .priority(5)
///     .on_complete(|key, sum| println!("{key}: {sum}"));
/// assert_eq!(computing.key(), "sum");
/// # drop((plain, streaming));
/// # Ok::<(), windlass::core::ResourceCostError>(())
/// ```
#[must_use = "a task does nothing until a runner runs it"]
pub struct ScheduledTask<I, O, E> {
    pub(crate) key: Arc<str>,
    pub(crate) body: Body<I, O, E>,
    pub(crate) priority: i64,
    /// Out of line, because many tasks have none of it.
    extras: Option<Box<Extras<O, E>>>,
}

/// Optional settings.
struct Extras<O, E> {
    cost: Option<ResourceCost>,
    retry: Option<RetryPolicy>,
    on_complete: Option<Arc<CompleteHook<O>>>,
    on_error: Option<Arc<ErrorHook<E>>>,
}

pub(crate) type CompleteHook<O> = dyn Fn(&str, &O) + Send + Sync;
pub(crate) type ErrorHook<E> = dyn Fn(&str, &TaskError<E>) + Send + Sync;
/// How an attempt ended.
pub(crate) type TaskResult<O, E> = Result<O, TaskError<E>>;

/// How a task is started.
pub(crate) enum Body<I, O, E> {
    Future(Arc<dyn Fn() -> TaskFuture<O, E> + Send + Sync>),
    Streaming(Arc<dyn Fn(TaskSender<I>) -> TaskFuture<O, E> + Send + Sync>),
    Cpu(Arc<dyn Fn() -> Result<O, E> + Send + Sync>),
}

/// The future of an attempt; none once it is over.
pub(crate) struct TaskFuture<O, E>(Option<BoxFuture<'static, TaskResult<O, E>>>);

impl<O, E> TaskFuture<O, E> {
    fn of(future: impl Future<Output = TaskResult<O, E>> + Send + 'static) -> Self {
        Self(Some(Box::pin(future)))
    }

    /// Drops the user's future as soon as it is ready; that may panic, as polling it may. Not to be called
    /// after that.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<TaskResult<O, E>> {
        let result = ready!(self.0.as_mut().expect("it is not over").poll_unpin(context));
        self.0 = None;
        Poll::Ready(result)
    }
}

impl<O, E> Drop for TaskFuture<O, E> {
    /// A future that is dropped before it is over was stopped: a panic of its destructor is contained.
    fn drop(&mut self) {
        drop_quietly(self.0.take());
    }
}

/// A function of the user's. A panic of its destructor concerns no task: it is contained.
struct Contained<F>(Option<F>);

impl<F> Contained<F> {
    fn new(function: F) -> Self {
        Self(Some(function))
    }

    fn get(&self) -> &F {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl<F> Drop for Contained<F> {
    fn drop(&mut self) {
        drop_quietly(self.0.take());
    }
}

/// One item of a task that is a stream. [`ScheduledTask::from_stream`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskYield<I, O> {
    /// An intermediate value.
    Intermediate(I),
    /// The result. The stream is not polled again.
    Final(O),
}

/// Why a task failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TaskError<E> {
    /// It returned an error.
    #[error("{0}")]
    Failed(E),
    /// It panicked.
    #[error("the task panicked: {message}")]
    Panicked {
        /// The message of the panic.
        message: String,
    },
    /// Its stream ended without a final value.
    #[error("the task's stream ended without a final value")]
    NoFinal,
    /// The limits of the runner's capacity never allow its cost.
    #[error(transparent)]
    Impossible(Box<ImpossibleCost>),
}

impl<E> From<ImpossibleCost> for TaskError<E> {
    fn from(error: ImpossibleCost) -> Self {
        Self::Impossible(Box::new(error))
    }
}

/// Sends the intermediate values of a task; clones send to the same place.
///
/// ```
/// use std::convert::Infallible;
/// use windlass::streams::ScheduledTask;
///
/// let task = ScheduledTask::streaming("copy", |progress| async move {
///     for percent in [25, 50, 75] {
///         progress.send(percent).await;
///     }
///     Ok::<_, Infallible>(())
/// });
/// # drop(task);
/// ```
pub struct TaskSender<I> {
    values: mpsc::Sender<I>,
}

impl<I, O, E> ScheduledTask<I, O, E> {
    /// Creates a task that is a future; `start` creates one for each attempt.
    pub fn new<F, Fut>(key: impl Into<Arc<str>>, start: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, E>> + Send + 'static,
    {
        let start = Contained::new(start);
        let start =
            move || TaskFuture::of(start.get()().map(|result| result.map_err(TaskError::Failed)));
        Self::of(key, Body::Future(Arc::new(start)))
    }

    /// Creates a task that sends values while it runs; `start` creates a future for each attempt from the
    /// sender of its values.
    pub fn streaming<F, Fut>(key: impl Into<Arc<str>>, start: F) -> Self
    where
        F: Fn(TaskSender<I>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, E>> + Send + 'static,
    {
        let start = Contained::new(start);
        let start = move |values| {
            TaskFuture::of(start.get()(values).map(|result| result.map_err(TaskError::Failed)))
        };
        Self::of(key, Body::Streaming(Arc::new(start)))
    }

    /// Creates a task that is a stream with a final value; `start` creates one for each attempt.
    ///
    /// ```
    /// use std::convert::Infallible;
    /// use futures::stream;
    /// use windlass::streams::{ScheduledTask, TaskYield};
    ///
    /// let task = ScheduledTask::from_stream("count", || {
    ///     let items = [TaskYield::Intermediate(1), TaskYield::Intermediate(2), TaskYield::Final("done")];
    ///     stream::iter(items.map(Ok::<_, Infallible>))
    /// });
    /// # drop(task);
    /// ```
    pub fn from_stream<F, S>(key: impl Into<Arc<str>>, start: F) -> Self
    where
        F: Fn() -> S + Send + Sync + 'static,
        S: Stream<Item = Result<TaskYield<I, O>, E>> + Send + 'static,
        I: Send + 'static,
        O: Send + 'static,
        E: Send + 'static,
    {
        let start = Contained::new(start);
        let start = move |values| TaskFuture::of(forward(start.get()(), values));
        Self::of(key, Body::Streaming(Arc::new(start)))
    }

    /// Creates a task that computes on the CPU pool, so it keeps no thread of the async runtime busy. If it is
    /// asked to stop, `pool::cancelled()` returns true inside.
    pub fn cpu<F>(key: impl Into<Arc<str>>, compute: F) -> Self
    where
        F: Fn() -> Result<O, E> + Send + Sync + 'static,
    {
        let compute = Contained::new(compute);
        Self::of(key, Body::Cpu(Arc::new(move || compute.get()())))
    }

    fn of(key: impl Into<Arc<str>>, body: Body<I, O, E>) -> Self {
        Self { key: key.into(), body, priority: PRIORITY, extras: None }
    }

    /// Sets what the task takes from the runner's capacity while it runs. By default, it takes one of
    /// `capacity` if a level declares that.
    pub fn cost(mut self, cost: impl Into<ResourceCost>) -> Self {
        self.extras.get_or_insert_default().cost = Some(cost.into());
        self
    }

    /// Sets the priority for sources without priorities of their own; larger is more urgent, and the default is
    /// 1.
    pub fn priority(mut self, priority: i64) -> Self {
        self.priority = priority;
        self
    }

    /// Sets how the task is retried when it fails. It holds nothing while it waits for a retry.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.extras.get_or_insert_default().retry = Some(policy);
        self
    }

    /// Sets a hook that is called with the key and the result after the task has succeeded and its end was
    /// reported.
    pub fn on_complete(mut self, hook: impl Fn(&str, &O) + Send + Sync + 'static) -> Self {
        let hook = Contained::new(hook);
        let hook = move |key: &str, result: &O| hook.get()(key, result);
        self.extras.get_or_insert_default().on_complete = Some(Arc::new(hook));
        self
    }

    /// Sets a hook that is called with the key and the error after the task has failed for good and its end was
    /// reported.
    pub fn on_error(mut self, hook: impl Fn(&str, &TaskError<E>) + Send + Sync + 'static) -> Self {
        let hook = Contained::new(hook);
        let hook = move |key: &str, error: &TaskError<E>| hook.get()(key, error);
        self.extras.get_or_insert_default().on_error = Some(Arc::new(hook));
        self
    }

    /// Returns the key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns its cost, if it has one.
    pub(crate) fn price(&self) -> Option<&ResourceCost> {
        self.extras.as_ref()?.cost.as_ref()
    }

    pub(crate) fn policy(&self) -> Option<RetryPolicy> {
        self.extras.as_ref()?.retry
    }

    pub(crate) fn complete_hook(&self) -> Option<&CompleteHook<O>> {
        self.extras.as_ref()?.on_complete.as_deref()
    }

    pub(crate) fn error_hook(&self) -> Option<&ErrorHook<E>> {
        self.extras.as_ref()?.on_error.as_deref()
    }
}

impl<I> TaskSender<I> {
    pub(crate) fn channel() -> (Self, mpsc::Receiver<I>) {
        let (values, received) = mpsc::channel(1);
        (Self { values }, received)
    }

    /// Sends a value. Waits while the value before it has not been taken, so that a slow reader slows the task.
    /// Once the task has ended or is stopped, values are dropped.
    pub async fn send(&self, value: I) {
        // The receiver is gone only once the task has ended or is stopped.
        drop(self.values.send(value).await);
    }
}

async fn forward<I, O, E>(
    stream: impl Stream<Item = Result<TaskYield<I, O>, E>>,
    values: TaskSender<I>,
) -> TaskResult<O, E> {
    let mut stream = std::pin::pin!(stream);
    while let Some(item) = stream.next().await {
        match item.map_err(TaskError::Failed)? {
            TaskYield::Intermediate(value) => values.send(value).await,
            TaskYield::Final(value) => return Ok(value),
        }
    }
    Err(TaskError::NoFinal)
}

impl<I, O, E> Clone for Body<I, O, E> {
    fn clone(&self) -> Self {
        match self {
            Body::Future(start) => Body::Future(Arc::clone(start)),
            Body::Streaming(start) => Body::Streaming(Arc::clone(start)),
            Body::Cpu(compute) => Body::Cpu(Arc::clone(compute)),
        }
    }
}

impl<I, O, E> Clone for ScheduledTask<I, O, E> {
    fn clone(&self) -> Self {
        let Self { key, body, priority, extras } = self;
        let (key, body) = (Arc::clone(key), body.clone());
        Self { key, body, priority: *priority, extras: extras.clone() }
    }
}

impl<O, E> Clone for Extras<O, E> {
    fn clone(&self) -> Self {
        let Self { cost, retry, on_complete, on_error } = self;
        let (on_complete, on_error) = (on_complete.clone(), on_error.clone());
        Self { cost: cost.clone(), retry: *retry, on_complete, on_error }
    }
}

impl<O, E> Default for Extras<O, E> {
    fn default() -> Self {
        Self { cost: None, retry: None, on_complete: None, on_error: None }
    }
}

impl<I> Clone for TaskSender<I> {
    fn clone(&self) -> Self {
        Self { values: self.values.clone() }
    }
}

impl<I, O, E> fmt::Debug for ScheduledTask<I, O, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduledTask").field("key", &self.key).finish_non_exhaustive()
    }
}

impl<I> fmt::Debug for TaskSender<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskSender").finish_non_exhaustive()
    }
}
