//! Closures that an attempt runs on the CPU pool.
//!
//! A closure cannot be dropped while it runs, as a future can: it is asked to stop, and its attempt keeps its slot
//! and resources until the closure returns. So no timeout ends the wait for it. If the future of the attempt is
//! dropped all the same, with its run, the last closure to return reports the attempt's end.

use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};

use windlass_pool::{JoinTask, Scheduler, TaskError};

use crate::attempt::give_up;
use crate::context::WorkContext;

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
    let computing = Computing::begin(ctx);
    let mut task = StopOnDrop(Scheduler::global().spawn(move || {
        let _computing = computing;
        task()
    }));
    let token = ctx.cancel_token().clone();
    async move {
        tokio::select! {
            result = &mut task.0 => result,
            () = token.cancelled() => {
                task.0.cancel();
                (&mut task.0).await
            }
        }
    }
}

struct StopOnDrop<T>(JoinTask<T>);

impl<T> Drop for StopOnDrop<T> {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Lives as long as a closure of the attempt runs: the closure owns it.
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
        let is_last_to_report = {
            let mut state = ctx.inner.on_pool().state();
            state.closures -= 1;
            state.closures == 0 && std::mem::take(&mut state.reports_end)
        };
        if is_last_to_report {
            ctx.shared().session(|session| give_up(session, ctx.grant()));
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
