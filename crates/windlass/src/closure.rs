//! Works from closures that return what they bring.

use std::future::Future;

use async_trait::async_trait;
use windlass_pool::body::Routine;

use crate::context::WorkContext;
use crate::error::WorkError;
use crate::name::Name;
use crate::spec::{Brought, WorkSpec, promise_of, publish_on_success};
use crate::work::{Body, Returned, Work, WorkOutcome};

/// A work from an async closure. It is called once per attempt; an `Err` is retried as the spec says,
/// unless it is [`Fatal`](crate::Fatal).
///
/// ```
/// use windlass::{WorkScheduler, WorkSchedulerConfig, work_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut scheduler = WorkScheduler::new(WorkSchedulerConfig::default());
/// let six = scheduler.spawn(work_fn("six", |_ctx| async { Ok(6) }))?;
/// let input = six.clone();
/// let answer = work_fn("answer", move |_ctx| {
///     let six = input.value();
///     async move { Ok(7 * *six.expect("it has succeeded before")) }
/// });
/// let answer = scheduler.spawn(answer.after([&six]))?;
/// scheduler.run_until_done().await;
/// assert_eq!(*answer.await?, 42);
/// # Ok(())
/// # }
/// ```
pub fn work_fn<T, F, Fut>(name: impl Into<String>, body: F) -> WorkSpec<T>
where
    T: Send + Sync + 'static,
    F: FnMut(WorkContext) -> Fut + Send + 'static,
    Fut: Future<Output = Result<T, WorkError>> + Send + 'static,
{
    let name = Name::new(&name.into());
    let body = FnWork { body, brought: Brought::nothing_yet(), name: None };
    WorkSpec::bringing(Body::new(body), name, |body| {
        promise_of(body, |own: &mut FnWork<T, F>| &mut own.brought)
    })
}

struct FnWork<T, F> {
    body: F,
    brought: Brought<T>,
    /// Only once it was taken back: until then its scheduler keeps the name, and there may be very many.
    name: Option<Box<Name>>,
}

#[async_trait]
impl<T, F, Fut> Work for FnWork<T, F>
where
    T: Send + Sync + 'static,
    F: FnMut(WorkContext) -> Fut + Send + 'static,
    Fut: Future<Output = Result<T, WorkError>> + Send + 'static,
{
    fn name(&self) -> &str {
        self.name.as_ref().map_or("closure", |name| name.as_str())
    }

    async fn run(&mut self, ctx: WorkContext) -> WorkOutcome {
        let returned = self.attempt(ctx.clone()).await;
        returned.unwrap_or_else(|error| error.into_outcome(&ctx))
    }

    fn be_called(&mut self, name: &str) {
        self.name = Some(Box::new(Name::new(name)));
    }

    publish_on_success!(this => this.brought);
}

impl<T, F, Fut> FnWork<T, F>
where
    F: FnMut(WorkContext) -> Fut,
    Fut: Future<Output = Result<T, WorkError>>,
{
    async fn attempt(&mut self, ctx: WorkContext) -> Returned {
        let value = (self.body)(ctx).await?;
        self.brought.keep(value);
        Ok(WorkOutcome::Success)
    }
}

impl<T, F, Fut> Routine<WorkContext> for FnWork<T, F>
where
    T: Send + Sync + 'static,
    F: FnMut(WorkContext) -> Fut + Send + 'static,
    Fut: Future<Output = Result<T, WorkError>> + Send + 'static,
{
    type Output = Returned;
    type View = dyn Work;

    fn begin(&mut self, ctx: WorkContext) -> impl Future<Output = Returned> + Send {
        self.attempt(ctx)
    }

    fn view(&self) -> &dyn Work {
        self
    }

    fn view_mut(&mut self) -> &mut dyn Work {
        self
    }

    fn into_view(self) -> Box<dyn Work> {
        Box::new(self)
    }
}
