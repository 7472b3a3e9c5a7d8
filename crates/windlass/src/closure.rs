//! Works from closures that return what they bring.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use async_trait::async_trait;

use crate::body::{Body, Returned};
use crate::context::WorkContext;
use crate::error::WorkError;
use crate::spec::{Brought, WorkSpec, promise_of, publish_on_success};
use crate::work::{Work, WorkOutcome, pass_hooks_on};

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
    let body = FnWork { body, brought: Brought::nothing_yet(), future: None };
    WorkSpec::bringing(Box::new(body), name.into().as_str().into(), |body| {
        promise_of(body, |own: &mut FnWork<T, F, Fut>| &mut own.brought)
    })
}

struct FnWork<T, F, Fut> {
    body: F,
    brought: Brought<T>,
    /// Boxed, so that works that wait for their turn do not take the room of their futures.
    future: Option<Pin<Box<Fut>>>,
}

#[async_trait]
impl<T, F, Fut> Work for FnWork<T, F, Fut>
where
    T: Send + Sync + 'static,
    F: FnMut(WorkContext) -> Fut + Send + 'static,
    Fut: Future<Output = Result<T, WorkError>> + Send + 'static,
{
    fn name(&self) -> &str {
        "closure"
    }

    async fn run(&mut self, ctx: WorkContext) -> WorkOutcome {
        match (self.body)(ctx.clone()).await {
            Ok(value) => {
                self.brought.keep(value);
                WorkOutcome::Success
            }
            Err(error) => error.into_outcome(&ctx),
        }
    }

    publish_on_success!(this => this.brought);
}

impl<T, F, Fut> Body for FnWork<T, F, Fut>
where
    T: Send + Sync + 'static,
    F: FnMut(WorkContext) -> Fut + Send + 'static,
    Fut: Future<Output = Result<T, WorkError>> + Send + 'static,
{
    fn begin(&mut self, ctx: WorkContext) {
        self.future = Some(Box::pin((self.body)(ctx)));
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Returned> {
        let future = self.future.as_mut().expect("an attempt is polled after it has begun");
        let returned = ready!(future.as_mut().poll(cx));
        self.future = None;
        Poll::Ready(returned.map(|value| {
            self.brought.keep(value);
            WorkOutcome::Success
        }))
    }

    fn stop(&mut self) {
        self.future = None;
    }

    fn work(&mut self) -> &mut dyn Work {
        self
    }

    fn into_work(self: Box<Self>, name: &str) -> Box<dyn Work> {
        Box::new(Named { name: name.into(), work: self })
    }
}

/// A closure that was taken back from its scheduler, which keeps the name of a work.
struct Named {
    name: Box<str>,
    work: Box<dyn Work>,
}

#[async_trait]
impl Work for Named {
    fn name(&self) -> &str {
        &self.name
    }

    async fn run(&mut self, ctx: WorkContext) -> WorkOutcome {
        self.work.run(ctx).await
    }

    pass_hooks_on!(this => this.work);
}
