//! The root of a scope: the node of its body, and what all tasks of the scope share.
//!
//! A root does not move until it is complete, because its tasks point to it. It lies in the frame of
//! [`open`](super::open) or of a deadline, or in a pool; each of them waits for it.

use std::{ptr::NonNull, time::Instant};

use super::{
    BODY_BIAS, Node, ONE_PENDING, PendingGuard, ancestors::any_flagged, current_ptr, inside_body,
    root_of,
};
use crate::{
    generation,
    panics::ScopePanics,
    sync::{AcqRel, Acquire, AtomicBool, AtomicU64, Relaxed},
};

/// The root of a scope.
///
/// Aligned to cache lines of its own, since all threads that run its tasks read and write it.
#[repr(C, align(64))]
pub(crate) struct ScopeRoot {
    node: Node,
    /// A cancel generation in which neither this root nor an ancestor had its cancel flag set.
    clean_generation: AtomicU64,
    /// Whether a task of this scope ever had its cancel flag set.
    has_flagged_task: AtomicBool,
    /// The pending count of the tasks that the body itself has spawned. Only the body's thread
    /// accesses it.
    spawned: AtomicU64,
    deadline: Option<Instant>,
    panics: ScopePanics,
}

impl ScopeRoot {
    /// Creates a root below the calling thread's current node.
    ///
    /// Its deadline is never later than that of the enclosing scope.
    #[inline]
    pub(crate) fn new(deadline: Option<Instant>) -> Self {
        let parent = current_ptr();
        // SAFETY: the current node is alive; see `inside`.
        let outer = parent.and_then(|node| unsafe { root_of(node).as_ref() }.deadline());
        let deadline = deadline.into_iter().chain(outer).min();
        Self::below(parent, deadline, ScopePanics::for_scope())
    }

    /// Creates a root below this one, whose owner must let it complete before this one is dropped.
    pub(crate) fn child(&self) -> Self {
        Self::below(Some(self.as_ptr()), self.deadline(), ScopePanics::for_scope())
    }

    /// Creates a root without a parent.
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

    /// Returns whether this scope or an ancestor has been cancelled.
    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        self.any_flagged(generation::current())
    }

    /// Returns whether it is known that no cancel flag was set before `generation`, neither on this
    /// root, nor on its ancestors, nor on the tasks of its scope.
    #[inline]
    pub(super) fn is_clean(&self, generation: u64) -> bool {
        // Relaxed: the Acquire in `generation::current` makes visible what was stored before that
        // generation began. For `clean_generation` see `any_flagged`.
        self.clean_generation.load(Relaxed) == generation && !self.has_flagged_task.load(Relaxed)
    }

    /// Records that a task of this scope has its cancel flag set. The caller advances the generation
    /// afterwards.
    pub(super) fn note_flagged_task(&self) {
        // Relaxed: the Release in `generation::advance` publishes it.
        self.has_flagged_task.store(true, Relaxed);
    }

    /// Returns whether the node of `guard`, which belongs to this scope, has been cancelled.
    #[inline]
    pub(crate) fn is_cancelled_for(&self, guard: &PendingGuard) -> bool {
        !self.is_clean(generation::current()) && guard.is_cancelled()
    }

    /// Returns whether this root or an ancestor had its cancel flag set before `generation`.
    #[inline]
    pub(super) fn any_flagged(&self, generation: u64) -> bool {
        // Relaxed: the thread that stored this generation had read it with Acquire, and had then
        // read every flag from here upwards.
        self.clean_generation.load(Relaxed) != generation && self.find_flag(generation)
    }

    #[cold]
    fn find_flag(&self, generation: u64) -> bool {
        // SAFETY: a scope is opened inside the body of its parent, so its ancestors are alive.
        let flagged =
            self.node.has_cancel_flag() || unsafe { any_flagged(self.node.parent, generation) };
        if !flagged {
            // Relaxed: see `any_flagged`.
            self.clean_generation.store(generation, Relaxed);
        }
        flagged
    }

    /// Returns when the scope is to be cancelled.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Creates a guard for a new task: of the innermost task of this scope that the calling thread
    /// is in, so that a task completes after its child tasks; otherwise of the root.
    #[inline]
    pub(crate) fn child_guard(&self) -> PendingGuard {
        let current = current_ptr();
        if let Some(node) = current.filter(|node| self.contains_directly(*node)) {
            // SAFETY: a thread whose current node belongs to this scope runs that node's body.
            return unsafe { PendingGuard::of_own_body(node) };
        }
        self.distant_child_guard(current)
    }

    /// As [`ScopeRoot::child_guard`], for a thread whose current node is not of this scope.
    #[cold]
    fn distant_child_guard(&self, current: Option<NonNull<Node>>) -> PendingGuard {
        let parent = current.and_then(|node| self.innermost(node)).unwrap_or(self.as_ptr());
        // SAFETY: a task that the calling thread is in has its body's bias. A root that the caller
        // can name has its body's bias, or the count of the task through which the caller names it.
        unsafe { PendingGuard::of(parent) }
    }

    /// Creates a guard of the root itself, whatever the calling thread's current node is.
    pub(crate) fn guard(&self) -> PendingGuard {
        // SAFETY: as for `distant_child_guard`.
        unsafe { PendingGuard::of(self.as_ptr()) }
    }

    /// Returns the first node of this scope among `from` and its ancestors.
    fn innermost(&self, from: NonNull<Node>) -> Option<NonNull<Node>> {
        let mut next = Some(from);
        while let Some(ptr) = next {
            if self.contains_directly(ptr) {
                return Some(ptr);
            }
            // SAFETY: the current node and its ancestors are alive.
            next = unsafe { ptr.as_ref() }.parent;
        }
        None
    }

    /// Returns whether `node` is this root or a task of its scope. `node` must be the current node
    /// or an ancestor of it.
    #[inline]
    fn contains_directly(&self, node: NonNull<Node>) -> bool {
        // SAFETY: the current node and its ancestors are alive.
        let is_task = || unsafe { node.as_ref() }.is_in_scope_of(&self.node);
        node == self.as_ptr() || is_task()
    }

    /// Runs `f` as this root's body, or as a part of it. `f` must not unwind.
    pub(crate) fn inside<R>(&self, f: impl FnOnce() -> R) -> R {
        // SAFETY: `self` is borrowed until `f` has returned, and all parts of a root's body run on
        // the thread that created the root.
        let (value, spawned) = unsafe { inside_body(self.as_ptr(), f) };
        // Relaxed, and no read-modify-write: no other thread accesses it.
        self.spawned.store(self.spawned.load(Relaxed) + spawned.0, Relaxed);
        value
    }

    /// Ends the body, so that only tasks remain in the pending count. Returns whether the root is
    /// complete.
    #[inline]
    pub(crate) fn end_body(&self) -> bool {
        // Relaxed: this thread wrote it.
        let bias = BODY_BIAS - self.spawned.load(Relaxed);
        let has_no_tasks = |state: u64| state < bias + ONE_PENDING;
        // Acquire in both: pairs with the Release of each task's last step. Without tasks no other
        // thread can reach this root, so the count need not be written.
        has_no_tasks(self.node.state.load(Acquire))
            || has_no_tasks(self.node.state.fetch_sub(bias, AcqRel))
    }

    /// Returns the panics of the scope's tasks that no caller has received.
    pub(crate) fn panics(&self) -> &ScopePanics {
        &self.panics
    }

    fn as_ptr(&self) -> NonNull<Node> {
        NonNull::from(self).cast()
    }
}
