//! A pair of asymmetric memory fences: one is nearly free, the other pays for both.
//!
//! If two threads each store to one location and then load the location to which the other stores,
//! both need a full fence in between; without it, both may miss the other's store. Here one side
//! runs at every join and the other seldom. [`light`] only keeps the compiler from reordering.
//! [`heavy`] calls membarrier(2), by which the kernel runs a full fence on every running thread of
//! the process; a thread that is not running passes a fence before it runs again.
//!
//! So on the thread that calls [`light`], the fence that [`heavy`] causes runs either before the
//! load, which then sees the stores before [`heavy`]; or after the store, which the loads after
//! [`heavy`] then see.
//!
//! Both are ordinary SeqCst fences where the kernel has no such call or denies it, under loom and
//! under Miri.

use std::sync::{
    Once,
    atomic::{AtomicBool, compiler_fence},
};

use crate::sync::{Relaxed, SeqCst, fence};

/// Whether the kernel runs the fences.
static EXPEDITED: AtomicBool = AtomicBool::new(false);

/// Asks the kernel whether it runs the fences. Must have returned before any thread that calls
/// [`light`] or [`heavy`] is started.
pub(crate) fn prepare() {
    static ONCE: Once = Once::new();
    // Relaxed: `call_once` and the start of a thread publish it.
    ONCE.call_once(|| EXPEDITED.store(system::register(), Relaxed));
}

/// The fence of the side that runs often.
#[inline(always)]
pub(crate) fn light() {
    // Relaxed: the value was stored before the calling thread was started.
    if EXPEDITED.load(Relaxed) {
        compiler_fence(SeqCst);
    } else {
        fence(SeqCst);
    }
}

/// The fence of the side that runs seldom. Returns false if the kernel failed to run it.
pub(crate) fn heavy() -> bool {
    // SeqCst: pairs with the fence in `light`, where the kernel does not run the fences.
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
        unreachable!("`register` returned false")
    }
}
