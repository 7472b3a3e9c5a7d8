//! What an attempt knows about itself, and what it can do while it runs.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use thiserror::Error;
use tokio_util::sync::CancellationToken;
use windlass_core::{Children, Grant, Input};

use crate::computing::compute;
use crate::handle::WorkHandle;
use crate::id::WorkId;
use crate::reference::{ExecuteError, WorkRef};
use crate::shared::Shared;
use crate::spec::{SubmitError, WorkSpec};

mod attempt_shared;

pub(crate) use attempt_shared::AttemptShared;

/// What an attempt knows about itself, and what it can do while it runs. Clones are of the same
/// attempt.
///
/// ```
/// # use windlass::{CancellationToken, WorkContext, WorkHandle, WorkId};
/// fn look(ctx: &WorkContext) {
///     let id: WorkId = ctx.id; // Unique identifier
///     let attempt: u32 = ctx.attempt; // Current attempt number (1-indexed)
///     let asked_to_stop: bool = ctx.is_cancelled();
///     let token: &CancellationToken = ctx.cancel_token();
///     let scheduler: WorkHandle = ctx.handle();
/// }
/// ```
///
/// Besides, an attempt can wait [without a slot](Self::suspend), have [children](Self::add_child),
/// and everything that a [handle](Self::handle) can do.
#[derive(Clone)]
pub struct WorkContext {
    /// The work.
    pub id: WorkId,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    pub(crate) inner: Arc<AttemptShared>,
}

/// The error of [`WorkContext::suspend`] once the attempt was asked to stop; bodies pass it on with `?`.
///
/// ```
/// use windlass::works::Cancelled;
/// use windlass::{WorkError, work_fn};
///
/// let patient = work_fn("patient", |ctx| async move {
///     match ctx.suspend(ctx.woken()).await {
///         Err(Cancelled) => Err(WorkError::from(Cancelled)), // tidy up, and end
///         Ok(()) => Ok(()),
///     }
/// });
/// # drop(patient);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the work was asked to stop")]
pub struct Cancelled;

impl WorkContext {
    /// Returns whether this attempt was asked to stop: by a cancel, its timeout or its deadline.
    ///
    /// ```
    /// # use windlass::{Work, WorkContext, WorkOutcome, WorkScheduler};
    /// # struct Import { data: Vec<u8> }
    /// # impl Import {
    /// #     async fn process_chunk(&self, _chunk: &[u8]) -> Result<(), std::io::Error> {
    /// #         Ok(())
    /// #     }
    /// # }
    /// # #[windlass::async_trait]
    /// # impl Work for Import {
    /// async fn run(&mut self, ctx: WorkContext) -> WorkOutcome {
    ///     for chunk in self.data.chunks(1000) {
    ///         // Check for cancellation between chunks
    ///         if ctx.is_cancelled() {
    ///             return WorkOutcome::Cancelled;
    ///         }
    ///         match self.process_chunk(chunk).await {
    ///             Ok(()) => {}
    ///             Err(error) => return WorkOutcome::Failed(error.to_string()),
    ///         }
    ///     }
    ///     WorkOutcome::Success
    /// }
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let mut scheduler = WorkScheduler::default();
    /// # let import = Import { data: vec![1; 2500] };
    /// # scheduler.add_work(Box::new(import), vec![], 0);
    /// # scheduler.run_until_done().await;
    /// # assert_eq!(scheduler.metrics().success, 1);
    /// # }
    /// ```
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.inner.is_stopped()
    }

    /// Returns the token that is triggered when this attempt is asked to stop.
    ///
    /// ```
    /// # use windlass::{Work, WorkContext, WorkOutcome, WorkScheduler};
    /// # struct Export;
    /// # impl Export {
    /// #     async fn long_running_operation(&mut self) -> Result<u64, std::io::Error> {
    /// #         Ok(1)
    /// #     }
    /// # }
    /// # #[windlass::async_trait]
    /// # impl Work for Export {
    /// async fn run(&mut self, ctx: WorkContext) -> WorkOutcome {
    ///     tokio::select! {
    ///         _ = ctx.cancel_token().cancelled() => WorkOutcome::Cancelled,
    ///         result = self.long_running_operation() => {
    ///             match result {
    ///                 Ok(_) => WorkOutcome::Success,
    ///                 Err(e) => WorkOutcome::Failed(e.to_string()),
    ///             }
    ///         }
    ///     }
    /// }
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let mut scheduler = WorkScheduler::default();
    /// # scheduler.add_work(Box::new(Export), vec![], 0);
    /// # scheduler.run_until_done().await;
    /// # assert_eq!(scheduler.metrics().success, 1);
    /// # }
    /// ```
    #[must_use]
    pub fn cancel_token(&self) -> &CancellationToken {
        self.inner.body_token()
    }

    /// Starts `task` on the CPU pool and returns a future of its result.
    ///
    /// The task is asked to stop with this attempt, and when the future is dropped: `pool::cancelled()`
    /// returns true in it, and its scopes and tasks end. The attempt keeps its slot until the task has
    /// returned: if the body returns or suspends itself before that, the attempt waits for the task first. A
    /// task that no worker of the pool has begun is withdrawn instead.
    ///
    /// ```
    /// use windlass::{WorkScheduler, work_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut scheduler = WorkScheduler::default();
    /// let sum = work_fn("sum", |ctx| async move {
    ///     let left = ctx.compute(|| (0..1000).sum::<u64>());
    ///     let right = ctx.compute(|| (1000..2000).sum::<u64>());
    ///     Ok(left.await? + right.await?)
    /// });
    /// let sum = scheduler.spawn(sum)?;
    /// scheduler.run_until_done().await;
    /// assert_eq!(*sum.await?, 1_999_000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn compute<T, F>(
        &self,
        task: F,
    ) -> impl Future<Output = Result<T, windlass_pool::TaskError>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        compute(self, task)
    }

    /// Returns a handle of the scheduler, to submit works and to steer it from inside this work.
    ///
    /// ```
    /// use windlass::{WorkScheduler, work_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), windlass::SubmitError> {
    /// let mut scheduler = WorkScheduler::default();
    /// scheduler.submit(work_fn("list", |ctx| async move {
    ///     for page in 1..=3 {
    ///         let fetch = work_fn(format!("fetch {page}"), |_| async { Ok(()) });
    ///         ctx.handle().submit(fetch.after([ctx.id]))?;
    ///     }
    ///     Ok(())
    /// }))?;
    /// scheduler.run_until_done().await;
    /// assert_eq!(scheduler.metrics().success, 4);
    /// # Ok(())
    /// # }
    /// ```
    pub fn handle(&self) -> WorkHandle {
        WorkHandle::new(Arc::clone(self.shared()))
    }

    /// Waits for `wait` without a slot and without the resources that this work needs; others may
    /// have them meanwhile. When it goes on it has them again, before works that have not begun.
    ///
    /// The attempt's timeout is paused, its deadline is not. If the attempt is asked to stop,
    /// this returns at once. A wait that is dropped before its end is over: what follows in the
    /// body goes on when the work has its slot again. A task of the body that outlives the attempt
    /// has nothing to leave to others any more: there this only waits, for as long as `wait` takes.
    ///
    /// The whole attempt waits. What the body does side by side with `wait`, or in a task that it has
    /// spawned, goes on meanwhile and is not counted by any limit: do nothing there that needs the slot.
    ///
    /// ```
    /// use windlass::{WorkScheduler, work_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut scheduler = WorkScheduler::builder().max_concurrency(1).build()?;
    /// let (tell, told) = tokio::sync::oneshot::channel();
    /// let mut told = Some(told);
    /// scheduler.submit(work_fn("asks", move |ctx| {
    ///     let told = told.take().expect("it is tried once");
    ///     async move {
    ///         let answer = ctx.suspend(told).await??;
    ///         assert_eq!(answer, 42);
    ///         Ok(())
    ///     }
    /// }))?;
    /// let mut tell = Some(tell);
    /// scheduler.submit(work_fn("answers", move |_| {
    ///     let sent = tell.take().map(|tell| tell.send(42));
    ///     async move { Ok(assert_eq!(sent, Some(Ok(())))) }
    /// }))?;
    /// scheduler.run_until_done().await;
    /// assert_eq!(scheduler.metrics().success, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn suspend<F: Future>(&self, wait: F) -> Result<F::Output, Cancelled> {
        if self.inner.is_on_pool() {
            tokio::select! {
                biased;
                () = self.inner.token().cancelled() => return Err(Cancelled),
                () = self.inner.until(|| !self.inner.is_on_pool()) => {}
            }
        }
        let waiting = Waiting::begin(self);
        let value = tokio::select! {
            biased;
            () = self.inner.token().cancelled() => return Err(Cancelled),
            value = wait => value,
        };
        let _resuming = Resuming::after(waiting);
        // Queued to go on: only the token tells of a cancel.
        tokio::select! {
            biased;
            () = self.inner.token().cancelled() => Err(Cancelled),
            () = self.inner.until(|| self.inner.has_resumed()) => Ok(value),
        }
    }

    /// Waits until [`WorkHandle::wake`] is called for this work. A wake that comes earlier in the same
    /// attempt is not lost.
    ///
    /// ```
    /// use windlass::{WorkScheduler, work_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), windlass::SubmitError> {
    /// let mut scheduler = WorkScheduler::default();
    /// let sleeper = scheduler.submit(work_fn("sleeper", |ctx| async move {
    ///     ctx.suspend(ctx.woken()).await?;
    ///     Ok(())
    /// }))?;
    /// let handle = scheduler.handle();
    /// tokio::spawn(async move {
    ///     while !handle.wake(sleeper) {
    ///         tokio::task::yield_now().await; // it has not begun yet
    ///     }
    /// });
    /// scheduler.run_until_done().await;
    /// # assert_eq!(scheduler.metrics().success, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn woken(&self) {
        self.inner.extras().alarm.notified().await;
    }

    /// Adds a work and waits for its value without a slot, so the work can run even if this one has the only
    /// slot. It is no child: it may outlive this work.
    pub async fn execute<T>(&self, spec: WorkSpec<T>) -> Result<Arc<T>, ExecuteError> {
        let handle = self.handle();
        self.suspend(handle.execute(spec)).await?
    }

    /// Adds a child: this work ends after it, and fails if it fails. It waits in the ordinary queue.
    /// Refused once this attempt has been asked to stop, or a child has failed.
    ///
    /// ```
    /// use windlass::{WorkScheduler, work_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut scheduler = WorkScheduler::builder().max_concurrency(1).build()?;
    /// let parent = scheduler.submit(work_fn("parent", |ctx| async move {
    ///     for n in 1..=3 {
    ///         ctx.add_child(work_fn(format!("child {n}"), |_| async { Ok(()) }))?;
    ///     }
    ///     let children = ctx.join_children().await?; // gives the slot to them meanwhile
    ///     assert_eq!(children.succeeded, 3);
    ///     Ok(())
    /// }))?;
    /// // A work that depends on the parent depends on the whole family.
    /// scheduler.submit(work_fn("after all", |_| async { Ok(()) }).after([parent]))?;
    /// scheduler.run_until_done().await;
    /// assert_eq!(scheduler.metrics().success, 5);
    /// # Ok(())
    /// # }
    /// ```
    pub fn add_child<T>(&self, spec: WorkSpec<T>) -> Result<WorkId, SubmitError> {
        self.shared().submit(spec, Some(self.as_parent()), None)
    }

    /// Adds a child, as [`WorkContext::add_child`] does, whose value can be had: by waiting for it without a
    /// slot, or by the children that follow it.
    ///
    /// ```
    /// use windlass::{WorkScheduler, work_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut scheduler = WorkScheduler::builder().max_concurrency(1).build()?;
    /// let sum = scheduler.spawn(work_fn("sum", |ctx| async move {
    ///     let part = |n: u32| work_fn(format!("part {n}"), move |_| async move { Ok(n * 10) });
    ///     let parts = [ctx.spawn_child(part(1))?, ctx.spawn_child(part(2))?];
    ///     let mut sum = 0;
    ///     for part in parts {
    ///         sum += *ctx.suspend(part).await??;
    ///     }
    ///     Ok(sum)
    /// }))?;
    /// scheduler.run_until_done().await;
    /// assert_eq!(*sum.await?, 30);
    /// # Ok(())
    /// # }
    /// ```
    pub fn spawn_child<T>(&self, spec: WorkSpec<T>) -> Result<WorkRef<T>, SubmitError> {
        self.shared().spawn(spec, Some(self.as_parent()))
    }

    /// As the parent of a child that is about to come.
    fn as_parent(&self) -> Grant {
        self.inner.become_parent();
        self.grant()
    }

    /// Returns how many children this attempt has, by their ends.
    #[must_use]
    pub fn children(&self) -> Children {
        self.shared().children(self.grant())
    }

    /// Waits without a slot until all children have ended. Returns their counts.
    pub async fn join_children(&self) -> Result<Children, Cancelled> {
        self.suspend(self.children_ended()).await?;
        Ok(self.children())
    }

    /// Says why the attempt will ask to be tried again, for the `last_error` of its snapshots: a
    /// [`WorkOutcome::Retry`](crate::WorkOutcome::Retry) has no place for it. Closures need not: their
    /// errors are kept.
    pub fn explain_retry(&self, reason: impl Into<String>) {
        let mut kept =
            self.inner.extras().retry_reason.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Some(reason.into());
    }

    pub(crate) async fn children_ended(&self) {
        self.inner.until(|| self.children().open() == 0).await;
    }

    /// Waits until one child more has ended, and lets go of those that have.
    pub(crate) async fn reap_child(&self) {
        let has_ended = || !self.inner.ended_children().is_empty();
        self.inner.until(|| has_ended() || self.children().open() == 0).await;
        let reaped = std::mem::take(&mut *self.inner.ended_children());
        self.shared().session(|session| {
            for child in reaped {
                // One that failed is kept: it is the reason for its parent's end.
                let phase = session.state.engine.phase(child);
                if phase.is_some_and(|phase| phase.state().is_success()) {
                    session.forget(child);
                }
            }
        });
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.inner.scheduler
    }

    pub(crate) fn grant(&self) -> Grant {
        Grant { work: self.id.local(), attempt: self.attempt }
    }
}

impl std::fmt::Debug for WorkContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("WorkContext");
        shown.field("id", &self.id).field("attempt", &self.attempt);
        shown.field("cancelled", &self.is_cancelled()).finish_non_exhaustive()
    }
}

/// An attempt is in a wait for as long as this lives.
struct Waiting<'a>(&'a WorkContext);

impl<'a> Waiting<'a> {
    fn begin(ctx: &'a WorkContext) -> Self {
        // Release, for `may_go_on`: first counted as waiting, then without its slot.
        ctx.inner.extras().waits.fetch_add(1, Ordering::Release);
        ctx.shared().session(|session| {
            // Another wait of this attempt may be over: it is queued to go on, or has got the slot already,
            // and goes on first. Relaxed: it was counted before it took the lock.
            if ctx.inner.extras().resuming.load(Ordering::Relaxed) == 0 {
                // Refused only if the attempt is over, and then it has nothing to give back.
                let _ = session.apply(Input::Suspend(ctx.grant()));
            }
        });
        Self(ctx)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Self(ctx) = self;
        let _ = ctx.shared().apply(Input::ResumeRequested(ctx.grant()));
        ctx.inner.extras().waits.fetch_sub(1, Ordering::Release);
    }
}

/// A wait is over and queued to go on for as long as this lives.
struct Resuming<'a>(&'a AttemptShared);

impl<'a> Resuming<'a> {
    fn after(waiting: Waiting<'a>) -> Self {
        let Waiting(ctx) = waiting;
        ctx.inner.extras().resuming.fetch_add(1, Ordering::Relaxed);
        drop(waiting);
        Self(&ctx.inner)
    }
}

impl Drop for Resuming<'_> {
    fn drop(&mut self) {
        self.0.extras().resuming.fetch_sub(1, Ordering::Release);
    }
}
