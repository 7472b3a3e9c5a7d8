//! Locks: those of the standard library, or loom's, under which every interleaving is tried
//! (`capacity/models.rs`).

#[cfg(windlass_loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(not(windlass_loom))]
pub(crate) use std::sync::{Mutex, MutexGuard};

/// A place where another thread may come in between although no lock is taken.
#[inline]
pub(crate) fn interleave() {
    #[cfg(windlass_loom)]
    loom::thread::yield_now();
}
