//! Walks from a node to its ancestors.

use std::ptr::NonNull;

use super::{Node, ScopeRoot};
use crate::generation;

/// Returns whether a node or one of its ancestors has been cancelled.
///
/// # Safety
/// The node must not complete before this call returns, and the pointer must be valid for the whole
/// object that begins with the node.
#[inline]
pub(crate) unsafe fn is_cancelled(node: NonNull<Node>) -> bool {
    let generation = generation::current();
    // SAFETY: a node that is not complete keeps all its ancestors alive.
    let root = unsafe { root_of(node).as_ref() };
    // SAFETY: as above.
    !root.is_clean(generation) && unsafe { any_flagged(Some(node), generation) }
}

/// Returns whether a node is one of `tops` or a descendant of one.
///
/// # Safety
/// The node must not complete before this call returns.
#[inline(never)]
pub(crate) unsafe fn is_within(node: NonNull<Node>, tops: [Option<&Node>; 2]) -> bool {
    let mut next = Some(node);
    while let Some(ptr) = next {
        if tops.iter().flatten().any(|&top| std::ptr::eq(top, ptr.as_ptr())) {
            return true;
        }
        // SAFETY: a node that is not complete keeps all its ancestors alive.
        next = unsafe { ptr.as_ref() }.parent;
    }
    false
}

/// Returns whether `from` or an ancestor had its cancel flag set before `generation`.
///
/// # Safety
/// `from` and its ancestors must be alive, and the pointers must be valid for the whole objects that
/// begin with the nodes.
#[cold]
pub(super) unsafe fn any_flagged(from: Option<NonNull<Node>>, generation: u64) -> bool {
    let mut next = from;
    while let Some(ptr) = next {
        // SAFETY: by the contract.
        let node = unsafe { ptr.as_ref() };
        if node.root.is_none() {
            // SAFETY: a node without a root is the first field of a `ScopeRoot`.
            return unsafe { ptr.cast::<ScopeRoot>().as_ref() }.any_flagged(generation);
        }
        if node.has_cancel_flag() {
            return true;
        }
        next = node.parent;
    }
    false
}

/// Returns the root of the node's scope, which for a root is the node itself.
///
/// # Safety
/// The node must be alive, and the pointer must be valid for the whole object that begins with it.
#[inline]
pub(crate) unsafe fn root_of(node: NonNull<Node>) -> NonNull<ScopeRoot> {
    // SAFETY: by the contract; a node without a root is the first field of a `ScopeRoot`.
    unsafe { node.as_ref() }.root.unwrap_or(node.cast())
}
