//! What a scheduler keeps of a work: the user's code, and the future of the attempt under way.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use crate::context::WorkContext;
use crate::error::WorkError;
use crate::work::{Work, WorkOutcome};

/// What an attempt returns: its outcome, or the error with which a closure failed.
pub(crate) type Returned = Result<WorkOutcome, WorkError>;

/// A work with a place for the future of its attempt. Everything here runs the user's code, so it may
/// panic and must not be called under a lock.
pub(crate) trait Body: Send {
    /// Begins an attempt.
    fn begin(&mut self, ctx: WorkContext);

    /// Polls the attempt that has begun. Its future is dropped when it is ready.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Returned>;

    /// Drops the future of the attempt, if there is one.
    fn stop(&mut self);

    /// Returns the work itself. Only between attempts.
    fn work(&mut self) -> &mut dyn Work;

    /// Returns the work, without what the scheduler needs besides. The name is that by which the scheduler
    /// knew it.
    fn into_work(self: Box<Self>, name: &str) -> Box<dyn Work>;
}

/// The body of a value that implements [`Work`].
///
/// The future of [`Work::run`] borrows the work, so the attempt takes the work along and leaves it behind
/// when its future is dropped, also by a panic.
pub(crate) struct WorkBody {
    /// Absent while an attempt is under way.
    work: Option<Box<dyn Work>>,
    returned: Arc<Mutex<Option<Box<dyn Work>>>>,
    future: Option<Pin<Box<dyn Future<Output = WorkOutcome> + Send>>>,
}

/// A work that is lent to the future of an attempt.
struct Lent {
    work: Option<Box<dyn Work>>,
    owner: Arc<Mutex<Option<Box<dyn Work>>>>,
}

const IS_HERE: &str = "a work is in its place between attempts";

impl WorkBody {
    pub(crate) fn new(work: Box<dyn Work>) -> Self {
        Self { work: Some(work), returned: Arc::default(), future: None }
    }

    fn take_back(&mut self) {
        let mut returned = self.returned.lock().unwrap_or_else(PoisonError::into_inner);
        self.work = returned.take();
    }
}

impl Body for WorkBody {
    fn begin(&mut self, ctx: WorkContext) {
        let mut lent = Lent { work: self.work.take(), owner: Arc::clone(&self.returned) };
        self.future = Some(Box::pin(async move {
            let work = lent.work.as_mut().expect(IS_HERE);
            work.run(ctx).await
        }));
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Returned> {
        let future = self.future.as_mut().expect("an attempt is polled after it has begun");
        let outcome = ready!(future.as_mut().poll(cx));
        self.stop();
        Poll::Ready(Ok(outcome))
    }

    fn stop(&mut self) {
        let future = self.future.take();
        let is_lent = future.is_some();
        // The work is left behind even if the destructor of the future panics.
        let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(future)));
        if is_lent {
            self.take_back();
        }
        if let Err(panic) = dropped {
            std::panic::resume_unwind(panic);
        }
    }

    fn work(&mut self) -> &mut dyn Work {
        &mut **self.work.as_mut().expect(IS_HERE)
    }

    fn into_work(mut self: Box<Self>, _name: &str) -> Box<dyn Work> {
        self.work.take().expect(IS_HERE)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        *owner = self.work.take();
    }
}
