//! What an attempt knows about itself, and what it can do while it runs.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use futures::task::AtomicWaker;
use thiserror::Error;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use windlass_core::{Children, Grant, Input, Timestamp, WorkId};

use crate::computing::OnPool;
use crate::handle::WorkHandle;
use crate::reference::{ExecuteError, WorkRef};
use crate::shared::Shared;
use crate::spec::{SubmitError, WorkSpec};

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
    pub(crate) cell: Arc<AttemptCell>,
}

/// What the driver and an attempt have in common.
pub(crate) struct AttemptCell {
    /// The scheduler.
    shared: Arc<Shared>,
    /// When it began, on the scheduler's clock.
    began_at_ns: AtomicU64,
    /// Whether it was asked to stop.
    stopped: AtomicBool,
    /// The same for those who wait for it; most attempts never do.
    token: OnceLock<CancellationToken>,
    /// Whether it has its slot and resources: not while it waits.
    holds: AtomicBool,
    /// How many waits it is in.
    waits: AtomicUsize,
    /// How many waits are over and in line to go on.
    in_line: AtomicUsize,
    /// Whether it ever had a child.
    pub(crate) has_children: AtomicBool,
    /// Of the task that runs the body; rung when it may go on.
    pub(crate) runner: AtomicWaker,
    /// What few attempts ever need.
    rare: OnceLock<Box<Rare>>,
}

#[derive(Default)]
struct Rare {
    /// The token that bodies are given: if they trigger it themselves, nobody else is misled.
    token: OnceLock<CancellationToken>,
    /// Rung for everybody inside the body when it may go on, or one of its children has ended.
    bell: Notify,
    /// Rung from outside, for [`WorkContext::woken`].
    alarm: Notify,
    /// Children that have ended, for those who let go of them one by one.
    ended_children: Mutex<Vec<WorkId>>,
    /// Why it asks to be tried again.
    reason: Mutex<Option<String>>,
    /// Whether it computes on the CPU pool.
    on_pool: OnPool,
}

/// The attempt was asked to stop: what [`WorkContext::suspend`] answers then, to be passed on with `?`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the work was asked to stop")]
pub struct Cancelled;

impl AttemptCell {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            began_at_ns: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            token: OnceLock::new(),
            holds: AtomicBool::new(true),
            waits: AtomicUsize::new(0),
            in_line: AtomicUsize::new(0),
            has_children: AtomicBool::new(false),
            runner: AtomicWaker::new(),
            rare: OnceLock::new(),
        }
    }

    /// Whether it can be used for another attempt as it is: nobody else has it, and nothing has
    /// happened to it.
    pub(crate) fn is_as_new(self: &mut Arc<Self>) -> bool {
        let Some(cell) = Arc::get_mut(self) else { return false };
        let Self { stopped, holds, waits, in_line, has_children, .. } = cell;
        let quiet = !*stopped.get_mut() && *holds.get_mut() && !*has_children.get_mut();
        let idle = *waits.get_mut() == 0 && *in_line.get_mut() == 0;
        quiet && idle && cell.token.get().is_none() && cell.rare.get().is_none()
    }

    /// The same for one that its entry and its runner have, and nobody else: under whatever keeps
    /// others from the entry.
    pub(crate) fn is_quiet(self: &Arc<Self>) -> bool {
        if Arc::strong_count(self) != 2 {
            return false;
        }
        // With the release of whoever had it last.
        fence(Ordering::Acquire);
        let moved = self.waits.load(Ordering::Relaxed) + self.in_line.load(Ordering::Relaxed) > 0;
        let marked = self.stopped.load(Ordering::Relaxed)
            || self.has_children.load(Ordering::Relaxed)
            || !self.holds.load(Ordering::Relaxed);
        !moved && !marked && self.token.get().is_none() && self.rare.get().is_none()
    }

    /// Relaxed, here and in `began_at`: both are called under the scheduler's lock.
    pub(crate) fn begin(&self, now: Timestamp) {
        self.began_at_ns.store(now.as_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn began_at(&self) -> Timestamp {
        Timestamp::from_nanos(self.began_at_ns.load(Ordering::Relaxed))
    }

    fn rare(&self) -> &Rare {
        self.rare.get_or_init(Box::default)
    }

    /// The attempt is over, and nobody has to wait for its slot any more; whether somebody may.
    pub(crate) fn release(&self) -> bool {
        self.set_holds(true);
        // With the fence in `until`, as in `ring`.
        fence(Ordering::SeqCst);
        self.rare.get().is_some()
    }

    /// Rings for the runner, and for everybody inside the body who listens.
    pub(crate) fn ring(&self) {
        // With the fence in `until`: either we see who listens, or they see what has happened.
        fence(Ordering::SeqCst);
        if let Some(rare) = self.rare.get() {
            rare.bell.notify_waiters();
        }
        self.runner.wake();
    }

    /// Ends the wait of whoever waits to be woken from outside, now or next.
    pub(crate) fn wake(&self) {
        self.rare().alarm.notify_one();
    }

    pub(crate) fn note_end_of(&self, child: WorkId) {
        self.ended_children().push(child);
    }

    fn ended_children(&self) -> MutexGuard<'_, Vec<WorkId>> {
        self.rare().ended_children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the body may be polled: it has what it needs, waits, or has been asked to stop.
    pub(crate) fn may_go_on(&self) -> bool {
        // Acquire, with the release in `set_holds`.
        self.holds.load(Ordering::Acquire)
            || self.waits.load(Ordering::Acquire) > 0
            || self.is_stopped()
    }

    /// Whether it is in a wait, and none that is over has yet to go on. To be relied on under the
    /// scheduler's lock: a wait that ends after it wants to go on.
    pub(crate) fn only_waits(&self) -> bool {
        // Acquire, with the release of one that has gone on: it is in neither.
        self.in_line.load(Ordering::Acquire) == 0 && self.waits.load(Ordering::Acquire) > 0
    }

    pub(crate) fn has_resumed(&self) -> bool {
        self.holds.load(Ordering::Acquire)
    }

    /// Asks the attempt to stop.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        // With the fence in `token`: either we see the token, or whoever makes it sees the flag.
        fence(Ordering::SeqCst);
        if let Some(token) = self.token.get() {
            token.cancel();
        }
    }

    /// Acquire, with the release in `stop`.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    pub(crate) fn token(&self) -> &CancellationToken {
        self.token.get().unwrap_or_else(|| {
            let token = self.token.get_or_init(CancellationToken::new);
            // With the fence in `stop`.
            fence(Ordering::SeqCst);
            if self.is_stopped() {
                token.cancel();
            }
            token
        })
    }

    pub(crate) fn on_pool(&self) -> &OnPool {
        &self.rare().on_pool
    }

    /// Whether it computes on the CPU pool, and so cannot be dropped.
    pub(crate) fn is_on_pool(&self) -> bool {
        self.rare.get().is_some_and(|rare| rare.on_pool.is_busy())
    }

    /// Leaves its end to what it computes on the CPU pool; false if it does not.
    pub(crate) fn leave_to_pool(&self) -> bool {
        self.rare.get().is_some_and(|rare| rare.on_pool.leave())
    }

    fn bodys_token(&self) -> &CancellationToken {
        self.rare().token.get_or_init(|| self.token().child_token())
    }

    /// Release, for whoever sees it in `may_go_on`.
    pub(crate) fn set_holds(&self, holds: bool) {
        self.holds.store(holds, Ordering::Release);
    }

    pub(crate) fn take_reason(&self) -> Option<String> {
        self.rare.get()?.reason.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Waits until `is_so` says so; it is asked whenever the bell rings.
    async fn until(&self, is_so: impl Fn() -> bool) {
        loop {
            let rung = self.rare().bell.notified();
            tokio::pin!(rung);
            // Listening before asking: what happens in between rings.
            rung.as_mut().enable();
            fence(Ordering::SeqCst);
            if is_so() {
                return;
            }
            rung.await;
        }
    }
}

impl WorkContext {
    /// Whether this attempt has been asked to stop: by a cancel, its timeout or its deadline.
    ///
    /// ```
    /// # use windlass::{Work, WorkContext, WorkOutcome, WorkScheduler, WorkSchedulerConfig};
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
    /// # let mut scheduler = WorkScheduler::new(WorkSchedulerConfig::default());
    /// # let import = Import { data: vec![1; 2500] };
    /// # scheduler.add_work(Box::new(import), vec![], 0);
    /// # scheduler.run_until_done().await;
    /// # assert_eq!(scheduler.metrics().success, 1);
    /// # }
    /// ```
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cell.is_stopped()
    }

    /// The token that asks this attempt to stop, for what can be cancelled itself.
    ///
    /// ```
    /// # use windlass::{Work, WorkContext, WorkOutcome, WorkScheduler, WorkSchedulerConfig};
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
    /// # let mut scheduler = WorkScheduler::new(WorkSchedulerConfig::default());
    /// # scheduler.add_work(Box::new(Export), vec![], 0);
    /// # scheduler.run_until_done().await;
    /// # assert_eq!(scheduler.metrics().success, 1);
    /// # }
    /// ```
    #[must_use]
    pub fn cancel_token(&self) -> &CancellationToken {
        self.cell.bodys_token()
    }

    /// The scheduler, to submit more works and everything else, from inside this one.
    ///
    /// ```
    /// use windlass::{WorkScheduler, WorkSchedulerConfig, work_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), windlass::SubmitError> {
    /// let mut scheduler = WorkScheduler::new(WorkSchedulerConfig::default());
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
    /// The attempt's timeout stands still, its deadline does not. If the attempt is asked to stop,
    /// this returns at once. A wait that is dropped before its end is over: what follows in the
    /// body goes on when the work has its slot again.
    ///
    /// ```
    /// use windlass::{WorkScheduler, WorkSchedulerConfig, work_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), windlass::SubmitError> {
    /// let one_slot = WorkSchedulerConfig { max_concurrency: 1, ..Default::default() };
    /// let mut scheduler = WorkScheduler::new(one_slot);
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
        let waiting = Waiting::begin(self);
        let value = tokio::select! {
            biased;
            () = self.cell.token().cancelled() => return Err(Cancelled),
            value = wait => value,
        };
        let _in_line = InLine::after(waiting);
        // In line to go on: a cancel rings no bell, only the token tells of it.
        tokio::select! {
            biased;
            () = self.cell.token().cancelled() => Err(Cancelled),
            () = self.cell.until(|| self.cell.has_resumed()) => Ok(value),
        }
    }

    /// Ready once somebody has called [`WorkHandle::wake`] for this work. A wake that comes earlier in
    /// the same attempt is not lost.
    ///
    /// ```
    /// use windlass::{WorkScheduler, WorkSchedulerConfig, work_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), windlass::SubmitError> {
    /// let mut scheduler = WorkScheduler::new(WorkSchedulerConfig::default());
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
        self.cell.rare().alarm.notified().await;
    }

    /// Adds a work and waits for what it brings, without a slot meanwhile; so it can be run even if
    /// this one has the only slot. It is no child: it may outlive this work.
    pub async fn execute<T>(&self, spec: WorkSpec<T>) -> Result<Arc<T>, ExecuteError> {
        let handle = self.handle();
        self.suspend(handle.execute(spec)).await?
    }

    /// Adds a child: this work ends after it, and fails if it fails. It stands in the ordinary line.
    /// Refused once this attempt has been asked to stop, or a child has failed.
    ///
    /// ```
    /// use windlass::{WorkScheduler, WorkSchedulerConfig, work_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), windlass::SubmitError> {
    /// let one_slot = WorkSchedulerConfig { max_concurrency: 1, ..Default::default() };
    /// let mut scheduler = WorkScheduler::new(one_slot);
    /// let parent = scheduler.submit(work_fn("parent", |ctx| async move {
    ///     for n in 1..=3 {
    ///         ctx.add_child(work_fn(format!("child {n}"), |_| async { Ok(()) }))?;
    ///     }
    ///     let children = ctx.join_children().await?; // gives the slot to them meanwhile
    ///     assert_eq!(children.succeeded, 3);
    ///     Ok(())
    /// }))?;
    /// // Whoever follows the parent follows the whole family.
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
    /// use windlass::{WorkScheduler, WorkSchedulerConfig, work_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let one_slot = WorkSchedulerConfig { max_concurrency: 1, ..Default::default() };
    /// let mut scheduler = WorkScheduler::new(one_slot);
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
        // Release, with the acquire of the runner, which looks for children only then.
        self.cell.has_children.store(true, Ordering::Release);
        self.grant()
    }

    /// How the children of this attempt fare.
    #[must_use]
    pub fn children(&self) -> Children {
        self.shared().children(self.grant())
    }

    /// Waits, without a slot, until all children have ended; then this work's own can follow.
    pub async fn join_children(&self) -> Result<Children, Cancelled> {
        self.suspend(self.children_ended()).await?;
        Ok(self.children())
    }

    /// Says why the attempt will ask to be tried again, for the `last_error` of its snapshots: a
    /// [`WorkOutcome::Retry`](crate::WorkOutcome::Retry) has no place for it. Closures need not: their
    /// errors are kept.
    pub fn explain_retry(&self, reason: impl Into<String>) {
        let mut kept = self.cell.rare().reason.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Some(reason.into());
    }

    pub(crate) async fn children_ended(&self) {
        self.cell.until(|| self.children().open() == 0).await;
    }

    /// Waits until one child more has ended, and lets go of those that have.
    pub(crate) async fn reap_child(&self) {
        let has_ended = || !self.cell.ended_children().is_empty();
        self.cell.until(|| has_ended() || self.children().open() == 0).await;
        let reaped = std::mem::take(&mut *self.cell.ended_children());
        self.shared().visit(|visit| {
            for child in reaped {
                // One that failed is kept: it is the reason for its parent's end.
                let phase = visit.state.engine.phase(child);
                if phase.is_some_and(|phase| phase.state().is_success()) {
                    visit.forget(child);
                }
            }
        });
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.cell.shared
    }

    pub(crate) fn grant(&self) -> Grant {
        Grant { work: self.id, attempt: self.attempt }
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
        ctx.cell.waits.fetch_add(1, Ordering::Release);
        ctx.shared().visit(|visit| {
            // Another wait of this attempt may be over: it has the attempt's place in line to go on, or has got
            // the slot already, and goes on first. Relaxed: it was counted before it took the lock.
            if ctx.cell.in_line.load(Ordering::Relaxed) == 0 {
                // Refused only if the attempt is over, and then it has nothing to give back.
                let _ = visit.apply(Input::Suspend(ctx.grant()));
            }
        });
        Self(ctx)
    }
}

/// A wait is over and in line to go on for as long as this lives.
struct InLine<'a>(&'a AttemptCell);

impl<'a> InLine<'a> {
    fn after(waiting: Waiting<'a>) -> Self {
        let Waiting(ctx) = waiting;
        ctx.cell.in_line.fetch_add(1, Ordering::Relaxed);
        drop(waiting);
        Self(&ctx.cell)
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.0.in_line.fetch_sub(1, Ordering::Release);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Self(ctx) = self;
        let _ = ctx.shared().apply(Input::WantOn(ctx.grant()));
        ctx.cell.waits.fetch_sub(1, Ordering::Release);
    }
}
