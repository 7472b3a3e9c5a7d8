//! The tree that everything running hangs in: how work is counted down and how a cancel spreads.
//!
//! A *node* is a task or the root of a scope. It counts *guards*: some for its own body and one for
//! each child task that has not completed; it is complete when none is left, and then gives back
//! the guard it holds in its parent. A scope waits for its root, so it ends after everything in it.
//!
//! The tasks that a body spawns itself are counted apart, on its thread, and added to the count
//! when it ends: a spawn need not touch what the end of every child touches. Until then the count
//! holds [`BODY_BIAS`] guards for the body, so it cannot run out however many children end.
//!
//! A node's memory stays while it has a guard, a handle or a place in a queue. All three stand in
//! one word, so exactly one step sees the last of them go, and that step frees the node. A root's
//! memory belongs to whoever waits for it. A parent has a guard for each child, so while a node is
//! not complete, every node above it is alive.
//!
//! A cancel marks one node and moves the process-wide *cancel clock*. A node is cancelled if it or
//! any node above it is marked. Roots remember at which time of the clock nothing above them was
//! marked, and whether a task of theirs ever was; so as long as nobody cancels anything, a check is
//! four loads, however deep the tree.
//! The clock is moved after the mark is set (Release) and read before the marks (Acquire): whoever
//! reads the new time sees the mark, and whoever remembers the old time will look again.
//!
//! Knows nothing of queues, threads or what a task does.

#![allow(unsafe_code)]

use std::{
    cell::Cell,
    marker::PhantomData,
    mem::ManuallyDrop,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::NonNull,
};

use crate::{
    abort::AbortOnUnwind,
    cancellation, generation,
    sync::{AcqRel, Acquire, AtomicU64, Relaxed, Release},
    wait_table,
};

mod root;
mod vtable;

pub use root::Scope;
pub(crate) use root::{ScopeRoot, open};
pub(crate) use vtable::{Disposition, NeedsDrop, TaskEnd, TaskVTable};

/// Somebody asked for this node, and everything below it, to stop.
const CANCELLED: u64 = 1;
/// Somebody has taken it on to run or to discard it.
const CLAIMED: u64 = 1 << 1;
/// Its body has returned, or will never run.
const BODY_ENDED: u64 = 1 << 2;
/// A handle to it exists.
const HANDLE: u64 = 1 << 3;
/// A queue holds it.
const QUEUED: u64 = 1 << 4;
/// Somebody may be waiting for it; the wait table knows who.
const HAS_WAITERS: u64 = 1 << 5;
/// One guard of the count, which takes up the rest of the word.
const ONE_PENDING: u64 = 1 << 8;
/// The guards of a body that has not ended: more than tasks can be spawned.
const BODY_BIAS: u64 = ONE_PENDING << 40;

/// The state of a task that was just made.
const NEW_TASK: u64 = BODY_BIAS | HANDLE | QUEUED;

/// A task, or the root of a scope.
#[repr(C)]
pub(crate) struct Node {
    state: AtomicU64,
    parent: Option<NonNull<Node>>,
    root: Option<NonNull<ScopeRoot>>,
    vtable: Option<&'static TaskVTable>,
}

// SAFETY: the state is atomic and the rest is never written after creation; the pointers lead to
// nodes that outlive this one's last guard and that are `Sync` themselves.
unsafe impl Sync for Node {}
// SAFETY: as above; a node is not tied to the thread that made it.
unsafe impl Send for Node {}

/// Where a task stands, as far as its node knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StateFlags {
    pub(crate) claimed: bool,
    pub(crate) ended: bool,
    pub(crate) complete: bool,
}

impl Node {
    /// A task that is queued and has a handle; `guard` is its hold on its parent.
    #[inline]
    pub(crate) fn task(guard: PendingGuard, root: &ScopeRoot, vtable: &'static TaskVTable) -> Self {
        Self {
            state: AtomicU64::new(NEW_TASK),
            parent: Some(guard.into_raw()),
            root: Some(NonNull::from(root)),
            vtable: Some(vtable),
        }
    }

    pub(crate) fn address(&self) -> usize {
        (&raw const *self).addr()
    }

    /// Whether this is a task of the scope whose root is `node`.
    #[inline]
    pub(crate) fn is_in_scope_of(&self, node: &Node) -> bool {
        self.root.is_some_and(|root| std::ptr::eq(root.as_ptr().cast(), node))
    }

    /// Takes the task on; true for one caller only.
    #[inline]
    pub(crate) fn claim(&self) -> bool {
        // Acquire: pairs with the Release in `unclaim`. What the body owns came with the queue.
        self.state.fetch_or(CLAIMED, AcqRel) & CLAIMED == 0
    }

    /// As [`Node::claim`], for whoever took the task from its queue; looks first, which is cheaper
    /// if the memory is at hand.
    #[inline]
    pub(crate) fn claim_from_queue(&self) -> bool {
        // Acquire: pairs with the Release in `drop_handle`.
        let state = self.state.load(Acquire);
        if state & (HANDLE | CLAIMED) != 0 {
            return state & CLAIMED == 0 && self.claim();
        }
        // Relaxed, and no read-modify-write: only a handle and the queue lead to a task that has
        // not begun. The handle is gone and never comes back, and the place in the queue is the
        // caller's.
        self.state.store(state | CLAIMED, Relaxed);
        true
    }

    /// Lets go of a claim without having begun.
    pub(crate) fn unclaim(&self) {
        // Release: pairs with the Acquire of the next `claim`.
        let before = self.state.fetch_and(!CLAIMED, Release);
        debug_assert!(
            before & (CLAIMED | BODY_ENDED) == CLAIMED,
            "only a claim not begun is let go"
        );
    }

    /// What this task does.
    pub(crate) fn vtable(&self) -> &'static TaskVTable {
        self.vtable.expect("a root is never claimed")
    }

    pub(crate) fn has_handle(&self) -> bool {
        // Relaxed: a handle that is gone never comes back; `end_body` decides for good.
        self.state.load(Relaxed) & HANDLE != 0
    }

    /// Whether the body has ended and every child task with it.
    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        // Acquire: pairs with the Release half of the step that gave the last guard back.
        self.state.load(Acquire) < ONE_PENDING
    }

    /// Says that somebody is about to wait; true if there is nothing left to wait for.
    pub(crate) fn announce_waiter(&self) -> bool {
        // AcqRel: ordered against the last guard's step in this word; see `wait`.
        self.state.fetch_or(HAS_WAITERS, AcqRel) < ONE_PENDING
    }

    pub(crate) fn flags(&self) -> StateFlags {
        let state = self.state.load(Acquire);
        StateFlags {
            claimed: state & CLAIMED != 0,
            ended: state & BODY_ENDED != 0,
            complete: state < ONE_PENDING,
        }
    }

    /// Marks the node as cancelled; true the first time.
    pub(crate) fn set_cancel_flag(&self) -> bool {
        // Relaxed: the clock's Release below publishes the mark.
        let first = self.state.fetch_or(CANCELLED, Relaxed) & CANCELLED == 0;
        if first {
            if let Some(root) = self.root {
                // SAFETY: whoever can name a task has its handle, or has claimed it; the root of its
                // scope outlives both.
                unsafe { root.as_ref() }.note_flagged_task();
            }
            generation::advance();
        }
        first
    }

    fn has_cancel_flag(&self) -> bool {
        // Relaxed: the Acquire in `clock::now` makes every mark up to that time visible.
        self.state.load(Relaxed) & CANCELLED != 0
    }

    /// The root of the scope this task belongs to.
    ///
    /// # Safety
    /// The task is not complete before the reference is used for the last time.
    pub(crate) unsafe fn root(&self) -> &ScopeRoot {
        let root = self.root.expect("only a root has no root above it");
        // SAFETY: a scope waits for its tasks, so as long as one is not complete its root is alive.
        unsafe { root.as_ref() }
    }
}

/// One guard of a node, held for as long as something must keep the node from completing.
pub(crate) struct PendingGuard {
    node: NonNull<Node>,
}

// SAFETY: a guard is a count in an atomic word; any thread may give it back.
unsafe impl Send for PendingGuard {}

impl PendingGuard {
    /// A guard for a task that the body of `node` spawns, counted on the body's own thread.
    ///
    /// # Safety
    /// The calling thread is directly in the body of `node`.
    #[inline]
    unsafe fn of_own_body(node: NonNull<Node>) -> Self {
        SPAWN_COUNT.with(|spawned| spawned.set(SpawnCount(spawned.get().0 + ONE_PENDING)));
        Self { node }
    }

    /// # Safety
    /// The node has at least one guard and keeps it until this call has returned.
    #[inline]
    pub(crate) unsafe fn of(node: NonNull<Node>) -> Self {
        // Relaxed: the guard that the caller relies on keeps the count from reaching zero.
        // SAFETY: a node with a guard is alive.
        unsafe { node.as_ref() }.state.fetch_add(ONE_PENDING, Relaxed);
        Self { node }
    }

    /// A guard of a node that may be complete; `None` if it is.
    ///
    /// # Safety
    /// The node is alive.
    pub(crate) unsafe fn of_incomplete(node: NonNull<Node>) -> Option<Self> {
        let more = |state: u64| (state >= ONE_PENDING).then_some(state + ONE_PENDING);
        // Relaxed: the guard gives nothing but the certainty that the nodes above stay alive.
        // SAFETY: by the contract.
        let added = unsafe { node.as_ref() }.state.fetch_update(Relaxed, Relaxed, more);
        added.is_ok().then(|| Self { node })
    }

    /// Whether the node or one above it has been cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        // SAFETY: this guard keeps the node, and thereby all above it, alive.
        unsafe { is_cancelled(self.node) }
    }

    /// Runs `f` as something that belongs to the node.
    pub(crate) fn inside<R>(&self, f: impl FnOnce() -> R) -> R {
        // SAFETY: this guard is borrowed until `f` has returned.
        unsafe { inside(self.node, f) }
    }

    /// Cancels the node and everything below it.
    pub(crate) fn cancel(&self) {
        // SAFETY: a node with a guard is alive.
        cancellation::cancel(unsafe { self.node.as_ref() });
    }

    fn into_raw(self) -> NonNull<Node> {
        ManuallyDrop::new(self).node
    }
}

impl Drop for PendingGuard {
    fn drop(&mut self) {
        // SAFETY: this value is the guard that is given back.
        unsafe { release(self.node, 1) }
    }
}

/// Units that are to be given back: of one node at a time, all of them together.
#[derive(Default)]
pub(crate) struct DeferredRelease {
    node: Cell<Option<NonNull<Node>>>,
    count: Cell<u64>,
}

impl DeferredRelease {
    /// Takes over `guard`. First releases the guards of another node.
    #[inline]
    pub(crate) fn add(&self, guard: PendingGuard) {
        let node = guard.into_raw();
        let before = match self.node.get() {
            Some(same) if same == node => self.count.get(),
            _ => {
                self.flush();
                0
            }
        };
        self.node.set(Some(node));
        self.count.set(before + 1);
    }

    /// Releases all guards. Returns whether there were any.
    #[inline]
    pub(crate) fn flush(&self) -> bool {
        let node = self.node.take();
        if let Some(node) = node {
            // SAFETY: `add` took over `count` guards of this node, and no other call will release
            // them, since `node` is now empty.
            unsafe { release(node, self.count.get()) };
        }
        node.is_some()
    }

    /// Releases all guards unless they belong to the parent of `task`.
    #[inline]
    pub(crate) fn flush_unless_parent_of(&self, task: &Node) {
        if self.node.get() != task.parent {
            self.flush();
        }
    }

    /// Returns whether these guards are all that keeps `node` from completing.
    #[inline]
    pub(crate) fn is_last_of(&self, node: &Node) -> bool {
        // Relaxed: if so, the AcqRel in `release` collects what was done under the other guards.
        let pending = || node.state.load(Relaxed) / ONE_PENDING;
        self.node.get().is_some_and(|own| std::ptr::eq(own.as_ptr(), node))
            && pending() == self.count.get()
    }
}

impl Drop for DeferredRelease {
    fn drop(&mut self) {
        self.flush();
    }
}

/// The body of a task that has run or been dropped.
#[derive(Clone, Copy)]
pub(crate) struct EndedBody {
    /// Whether the task was claimed from its queue, and its place there goes with the body.
    pub(crate) from_queue: bool,
    pub(crate) needs_drop: NeedsDrop,
    pub(crate) spawned: SpawnCount,
}

impl EndedBody {
    /// What goes from the node's word with the body.
    #[inline]
    fn leaving(self) -> u64 {
        BODY_BIAS - self.spawned.0 + if self.from_queue { QUEUED } else { 0 }
    }
}

/// Ends the body of a task: gives back its guards and, if it came from there, its place in the
/// queue. If the task is thereby complete, returns the guard that it held of its parent.
///
/// The outcome goes to the handle, or is dropped here if there is none: the step that sets `BODY_ENDED`
/// sees in the same word whether the handle still exists.
///
/// # Safety
/// The caller claimed the task, ran or discarded its body, and does not touch the node again.
#[inline]
pub(crate) unsafe fn end_body(task: NonNull<Node>, body: EndedBody) -> Option<PendingGuard> {
    // SAFETY: the body's guards keep the node alive up to the exchange; not used after it.
    let (state, parent, vtable) = unsafe { parts(task) };
    let vtable = vtable.expect("a root is never claimed");
    let leaving = body.leaving();
    // Acquire: sees what the children and the handle did before their own steps.
    let mut before = state.load(Acquire);
    loop {
        if before & HANDLE == 0 && body.needs_drop == NeedsDrop::Yes {
            // SAFETY: the body has ended and there is no handle, so the outcome is ours alone.
            unsafe { drop_unwanted(task) };
        }
        let after = (before | BODY_ENDED) - leaving;
        if is_unused(after) {
            // No exchange: whatever could lead anybody else here is gone and cannot come back.
            // SAFETY: no guard, no handle and no queue is left.
            unsafe { (vtable.free)(task) };
            return parent.map(|node| PendingGuard { node });
        }
        // AcqRel: Release publishes the outcome to `is_complete` and `drop_handle`; Acquire as
        // above.
        match state.compare_exchange_weak(before, after, AcqRel, Acquire) {
            // SAFETY: as for `release`, of which this is the first step.
            Ok(_) => return unsafe { settle(task, parent, Some(vtable), after) },
            Err(now) => before = now,
        }
    }
}

/// Drops an outcome that nobody will ask for; a panic in its drop goes to the scope.
///
/// # Safety
/// The node is a task that still has its body's guard, and its outcome is the caller's alone.
unsafe fn drop_unwanted(task: NonNull<Node>) {
    // SAFETY: the body's guard keeps the node alive.
    let node = unsafe { task.as_ref() };
    // SAFETY: by the contract.
    let dropped = || unsafe { (node.vtable().drop_outcome)(task) };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(dropped)) {
        // SAFETY: the body's guard is still there, so the task is not complete.
        unsafe { node.root() }.panics().record_unobserved(payload);
    }
}

/// Gives up the handle of a task, and with it the outcome if there is one.
///
/// # Safety
/// The caller owns the handle and does not touch the node again.
#[inline]
pub(crate) unsafe fn drop_handle(task: NonNull<Node>) {
    // SAFETY: the handle keeps the node alive up to the step that gives it up.
    let state = unsafe { &(*task.as_ptr()).state };
    // Most handles are dropped as soon as they are made, when nobody or a thief has the node. So
    // nothing is read first: that would fetch the thief's line twice.
    let mut before = NEW_TASK;
    while before & BODY_ENDED == 0 {
        // AcqRel: ordered against `end_body` in this word; one of the two drops the outcome.
        match state.compare_exchange_weak(before, before & !HANDLE, AcqRel, Acquire) {
            Ok(_) => return,
            Err(now) => before = now,
        }
    }
    // SAFETY: as above.
    let vtable = unsafe { (*task.as_ptr()).vtable }.expect("a root has no handle and no queue");
    // SAFETY: the body ended while the handle existed, so the outcome belongs to the handle, which
    // never outlives its scope.
    unsafe { (vtable.drop_outcome)(task) };
    // AcqRel: whoever frees the node has seen everything that was done to it.
    let after = state.fetch_and(!HANDLE, AcqRel) & !HANDLE;
    // SAFETY: the handle was ours and is gone.
    unsafe { free_if_unused(task, vtable, after) };
}

/// Gives up a task's place in a queue without having run it from there.
///
/// # Safety
/// The caller took the task from a queue, somebody else claimed it, and the caller does not touch
/// the node again.
pub(crate) unsafe fn leave_queue(task: NonNull<Node>) {
    // SAFETY: the place in the queue keeps the node alive up to the step that gives it up.
    let (state, _, vtable) = unsafe { parts(task) };
    // AcqRel: whoever frees the node has seen everything that was done to it.
    let after = state.fetch_and(!QUEUED, AcqRel) & !QUEUED;
    // SAFETY: the place in the queue was ours and is gone.
    unsafe { free_if_unused(task, vtable.expect("a root has no handle and no queue"), after) };
}

type Parts<'a> = (&'a AtomicU64, Option<NonNull<Node>>, Option<&'static TaskVTable>);

/// The fields that a last step needs, read before it: afterwards the node may be gone.
///
/// # Safety
/// The node is alive; the state may be used until the caller has given up its hold.
unsafe fn parts<'a>(node: NonNull<Node>) -> Parts<'a> {
    let node = node.as_ptr();
    // SAFETY: by the contract; no reference to the whole node is made, only to its atomic.
    unsafe { (&(*node).state, (*node).parent, (*node).vtable) }
}

/// Gives guards back and, where they were the last, goes on with the parent, and so on upwards.
///
/// # Safety
/// The caller owns so many guards and does not touch the node again.
#[inline(never)]
unsafe fn release(node: NonNull<Node>, count: u64) {
    let mut next = Some((node, count));
    while let Some((node, count)) = next {
        // SAFETY: the guards keep the node alive up to the subtraction.
        let (state, parent, vtable) = unsafe { parts(node) };
        // AcqRel: Release publishes what was done under these guards, Acquire collects what was
        // done under the others.
        let after = state.fetch_sub(count * ONE_PENDING, AcqRel) - count * ONE_PENDING;
        // SAFETY: the guards were ours and are gone.
        let above = unsafe { settle(node, parent, vtable, after) };
        next = above.map(|guard| (guard.into_raw(), 1));
    }
}

/// What follows from guards having been given back: a task that is thereby complete returns the guard
/// that it held of its parent.
///
/// # Safety
/// `after` is the state that the caller's step left behind; the node is touched only if that state
/// makes this call its last holder.
#[inline]
unsafe fn settle(
    node: NonNull<Node>,
    parent: Option<NonNull<Node>>,
    vtable: Option<&'static TaskVTable>,
    after: u64,
) -> Option<PendingGuard> {
    if after >= ONE_PENDING {
        return None;
    }
    if after & HAS_WAITERS != 0 {
        wait_table::wake_all(node.addr().get());
    }
    // SAFETY: by the contract, for a task that is now complete. A root completes for its owner; its
    // parent waits for that owner, not for a guard.
    unsafe { free_if_unused(node, vtable?, after) };
    parent.map(|node| PendingGuard { node })
}

/// # Safety
/// `after` is the state that the caller's own step left behind.
#[inline]
unsafe fn free_if_unused(node: NonNull<Node>, vtable: &TaskVTable, after: u64) {
    if is_unused(after) {
        // SAFETY: no guard, no handle and no queue is left, and no step can bring one back.
        unsafe { (vtable.free)(node) };
    }
}

/// Whether a task in this state has no guard, no handle and no place in a queue.
#[inline]
fn is_unused(state: u64) -> bool {
    state < ONE_PENDING && state & (HANDLE | QUEUED) == 0
}

/// Whether a node or one above it has been cancelled.
///
/// # Safety
/// The node is not complete before this call returns, and the pointer is to its whole object.
#[inline]
pub(crate) unsafe fn is_cancelled(node: NonNull<Node>) -> bool {
    let now = generation::current();
    // SAFETY: a node that is not complete keeps all above it alive.
    let root = unsafe { root_of(node).as_ref() };
    // SAFETY: as above.
    !root.is_clean(now) && unsafe { any_flagged(Some(node), now) }
}

/// Whether a node is one of `tops` or below one of them.
///
/// # Safety
/// The node is not complete before this call returns.
#[inline(never)]
pub(crate) unsafe fn is_within(node: NonNull<Node>, tops: [Option<&Node>; 2]) -> bool {
    let mut place = Some(node);
    while let Some(ptr) = place {
        if tops.iter().flatten().any(|&top| std::ptr::eq(top, ptr.as_ptr())) {
            return true;
        }
        // SAFETY: a node that is not complete keeps all above it alive.
        place = unsafe { ptr.as_ref() }.parent;
    }
    false
}

/// Whether `from` or a node above it was marked before the clock showed `now`.
///
/// # Safety
/// `from` and every node above it are alive, and the pointers are to their whole objects.
#[cold]
unsafe fn any_flagged(from: Option<NonNull<Node>>, now: u64) -> bool {
    let mut place = from;
    while let Some(ptr) = place {
        // SAFETY: by the contract.
        let node = unsafe { ptr.as_ref() };
        if node.root.is_none() {
            // SAFETY: only `ScopeRoot` holds a node without a root, as its first field.
            return unsafe { ptr.cast::<ScopeRoot>().as_ref() }.any_flagged(now);
        }
        if node.has_cancel_flag() {
            return true;
        }
        place = node.parent;
    }
    false
}

/// # Safety
/// The node is alive and the pointer is to its whole object.
#[inline]
pub(crate) unsafe fn root_of(node: NonNull<Node>) -> NonNull<ScopeRoot> {
    // SAFETY: by the contract; only `ScopeRoot` holds a node without a root, as its first field.
    unsafe { node.as_ref() }.root.unwrap_or(node.cast())
}

#[cfg(not(windlass_loom))]
thread_local! {
    static CURRENT: Cell<Option<NonNull<Node>>> = const { Cell::new(None) };
    /// What the innermost body on this thread has spawned.
    static SPAWN_COUNT: Cell<SpawnCount> = const { Cell::new(SpawnCount(0)) };
}

#[cfg(windlass_loom)]
loom::thread_local! {
    static CURRENT: Cell<Option<NonNull<Node>>> = Cell::new(None);
    static SPAWN_COUNT: Cell<SpawnCount> = Cell::new(SpawnCount(0));
}

/// The guards of the tasks that a body has spawned itself.
#[derive(Clone, Copy)]
pub(crate) struct SpawnCount(u64);

/// Runs `body` as that of `node`, and says what it spawned. It must not unwind.
///
/// # Safety
/// As for [`inside`]; while a body of the node runs here, none runs on another thread.
#[inline]
pub(crate) unsafe fn inside_body<R>(
    node: NonNull<Node>,
    body: impl FnOnce() -> R,
) -> (R, SpawnCount) {
    let abort = AbortOnUnwind::new("what a body has spawned must not be forgotten");
    let around = SPAWN_COUNT.with(|spawned| spawned.replace(SpawnCount(0)));
    // SAFETY: by the contract.
    let value = unsafe { inside(node, body) };
    abort.disarm();
    (value, SPAWN_COUNT.with(|spawned| spawned.replace(around)))
}

/// Runs `f` with `node` as the calling thread's current node.
///
/// # Safety
/// The node is not complete before `f` has returned, and the pointer is to its whole object.
#[inline]
pub(crate) unsafe fn inside<R>(node: NonNull<Node>, f: impl FnOnce() -> R) -> R {
    struct Back(Option<NonNull<Node>>, PhantomData<*const ()>);
    impl Drop for Back {
        fn drop(&mut self) {
            CURRENT.with(|current| current.set(self.0));
        }
    }
    let _back = Back(CURRENT.with(|current| current.replace(Some(node))), PhantomData);
    f()
}

/// The node the calling thread is in; alive as long as the calling frame is.
#[inline]
pub(crate) fn current_ptr() -> Option<NonNull<Node>> {
    CURRENT.with(Cell::get)
}

/// Whether the node the calling thread is in has been cancelled.
pub(crate) fn current_is_cancelled() -> bool {
    // SAFETY: `inside` keeps the current node from completing.
    current_ptr().is_some_and(|node| unsafe { is_cancelled(node) })
}

/// Calls `f` with the node the calling thread is in.
pub(crate) fn with_current<R>(f: impl FnOnce(Option<&Node>) -> R) -> R {
    // SAFETY: `inside` keeps the current node alive, and `f` returns before it can end.
    f(current_ptr().map(|node| unsafe { node.as_ref() }))
}
