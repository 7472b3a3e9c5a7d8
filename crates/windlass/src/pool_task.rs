//! A closure on the CPU pool. If no worker has begun it when it is stopped, it is withdrawn: it is dropped at
//! once, and a busy pool delays nothing.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use windlass_pool::{JoinTask, Scheduler, TaskError};

/// A closure that was given to the global pool, as a future of its result. Stopped when this is dropped.
pub(crate) struct PoolTask<T> {
    task: JoinTask<Option<T>>,
    unbegun: Arc<Unbegun<T>>,
}

/// What a stop finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// No worker had begun the closure, and none will.
    Withdrawn,
    /// A worker runs it, or has; it was asked to stop.
    Asked,
}

/// The closure, until a worker begins it.
struct Unbegun<T>(Mutex<Option<Box<dyn FnOnce() -> T + Send>>>);

impl<T> Unbegun<T> {
    fn take(&self) -> Option<Box<dyn FnOnce() -> T + Send>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<T: Send + 'static> PoolTask<T> {
    pub(crate) fn spawn(body: impl FnOnce() -> T + Send + 'static) -> Self {
        let unbegun = Arc::new(Unbegun(Mutex::new(Some(Box::new(body)))));
        let begin = Arc::clone(&unbegun);
        let task = Scheduler::global().spawn(move || begin.take().map(|body| body()));
        Self { task, unbegun }
    }
}

impl<T> PoolTask<T> {
    pub(crate) fn stop(&self) -> Stopped {
        if self.unbegun.take().is_some() {
            return Stopped::Withdrawn;
        }
        self.task.cancel();
        Stopped::Asked
    }
}

impl<T> Future for PoolTask<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let result = ready!(Pin::new(&mut self.task).poll(context));
        Poll::Ready(result.and_then(|value| value.ok_or(TaskError::Cancelled)))
    }
}

impl<T> Drop for PoolTask<T> {
    fn drop(&mut self) {
        self.stop();
    }
}
