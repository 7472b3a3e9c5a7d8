//! Cancelling, and what is to happen at that very moment.
//!
//! A cancel is seen by those who ask; those who cannot ask, because they are blocked in something,
//! leave a callback. The callbacks of all scopes stand in one list. Whoever cancels anything looks
//! through it for those that are now cancelled, takes them out and calls them. Registering looks
//! whether the scope is cancelled and enters the callback under the same lock. So either the
//! registration sees the mark, or the canceller sees the registration.
//!
//! A callback is a task of its own, without a place in any queue; it hangs below a root that its
//! scope waits for. Knows nothing of what is cancelled or why.

use crate::{
    job::QueuedTask,
    node::{Node, ScopeRoot},
    sync::{Mutex, lock},
};

struct Callback {
    /// The address of the root that the callback hangs below.
    owner: usize,
    callback: QueuedTask,
}

#[cfg(not(windlass_loom))]
static CALLBACKS: Mutex<Vec<Callback>> = Mutex::new(Vec::new());

#[cfg(windlass_loom)]
loom::lazy_static! {
    static ref CALLBACKS: Mutex<Vec<Callback>> = Mutex::new(Vec::new());
}

/// Cancels a node and everything below it.
pub(crate) fn cancel(node: &Node) {
    if node.set_cancel_flag() {
        call(take(|entry| entry.callback.is_cancelled()));
    }
}

/// Enters a callback that hangs below `owner`, or calls it now if that is already cancelled.
pub(crate) fn register(owner: &ScopeRoot, callback: QueuedTask) {
    let entry = Callback { owner: owner.node().address(), callback };
    let mut callbacks = lock(&CALLBACKS);
    if owner.is_cancelled() {
        drop(callbacks);
        call(vec![entry]);
    } else {
        callbacks.push(entry);
    }
}

/// Drops the callbacks below `owner` that have not been called.
pub(crate) fn deregister(owner: &ScopeRoot) {
    let address = owner.node().address();
    for entry in take(|entry| entry.owner == address) {
        if let Some(claimed) = entry.callback.claim() {
            drop(claimed.discard().close());
        }
    }
}

fn take(matches: impl Fn(&Callback) -> bool) -> Vec<Callback> {
    lock(&CALLBACKS).extract_if(.., |entry| matches(entry)).collect()
}

fn call(callbacks: Vec<Callback>) {
    for entry in callbacks {
        if let Some(claimed) = entry.callback.claim() {
            drop(claimed.run_regardless().close());
        }
    }
}
