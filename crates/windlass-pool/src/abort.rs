//! For stretches of code that must not be left by a panic.

use std::process;

/// Ends the process if it is dropped before it is defused.
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
        eprintln!("windlass-pool: {}", self.reason);
        process::abort();
    }
}
