//! Opens scopes: the wait that lets tasks borrow.
//!
//! The lifetimes are those of `std::thread::scope`: `'env` is what tasks may borrow, `'scope` is
//! the time during which the scope exists. The body chooses neither, so nothing that belongs to the
//! scope can leave it. [`open`] neither returns nor unwinds before every borrower has ended.
//!
//! What users can do with a scope is in `crate::scope`.

use std::{
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::OnceLock,
    thread,
};

use super::{PendingGuard, ScopeRoot};
use crate::{
    abort::AbortOnUnwind,
    cancellation,
    checkpoint::CancelUnwind,
    job::{self, IfCancelled, QueuedTask, TaskHandle},
    panics::Payload,
    pool::Pool,
};

/// A structured concurrency scope: tasks are spawned in it and cannot outlive it.
///
/// [`with_scope`](crate::with_scope) passes it to its body. Tasks may borrow everything that
/// outlives the call, and may spawn further tasks in the same scope. Those are their *child tasks*:
/// a cancel of the parent reaches them, and the parent completes after them.
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
/// Nor can the scope itself:
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
/// What a task borrows mutably cannot be used while the scope is open:
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
    root: ScopeRoot,
    /// The parent of the cancel callbacks; created with the first of them.
    callbacks: OnceLock<ScopeRoot>,
    pool: &'scope Pool,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Opens a scope, runs the body and waits for all tasks. Returns the body's value, or the panic that
/// is to continue in the caller.
pub(crate) fn open<'env, F, R>(pool: &Pool, body: F) -> thread::Result<R>
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
{
    // Built in place: moving a root costs more than building it.
    let scope = Scope {
        root: ScopeRoot::new(None),
        callbacks: OnceLock::new(),
        pool,
        scope: PhantomData,
        env: PhantomData,
    };
    let abort = AbortOnUnwind::new("a scope unwound before its tasks had ended");
    let value = scope.root.inside(|| catch_unwind(AssertUnwindSafe(|| body(&scope))));
    let value = value.map_err(|payload| scope.cancel_after_unwind(payload));
    scope.wait();
    abort.disarm();
    match (scope.take_first_panic(), value) {
        (Some(payload), _) => Err(payload),
        (None, Ok(value)) => Ok(value),
        (None, Err(unwound)) => Err(Box::new(unwound)),
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    pub(crate) fn root(&self) -> &ScopeRoot {
        &self.root
    }

    pub(crate) fn pool(&self) -> &'scope Pool {
        self.pool
    }

    /// Creates a task of this scope. `guard` is its count in its parent.
    #[inline]
    pub(crate) fn make_task<F, T>(
        &'scope self,
        guard: PendingGuard,
        if_cancelled: IfCancelled,
        body: F,
    ) -> (TaskHandle<T>, QueuedTask)
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        // SAFETY: what the body borrows outlives `'scope`, which ends after `open` has waited for
        // the root to complete. The handle cannot outlive `'scope` either.
        unsafe { job::make(guard, &self.root, if_cancelled, body) }
    }

    /// Creates a cancel callback of this scope, and returns it with the root below which it is.
    pub(crate) fn make_callback<F>(&'scope self, callback: F) -> (&'scope ScopeRoot, QueuedTask)
    where
        F: FnOnce() + Send + 'scope,
    {
        let root = self.callbacks.get_or_init(|| self.root.child());
        // SAFETY: as for a task; `open` waits for this root too.
        let (handle, callback) =
            unsafe { job::make(root.guard(), root, IfCancelled::Discard, callback) };
        drop(handle);
        (root, callback)
    }

    /// Cancels the scope, because its body has unwound, and keeps the payload if it is a panic. The
    /// unwinding of a checkpoint is not one.
    fn cancel_after_unwind(&self, payload: Payload) -> CancelUnwind {
        cancellation::cancel(self.root.node());
        if !payload.is::<CancelUnwind>() {
            self.root.panics().record_unobserved(payload);
        }
        CancelUnwind
    }

    /// Waits for the tasks, then for the callbacks that other threads are calling.
    #[inline]
    fn wait(&self) {
        if !self.root.end_body() {
            self.pool.wait(self.root.node());
        }
        if let Some(callbacks) = self.callbacks.get() {
            cancellation::deregister(callbacks);
            if !callbacks.end_body() {
                self.pool.wait(callbacks.node());
            }
        }
    }

    #[inline]
    fn take_first_panic(&self) -> Option<Payload> {
        let of_tasks = self.root.panics().take_first();
        of_tasks.or_else(|| self.callbacks.get()?.panics().take_first())
    }
}
