//! The root of a scope, and the wait that lets tasks borrow.
//!
//! The lifetimes are those of `std::thread::scope`: `'env` is what tasks may borrow, `'scope` the
//! time in which the scope exists. The body chooses neither, so nothing that belongs to the scope
//! can leave it; and [`open`] does not return, nor unwind, before everything that borrows has
//! ended.
//!
//! A root stays where it is until it is complete, because its tasks point to it: it lies in the
//! frame of [`open`], or of a deadline, or in a pool, all of which wait for it.

#![allow(unsafe_code)]

use std::{
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::NonNull,
    sync::OnceLock,
    thread,
    time::Instant,
};

use super::{
    BODY_BIAS, Node, ONE_PENDING, PendingGuard, any_flagged, current_ptr, inside_body, root_of,
};
use crate::{
    abort::AbortOnUnwind,
    cancellation,
    checkpoint::CancelUnwind,
    generation,
    job::{self, QueuedTask, TaskHandle},
    panics::{Payload, ScopePanics},
    pool::Pool,
    sync::{AcqRel, Acquire, AtomicBool, AtomicU64, Relaxed},
    wait_table,
};

/// The root of a scope: the node its body stands for, and what the tasks of a scope share.
///
/// In lines of memory of its own, since those who run its tasks read and write here all the time.
#[repr(C, align(64))]
pub(crate) struct ScopeRoot {
    node: Node,
    /// A time of the cancel clock at which neither this root nor a node above it was marked.
    clean_generation: AtomicU64,
    /// Whether a task of this scope has ever been marked.
    has_flagged_task: AtomicBool,
    /// The guards of the tasks that the body itself has spawned; only the thread it runs on writes
    /// here, when the body ends.
    spawned: AtomicU64,
    deadline: Option<Instant>,
    panics: ScopePanics,
}

impl ScopeRoot {
    /// A root below the node the calling thread is in.
    ///
    /// Its deadline is never later than that of the scope around it.
    #[inline]
    pub(crate) fn new(deadline: Option<Instant>) -> Self {
        let parent = current_ptr();
        // SAFETY: the current node is alive; see `inside`.
        let outer = parent.and_then(|node| unsafe { root_of(node).as_ref() }.deadline());
        let deadline = deadline.into_iter().chain(outer).min();
        Self::below(parent, deadline, ScopePanics::for_scope())
    }

    /// A root below this one, for what must not end before this one has.
    pub(crate) fn child(&self) -> Self {
        Self::below(Some(self.as_ptr()), self.deadline(), ScopePanics::for_scope())
    }

    /// A root below nothing.
    pub(crate) fn detached() -> Self {
        Self::below(None, None, ScopePanics::for_detached())
    }

    #[inline]
    fn below(
        parent: Option<NonNull<Node>>,
        deadline: Option<Instant>,
        panics: ScopePanics,
    ) -> Self {
        let node = Node { state: AtomicU64::new(BODY_BIAS), parent, root: None, vtable: None };
        Self {
            node,
            clean_generation: AtomicU64::new(0),
            has_flagged_task: AtomicBool::new(false),
            spawned: AtomicU64::new(0),
            deadline,
            panics,
        }
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// Whether this scope or anything it stands in has been cancelled.
    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        self.any_flagged(generation::current())
    }

    /// Whether this root, and everything above and below it, is known not to have been marked
    /// before the clock showed `now`.
    #[inline]
    pub(super) fn is_clean(&self, now: u64) -> bool {
        // Relaxed: whoever read `now` sees what was noted before the clock showed it; for
        // `clean_generation` see `any_flagged`.
        self.clean_generation.load(Relaxed) == now && !self.has_flagged_task.load(Relaxed)
    }

    /// A task of this scope has been marked, and the clock will be moved on.
    pub(super) fn note_flagged_task(&self) {
        // Relaxed: the clock's Release publishes it.
        self.has_flagged_task.store(true, Relaxed);
    }

    /// Whether a node of this scope, given by one of its guards, has been cancelled.
    #[inline]
    pub(crate) fn is_cancelled_for(&self, guard: &PendingGuard) -> bool {
        !self.is_clean(generation::current()) && guard.is_cancelled()
    }

    /// Whether this root or a node above it was marked before the clock showed `now`.
    #[inline]
    pub(super) fn any_flagged(&self, now: u64) -> bool {
        // Relaxed: whoever stored `now` read the same clock and then looked at every mark from here
        // upwards.
        self.clean_generation.load(Relaxed) != now && self.find_flag(now)
    }

    #[cold]
    fn find_flag(&self, now: u64) -> bool {
        // SAFETY: a scope stands inside the body of its parent, so all above it are alive.
        let marked = self.node.has_cancel_flag() || unsafe { any_flagged(self.node.parent, now) };
        if !marked {
            self.clean_generation.store(now, Relaxed);
        }
        marked
    }

    /// When everything in the scope is to be cancelled.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// A guard for a new task: of the innermost task of this scope that the calling thread is in, so
    /// that a task completes after its child tasks; else of the root itself.
    #[inline]
    pub(crate) fn child_guard(&self) -> PendingGuard {
        let current = current_ptr();
        if let Some(node) = current.filter(|node| self.contains_directly(*node)) {
            // SAFETY: whoever is directly in a node of this scope is in its body.
            return unsafe { PendingGuard::of_own_body(node) };
        }
        self.distant_child_guard(current)
    }

    /// As [`ScopeRoot::child_guard`], for a thread that is not directly in this scope.
    #[cold]
    fn distant_child_guard(&self, current: Option<NonNull<Node>>) -> PendingGuard {
        let parent = current.and_then(|node| self.innermost(node)).unwrap_or(self.as_ptr());
        // SAFETY: a task that the calling thread is in has its body's guard; a root that can still
        // be named has its body's guard, or that of the task through which it is named.
        unsafe { PendingGuard::of(parent) }
    }

    /// A guard of the root itself, whatever the calling thread is in.
    pub(crate) fn guard(&self) -> PendingGuard {
        // SAFETY: as for `child_guard`.
        unsafe { PendingGuard::of(self.as_ptr()) }
    }

    fn innermost(&self, from: NonNull<Node>) -> Option<NonNull<Node>> {
        let mut place = Some(from);
        while let Some(ptr) = place {
            if self.contains_directly(ptr) {
                return Some(ptr);
            }
            // SAFETY: the current node and all above it are alive.
            place = unsafe { ptr.as_ref() }.parent;
        }
        None
    }

    /// Whether the current node, or one above it, is this root or a task of its scope.
    #[inline]
    fn contains_directly(&self, node: NonNull<Node>) -> bool {
        // SAFETY: the current node and all above it are alive.
        let is_task = || unsafe { node.as_ref() }.is_in_scope_of(&self.node);
        node == self.as_ptr() || is_task()
    }

    /// Runs `f` as this root's body, or a part of it. It must not unwind.
    pub(crate) fn inside<R>(&self, f: impl FnOnce() -> R) -> R {
        // SAFETY: `self` is borrowed until `f` has returned, and a root's parts run on the thread
        // that made it.
        let (value, spawned) = unsafe { inside_body(self.as_ptr(), f) };
        // Relaxed, and no read-modify-write: only that thread writes here.
        self.spawned.store(self.spawned.load(Relaxed) + spawned.0, Relaxed);
        value
    }

    /// Ends the body: from now on the count is that of the tasks. True if there are none left.
    #[inline]
    pub(crate) fn end_body(&self) -> bool {
        // Relaxed: this thread wrote it.
        let lead = BODY_BIAS - self.spawned.load(Relaxed);
        let only_lead = |state: u64| state < lead + ONE_PENDING;
        // Acquire in both: pairs with the Release of each task's last step. Without tasks nobody
        // else can name this root, so the count need not be written.
        only_lead(self.node.state.load(Acquire))
            || only_lead(self.node.state.fetch_sub(lead, AcqRel))
    }

    /// The panics of its tasks that nobody has received.
    pub(crate) fn panics(&self) -> &ScopePanics {
        &self.panics
    }

    fn as_ptr(&self) -> NonNull<Node> {
        NonNull::from(self).cast()
    }
}

/// A structured concurrency scope: tasks are spawned in it and cannot outlive it.
///
/// Handed to the body of [`with_scope`](crate::with_scope). Tasks may borrow whatever outlives the
/// call, and may spawn further tasks in the same scope; those are their *child tasks*, which a
/// cancel of the parent reaches and which the parent's completion waits for.
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
    root: ScopeRoot,
    /// What the callbacks hang below, once there are any.
    callbacks: OnceLock<ScopeRoot>,
    pool: &'scope Pool,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Opens a scope, runs the body, waits for everything, and returns what is to go on in the caller.
pub(crate) fn open<'env, F, R>(pool: &Pool, body: F) -> thread::Result<R>
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
{
    // Made in its place: to move a root costs more than to make it.
    let scope = Scope {
        root: ScopeRoot::new(None),
        callbacks: OnceLock::new(),
        pool,
        scope: PhantomData,
        env: PhantomData,
    };
    let abort = AbortOnUnwind::new("a scope must not be left before its tasks have ended");
    let value = scope.root.inside(|| catch_unwind(AssertUnwindSafe(|| body(&scope))));
    let value = value.map_err(|payload| scope.fail(payload));
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

    /// A task of this scope, below `guard`.
    #[inline]
    pub(crate) fn make_task<F, T>(
        &'scope self,
        guard: PendingGuard,
        body: F,
    ) -> (TaskHandle<T>, QueuedTask)
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        // SAFETY: what the body borrows outlives `'scope`, which ends only after `open` has waited
        // for the root to be complete; and the handle cannot outlive `'scope` either.
        unsafe { job::make(guard, &self.root, body) }
    }

    /// A callback of this scope, and the root it hangs below.
    pub(crate) fn make_callback<F>(&'scope self, callback: F) -> (&'scope ScopeRoot, QueuedTask)
    where
        F: FnOnce() + Send + 'scope,
    {
        let root = self.callbacks.get_or_init(|| self.root.child());
        // SAFETY: as for a task; `open` waits for this root too.
        let (handle, callback) = unsafe { job::make(root.guard(), root, callback) };
        drop(handle);
        (root, callback)
    }

    /// The body has panicked: the rest is to stop. Being unwound by a checkpoint is not a panic.
    fn fail(&self, payload: Payload) -> CancelUnwind {
        cancellation::cancel(self.root.node());
        if !payload.is::<CancelUnwind>() {
            self.root.panics().record_unobserved(payload);
        }
        CancelUnwind
    }

    #[inline]
    fn wait(&self) {
        if !self.root.end_body() {
            self.pool.wait(self.root.node());
        }
        if let Some(callbacks) = self.callbacks.get() {
            cancellation::unregister(callbacks);
            if !callbacks.end_body() {
                wait_table::sleep_until_complete(callbacks.node(), None);
            }
        }
    }

    #[inline]
    fn take_first_panic(&self) -> Option<Payload> {
        let of_tasks = self.root.panics().take_first();
        of_tasks.or_else(|| self.callbacks.get()?.panics().take_first())
    }
}
