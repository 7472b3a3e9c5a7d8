//! The table of threads and futures that wait for nodes to complete.
//!
//! The table is keyed by address, as a parking lot is. A node has one bit, `HAS_WAITERS`; everything
//! else about its waiters is here. So completing a node without waiters costs nothing, and completing
//! a node never accesses its memory after its last pending count is released.
//!
//! No wake-up is lost: a waiter sets the bit and registers under the bucket's lock. If the bit comes
//! before the last release in the modification order of the node's state, the completing thread sees
//! the bit, acquires the lock and finds the waiter. If the bit comes later, the waiter sees that the
//! node is complete. An address may be reused at once, so a wake-up can be for an earlier node at the
//! same address: a thread that is woken has to check its node again.
//!
//! Knows nothing of tasks, scopes or pools.

use std::{task::Waker, time::Instant};

use crate::{
    node::Node,
    panics,
    parker::{self, Parker},
    sync::{Arc, Mutex, lock},
};

const BUCKETS: usize = if cfg!(windlass_loom) { 1 } else { 32 };

/// What a completing thread wakes.
pub(crate) enum WakeTarget {
    /// A sleeping thread.
    Thread(Arc<Parker>),
    /// A future. A node has at most one.
    Future(Waker),
}

impl WakeTarget {
    fn wake(self) {
        match self {
            WakeTarget::Thread(parker) => parker.unpark(),
            // The task has ended, whatever its waker does.
            WakeTarget::Future(waker) => panics::quietly(|| waker.wake()),
        }
    }
}

struct Waiter {
    address: usize,
    target: WakeTarget,
}

struct Table {
    buckets: [Mutex<Vec<Waiter>>; BUCKETS],
}

impl Table {
    fn bucket(&self, address: usize) -> &Mutex<Vec<Waiter>> {
        // Blocks of tasks are at least 64 bytes long.
        &self.buckets[(address >> 6) % BUCKETS]
    }
}

#[cfg(not(windlass_loom))]
static TABLE: Table = Table { buckets: [const { Mutex::new(Vec::new()) }; BUCKETS] };

#[cfg(windlass_loom)]
loom::lazy_static! {
    static ref TABLE: Table = Table { buckets: [Mutex::new(Vec::new())] };
}

/// Whether a waiter was registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Registration {
    /// It was registered and will be woken.
    Registered,
    /// It was not: the node is complete.
    AlreadyComplete,
}

/// Registers a waiter for `node`. A second future of the same node replaces the first.
pub(crate) fn register(node: &Node, target: WakeTarget) -> Registration {
    let address = node.address();
    // Declared before the lock, so that a replaced waker is dropped after it: that is user code.
    let mut replaced = None;
    let mut bucket = lock(TABLE.bucket(address));
    if node.announce_waiter() {
        return Registration::AlreadyComplete;
    }
    if matches!(target, WakeTarget::Future(_)) {
        replaced = take_future(&mut bucket, address);
    }
    bucket.push(Waiter { address, target });
    drop((bucket, replaced));
    Registration::Registered
}

/// Removes a thread, unless it has been woken.
pub(crate) fn deregister(node: &Node, parker: &Arc<Parker>) {
    let address = node.address();
    lock(TABLE.bucket(address)).retain(|waiter| match &waiter.target {
        WakeTarget::Thread(own) => waiter.address != address || !Arc::ptr_eq(own, parker),
        WakeTarget::Future(_) => true,
    });
}

/// Removes the future of a node, unless it has been woken.
pub(crate) fn deregister_future(node: &Node) {
    let address = node.address();
    let taken = take_future(&mut lock(TABLE.bucket(address)), address);
    drop(taken);
}

fn take_future(bucket: &mut Vec<Waiter>, address: usize) -> Option<Waiter> {
    let is_future = |w: &Waiter| w.address == address && matches!(w.target, WakeTarget::Future(_));
    let index = bucket.iter().position(is_future)?;
    Some(bucket.swap_remove(index))
}

/// Wakes all waiters of the node that was at `address`.
pub(crate) fn wake_all(address: usize) {
    let woken: Vec<Waiter> = {
        let mut bucket = lock(TABLE.bucket(address));
        bucket.extract_if(.., |waiter| waiter.address == address).collect()
    };
    for waiter in woken {
        waiter.target.wake();
    }
}

/// Sleeps until `node` is complete, or until `limit`. Returns whether it is complete.
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
        parker.park_until(limit);
        deregister(node, &parker);
    }
}
