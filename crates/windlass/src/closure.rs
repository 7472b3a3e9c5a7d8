//! Works made from closures that return a value.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use async_trait::async_trait;

use crate::body::{Body, Returned};
use crate::context::WorkContext;
use crate::error::{Fatal, WorkError};
use crate::output::{OutputDraft, output_of, publish_on_success};
use crate::spec::WorkSpec;
use crate::work::{Work, WorkOutcome, pass_hooks_on};

/// Creates a work from a closure that returns a future. The scheduler calls it once per attempt. An `Err`
/// is retried as the spec says, unless it is [`Fatal`](crate::Fatal).
///
/// The future must own what it uses. [`work_async`] takes an async closure that may borrow what it has
/// captured, and [`work_once`] one that may give it away.
///
/// ```
/// use windlass::{WorkScheduler, work_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut scheduler = WorkScheduler::default();
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
    let body = FnWork { body, output: OutputDraft::empty(), future: None };
    WorkSpec::with_output(Box::new(body), name.into().as_str().into(), |body| {
        output_of(body, |own: &mut FnWork<T, F, Fut>| &mut own.output)
    })
}

/// Creates a work from an async closure that borrows what it has captured. The closure is cloned for each
/// attempt, so every attempt begins with the values that were captured.
///
/// Otherwise it is like [`work_fn`].
///
/// ```
/// use windlass::{WorkScheduler, work_async};
///
/// # async fn get(url: &str) -> std::io::Result<usize> { Ok(url.len()) }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut scheduler = WorkScheduler::default();
/// let url = String::from("/index.html");
/// let page = work_async("page", async move |_ctx| Ok(get(&url).await?)).retries(3);
/// let page = scheduler.spawn(page)?;
/// scheduler.run_until_done().await;
/// assert_eq!(*page.await?, 11);
/// # Ok(())
/// # }
/// ```
pub fn work_async<T, F, Fut>(name: impl Into<String>, body: F) -> WorkSpec<T>
where
    T: Send + Sync + 'static,
    F: FnOnce(WorkContext) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Result<T, WorkError>> + Send + 'static,
{
    work_fn(name, move |ctx| body.clone()(ctx))
}

/// Creates a work from a closure that can be called only once, because it gives away what it has captured.
///
/// The work has one attempt: an `Err` fails it, also if the spec allows retries. An attempt that was
/// interrupted, because the run was dropped or a person reopened the work, fails as well when it is repeated.
///
/// ```
/// use windlass::{WorkScheduler, work_once};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut scheduler = WorkScheduler::default();
/// let (sender, receiver) = tokio::sync::oneshot::channel();
/// let send = work_once("send", async move |_ctx| {
///     sender.send(42).map_err(|_| "the receiver is gone")?;
///     Ok(())
/// });
/// scheduler.submit(send)?;
/// scheduler.run_until_done().await;
/// assert_eq!(receiver.await?, 42);
/// # Ok(())
/// # }
/// ```
pub fn work_once<T, F, Fut>(name: impl Into<String>, body: F) -> WorkSpec<T>
where
    T: Send + Sync + 'static,
    F: FnOnce(WorkContext) -> Fut + Send + 'static,
    Fut: Future<Output = Result<T, WorkError>> + Send + 'static,
{
    let mut body = Some(body);
    work_fn(name, move |ctx| {
        let attempt = body.take().map(|body| body(ctx));
        async move {
            let attempt = attempt.ok_or(Fatal("a `work_once` cannot be repeated"))?;
            attempt.await.map_err(|error| Fatal(error).into())
        }
    })
}

struct FnWork<T, F, Fut> {
    body: F,
    output: OutputDraft<T>,
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
                self.output.keep(value);
                WorkOutcome::Success
            }
            Err(error) => error.into_outcome(&ctx),
        }
    }

    publish_on_success!(this => this.output);
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
            self.output.keep(value);
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
