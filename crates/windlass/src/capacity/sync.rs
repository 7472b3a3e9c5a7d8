//! The locks of a tree: those of the standard library, or loom's, under which every interleaving of
//! those who take, wait, leave and give back is tried (`models.rs`).

#[cfg(windlass_loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(not(windlass_loom))]
pub(crate) use std::sync::{Mutex, MutexGuard};

/// Where another thread may come in between although no lock is taken.
#[inline]
pub(super) fn interleave() {
    #[cfg(windlass_loom)]
    loom::thread::yield_now();
}
