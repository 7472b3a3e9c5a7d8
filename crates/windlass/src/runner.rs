//! Runs the tasks of a source within a capacity, as a stream of their values and results.

use std::fmt;
use std::sync::Arc;

use futures::Stream;
use futures::stream::BoxStream;

use crate::ResourceCapacity;
use crate::id::WorkId;
use crate::source::{DependencySource, PriorityDependencySource, PrioritySource, Queue};
use crate::task::{ScheduledTask, TaskError};

mod run;
mod running;

use run::Run;

/// What a run of a [`TaskPoolRunner`] does when a task fails for good.
///
/// ```
/// use futures::StreamExt;
/// use windlass::ResourceCapacity;
/// use windlass::streams::{OnError, PrioritySource, ScheduledTask, TaskPoolRunner};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let source = PrioritySource::new();
/// for (key, result) in [("bad", Err("no route")), ("good", Ok(1))] {
///     source.push(ScheduledTask::<(), _, _>::new(key, move || async move { result }))?;
/// }
/// source.close();
/// let one = ResourceCapacity::new([("capacity", 1)]);
/// let run = TaskPoolRunner::new("all", &source, &one).run_tasks(OnError::Continue);
/// assert_eq!(run.count().await, 2, "with `OnError::Stop`, the second task would not start");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Stops: cancels everything else, yields what was sent before, and ends.
    #[default]
    Stop,
    /// Continues with all tasks that do not depend on it. Its dependents, at any depth, never start and never
    /// appear in the stream: the source's `state(key)` returns
    /// [`Aborted`](windlass_core::NodeState::Aborted) for them.
    Continue,
}

/// A value or the result of a task, from the stream of a [`TaskPoolRunner`], which has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskProgress<I, O, E> {
    /// The key of the task.
    pub key: Arc<str>,
    /// Its number within its source.
    pub task_id: WorkId,
    /// The value or the result.
    pub kind: TaskProgressKind<I, O, E>,
}

/// A value of a task, or its end. The example of [`TaskPoolRunner`] matches on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskProgressKind<I, O, E> {
    /// An intermediate value.
    Intermediate(I),
    /// It succeeded. Nothing follows from this task.
    Final(O),
    /// It failed for good. Nothing follows from this task.
    Error(TaskError<E>),
}

/// Runs the tasks of a source within a capacity.
///
/// The most urgent task that can start starts first. A task that does not fit is passed over, and what it
/// lacks is reserved for it. Tasks run inside the stream, while it is polled, so a slow consumer slows them.
/// Several runners on one capacity share it in turn.
///
/// ```
/// use futures::StreamExt;
/// use windlass::streams::{
///     OnError, PrioritySource, ScheduledTask, TaskPoolRunner, TaskProgressKind,
/// };
/// use windlass::{ResourceCapacity, ResourceCost};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Two at a time, and 16 GB of memory.
/// let capacity = ResourceCapacity::new([("capacity", 2), ("memory_gb", 16)]);
/// let source = PrioritySource::new();
/// let cost = |n: u32, gb: u32| ResourceCost::of([("capacity", n), ("memory_gb", gb)]);
/// source.enqueue(
///     ScheduledTask::new("task-1", || async { Ok::<_, std::io::Error>("result 1") })
///         .cost(cost(1, 4)?),
///     5,
/// )?;
/// source.enqueue(
///     ScheduledTask::streaming("task-2", |progress| async move {
///         progress.send("step 1 done").await;
///         progress.send("step 2 done").await;
///         Ok("final result")
///     })
///     .cost(cost(2, 8)?),
///     10,
/// )?;
/// source.close();
///
/// let mut lines = Vec::new();
/// let mut run = TaskPoolRunner::new("my-pool", &source, &capacity).run_tasks(OnError::Stop);
/// while let Some(progress) = run.next().await {
///     lines.push(match progress.kind {
///         TaskProgressKind::Intermediate(step) => format!("{}: {step}", progress.key),
///         TaskProgressKind::Final(result) => format!("{}: {result}", progress.key),
///         TaskProgressKind::Error(error) => format!("{}: {error}", progress.key),
///     });
/// }
/// assert_eq!(lines, [
///     "task-2: step 1 done",
///     "task-2: step 2 done",
///     "task-2: final result",
///     "task-1: result 1",
/// ]);
/// assert_eq!(capacity.available().to_string(), "capacity=2 memory_gb=16");
/// # Ok(())
/// # }
/// ```
#[must_use = "a runner does nothing until `run_tasks`"]
pub struct TaskPoolRunner<I, O, E> {
    name: Arc<str>,
    queue: Queue<ScheduledTask<I, O, E>>,
    feed: Option<Feed<I, O, E>>,
}

/// A stream of tasks that is read ahead.
struct Feed<I, O, E> {
    tasks: BoxStream<'static, ScheduledTask<I, O, E>>,
    look_ahead: usize,
}

/// How many tasks of a stream are read ahead by default.
const LOOK_AHEAD: usize = 64;

impl<I, O, E> TaskPoolRunner<I, O, E> {
    /// Creates a runner of the tasks of a source. From now on the source takes from this capacity, also for
    /// tasks under way that were pulled by hand or by another runner. If a source has several runners, they
    /// should have one capacity: the last runner's counts for all.
    ///
    /// The name is for logs.
    pub fn new(
        name: impl Into<Arc<str>>,
        source: impl Into<TaskSource<I, O, E>>,
        capacity: &ResourceCapacity,
    ) -> Self {
        let TaskSource(queue) = source.into();
        queue.take_from(capacity, ScheduledTask::price);
        Self { name: name.into(), queue, feed: None }
    }

    /// Creates a runner of any stream of tasks. It reads ahead, so that a task that does not fit does not delay
    /// the others; of the tasks read, the most urgent starts first.
    ///
    /// ```
    /// use std::convert::Infallible;
    /// use futures::{StreamExt, stream};
    /// use windlass::streams::{OnError, ScheduledTask, TaskPoolRunner};
    /// use windlass::{ResourceCapacity, ResourceCost};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let capacity = ResourceCapacity::new([("capacity", 8)]);
    /// let tasks = stream::iter(0..1000).map(|n| {
    ///     ScheduledTask::<(), _, Infallible>::new(n.to_string(), move || async move { Ok(n * n) })
    /// });
    /// let run = TaskPoolRunner::from_stream("squares", tasks, &capacity).run_tasks(OnError::Stop);
    /// assert_eq!(run.count().await, 1000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_stream(
        name: impl Into<Arc<str>>,
        tasks: impl Stream<Item = ScheduledTask<I, O, E>> + Send + 'static,
        capacity: &ResourceCapacity,
    ) -> Self {
        let source = PrioritySource::new();
        let runner = Self::new(name, &source, capacity);
        let feed = Feed { tasks: Box::pin(tasks), look_ahead: LOOK_AHEAD };
        Self { feed: Some(feed), ..runner }
    }

    /// Sets how many tasks of a stream are read ahead of those that run; by default 64, and at least one.
    pub fn look_ahead(mut self, tasks: usize) -> Self {
        if let Some(feed) = &mut self.feed {
            feed.look_ahead = tasks.max(1);
        }
        self
    }

    /// Returns the name of the runner.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs the tasks. The stream yields their values and results as they come.
    ///
    /// The stream ends when the source has: it is closed and everything in it has ended. Dropping it cancels
    /// everything in the source and releases all capacity. A closure that a worker of the CPU pool runs is
    /// asked to stop, and releases its capacity when it has returned.
    #[must_use = "tasks run while the stream is polled"]
    pub fn run_tasks(self, on_error: OnError) -> impl Stream<Item = TaskProgress<I, O, E>>
    where
        I: Send + 'static,
        O: Send + 'static,
        E: Send + 'static,
    {
        Run::new(self.queue, self.feed, on_error)
    }
}

/// A source of tasks for a [`TaskPoolRunner`]: converted from any of the three kinds.
///
/// ```
/// use std::convert::Infallible;
/// use windlass::streams::{PrioritySource, ScheduledTask, TaskSource};
///
/// let source = PrioritySource::<ScheduledTask<(), (), Infallible>>::new();
/// let tasks = TaskSource::from(&source);
/// # drop(tasks);
/// ```
#[must_use]
pub struct TaskSource<I, O, E>(Queue<ScheduledTask<I, O, E>>);

impl<I, O, E> fmt::Debug for TaskSource<I, O, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskSource").field("len", &self.0.len()).finish()
    }
}

impl<I, O, E> From<&PrioritySource<ScheduledTask<I, O, E>>> for TaskSource<I, O, E> {
    fn from(source: &PrioritySource<ScheduledTask<I, O, E>>) -> Self {
        Self(source.queue.clone())
    }
}

impl<K, I, O, E> From<&DependencySource<K, ScheduledTask<I, O, E>>> for TaskSource<I, O, E> {
    fn from(source: &DependencySource<K, ScheduledTask<I, O, E>>) -> Self {
        Self(source.queue().clone())
    }
}

impl<K, I, O, E> From<&PriorityDependencySource<K, ScheduledTask<I, O, E>>>
    for TaskSource<I, O, E>
{
    fn from(source: &PriorityDependencySource<K, ScheduledTask<I, O, E>>) -> Self {
        Self(source.queue().clone())
    }
}

impl<I, O, E> fmt::Debug for TaskPoolRunner<I, O, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskPoolRunner").field("name", &self.name).finish_non_exhaustive()
    }
}
