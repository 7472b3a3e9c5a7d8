//! Who waits for which node to complete.
//!
//! A table by address, in the manner of a parking lot: a node carries one bit, "somebody waits",
//! and everything else about its waiters stands here. So completing a node that nobody waits for
//! costs nothing, and completing one never touches its memory after its last count is given back.
//!
//! No wake-up is lost: a waiter sets the bit and enrols under the bucket's lock. Either its bit
//! precedes the last count in the node's modification order, and then the completer sees the bit,
//! takes the lock and finds the waiter enrolled; or it comes later, and the waiter sees the node
//! complete. An address may be used again at once, so a wake-up can be for an earlier node at the
//! same place: whoever is woken looks again.
//!
//! Knows nothing of tasks, scopes or pools.

use std::{task::Waker, time::Instant};

use crate::{
    node::Node,
    parker::{self, Parker},
    sync::{Arc, Mutex, lock},
};

const BUCKETS: usize = if cfg!(windlass_loom) { 1 } else { 32 };

/// How to wake a waiter.
pub(crate) enum WakeTarget {
    /// A sleeping thread.
    Thread(Arc<Parker>),
    /// A future; a node has at most one.
    Future(Waker),
}

impl WakeTarget {
    fn wake(self) {
        match self {
            WakeTarget::Thread(parker) => parker.unpark(),
            WakeTarget::Future(waker) => waker.wake(),
        }
    }
}

struct Waiter {
    address: usize,
    wake: WakeTarget,
}

struct Table {
    buckets: [Mutex<Vec<Waiter>>; BUCKETS],
}

impl Table {
    fn bucket(&self, address: usize) -> &Mutex<Vec<Waiter>> {
        // Nodes are at least 64 bytes apart where many live side by side.
        &self.buckets[(address >> 6) % BUCKETS]
    }
}

#[cfg(not(windlass_loom))]
static TABLE: Table = Table { buckets: [const { Mutex::new(Vec::new()) }; BUCKETS] };

#[cfg(windlass_loom)]
loom::lazy_static! {
    static ref TABLE: Table = Table { buckets: [Mutex::new(Vec::new())] };
}

/// Whether a waiter was taken into the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Registration {
    /// It will be woken.
    Registered,
    /// The node has already completed; there is nothing to wait for.
    AlreadyComplete,
}

/// Enters a waiter for `node`. A second future of one node replaces the first.
pub(crate) fn register(node: &Node, wake: WakeTarget) -> Registration {
    let address = node.address();
    // Declared first, so that a replaced waker is dropped after the lock: its drop is foreign code.
    let mut replaced = None;
    let mut bucket = lock(TABLE.bucket(address));
    if node.announce_waiter() {
        return Registration::AlreadyComplete;
    }
    if matches!(wake, WakeTarget::Future(_)) {
        replaced = take_future(&mut bucket, address);
    }
    bucket.push(Waiter { address, wake });
    drop((bucket, replaced));
    Registration::Registered
}

/// Takes a thread out again, if it has not been woken.
pub(crate) fn deregister(node: &Node, parker: &Arc<Parker>) {
    let address = node.address();
    lock(TABLE.bucket(address)).retain(|waiter| match &waiter.wake {
        WakeTarget::Thread(own) => waiter.address != address || !Arc::ptr_eq(own, parker),
        WakeTarget::Future(_) => true,
    });
}

/// Takes the future of a node out again, if it has not been woken.
pub(crate) fn deregister_future(node: &Node) {
    let address = node.address();
    let taken = take_future(&mut lock(TABLE.bucket(address)), address);
    drop(taken);
}

fn take_future(bucket: &mut Vec<Waiter>, address: usize) -> Option<Waiter> {
    let is_future = |w: &Waiter| w.address == address && matches!(w.wake, WakeTarget::Future(_));
    let index = bucket.iter().position(is_future)?;
    Some(bucket.swap_remove(index))
}

/// Wakes everybody who waits for the node that was at `address`.
pub(crate) fn wake_all(address: usize) {
    let woken: Vec<Waiter> = {
        let mut bucket = lock(TABLE.bucket(address));
        bucket.extract_if(.., |waiter| waiter.address == address).collect()
    };
    for waiter in woken {
        waiter.wake.wake();
    }
}

/// Sleeps until `node` has completed or `limit` has come; says whether it has completed.
pub(crate) fn sleep_until_complete(node: &Node, limit: Option<Instant>) -> bool {
    let parker = parker::current();
    loop {
        if node.is_complete() {
            return true;
        }
        if limit.is_some_and(|limit| Instant::now() >= limit) {
            return false;
        }
        if register(node, WakeTarget::Thread(Arc::clone(&parker))) == Registration::AlreadyComplete
        {
            return true;
        }
        match limit {
            None => parker.park(),
            Some(limit) => drop(parker.park_until(limit)),
        }
        deregister(node, &parker);
    }
}
