//! Closures that an attempt runs on the CPU pool.
//!
//! A running closure cannot be dropped, as a future can: it is asked to stop, and its attempt keeps its slot
//! and resources until the closure returns. So no timeout ends the wait for it, and a body that returns,
//! panics or suspends itself before its closures waits for them. If the future of the attempt is dropped with
//! its run, the last closure to return reports the attempt's end. A closure that no worker has begun is
//! withdrawn instead.

use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};

use windlass_pool::TaskError;

use crate::attempt::give_up;
use crate::context::WorkContext;
use crate::pool_task::{PoolTask, Stopped};

/// Starts `task` on the pool. Returns a future of its result, which asks the task to stop when the attempt is
/// asked to stop and when it is dropped.
pub(crate) fn compute<T, F>(
    ctx: &WorkContext,
    task: F,
) -> impl Future<Output = Result<T, TaskError>> + Send + use<T, F>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let counted = Counted { task, _computing: Computing::begin(ctx) };
    let mut task = PoolTask::spawn(move || counted.run());
    let token = ctx.cancel_token().clone();
    async move {
        tokio::select! {
            result = &mut task => result,
            () = token.cancelled() => match task.stop() {
                Stopped::Withdrawn => Err(TaskError::Cancelled),
                Stopped::Asked => (&mut task).await,
            },
        }
    }
}

/// A closure of the attempt, which is dropped before it is no longer counted.
struct Counted<F> {
    task: F,
    _computing: Computing,
}

impl<T, F: FnOnce() -> T> Counted<F> {
    fn run(self) -> T {
        let Self { task, _computing } = self;
        task()
    }
}

/// Counts a closure of the attempt: from when it is queued until it has returned or was withdrawn.
struct Computing(WorkContext);

impl Computing {
    fn begin(ctx: &WorkContext) -> Self {
        ctx.inner.on_pool().state().closures += 1;
        Self(ctx.clone())
    }
}

impl Drop for Computing {
    fn drop(&mut self) {
        let Self(ctx) = self;
        let (is_last, reports_end) = {
            let mut state = ctx.inner.on_pool().state();
            state.closures -= 1;
            let is_last = state.closures == 0;
            (is_last, is_last && std::mem::take(&mut state.reports_end))
        };
        if reports_end {
            ctx.shared().session(|session| give_up(session, ctx.grant()));
        } else if is_last {
            ctx.inner.wake_all();
        }
    }
}

/// The closures of one attempt that are on the pool.
#[derive(Default)]
pub(crate) struct OnPool(Mutex<State>);

#[derive(Default)]
struct State {
    closures: u32,
    /// The future of the attempt is gone, so the last closure reports the attempt's end.
    reports_end: bool,
}

impl OnPool {
    pub(crate) fn is_busy(&self) -> bool {
        self.state().closures > 0
    }

    /// Leaves the report of the attempt's end to the last closure. Returns false if all have returned.
    pub(crate) fn leave(&self) -> bool {
        let mut state = self.state();
        state.reports_end = state.closures > 0;
        state.reports_end
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
