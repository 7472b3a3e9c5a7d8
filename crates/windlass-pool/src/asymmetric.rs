//! A pair of memory fences of which one costs next to nothing.
//!
//! Two threads that each store to one place and then load the place that the other one stores to
//! need a full fence in between, both of them: otherwise both may miss the other's store. Where one
//! of them does so at every join and the other one hardly ever, the second can pay for both.
//! [`light`] only keeps the compiler from reordering. [`heavy`] has the system run a full fence in
//! every thread of the process that is running at that moment, by membarrier(2); a thread that is
//! not running passes one before it runs again.
//!
//! So in the thread of a [`light`], the fence that a [`heavy`] causes comes either before its load,
//! which then sees what was stored before the [`heavy`]; or after its store, which is then seen by
//! what is loaded after the [`heavy`].
//!
//! Where the system has no such call, or forbids it, and in models and interpreters, both are
//! ordinary SeqCst fences.

use std::sync::{
    Once,
    atomic::{AtomicBool, compiler_fence},
};

use crate::sync::{Relaxed, SeqCst, fence};

/// Whether the system runs the fences.
static EXPEDITED: AtomicBool = AtomicBool::new(false);

/// Asks the system whether it runs the fences. Every thread that calls [`light`] or [`heavy`] was
/// started after a call of this.
pub(crate) fn prepare() {
    static ONCE: Once = Once::new();
    // Relaxed: the end of `call_once` and the start of a thread publish it.
    ONCE.call_once(|| EXPEDITED.store(system::register(), Relaxed));
}

/// The fence of the side that passes it often.
#[inline(always)]
pub(crate) fn light() {
    // Relaxed: it is set before the calling thread is started.
    if EXPEDITED.load(Relaxed) {
        compiler_fence(SeqCst);
    } else {
        fence(SeqCst);
    }
}

/// The fence of the side that passes it seldom. Returns whether it took place.
pub(crate) fn heavy() -> bool {
    fence(SeqCst);
    // Relaxed: as in `light`.
    !EXPEDITED.load(Relaxed) || system::run_everywhere()
}

#[cfg(all(target_os = "linux", not(any(miri, windlass_loom))))]
mod system {
    use rustix::thread::{MembarrierCommand, MembarrierQuery, membarrier, membarrier_query};

    pub(super) fn register() -> bool {
        membarrier_query().contains(MembarrierQuery::PRIVATE_EXPEDITED)
            && membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
    }

    pub(super) fn run_everywhere() -> bool {
        membarrier(MembarrierCommand::PrivateExpedited).is_ok()
    }
}

#[cfg(not(all(target_os = "linux", not(any(miri, windlass_loom)))))]
mod system {
    pub(super) fn register() -> bool {
        false
    }

    pub(super) fn run_everywhere() -> bool {
        unreachable!("nothing was registered")
    }
}
