//! The worker that the calling thread is.

#![allow(unsafe_code)]

use std::{cell::Cell, ptr::NonNull};

use super::Worker;

thread_local! {
    static WORKER: Cell<Option<NonNull<Worker>>> = const { Cell::new(None) };
}

/// Runs `f` on the calling thread as `worker`.
pub(super) fn run_as(worker: &Worker, f: impl FnOnce()) {
    struct Restore(Option<NonNull<Worker>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            WORKER.set(self.0);
        }
    }
    let _restore = Restore(WORKER.replace(Some(NonNull::from(worker))));
    f();
}

/// Calls `f` with the worker that the calling thread is, if it is one.
// Always inline: every join calls it.
#[inline(always)]
pub(crate) fn with<R>(f: impl FnOnce(Option<&Worker>) -> R) -> R {
    // SAFETY: `run_as` borrows the worker while the thread-local points to it. `f` returns before
    // that ends, since both run on the same thread.
    f(WORKER.get().map(|worker| unsafe { worker.as_ref() }))
}
