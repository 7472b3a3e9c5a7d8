//! Cancels nodes, and calls the callbacks of the scopes that this cancels.
//!
//! A running task polls for a cancel. A task that is blocked cannot poll; its scope registers a
//! callback. The callbacks of all scopes are in one list. A thread that cancels a node sets its flag
//! and then takes out, under the lock, the callbacks that are now cancelled. A thread that registers
//! a callback checks the flag under the same lock. So either the registration sees the flag, or the
//! canceller sees the registration.
//!
//! A callback is a task that is in no queue, below a root for which its scope waits. Knows nothing
//! of why a node is cancelled.

use crate::{
    job::QueuedTask,
    node::{Node, ScopeRoot},
    sync::{Mutex, lock},
};

struct Callback {
    /// The address of the root below which the callback is.
    owner: usize,
    callback: QueuedTask,
}

#[cfg(not(windlass_loom))]
static CALLBACKS: Mutex<Vec<Callback>> = Mutex::new(Vec::new());

#[cfg(windlass_loom)]
loom::lazy_static! {
    static ref CALLBACKS: Mutex<Vec<Callback>> = Mutex::new(Vec::new());
}

/// Cancels a node and its descendants. Calls the callbacks that are thereby cancelled.
pub(crate) fn cancel(node: &Node) {
    if node.set_cancel_flag() {
        call(take(|entry| entry.callback.is_cancelled()));
    }
}

/// Registers a callback below `owner`, or calls it now if `owner` is already cancelled.
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

/// Takes the callbacks that match out of the list.
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
