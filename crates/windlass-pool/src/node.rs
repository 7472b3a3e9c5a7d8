//! The tree of everything that runs: when a node is complete, and how a cancel reaches descendants.
//!
//! A *node* is a task or the root of a scope. Its *pending count* is a bias for its own body plus
//! one for each child task that has not completed. The node is *complete* when the count reaches
//! zero; it then releases the count that it holds in its parent. A scope waits for its root, so it
//! ends after every task in it. [`PendingGuard`] stands for one count.
//!
//! The tasks that a body spawns are counted in a thread-local, and are added to the pending count
//! when the body ends: a spawn does not write to the word to which the end of every child writes.
//! Until then the bias of the body, [`BODY_BIAS`], keeps the count above zero, however many children
//! end.
//!
//! A task's memory is freed when it has no pending count, no handle and no place in a queue. All
//! three are in one atomic word, so exactly one step sees the last of them go, and that step frees
//! the node. A root's memory belongs to the frame or pool that waits for it. A parent counts each
//! child, so while a node is not complete, all its ancestors are alive.
//!
//! A cancel sets the *cancel flag* of one node and then advances the process-wide [`generation`]. A
//! node is cancelled if its own flag or that of an ancestor is set. Roots remember the generation at
//! which they and their ancestors had no flag, and whether a task of their scope ever had one. So
//! while nothing is cancelled, a check takes four loads, however deep the tree. The generation is
//! advanced after the flag is set (Release) and read before the flags (Acquire): a thread that reads
//! the new generation sees the flag, and one that remembers the old generation checks again.
//!
//! Knows nothing of queues, workers or what a task does.

#![allow(unsafe_code)]

use std::ptr::NonNull;

use crate::{
    generation,
    sync::{AcqRel, Acquire, AtomicU64, Relaxed, Release},
};

mod ancestors;
mod current;
mod ending;
mod guard;
mod root;
mod scope;
mod vtable;

pub(crate) use ancestors::{is_cancelled, is_within, root_of};
pub(crate) use current::{
    current_is_cancelled, current_is_within, current_ptr, inside_body, with_current,
};
pub(crate) use ending::{EndedBody, drop_handle, end_body, leave_queue};
pub(crate) use guard::{DeferredRelease, PendingGuard};
pub(crate) use root::ScopeRoot;
pub use scope::Scope;
pub(crate) use scope::open;
pub(crate) use vtable::{Disposition, NeedsDrop, TaskEnd, TaskVTable};

/// The node was cancelled, and with it all its descendants.
const CANCELLED: u64 = 1;
/// A thread has the right to run or discard the body.
const CLAIMED: u64 = 1 << 1;
/// The body has returned, or will never run.
const BODY_ENDED: u64 = 1 << 2;
/// A handle to the task exists.
const HANDLE: u64 = 1 << 3;
/// A queue holds the task.
const QUEUED: u64 = 1 << 4;
/// The wait table may have waiters for the node.
const HAS_WAITERS: u64 = 1 << 5;
/// One of the pending count, which takes up the rest of the word.
const ONE_PENDING: u64 = 1 << 8;
/// What the pending count contains for a body that has not ended: more than it can spawn tasks.
const BODY_BIAS: u64 = ONE_PENDING << 40;

/// The state of a new task.
const NEW_TASK: u64 = BODY_BIAS | HANDLE | QUEUED;

/// A task, or the root of a scope.
#[repr(C)]
pub(crate) struct Node {
    /// The flags above, and the pending count.
    state: AtomicU64,
    parent: Option<NonNull<Node>>,
    /// The root of the task's scope; none for a root.
    root: Option<NonNull<ScopeRoot>>,
    /// How to run and free the task; none for a root.
    vtable: Option<&'static TaskVTable>,
}

// SAFETY: the state is atomic and the other fields are never written after creation. The pointers
// lead to nodes that outlive this one's last pending count and that are `Sync` themselves.
unsafe impl Sync for Node {}
// SAFETY: as above; a node is not tied to the thread that created it.
unsafe impl Send for Node {}

/// What a task's state says about its progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StateFlags {
    pub(crate) claimed: bool,
    pub(crate) body_ended: bool,
    pub(crate) complete: bool,
}

impl Node {
    /// Creates a task that is queued and has a handle. `guard` is its count in its parent.
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

    /// Returns whether this is a task of the scope whose root is `node`.
    #[inline]
    pub(crate) fn is_in_scope_of(&self, node: &Node) -> bool {
        self.root.is_some_and(|root| std::ptr::eq(root.as_ptr().cast(), node))
    }

    /// Claims the task. Returns true to one caller only.
    #[inline]
    pub(crate) fn claim(&self) -> bool {
        // Acquire: pairs with the Release in `unclaim`. The queue published what the body owns.
        self.state.fetch_or(CLAIMED, AcqRel) & CLAIMED == 0
    }

    /// Claims a task that the caller took from its queue.
    ///
    /// Loads the state first, which is cheaper than [`Node::claim`] if it is in the caller's cache.
    #[inline]
    pub(crate) fn claim_from_queue(&self) -> bool {
        // Acquire: pairs with the Release in `drop_handle`.
        let state = self.state.load(Acquire);
        if state & (HANDLE | CLAIMED) != 0 {
            return state & CLAIMED == 0 && self.claim();
        }
        // Relaxed, and no read-modify-write: a task that has not started can be reached only through
        // its handle and its queue. The handle is gone for good, and the caller has the place in the
        // queue.
        self.state.store(state | CLAIMED, Relaxed);
        true
    }

    /// Gives up a claim whose body has not been started.
    pub(crate) fn unclaim(&self) {
        // Release: pairs with the Acquire of the next `claim`.
        let before = self.state.fetch_and(!CLAIMED, Release);
        debug_assert!(
            before & (CLAIMED | BODY_ENDED) == CLAIMED,
            "a claim is given up before the body runs"
        );
    }

    /// Returns how to run and free this task.
    pub(crate) fn vtable(&self) -> &'static TaskVTable {
        self.vtable.expect("a root is never claimed")
    }

    pub(crate) fn has_handle(&self) -> bool {
        // Relaxed: a hint. A dropped handle never comes back, and `end_body` checks again.
        self.state.load(Relaxed) & HANDLE != 0
    }

    /// Returns whether the body and every child task have ended.
    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        // Acquire: pairs with the Release half of the step that released the last pending count.
        self.state.load(Acquire) < ONE_PENDING
    }

    /// Announces that a waiter is about to register. Returns whether the node is complete already.
    pub(crate) fn announce_waiter(&self) -> bool {
        // AcqRel: ordered against the last release by this word's modification order; see
        // `wait_table`.
        self.state.fetch_or(HAS_WAITERS, AcqRel) < ONE_PENDING
    }

    pub(crate) fn flags(&self) -> StateFlags {
        // Acquire: pairs with the Release in `end_body`.
        let state = self.state.load(Acquire);
        StateFlags {
            claimed: state & CLAIMED != 0,
            body_ended: state & BODY_ENDED != 0,
            complete: state < ONE_PENDING,
        }
    }

    /// Sets the cancel flag. Returns whether this call was the first to do so.
    pub(crate) fn set_cancel_flag(&self) -> bool {
        // Relaxed: the Release in `generation::advance` publishes the flag.
        let first = self.state.fetch_or(CANCELLED, Relaxed) & CANCELLED == 0;
        if first {
            if let Some(root) = self.root {
                // SAFETY: the caller has the task's handle or its claim, and the root of the task's
                // scope outlives both.
                unsafe { root.as_ref() }.note_flagged_task();
            }
            generation::advance();
        }
        first
    }

    fn has_cancel_flag(&self) -> bool {
        // Relaxed: the Acquire in `generation::current` makes every flag up to that generation
        // visible.
        self.state.load(Relaxed) & CANCELLED != 0
    }

    /// Returns the root of this task's scope.
    ///
    /// # Safety
    /// The task must not complete before the last use of the returned reference.
    pub(crate) unsafe fn root(&self) -> &ScopeRoot {
        let root = self.root.expect("a task belongs to a scope");
        // SAFETY: a scope waits for its tasks, so its root is alive while one is not complete.
        unsafe { root.as_ref() }
    }
}
