//! The public operations of a scope.
//!
//! `node/scope.rs` opens scopes, and waits for their tasks. Knows nothing of how tasks are queued or
//! run.

use std::{fmt, panic, time::Instant};

pub use crate::node::Scope;
use crate::{
    cancellation,
    job::{IfCancelled, TaskHandle},
    node::{Disposition, PendingGuard, open},
    scheduler::Scheduler,
    task::Task,
};

/// Opens a scope on `scheduler`, runs `body` in it, and waits for every task.
///
/// The body runs on the calling thread. If it panics, the scope cancels its tasks and then waits for
/// them. The first panic that no caller has received by awaiting its task continues in the caller.
///
/// A scope that is opened inside a task, or inside the body of another scope, is cancelled with that
/// task or scope.
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

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Spawns a task. Dropping the handle does not affect the task.
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
        let handle = self.start(self.root().child_guard(), body);
        Task::new(handle, self.root(), self.pool())
    }

    /// Spawns a task that runs even if it was cancelled before it started.
    pub(crate) fn spawn_always<F, T>(&'scope self, body: F) -> Task<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let guard = self.root().child_guard();
        let (handle, queued) = self.make_task(guard, IfCancelled::Run, body);
        self.pool().submit(queued, Disposition::Run);
        Task::new(handle, self.root(), self.pool())
    }

    /// Spawns a task whose parent is the scope's root, whatever task the calling thread is in.
    pub(crate) fn spawn_below_root(&'scope self, body: impl FnOnce() + Send + 'scope) {
        drop(self.start(self.root().guard(), body));
    }

    /// Spawns a task that starts even if all workers are busy.
    pub(crate) fn spawn_urgent(&'scope self, body: impl FnOnce() + Send + 'scope) {
        let guard = self.root().child_guard();
        let disposition = if self.root().is_cancelled_for(&guard) {
            Disposition::Discard
        } else {
            Disposition::Run
        };
        let (handle, queued) = self.make_task(guard, IfCancelled::Discard, body);
        drop(handle);
        self.pool().submit_urgent(queued, disposition);
    }

    #[inline]
    fn start<F, T>(&'scope self, guard: PendingGuard, body: F) -> TaskHandle<T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let disposition = if self.root().is_cancelled_for(&guard) {
            Disposition::Discard
        } else {
            Disposition::Run
        };
        let (handle, queued) = self.make_task(guard, IfCancelled::Discard, body);
        self.pool().submit(queued, disposition);
        handle
    }

    /// Cancels all tasks of the scope, and the scopes inside it.
    ///
    /// Tasks that have not started never do. Running tasks see the cancel by
    /// [`cancelled`](crate::cancelled) or [`checkpoint`](crate::checkpoint).
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
        cancellation::cancel(self.root().node());
    }

    /// Returns whether the scope, or a scope or task that encloses it, has been cancelled.
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
        self.root().is_cancelled()
    }

    /// Registers a callback for the cancel of the scope. The thread that cancels the scope calls it;
    /// if the scope is cancelled already, it is called at once.
    ///
    /// Use it for a task that cannot check for a cancel because it blocks. For example, the callback
    /// can shut down the socket from which the task reads.
    ///
    /// The callback is not called after the scope has ended, and the scope does not end while it
    /// runs. It should be quick, because the thread that cancels waits for it.
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
        let (root, callback) = self.make_callback(callback);
        cancellation::register(root, callback);
    }

    /// Opens a scope inside this one, on the same scheduler, as [`with_scope`] does.
    ///
    /// It is cancelled with this scope, whatever task the calling thread is in.
    ///
    /// ```
    /// use windlass_pool::{Scheduler, with_scope};
    ///
    /// let scheduler = Scheduler::new(2);
    /// let sum = with_scope(&scheduler, |scope| {
    ///     let part = scope.with_child(|child| {
    ///         let (one, two) = (child.spawn(|| 1), child.spawn(|| 2));
    ///         one.await_result().unwrap() + two.await_result().unwrap()
    ///     });
    ///     part * 2
    /// });
    /// assert_eq!(sum, 6);
    /// ```
    pub fn with_child<'child, F, R>(&self, body: F) -> R
    where
        F: for<'inner> FnOnce(&'inner Scope<'inner, 'child>) -> R,
    {
        let here = self.root().child_guard();
        here.inside(|| open(self.pool(), body))
            .unwrap_or_else(|payload| panic::resume_unwind(payload))
    }

    /// Returns the deadline of the scope, or that of a scope that encloses it if that is earlier.
    ///
    /// ```
    /// use windlass_pool::{Scheduler, with_scope};
    ///
    /// let scheduler = Scheduler::new(1);
    /// with_scope(&scheduler, |scope| assert!(scope.deadline().is_none()));
    /// ```
    pub fn deadline(&self) -> Option<Instant> {
        self.root().deadline()
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("cancelled", &self.is_cancelled()).finish_non_exhaustive()
    }
}
