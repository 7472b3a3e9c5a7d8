//! Parks a thread until another thread wakes it.
//!
//! An unpark before the park is kept, so it cannot be lost; several of them count as one. The parker
//! has a flag of its own, because a task may use the park token of its thread. Knows nothing of why
//! a thread sleeps.

use std::time::Instant;

use crate::sync::{self, Acquire, Arc, AtomicBool, Release, Thread};

/// A shared parker, for the threads that wake its owner.
pub(crate) type ParkerRef = Arc<Parker>;

/// Parks and unparks one thread.
pub(crate) struct Parker {
    thread: Thread,
    woken: AtomicBool,
}

impl Parker {
    /// Creates a parker for the calling thread.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { thread: sync::current(), woken: AtomicBool::new(false) })
    }

    /// Sleeps until [`Parker::unpark`] is called. Returns at once if it was called before.
    pub(crate) fn park(&self) {
        while !self.take_wake() {
            sync::park();
        }
    }

    /// Sleeps until [`Parker::unpark`] is called, or until `limit` if there is one. Returns whether
    /// it was called.
    #[cfg(not(windlass_loom))]
    pub(crate) fn park_until(&self, limit: Option<Instant>) -> bool {
        while !self.take_wake() {
            match limit.map(|limit| limit.saturating_duration_since(Instant::now())) {
                None => sync::park(),
                Some(rest) if rest.is_zero() => return false,
                Some(rest) => std::thread::park_timeout(rest),
            }
        }
        true
    }

    /// Loom has no clock, so the limit is never reached.
    #[cfg(windlass_loom)]
    pub(crate) fn park_until(&self, _limit: Option<Instant>) -> bool {
        self.park();
        true
    }

    /// Wakes the thread, or keeps its next park from sleeping.
    pub(crate) fn unpark(&self) {
        // Release: pairs with the Acquire in `take_wake`, so the woken thread sees what was written
        // before. Both are read-modify-writes, so each sees the one before it.
        self.woken.swap(true, Release);
        self.thread.unpark();
    }

    fn take_wake(&self) -> bool {
        // Acquire: pairs with the Release in `unpark`.
        self.woken.swap(false, Acquire)
    }
}

#[cfg(not(windlass_loom))]
thread_local! {
    static PARKER: Arc<Parker> = Parker::new();
}

/// Returns the calling thread's parker.
#[cfg(not(windlass_loom))]
pub(crate) fn current() -> Arc<Parker> {
    // The destructor of another thread-local may wait, after this one has been destroyed.
    PARKER.try_with(Arc::clone).unwrap_or_else(|_| Parker::new())
}

/// Loom runs all model threads on one system thread, so the parker cannot be a thread-local.
#[cfg(windlass_loom)]
pub(crate) fn current() -> Arc<Parker> {
    Parker::new()
}
