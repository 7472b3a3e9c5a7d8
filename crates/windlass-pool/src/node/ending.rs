//! The end of a task: its body ends, its guards, its handle and its place in a queue go, and its
//! memory is freed with the last of them.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::NonNull,
};

use super::{
    BODY_BIAS, BODY_ENDED, HANDLE, HAS_WAITERS, NEW_TASK, NeedsDrop, Node, ONE_PENDING,
    PendingGuard, QUEUED, TaskVTable, current::SpawnCount,
};
use crate::{
    sync::{AcqRel, Acquire, AtomicU64},
    wait_table,
};

/// What has to be recorded about a body that has run or been dropped.
#[derive(Clone, Copy)]
pub(crate) struct EndedBody {
    /// Whether the task was claimed from its queue, so that its place there ends with the body.
    pub(crate) from_queue: bool,
    pub(crate) needs_drop: NeedsDrop,
    pub(crate) spawned: SpawnCount,
}

impl EndedBody {
    /// Returns what is subtracted from the node's state when the body ends.
    #[inline]
    fn subtrahend(self) -> u64 {
        BODY_BIAS - self.spawned.0 + if self.from_queue { QUEUED } else { 0 }
    }
}

/// Ends the body of a task: subtracts the body's bias and, if the task came from there, its place in
/// the queue. Returns the task's guard of its parent if the task is now complete.
///
/// The outcome goes to the handle, or is dropped here if there is none: the step that sets
/// `BODY_ENDED` sees in the same word whether the handle still exists.
///
/// # Safety
/// The caller must have claimed the task and have run or discarded its body, and must not access the
/// node again.
#[inline]
pub(crate) unsafe fn end_body(task: NonNull<Node>, body: EndedBody) -> Option<PendingGuard> {
    // SAFETY: the body's bias keeps the node alive up to the exchange; it is not used afterwards.
    let (state, parent, vtable) = unsafe { parts(task) };
    let vtable = vtable.expect("a root is never claimed");
    let subtrahend = body.subtrahend();
    // Acquire: pairs with the Release of the children's releases and of `drop_handle`.
    let mut before = state.load(Acquire);
    loop {
        if before & HANDLE == 0 && body.needs_drop == NeedsDrop::Yes {
            // SAFETY: the body has ended and there is no handle, so no other thread can access the
            // outcome.
            unsafe { drop_unwanted(task) };
        }
        let after = (before | BODY_ENDED) - subtrahend;
        if is_unused(after) {
            // No exchange is necessary: no other thread can reach the node any more.
            // SAFETY: the node has no pending count, no handle and no place in a queue.
            unsafe { (vtable.free)(task) };
            // SAFETY: the task owned a count of its parent, and is complete.
            return parent.map(|node| unsafe { PendingGuard::from_raw(node) });
        }
        // AcqRel: Release publishes the outcome to `is_complete` and `drop_handle`; Acquire as
        // above.
        match state.compare_exchange_weak(before, after, AcqRel, Acquire) {
            // SAFETY: the exchange was the caller's own step, as in `release`.
            Ok(_) => return unsafe { complete_if_zero(task, parent, Some(vtable), after) },
            Err(now) => before = now,
        }
    }
}

/// Drops an outcome to which no handle leads. The scope gets a panic in that drop.
///
/// # Safety
/// The node must be a task whose pending count contains its body's bias, and no other thread may
/// access its outcome.
unsafe fn drop_unwanted(task: NonNull<Node>) {
    // SAFETY: the body's bias keeps the node alive.
    let node = unsafe { task.as_ref() };
    // SAFETY: by the contract.
    let dropped = || unsafe { (node.vtable().drop_outcome)(task) };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(dropped)) {
        // SAFETY: the body's bias is still counted, so the task is not complete.
        unsafe { node.root() }.panics().record_unobserved(payload);
    }
}

/// Drops the handle of a task, and its outcome if there is one.
///
/// # Safety
/// The caller must own the handle and must not access the node again.
#[inline]
pub(crate) unsafe fn drop_handle(task: NonNull<Node>) {
    // SAFETY: the handle keeps the node alive up to the step that drops it.
    let state = unsafe { &(*task.as_ptr()).state };
    // Most handles are dropped right after the spawn, when the task is still queued or a thief has
    // it. So the first exchange guesses the state: a load would fetch the thief's cache line twice.
    let mut before = NEW_TASK;
    while before & BODY_ENDED == 0 {
        // AcqRel: ordered against `end_body` by this word's modification order, so that exactly one
        // of the two drops the outcome.
        match state.compare_exchange_weak(before, before & !HANDLE, AcqRel, Acquire) {
            Ok(_) => return,
            Err(now) => before = now,
        }
    }
    // SAFETY: as above.
    let vtable = unsafe { (*task.as_ptr()).vtable }.expect("a root has no handle and no queue");
    // SAFETY: the body ended while the handle existed, so the handle owns the outcome. A handle
    // never outlives its scope, so the root is alive.
    unsafe { (vtable.drop_outcome)(task) };
    // AcqRel: pairs with the other last steps; the one that frees the node has seen them all.
    let after = state.fetch_and(!HANDLE, AcqRel) & !HANDLE;
    // SAFETY: `after` is the state that the caller's own step left.
    unsafe { free_if_unused(task, vtable, after) };
}

/// Gives up a task's place in a queue without having run it from there.
///
/// # Safety
/// The caller must have taken the task from a queue, another thread must have claimed it, and the
/// caller must not access the node again.
pub(crate) unsafe fn leave_queue(task: NonNull<Node>) {
    // SAFETY: the place in the queue keeps the node alive up to the step that gives it up.
    let (state, _, vtable) = unsafe { parts(task) };
    // AcqRel: pairs with the other last steps; the one that frees the node has seen them all.
    let after = state.fetch_and(!QUEUED, AcqRel) & !QUEUED;
    // SAFETY: `after` is the state that the caller's own step left.
    unsafe { free_if_unused(task, vtable.expect("a root has no handle and no queue"), after) };
}

type Parts<'a> = (&'a AtomicU64, Option<NonNull<Node>>, Option<&'static TaskVTable>);

/// Returns the fields that a last step needs. It has to read them before, since afterwards the node
/// may have been freed.
///
/// # Safety
/// The node must be alive, and the state must not be used after the caller's last step.
unsafe fn parts<'a>(node: NonNull<Node>) -> Parts<'a> {
    let node = node.as_ptr();
    // SAFETY: by the contract; no reference to the whole node is created, only to its atomic.
    unsafe { (&(*node).state, (*node).parent, (*node).vtable) }
}

/// Releases pending counts of a node. If they were the last, continues with the parent, and so on
/// upwards.
///
/// # Safety
/// The caller must own `count` counts and must not access the node again.
#[inline(never)]
pub(super) unsafe fn release(node: NonNull<Node>, count: u64) {
    let mut next = Some((node, count));
    while let Some((node, count)) = next {
        // SAFETY: the counts keep the node alive up to the subtraction.
        let (state, parent, vtable) = unsafe { parts(node) };
        // AcqRel: Release publishes what was done under these counts, Acquire collects what was done
        // under the others.
        let after = state.fetch_sub(count * ONE_PENDING, AcqRel) - count * ONE_PENDING;
        // SAFETY: `after` is the state that the caller's own step left.
        let above = unsafe { complete_if_zero(node, parent, vtable, after) };
        next = above.map(|guard| (guard.into_raw(), 1));
    }
}

/// Completes a node whose pending count has reached zero: wakes its waiters and frees its memory if
/// nothing else keeps it. Returns the guard that a complete task held in its parent.
///
/// # Safety
/// `after` must be the state that the caller's own step left. The node is accessed only if that
/// state shows that nothing else keeps it.
#[inline]
unsafe fn complete_if_zero(
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
    // A root has no vtable and no count in its parent: the thread that opened the scope waits for
    // the root, and runs the parent's body itself.
    // SAFETY: by the contract.
    unsafe { free_if_unused(node, vtable?, after) };
    // SAFETY: the task owned a count of its parent, and is complete.
    parent.map(|node| unsafe { PendingGuard::from_raw(node) })
}

/// Frees the task's memory if nothing keeps it any more.
///
/// # Safety
/// `after` must be the state that the caller's own step left.
#[inline]
unsafe fn free_if_unused(node: NonNull<Node>, vtable: &TaskVTable, after: u64) {
    if is_unused(after) {
        // SAFETY: the node has no pending count, no handle and no place in a queue, and no step can
        // add one.
        unsafe { (vtable.free)(node) };
    }
}

/// Returns whether a task in this state has no pending count, no handle and no place in a queue.
#[inline]
fn is_unused(state: u64) -> bool {
    state < ONE_PENDING && state & (HANDLE | QUEUED) == 0
}
