//! The panics of a scope's tasks, until somebody receives them.
//!
//! Kept in the order in which they happened, each with the address of its task. A task whose handle
//! is gone can no longer be awaited; its panic then belongs to the owner of the scope.

use std::{
    any::Any,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::OnceLock,
};

use crate::sync::{Mutex, lock};

/// What a panic was raised with.
pub(crate) type Payload = Box<dyn Any + Send>;

/// Drops `value`. A panic in its drop is reported by the panic hook and goes no further.
pub(crate) fn drop_quietly<T>(value: T) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        // Its drop might panic again.
        mem::forget(payload);
    }
}

/// What becomes of a panic that nobody can receive any more by awaiting its task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unobserved {
    /// It goes on in the owner of the scope.
    Propagate,
    /// There is no owner; the panic hook has reported it.
    Discard,
}

/// Whose panic it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Origin {
    /// Of the task at this address, which has a handle.
    Task(usize),
    /// Of a task that can no longer be awaited, or of the body of the scope.
    Unobserved,
}

/// The panics that nobody has received.
pub(crate) struct ScopePanics {
    orphans: Unobserved,
    /// Made with the first panic: most scopes see none, and many scopes are short.
    kept: OnceLock<Mutex<Vec<(Origin, Payload)>>>,
}

impl ScopePanics {
    /// For a scope, whose owner gets what is left.
    pub(crate) fn for_scope() -> Self {
        Self { orphans: Unobserved::Propagate, kept: OnceLock::new() }
    }

    /// For tasks that nobody owns but their handles.
    pub(crate) fn for_detached() -> Self {
        Self { orphans: Unobserved::Discard, kept: OnceLock::new() }
    }

    /// Keeps the panic of the task at `address`.
    pub(crate) fn record(&self, address: usize, payload: Payload) {
        self.keep(Origin::Task(address), payload);
    }

    /// Keeps a panic that no handle leads to: one of the scope's own body, or of the drop of a value
    /// that was not asked for.
    pub(crate) fn record_unobserved(&self, payload: Payload) {
        match self.orphans {
            Unobserved::Propagate => self.keep(Origin::Unobserved, payload),
            Unobserved::Discard => drop_quietly(payload),
        }
    }

    fn keep(&self, origin: Origin, payload: Payload) {
        lock(self.kept.get_or_init(|| Mutex::new(Vec::new()))).push((origin, payload));
    }

    /// Takes out the panic of the task at `address`.
    pub(crate) fn take(&self, address: usize) -> Option<Payload> {
        let mut kept = lock(self.kept.get()?);
        let index = kept.iter().position(|(origin, _)| *origin == Origin::Task(address))?;
        Some(kept.remove(index).1)
    }

    /// The task at `address` has no handle any more, and its address may be used again.
    pub(crate) fn mark_unobserved(&self, address: usize) {
        if self.orphans == Unobserved::Discard {
            drop_quietly(self.take(address));
        } else if let Some(kept) = self.kept.get() {
            let mut kept = lock(kept);
            let of_task = kept.iter_mut().find(|(origin, _)| *origin == Origin::Task(address));
            of_task.into_iter().for_each(|entry| entry.0 = Origin::Unobserved);
        }
    }

    /// Takes out everything, and returns the earliest.
    #[inline]
    pub(crate) fn take_first(&self) -> Option<Payload> {
        let mut kept = mem::take(&mut *lock(self.kept.get()?)).into_iter();
        let first = kept.next().map(|(_, payload)| payload);
        kept.for_each(drop_quietly);
        first
    }
}
