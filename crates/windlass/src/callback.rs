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
/// let wrapped = WorkWithCallback::new(my_work, Arc::new(|outcome, ctx| {
///     println!("Work {} finished: {:?}", ctx.id, outcome);
/// }));
/// scheduler.add_work(Box::new(wrapped), vec![], 0);
/// ```
pub struct WorkWithCallback<W> {
    work: W,
    callback: Arc<WorkCallback>,
}

/// What a [`WorkWithCallback`] calls: a function of the outcome of an attempt and its context.
pub type WorkCallback = dyn Fn(&WorkOutcome, &WorkContext) + Send + Sync;

impl<W: Work> WorkWithCallback<W> {
    /// Wraps `work`, so that `callback` is called with the outcome of each attempt.
    pub fn new(work: W, callback: Arc<WorkCallback>) -> Self {
        Self { work, callback }
    }

    /// Returns the work without the callback.
    pub fn into_inner(self) -> W {
        self.work
    }
}

impl<W: fmt::Debug> fmt::Debug for WorkWithCallback<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkWithCallback").field("work", &self.work).finish_non_exhaustive()
    }
}

#[async_trait]
impl<W: Work> Work for WorkWithCallback<W> {
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
struct Call<'a> {
    callback: &'a WorkCallback,
    ctx: &'a WorkContext,
    done: bool,
}

impl Call<'_> {
    fn end(&mut self, outcome: &WorkOutcome) {
        if !std::mem::replace(&mut self.done, true) {
            (self.callback)(outcome, self.ctx);
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.end(&WorkOutcome::Cancelled);
    }
}
