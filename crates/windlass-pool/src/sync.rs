//! The atomics and locks of the protocols, which a model check can replace.
//!
//! Every file whose correctness rests on the order of memory operations takes them from here. Under
//! `cfg(windlass_loom)` they are loom's; otherwise they are the standard library's. Files that only
//! use locks in the ordinary way take them from the standard library directly.

#[cfg(windlass_loom)]
pub(crate) use loom::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, fence},
    },
    thread::{Thread, current, park},
};

#[cfg(not(windlass_loom))]
pub(crate) use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, fence},
    },
    thread::{Thread, current, park},
};

pub(crate) use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use std::sync::PoisonError;

/// Locks `mutex`; no user code runs under any lock of this crate, so poison means nothing.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
