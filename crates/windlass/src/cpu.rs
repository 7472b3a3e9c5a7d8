//! Works that compute: closures on the CPU pool instead of futures on the runtime.

use std::sync::Arc;

use async_trait::async_trait;
use windlass_pool::TaskError;

use crate::body::WorkBody;
use crate::computing::compute;
use crate::context::WorkContext;
use crate::error::{Fatal, WorkError};
use crate::inputs::Inputs;
use crate::output::{OutputDraft, output_of, publish_on_success};
use crate::spec::WorkSpec;
use crate::work::{Work, WorkOutcome};

/// Creates a work whose body runs on the CPU pool, so it keeps no thread of the async runtime busy.
///
/// A cancel, a timeout and a deadline reach the body: `pool::cancelled()` returns true, and
/// `pool::checkpoint()` unwinds, also in the scopes and tasks that the body has opened. A running closure
/// cannot be dropped: the work keeps its slot and resources until the closure has returned, also after
/// `cancel_grace`.
///
/// ```
/// use windlass::{WorkScheduler, pool, work_cpu};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut scheduler = WorkScheduler::default();
/// let sum = scheduler.spawn(work_cpu("sum", |_ctx| {
///     let (a, b) = pool::join(|| (0..1000).sum::<u64>(), || (1000..2000).sum::<u64>());
///     Ok(a + b)
/// }))?;
/// scheduler.run_until_done().await;
/// assert_eq!(*sum.await?, 1_999_000);
/// # Ok(())
/// # }
/// ```
pub fn work_cpu<T, F>(name: impl Into<String>, body: F) -> WorkSpec<T>
where
    T: Send + Sync + 'static,
    F: Fn(&WorkContext) -> Result<T, WorkError> + Send + Sync + 'static,
{
    let name: Arc<str> = Arc::from(name.into());
    let body =
        CpuWork { name: Arc::clone(&name), body: Arc::new(body), output: OutputDraft::empty() };
    WorkSpec::with_output(Box::new(WorkBody::new(Box::new(body))), name.into(), |body| {
        output_of(body, |own: &mut CpuWork<T, F>| &mut own.output)
    })
}

/// Creates a work like [`work_cpu`] whose body takes the values of other works: it starts after all of them
/// have succeeded.
///
/// ```
/// use windlass::{WorkScheduler, work_cpu_after, work_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut scheduler = WorkScheduler::default();
/// let text = scheduler.spawn(work_fn("read", |_ctx| async { Ok(String::from("a b c")) }))?;
/// let count = work_cpu_after("count", &text, |_ctx, text| Ok(text.split(' ').count()));
/// let count = scheduler.spawn(count)?;
/// scheduler.run_until_done().await;
/// assert_eq!(*count.await?, 3);
/// # Ok(())
/// # }
/// ```
pub fn work_cpu_after<I, T, F>(name: impl Into<String>, inputs: I, body: F) -> WorkSpec<T>
where
    I: Inputs,
    T: Send + Sync + 'static,
    F: Fn(&WorkContext, I::Values) -> Result<T, WorkError> + Send + Sync + 'static,
{
    let mut after = Vec::new();
    let inputs = inputs.prepare(&mut after);
    let work = work_cpu(name, move |ctx| body(ctx, inputs().map_err(Fatal)?));
    work.after(after)
}

struct CpuWork<T, F> {
    name: Arc<str>,
    body: Arc<F>,
    output: OutputDraft<T>,
}

#[async_trait]
impl<T, F> Work for CpuWork<T, F>
where
    T: Send + Sync + 'static,
    F: Fn(&WorkContext) -> Result<T, WorkError> + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }

    async fn run(&mut self, ctx: WorkContext) -> WorkOutcome {
        let (body, inside) = (Arc::clone(&self.body), ctx.clone());
        match compute(&ctx, move || body(&inside)).await {
            Ok(Ok(value)) => {
                self.output.keep(value);
                WorkOutcome::Success
            }
            Ok(Err(error)) => error.into_outcome(&ctx),
            Err(TaskError::Panicked(panic)) => panic.resume(),
            Err(_) => WorkOutcome::Cancelled,
        }
    }

    publish_on_success!(this => this.output);
}
