//! Works that compute: closures on the CPU pool instead of futures on the runtime.

use std::sync::Arc;

use async_trait::async_trait;
use windlass_pool::{JoinTask, Scheduler, TaskError};

use crate::work::{Work, WorkContext, WorkOutcome};

/// A work that runs `body` on the pool's workers, so that it keeps no thread of the async runtime
/// busy.
///
/// A cancel passes through: inside the body `pool::cancelled()` turns true, `pool::checkpoint()`
/// unwinds, and so do the scopes and tasks that the body has opened.
///
/// ```
/// use windlass::{WorkOutcome, WorkScheduler, WorkSchedulerConfig, WorkState, pool, work_cpu};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut scheduler = WorkScheduler::new(WorkSchedulerConfig::default());
/// let sum = work_cpu("sum", |_ctx| {
///     let (a, b) = pool::join(|| (0..1000).sum::<u64>(), || (1000..2000).sum::<u64>());
///     assert_eq!(a + b, 1_999_000);
///     WorkOutcome::Success
/// });
/// let id = scheduler.add_work(Box::new(sum), vec![], 0);
/// scheduler.run_until_done().await;
/// assert_eq!(scheduler.state(id), Some(WorkState::Success));
/// # }
/// ```
pub fn work_cpu<F>(name: impl Into<String>, body: F) -> impl Work
where
    F: Fn(&WorkContext) -> WorkOutcome + Send + Sync + 'static,
{
    CpuWork { name: name.into(), body: Arc::new(body) }
}

struct CpuWork<F> {
    name: String,
    body: Arc<F>,
}

#[async_trait]
impl<F> Work for CpuWork<F>
where
    F: Fn(&WorkContext) -> WorkOutcome + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }

    async fn run(&mut self, ctx: WorkContext) -> WorkOutcome {
        let body = Arc::clone(&self.body);
        let inside = ctx.clone();
        let mut task = Abandoned(Scheduler::global().spawn(move || body(&inside)));
        let result = tokio::select! {
            result = &mut task.0 => result,
            () = ctx.cancel_token().cancelled() => {
                task.0.cancel();
                (&mut task.0).await
            }
        };
        match result {
            Ok(outcome) => outcome,
            Err(TaskError::Panicked(panic)) => panic.resume(),
            Err(_) => WorkOutcome::Cancelled,
        }
    }
}

/// A task that is asked to stop when nobody waits for it any more.
struct Abandoned(JoinTask<WorkOutcome>);

impl Drop for Abandoned {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
