//! Counts of a node's pending count, held by what the node has to wait for.

use std::{cell::Cell, mem::ManuallyDrop, ptr::NonNull};

use super::{Node, ONE_PENDING, ancestors, current, ending};
use crate::{cancellation, sync::Relaxed};

/// Keeps a node from completing: one of its pending count, released on drop.
pub(crate) struct PendingGuard {
    node: NonNull<Node>,
}

// SAFETY: a guard is a count in an atomic word, which any thread may release.
unsafe impl Send for PendingGuard {}

impl PendingGuard {
    /// Creates a guard for a task that the body of `node` spawns, counted in a thread-local.
    ///
    /// # Safety
    /// `node` must be the innermost node whose body the calling thread runs.
    #[inline]
    pub(super) unsafe fn of_own_body(node: NonNull<Node>) -> Self {
        current::count_spawn();
        Self { node }
    }

    /// Creates a guard of a node that has a pending count.
    ///
    /// # Safety
    /// The node must have a pending count and keep it until this call returns.
    #[inline]
    pub(crate) unsafe fn of(node: NonNull<Node>) -> Self {
        // Relaxed: the count that the caller vouches for keeps the count above zero.
        // SAFETY: a node with a pending count is alive.
        unsafe { node.as_ref() }.state.fetch_add(ONE_PENDING, Relaxed);
        Self { node }
    }

    /// Creates a guard unless the node is complete.
    ///
    /// # Safety
    /// The node must be alive.
    pub(crate) unsafe fn of_incomplete(node: NonNull<Node>) -> Option<Self> {
        let more = |state: u64| (state >= ONE_PENDING).then_some(state + ONE_PENDING);
        // Relaxed: the guard only keeps the ancestors alive; it publishes nothing.
        // SAFETY: by the contract.
        let added = unsafe { node.as_ref() }.state.fetch_update(Relaxed, Relaxed, more);
        added.is_ok().then(|| Self { node })
    }

    /// Takes over one pending count of `node`.
    ///
    /// # Safety
    /// The caller must own that count.
    pub(super) unsafe fn from_raw(node: NonNull<Node>) -> Self {
        Self { node }
    }

    /// Returns whether the node or an ancestor has been cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        // SAFETY: this guard keeps the node, and so all its ancestors, alive.
        unsafe { ancestors::is_cancelled(self.node) }
    }

    /// Runs `f` with the node as the calling thread's current node.
    pub(crate) fn inside<R>(&self, f: impl FnOnce() -> R) -> R {
        // SAFETY: this guard is borrowed until `f` has returned.
        unsafe { current::inside(self.node, f) }
    }

    /// Cancels the node and its descendants.
    pub(crate) fn cancel(&self) {
        // SAFETY: a node with a pending count is alive.
        cancellation::cancel(unsafe { self.node.as_ref() });
    }

    pub(super) fn into_raw(self) -> NonNull<Node> {
        ManuallyDrop::new(self).node
    }
}

impl Drop for PendingGuard {
    fn drop(&mut self) {
        // SAFETY: this value owns the count that is released.
        unsafe { ending::release(self.node, 1) }
    }
}

/// Guards of one node that a worker releases later, all with one atomic operation.
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
            unsafe { ending::release(node, self.count.get()) };
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
