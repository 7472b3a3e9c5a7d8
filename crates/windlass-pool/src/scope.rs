//! Structured concurrency: everything that is started in a scope ends before the scope does.
//!
//! The lifetimes are those of `std::thread::scope`: `'env` is what tasks may borrow, `'scope` the time
//! in which the scope exists. The body chooses neither, so nothing that belongs to the scope can leave
//! it. Knows nothing of how tasks are queued or run.

#![allow(unsafe_code)]

use std::{
    fmt,
    marker::PhantomData,
    panic::{self, AssertUnwindSafe, catch_unwind},
    sync::OnceLock,
    thread,
    time::Instant,
};

use crate::{
    abort::Bomb,
    checkpoint::Unwound,
    job,
    node::{Fate, Root},
    panics::Payload,
    pool::Pool,
    scheduler::Scheduler,
    task::Task,
    wait, watch,
};

/// A structured concurrency scope: tasks are spawned in it and cannot outlive it.
///
/// Handed to the body of [`with_scope`]. Tasks may borrow whatever outlives the call, and may spawn
/// further tasks in the same scope; those are their *child tasks*, which a cancel of the parent
/// reaches and which the parent's completion waits for.
///
/// ```
/// use windlass_pool::{Scheduler, with_scope};
///
/// let scheduler = Scheduler::new(2);
/// let words = ["scope", "task"];
/// let lengths = with_scope(&scheduler, |scope| {
///     let tasks = words.map(|word| scope.spawn(move || word.len()));
///     tasks.map(|task| task.await_result().unwrap())
/// });
/// assert_eq!(lengths, [5, 4]);
/// ```
///
/// A task cannot leave its scope:
///
/// ```compile_fail
/// use windlass_pool::{Scheduler, with_scope};
///
/// let scheduler = Scheduler::new(1);
/// let escaped = with_scope(&scheduler, |scope| scope.spawn(|| 1));
/// ```
///
/// nor can the scope itself:
///
/// ```compile_fail
/// use windlass_pool::{Scheduler, with_scope};
///
/// let scheduler = Scheduler::new(1);
/// let mut escaped = None;
/// with_scope(&scheduler, |scope| escaped = Some(scope));
/// ```
///
/// A task cannot borrow from the body, which ends before the scope does:
///
/// ```compile_fail
/// use windlass_pool::{Scheduler, with_scope};
///
/// let scheduler = Scheduler::new(1);
/// with_scope(&scheduler, |scope| {
///     let local = 1;
///     scope.spawn(|| println!("{local}"));
/// });
/// ```
///
/// and what it borrows mutably is out of reach as long as the scope is open:
///
/// ```compile_fail
/// use windlass_pool::{Scheduler, with_scope};
///
/// let scheduler = Scheduler::new(1);
/// let mut count = 0;
/// with_scope(&scheduler, |scope| {
///     scope.spawn(|| count += 1);
///     println!("{count}");
/// });
/// ```
pub struct Scope<'scope, 'env: 'scope> {
    root: Root,
    /// What the callbacks hang below, once there are any.
    watches: OnceLock<Root>,
    pool: &'scope Pool,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Opens a scope on `scheduler`, runs `body` in it, and waits for every task.
///
/// The body runs on the calling thread. If it panics, the tasks are cancelled before they are waited
/// for. The first panic that nobody received by awaiting its task goes on in the caller.
///
/// Opened inside a task or inside the body of another scope, it is a child of that one: it is
/// cancelled when that one is.
///
/// ```
/// use windlass_pool::{Scheduler, with_scope};
/// # fn compute_x() -> u32 { 1 }
/// # fn compute_y() -> u32 { 2 }
///
/// let scheduler = Scheduler::new(4); // 4 worker threads
///
/// with_scope(&scheduler, |scope| {
///     let task1 = scope.spawn(|| compute_x());
///     let task2 = scope.spawn(|| compute_y());
///
///     let x = task1.await_result();
///     let y = task2.await_result();
///     (x, y)
/// });
/// // All tasks complete before scope exits
/// ```
pub fn with_scope<'env, F, R>(scheduler: &Scheduler, body: F) -> R
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
{
    open(scheduler.pool(), body).unwrap_or_else(|payload| panic::resume_unwind(payload))
}

/// Opens a scope, runs the body, waits for everything, and returns what is to go on in the caller.
pub(crate) fn open<'env, F, R>(pool: &Pool, body: F) -> thread::Result<R>
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
{
    let (root, watches) = (Root::new(None), OnceLock::new());
    let scope = Scope { root, watches, pool, scope: PhantomData, env: PhantomData };
    let bomb = Bomb::new("a scope must not be left before its tasks have ended");
    let value = scope.root.inside(|| catch_unwind(AssertUnwindSafe(|| body(&scope))));
    let value = value.map_err(|payload| scope.fail(payload));
    scope.wait();
    bomb.defuse();
    match (scope.take_first_panic(), value) {
        (Some(payload), _) => Err(payload),
        (None, Ok(value)) => Ok(value),
        (None, Err(unwound)) => Err(Box::new(unwound)),
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Starts a task. Dropping the handle does not affect the task.
    ///
    /// In a scope that has been cancelled the body does not run, and the task's result is
    /// [`TaskError::Cancelled`](crate::TaskError::Cancelled).
    ///
    /// ```
    /// use windlass_pool::{Scheduler, with_scope};
    ///
    /// let scheduler = Scheduler::new(2);
    /// let mut halves = [0, 0];
    /// let [left, right] = &mut halves;
    /// with_scope(&scheduler, |scope| {
    ///     scope.spawn(|| *left = 1);
    ///     scope.spawn(|| *right = 2);
    /// });
    /// assert_eq!(halves, [1, 2]);
    /// ```
    pub fn spawn<F, T>(&'scope self, body: F) -> Task<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let unit = self.root.branch();
        let fate = if unit.is_cancelled() { Fate::Discard } else { Fate::Run };
        // SAFETY: what the body borrows outlives `'scope`, which ends only after `open` has waited
        // for the root to be complete; and the handle cannot outlive `'scope` either.
        let (held, queued) = unsafe { job::make(unit, &self.root, body) };
        self.pool.submit(held.id(), queued, fate);
        Task::new(held, &self.root, self.pool)
    }

    /// Asks everything in the scope, and in the scopes inside it, to stop.
    ///
    /// Tasks that have not begun never will; others see it by [`cancelled`](crate::cancelled) or
    /// [`checkpoint`](crate::checkpoint).
    ///
    /// ```
    /// use windlass_pool::{Scheduler, cancelled, with_scope};
    ///
    /// let scheduler = Scheduler::new(1);
    /// with_scope(&scheduler, |scope| {
    ///     scope.spawn(|| while !cancelled() {});
    ///     scope.cancel();
    /// });
    /// ```
    pub fn cancel(&self) {
        watch::cancel(self.root.node());
    }

    /// Whether the scope, or anything it stands in, has been cancelled.
    ///
    /// ```
    /// use windlass_pool::{Scheduler, with_scope};
    ///
    /// let scheduler = Scheduler::new(1);
    /// with_scope(&scheduler, |outer| {
    ///     outer.cancel();
    ///     with_scope(&scheduler, |inner| assert!(inner.is_cancelled()));
    /// });
    /// ```
    pub fn is_cancelled(&self) -> bool {
        self.root.is_cancelled()
    }

    /// Has `callback` called when the scope is cancelled, by whoever cancels it; at once if it already
    /// is. For what cannot ask: a task that blocks in a read, say, whose socket can be shut down.
    ///
    /// It is not called after the scope has ended, and the scope does not end while it runs. It should
    /// be quick, because the canceller waits for it.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use windlass_pool::{Scheduler, with_scope};
    ///
    /// let scheduler = Scheduler::new(1);
    /// let (stop, stopped) = mpsc::channel();
    /// with_scope(&scheduler, |scope| {
    ///     scope.on_cancel(move || stop.send(()).unwrap());
    ///     scope.spawn(move || stopped.recv().unwrap());
    ///     scope.cancel();
    /// });
    /// ```
    pub fn on_cancel<F>(&'scope self, callback: F)
    where
        F: FnOnce() + Send + 'scope,
    {
        let root = self.watches.get_or_init(|| self.root.around());
        // SAFETY: as in `spawn`; `wait` waits for this root too.
        let (held, callback) = unsafe { job::make(root.unit(), root, callback) };
        drop(held);
        watch::register(root, callback);
    }

    /// Opens a scope inside this one, on the same scheduler, as [`with_scope`] does.
    ///
    /// It is cancelled when this one is, whatever the calling thread is in.
    ///
    /// ```
    /// use windlass_pool::{Scheduler, with_scope};
    ///
    /// let scheduler = Scheduler::new(2);
    /// let sum = with_scope(&scheduler, |scope| {
    ///     let part = scope.with_child(|child| {
    ///         child.spawn(|| 1).await_result().unwrap() + child.spawn(|| 2).await_result().unwrap()
    ///     });
    ///     part * 2
    /// });
    /// assert_eq!(sum, 6);
    /// ```
    pub fn with_child<'child, F, R>(&self, body: F) -> R
    where
        F: for<'inner> FnOnce(&'inner Scope<'inner, 'child>) -> R,
    {
        let here = self.root.branch();
        here.inside(|| open(self.pool, body))
            .unwrap_or_else(|payload| panic::resume_unwind(payload))
    }

    /// When the scope will be cancelled, if it has a deadline or stands inside one that has.
    ///
    /// ```
    /// use windlass_pool::{Scheduler, with_scope};
    ///
    /// let scheduler = Scheduler::new(1);
    /// with_scope(&scheduler, |scope| assert!(scope.deadline().is_none()));
    /// ```
    pub fn deadline(&self) -> Option<Instant> {
        self.root.deadline()
    }

    /// The body has panicked: the rest is to stop. Being unwound by a checkpoint is not a panic.
    fn fail(&self, payload: Payload) -> Unwound {
        watch::cancel(self.root.node());
        if !payload.is::<Unwound>() {
            self.root.panics().record_own(payload);
        }
        Unwound
    }

    fn wait(&self) {
        if !self.root.end_body() {
            self.pool.wait(self.root.node());
        }
        if let Some(watches) = self.watches.get() {
            watch::unregister(watches);
            if !watches.end_body() {
                wait::sleep_until_complete(watches.node(), None);
            }
        }
    }

    fn take_first_panic(&self) -> Option<Payload> {
        let of_tasks = self.root.panics().take_first();
        of_tasks.or_else(|| self.watches.get()?.panics().take_first())
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("cancelled", &self.is_cancelled()).finish_non_exhaustive()
    }
}
