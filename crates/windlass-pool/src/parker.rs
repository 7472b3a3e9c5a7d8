//! Puts one thread to sleep until another one has a reason to wake it.
//!
//! A wake-up that comes before the sleep is kept, so it cannot be lost; several become one. The
//! flag is ours rather than the thread's own park token, because a task may use that token for
//! itself. Knows nothing of why a thread sleeps.

use std::time::Instant;

use crate::sync::{self, Acquire, Arc, AtomicBool, Release, Thread};

/// A parker, as those who wake its thread hold it.
pub(crate) type ParkerRef = Arc<Parker>;

/// One thread's place to sleep.
pub(crate) struct Parker {
    thread: Thread,
    woken: AtomicBool,
}

impl Parker {
    /// A parker for the calling thread.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { thread: sync::current(), woken: AtomicBool::new(false) })
    }

    /// Sleeps until [`Parker::unpark`]; returns at once if that has already happened.
    pub(crate) fn park(&self) {
        while !self.take_wake() {
            sync::park();
        }
    }

    /// As [`Parker::park`], but no longer than until `limit`. Returns whether it was woken.
    #[cfg(not(windlass_loom))]
    pub(crate) fn park_until(&self, limit: Instant) -> bool {
        while !self.take_wake() {
            let rest = limit.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return false;
            }
            std::thread::park_timeout(rest);
        }
        true
    }

    /// Models have no generation, so a limit never comes.
    #[cfg(windlass_loom)]
    pub(crate) fn park_until(&self, _limit: Instant) -> bool {
        self.park();
        true
    }

    /// Wakes the thread, now or when it next wants to sleep.
    pub(crate) fn unpark(&self) {
        // Release: pairs with the Acquire in `take_wake`, so the woken thread sees the reason. Both
        // are read-modify-writes, so they follow each other without a gap.
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

/// The calling thread's parker.
#[cfg(not(windlass_loom))]
pub(crate) fn current() -> Arc<Parker> {
    PARKER.with(Arc::clone)
}

/// Model threads share one system thread, so nothing may be kept per thread.
#[cfg(windlass_loom)]
pub(crate) fn current() -> Arc<Parker> {
    Parker::new()
}
