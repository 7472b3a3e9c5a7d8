//! One task under way: its body, and the values that it has sent and the runner has not taken.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::mpsc;
use windlass_core::Grant;
use windlass_pool as pool;

use crate::panic::into_message;
use crate::pool_task::{PoolTask, Stopped};
use crate::source::Started;
use crate::task::{Body, ScheduledTask, TaskError, TaskFuture, TaskResult, TaskSender};

/// A future that is ready with the task itself and the next event.
pub(super) struct RunningTask<I, O, E>(Option<TaskRun<I, O, E>>);

pub(super) struct TaskRun<I, O, E> {
    pub(super) grant: Grant,
    pub(super) task: ScheduledTask<I, O, E>,
    attempt: TaskAttempt<O, E>,
    values: Option<mpsc::Receiver<I>>,
    stopped: bool,
    /// The waker of the last poll, woken when the task is stopped.
    waker: Option<Waker>,
}

enum TaskAttempt<O, E> {
    Future(TaskFuture<O, E>),
    Cpu(PoolTask<Result<O, E>>, Arc<ReportOnDrop>),
    /// It has returned; values that it has sent may be left.
    Over(TaskResult<O, E>),
    /// It was stopped, or its end was reported.
    Gone,
}

/// An event of a task.
pub(super) enum TaskEvent<I, O, E> {
    Value(I),
    Ended(TaskResult<O, E>),
    Stopped,
}

/// Kept by a closure on the pool while it runs. The last owner reports the end of the task, if that was left
/// to it.
#[derive(Default)]
pub(super) struct ReportOnDrop {
    report: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Drop for ReportOnDrop {
    fn drop(&mut self) {
        let report = self.report.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(report) = report {
            report();
        }
    }
}

impl<I, O, E> TaskRun<I, O, E>
where
    O: Send + 'static,
    E: Send + 'static,
{
    /// Starts an attempt.
    pub(super) fn start(started: Started<ScheduledTask<I, O, E>>) -> Self {
        let (attempt, values) = match &started.task.body {
            Body::Future(start) => (begin(|| TaskAttempt::Future(start())), None),
            Body::Streaming(start) => {
                let (sender, values) = TaskSender::channel();
                (begin(|| TaskAttempt::Future(start(sender))), Some(values))
            }
            Body::Cpu(compute) => (on_pool(Arc::clone(compute)), None),
        };
        let Started { grant, task } = started;
        Self { grant, task, attempt, values, stopped: false, waker: None }
    }
}

impl<I, O, E> RunningTask<I, O, E>
where
    O: Send + 'static,
    E: Send + 'static,
{
    pub(super) fn of(inner: TaskRun<I, O, E>) -> Self {
        Self(Some(inner))
    }

    pub(super) fn grant(&self) -> Option<Grant> {
        self.0.as_ref().map(|inner| inner.grant)
    }

    /// Drops a future at once, and a closure that no worker of the pool has begun; asks one that runs to
    /// stop, and waits for it.
    pub(super) fn stop(&mut self) {
        let Some(inner) = &mut self.0 else { return };
        inner.stopped = true;
        match &inner.attempt {
            TaskAttempt::Cpu(task, _) if task.stop() == Stopped::Asked => {}
            _ => inner.attempt = TaskAttempt::Gone,
        }
        if let Some(waker) = inner.waker.take() {
            waker.wake();
        }
    }

    /// Stops it for good. Returns its grant if it has ended, and otherwise leaves `report` to the
    /// closure that still runs.
    pub(super) fn abandon(self, report: impl FnOnce(Grant) + Send + 'static) -> Option<Grant> {
        let inner = self.0?;
        let grant = inner.grant;
        let TaskAttempt::Cpu(task, hold) = inner.attempt else { return Some(grant) };
        if task.stop() == Stopped::Withdrawn {
            return Some(grant);
        }
        let mut left = hold.report.lock().unwrap_or_else(PoisonError::into_inner);
        *left = Some(Box::new(move || report(grant)));
        drop(left);
        None
    }
}

impl<I, O, E> Future for RunningTask<I, O, E>
where
    O: Send + 'static,
    E: Send + 'static,
{
    type Output = (TaskRun<I, O, E>, TaskEvent<I, O, E>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let inner = self.0.as_mut().expect("it is not polled after it was ready");
        match inner.poll(context) {
            Poll::Ready(event) => {
                Poll::Ready((self.0.take().expect("it was there just now"), event))
            }
            Poll::Pending => {
                inner.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<I, O, E> Unpin for RunningTask<I, O, E> {}

impl<I, O, E> TaskRun<I, O, E> {
    /// Returns the next event: a value that was sent comes before the end.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<TaskEvent<I, O, E>> {
        if let Poll::Ready(Some(value)) = self.poll_value(context) {
            return Poll::Ready(TaskEvent::Value(value));
        }
        if let Poll::Ready(over) = self.attempt.poll(context) {
            self.attempt = TaskAttempt::Over(over);
        }
        // It may have sent something while it was polled, also the last thing that it did.
        if let Poll::Ready(Some(value)) = self.poll_value(context) {
            return Poll::Ready(TaskEvent::Value(value));
        }
        match std::mem::replace(&mut self.attempt, TaskAttempt::Gone) {
            TaskAttempt::Over(_) if self.stopped => Poll::Ready(TaskEvent::Stopped),
            TaskAttempt::Over(result) => Poll::Ready(TaskEvent::Ended(result)),
            TaskAttempt::Gone => Poll::Ready(TaskEvent::Stopped),
            running => {
                self.attempt = running;
                Poll::Pending
            }
        }
    }

    fn poll_value(&mut self, context: &mut Context<'_>) -> Poll<Option<I>> {
        match &mut self.values {
            Some(values) => values.poll_recv(context),
            None => Poll::Ready(None),
        }
    }
}

impl<O, E> TaskAttempt<O, E> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<TaskResult<O, E>> {
        match self {
            TaskAttempt::Future(future) => {
                let polled = catch_unwind(AssertUnwindSafe(|| future.poll(context)));
                polled.unwrap_or_else(|panic| Poll::Ready(Err(panicked(panic))))
            }
            TaskAttempt::Cpu(task, _) => Pin::new(task).poll(context).map(|ended| match ended {
                Ok(result) => result.map_err(TaskError::Failed),
                Err(pool::TaskError::Panicked(panic)) => {
                    Err(TaskError::Panicked { message: panic.to_string() })
                }
                Err(_) => Err(TaskError::Panicked { message: "it was cancelled".to_owned() }),
            }),
            TaskAttempt::Over(_) | TaskAttempt::Gone => Poll::Pending,
        }
    }
}

fn on_pool<O, E>(compute: Arc<dyn Fn() -> Result<O, E> + Send + Sync>) -> TaskAttempt<O, E>
where
    O: Send + 'static,
    E: Send + 'static,
{
    let hold = Arc::new(ReportOnDrop::default());
    let kept = Arc::clone(&hold);
    let body = move || {
        let _kept = kept;
        compute()
    };
    TaskAttempt::Cpu(PoolTask::spawn(body), hold)
}

/// Starts an attempt. A panic counts as the attempt's.
fn begin<O, E>(start: impl FnOnce() -> TaskAttempt<O, E>) -> TaskAttempt<O, E> {
    let begun = catch_unwind(AssertUnwindSafe(start));
    begun.unwrap_or_else(|panic| TaskAttempt::Over(Err(panicked(panic))))
}

pub(super) fn panicked<E>(payload: Box<dyn Any + Send>) -> TaskError<E> {
    TaskError::Panicked { message: into_message(payload) }
}
