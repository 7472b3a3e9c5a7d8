//! The atomics and locks of the protocols, which loom can replace.
//!
//! Every file whose correctness depends on the order of memory operations imports them from here.
//! They are loom's under `cfg(windlass_loom)`, and the standard library's otherwise. Files that only
//! use ordinary locks import those from the standard library.

#[cfg(windlass_loom)]
pub(crate) use self::park_token::{Thread, current, park};
#[cfg(windlass_loom)]
pub(crate) use loom::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, fence},
};

#[cfg(not(windlass_loom))]
pub(crate) use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, fence},
    },
    thread::{Thread, current, park},
};

pub(crate) use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use std::sync::PoisonError;

/// Locks `mutex`. Ignores poison, since no user code runs under a lock of this crate.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread's park token for models. Loom's own token also wakes threads that wait for a lock.
#[cfg(windlass_loom)]
mod park_token {
    use loom::sync::{Arc, Condvar, Mutex};

    #[derive(Clone)]
    pub(crate) struct Thread(Arc<(Mutex<bool>, Condvar)>);

    loom::thread_local! {
        static OWN: Thread = Thread(Arc::new((Mutex::new(false), Condvar::new())));
    }

    pub(crate) fn current() -> Thread {
        OWN.with(Thread::clone)
    }

    pub(crate) fn park() {
        let Thread(token) = current();
        let mut given = token.0.lock().unwrap();
        while !*given {
            given = token.1.wait(given).unwrap();
        }
        *given = false;
    }

    impl Thread {
        pub(crate) fn unpark(&self) {
            *self.0.0.lock().unwrap() = true;
            self.0.1.notify_one();
        }
    }
}
