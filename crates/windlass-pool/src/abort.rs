//! Aborts the process where unwinding would be unsound.

use std::process;

/// Aborts the process if it is dropped before it is disarmed.
pub(crate) struct AbortOnUnwind {
    reason: &'static str,
}

impl AbortOnUnwind {
    pub(crate) fn new(reason: &'static str) -> Self {
        Self { reason }
    }

    pub(crate) fn disarm(self) {
        std::mem::forget(self);
    }
}

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        eprintln!("windlass-pool: {}; aborting", self.reason);
        process::abort();
    }
}
