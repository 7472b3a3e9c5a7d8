//! The cancel generation: a process-wide count of cancels.
//!
//! A canceller sets a node's cancel flag and then advances the generation (Release). A reader loads
//! the generation (Acquire) and then the flags, so it sees every flag that was set before that
//! generation. A result computed in one generation stays valid until the next.

use crate::sync::{Acquire, AtomicU64, Release};

#[cfg(not(windlass_loom))]
static CANCELS: AtomicU64 = AtomicU64::new(1);

#[cfg(windlass_loom)]
loom::lazy_static! {
    static ref CANCELS: AtomicU64 = AtomicU64::new(1);
}

/// Returns the current generation, which is never 0.
pub(crate) fn current() -> u64 {
    // Acquire: pairs with the Release in `advance`.
    CANCELS.load(Acquire)
}

/// Starts a new generation, after a cancel flag has been set.
pub(crate) fn advance() {
    // Release: publishes the flag; pairs with the Acquire in `current`. Each increment continues
    // the release sequence of the earlier ones.
    CANCELS.fetch_add(1, Release);
}
