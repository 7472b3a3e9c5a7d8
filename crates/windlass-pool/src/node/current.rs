//! The node that the calling thread is in, and the tasks that its body has spawned.

use std::{cell::Cell, marker::PhantomData, ptr::NonNull};

use super::{Node, ONE_PENDING, ancestors};
use crate::abort::AbortOnUnwind;

#[cfg(not(windlass_loom))]
thread_local! {
    static CURRENT: Cell<Option<NonNull<Node>>> = const { Cell::new(None) };
    /// How many tasks the innermost body on this thread has spawned.
    static SPAWNED: Cell<SpawnCount> = const { Cell::new(SpawnCount(0)) };
}

#[cfg(windlass_loom)]
loom::thread_local! {
    static CURRENT: Cell<Option<NonNull<Node>>> = Cell::new(None);
    static SPAWNED: Cell<SpawnCount> = Cell::new(SpawnCount(0));
}

/// The tasks that a body has spawned, as an addend to its pending count.
#[derive(Clone, Copy)]
pub(crate) struct SpawnCount(pub(super) u64);

/// Counts one task that the innermost body on this thread spawns.
#[inline]
pub(super) fn count_spawn() {
    SPAWNED.with(|spawned| spawned.set(SpawnCount(spawned.get().0 + ONE_PENDING)));
}

/// Runs `body` as the body of `node`, and returns how many tasks it spawned. It must not unwind.
///
/// # Safety
/// As for [`inside`]; and no other thread may run a body of the node meanwhile.
#[inline]
pub(crate) unsafe fn inside_body<R>(
    node: NonNull<Node>,
    body: impl FnOnce() -> R,
) -> (R, SpawnCount) {
    let abort = AbortOnUnwind::new("a task's body unwound past the count of what it has spawned");
    let outer = SPAWNED.with(|spawned| spawned.replace(SpawnCount(0)));
    // SAFETY: by the contract.
    let value = unsafe { inside(node, body) };
    abort.disarm();
    (value, SPAWNED.with(|spawned| spawned.replace(outer)))
}

/// Runs `f` with `node` as the calling thread's current node.
///
/// # Safety
/// The node must not complete before `f` has returned, and the pointer must be valid for the whole
/// object that begins with it.
#[inline]
pub(super) unsafe fn inside<R>(node: NonNull<Node>, f: impl FnOnce() -> R) -> R {
    struct Restore(Option<NonNull<Node>>, PhantomData<*const ()>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.with(|current| current.set(self.0));
        }
    }
    let _restore = Restore(CURRENT.with(|current| current.replace(Some(node))), PhantomData);
    f()
}

/// Returns the node that the calling thread is in. It stays alive while the calling frame does.
#[inline]
pub(crate) fn current_ptr() -> Option<NonNull<Node>> {
    CURRENT.with(Cell::get)
}

/// Returns whether the node that the calling thread is in has been cancelled.
pub(crate) fn current_is_cancelled() -> bool {
    // SAFETY: `inside` keeps the current node from completing.
    current_ptr().is_some_and(|node| unsafe { ancestors::is_cancelled(node) })
}

/// Returns whether the node that the calling thread is in is `top` or a descendant of it.
pub(crate) fn current_is_within(top: &Node) -> bool {
    // SAFETY: `inside` keeps the current node from completing.
    current_ptr().is_some_and(|node| unsafe { ancestors::is_within(node, [Some(top), None]) })
}

/// Calls `f` with the node that the calling thread is in.
pub(crate) fn with_current<R>(f: impl FnOnce(Option<&Node>) -> R) -> R {
    // SAFETY: `inside` keeps the current node alive, and `f` returns before that ends.
    f(current_ptr().map(|node| unsafe { node.as_ref() }))
}
