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
    job::Queued,
    node::{Node, Root},
    sync::{Mutex, lock},
};

struct Watch {
    /// The address of the root that the callback hangs below.
    owner: usize,
    callback: Queued,
}

#[cfg(not(windlass_loom))]
static WATCHES: Mutex<Vec<Watch>> = Mutex::new(Vec::new());

#[cfg(windlass_loom)]
loom::lazy_static! {
    static ref WATCHES: Mutex<Vec<Watch>> = Mutex::new(Vec::new());
}

/// Cancels a node and everything below it.
pub(crate) fn cancel(node: &Node) {
    if node.mark_cancelled() {
        call(take(|watch| watch.callback.is_cancelled()));
    }
}

/// Enters a callback that hangs below `owner`, or calls it now if that is already cancelled.
pub(crate) fn register(owner: &Root, callback: Queued) {
    let watch = Watch { owner: owner.node().address(), callback };
    let mut watches = lock(&WATCHES);
    if owner.is_cancelled() {
        drop(watches);
        call(vec![watch]);
    } else {
        watches.push(watch);
    }
}

/// Drops the callbacks below `owner` that have not been called.
pub(crate) fn unregister(owner: &Root) {
    let address = owner.node().address();
    for watch in take(|watch| watch.owner == address) {
        if let Some(claimed) = watch.callback.claim() {
            drop(claimed.discard().close());
        }
    }
}

fn take(matches: impl Fn(&Watch) -> bool) -> Vec<Watch> {
    lock(&WATCHES).extract_if(.., |watch| matches(watch)).collect()
}

fn call(watches: Vec<Watch>) {
    for watch in watches {
        if let Some(claimed) = watch.callback.claim() {
            drop(claimed.run_regardless().close());
        }
    }
}
