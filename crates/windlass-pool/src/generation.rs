//! The cancel clock: how many cancels there have been in this process.
//!
//! It moves after a node has been marked (Release) and is read before marks are looked at
//! (Acquire): whoever reads a time sees every mark up to that time. So an answer found at some time
//! holds as long as the clock shows it.

use crate::sync::{Acquire, AtomicU64, Release};

#[cfg(not(windlass_loom))]
static CANCELS: AtomicU64 = AtomicU64::new(1);

#[cfg(windlass_loom)]
loom::lazy_static! {
    static ref CANCELS: AtomicU64 = AtomicU64::new(1);
}

/// What the clock shows; never 0.
pub(crate) fn current() -> u64 {
    // Acquire: pairs with the Release in `advance`.
    CANCELS.load(Acquire)
}

/// Moves the clock on, after a mark has been set.
pub(crate) fn advance() {
    // Release: publishes the mark. Each step is part of the release sequence of those before it.
    CANCELS.fetch_add(1, Release);
}
