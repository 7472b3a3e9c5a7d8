//! Locks and atomics: those of the standard library, or loom's, under which every interleaving is
//! tried (`capacity/models.rs`, `relay/models.rs`).

#[cfg(windlass_loom)]
pub(crate) use loom::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};
#[cfg(not(windlass_loom))]
pub(crate) use std::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

/// How often to look again before waiting: about as long as a visit to a scheduler's state takes.
#[cfg(not(windlass_loom))]
pub(crate) const SPINS: usize = 100;
/// One round has every interleaving that several have.
#[cfg(windlass_loom)]
pub(crate) const SPINS: usize = 1;

/// Between two looks.
#[inline]
pub(crate) fn spin() {
    #[cfg(not(windlass_loom))]
    std::hint::spin_loop();
    #[cfg(windlass_loom)]
    loom::thread::yield_now();
}

/// Where another thread may come in between although no lock is taken.
#[inline]
pub(crate) fn interleave() {
    #[cfg(windlass_loom)]
    loom::thread::yield_now();
}
