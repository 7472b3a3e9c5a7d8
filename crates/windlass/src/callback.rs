//! A work with a callback that is called with the outcome of each attempt.

use std::fmt;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;

use crate::context::WorkContext;
use crate::gate::Gate;
use crate::panic::message;
use crate::work::{Work, WorkOutcome, pass_hooks_on};

/// A work with a callback that is called exactly once for each attempt, after its outcome is known. A panic
/// counts as a failure, and an attempt that is dropped as cancelled. A panic in the callback counts as a
/// panic of the work.
///
/// ```
/// use std::sync::Arc;
/// use windlass::works::WorkWithCallback;
/// use windlass::{WorkContext, WorkOutcome, WorkScheduler};
/// # struct MyWork;
/// # #[windlass::async_trait]
/// # impl windlass::Work for MyWork {
/// #     async fn run(&mut self, _: WorkContext) -> WorkOutcome {
/// #         WorkOutcome::Success
/// #     }
/// # }
/// # let my_work = MyWork;
/// # let mut scheduler = WorkScheduler::default();
///
/// let callback = Arc::new(|outcome: &WorkOutcome, ctx: &WorkContext| {
///     println!("Work {} finished: {:?}", ctx.id, outcome);
/// });
/// let wrapped = WorkWithCallback::new(my_work, callback);
/// scheduler.add_work(Box::new(wrapped), vec![], 0);
/// ```
pub struct WorkWithCallback<W, F> {
    work: W,
    callback: Arc<F>,
}

impl<W, F> WorkWithCallback<W, F>
where
    W: Work,
    F: Fn(&WorkOutcome, &WorkContext) + Send + Sync + 'static,
{
    /// Wraps `work`, so that `callback` is called with the outcome of each attempt.
    pub fn new(work: W, callback: Arc<F>) -> Self {
        Self { work, callback }
    }

    /// Returns the work without the callback.
    pub fn into_inner(self) -> W {
        self.work
    }
}

impl<W: fmt::Debug, F> fmt::Debug for WorkWithCallback<W, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkWithCallback").field("work", &self.work).finish_non_exhaustive()
    }
}

#[async_trait]
impl<W, F> Work for WorkWithCallback<W, F>
where
    W: Work,
    F: Fn(&WorkOutcome, &WorkContext) + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        self.work.name()
    }

    fn gate(&mut self) -> Option<Gate> {
        self.work.gate()
    }

    async fn run(&mut self, ctx: WorkContext) -> WorkOutcome {
        let mut call = Call { callback: &*self.callback, ctx: &ctx, done: false };
        let run = AssertUnwindSafe(self.work.run(ctx.clone())).catch_unwind();
        match run.await {
            Ok(outcome) => {
                call.end(&outcome);
                outcome
            }
            Err(panic) => {
                let message = format!("the work panicked: {}", message(&*panic));
                call.end(&WorkOutcome::Failed(message));
                resume_unwind(panic)
            }
        }
    }

    pass_hooks_on!(this => this.work);
}

/// Calls the callback once, at the latest when the attempt is dropped.
struct Call<'a, F: Fn(&WorkOutcome, &WorkContext)> {
    callback: &'a F,
    ctx: &'a WorkContext,
    done: bool,
}

impl<F: Fn(&WorkOutcome, &WorkContext)> Call<'_, F> {
    fn end(&mut self, outcome: &WorkOutcome) {
        if !std::mem::replace(&mut self.done, true) {
            (self.callback)(outcome, self.ctx);
        }
    }
}

impl<F: Fn(&WorkOutcome, &WorkContext)> Drop for Call<'_, F> {
    fn drop(&mut self) {
        self.end(&WorkOutcome::Cancelled);
    }
}
