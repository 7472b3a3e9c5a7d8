//! Keeps the panics of a scope's tasks until a caller receives them.
//!
//! They are in the order in which they happened, each with the address of its task. A panic is
//! *unobserved* once its task has no handle, so that no caller can await it. The caller of the scope
//! gets the first unobserved panic. Knows nothing of nodes or threads.

use std::{
    any::Any,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::OnceLock,
};

use crate::sync::{Mutex, lock};

/// The value with which a panic was raised.
pub(crate) type Payload = Box<dyn Any + Send>;

/// Drops `value`. A panic in its drop is reported by the panic hook and goes no further.
pub(crate) fn drop_quietly<T>(value: T) {
    quietly(|| drop(value));
}

/// Calls code of the user's that concerns nothing here. A panic is reported by the panic hook and goes no
/// further.
pub(crate) fn quietly(call: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(call)) {
        // Dropping the payload might panic again.
        mem::forget(payload);
    }
}

/// What is done with unobserved panics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unobserved {
    /// The first one continues in the caller of the scope.
    Propagate,
    /// They are dropped. The panic hook has reported them.
    Discard,
}

/// Where a panic comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Origin {
    /// The task at this address, which has a handle.
    Task(usize),
    /// A task without a handle, or the body of the scope.
    Unobserved,
}

/// The panics of a scope that no caller has received.
pub(crate) struct ScopePanics {
    orphans: Unobserved,
    /// Created with the first panic: most scopes are short and have none.
    kept: OnceLock<Mutex<Vec<(Origin, Payload)>>>,
}

impl ScopePanics {
    /// For a scope, whose caller gets the first unobserved panic.
    pub(crate) fn for_scope() -> Self {
        Self { orphans: Unobserved::Propagate, kept: OnceLock::new() }
    }

    /// For detached tasks, whose panics only their handles can receive.
    pub(crate) fn for_detached() -> Self {
        Self { orphans: Unobserved::Discard, kept: OnceLock::new() }
    }

    /// Keeps the panic of the task at `address`.
    pub(crate) fn record(&self, address: usize, payload: Payload) {
        self.keep(Origin::Task(address), payload);
    }

    /// Keeps a panic to which no handle leads: of the scope's body, or of the drop of a value that
    /// no caller awaited.
    pub(crate) fn record_unobserved(&self, payload: Payload) {
        match self.orphans {
            Unobserved::Propagate => self.keep(Origin::Unobserved, payload),
            Unobserved::Discard => drop_quietly(payload),
        }
    }

    fn keep(&self, origin: Origin, payload: Payload) {
        lock(self.kept.get_or_init(|| Mutex::new(Vec::new()))).push((origin, payload));
    }

    /// Removes and returns the panic of the task at `address`.
    pub(crate) fn take(&self, address: usize) -> Option<Payload> {
        let mut kept = lock(self.kept.get()?);
        let index = kept.iter().position(|(origin, _)| *origin == Origin::Task(address))?;
        Some(kept.remove(index).1)
    }

    /// Records that the task at `address` has no handle any more. Its address may be reused.
    pub(crate) fn mark_unobserved(&self, address: usize) {
        if self.orphans == Unobserved::Discard {
            drop_quietly(self.take(address));
        } else if let Some(kept) = self.kept.get() {
            let mut kept = lock(kept);
            let of_task = kept.iter_mut().find(|(origin, _)| *origin == Origin::Task(address));
            of_task.into_iter().for_each(|entry| entry.0 = Origin::Unobserved);
        }
    }

    /// Removes all panics and returns the first.
    #[inline]
    pub(crate) fn take_first(&self) -> Option<Payload> {
        let mut kept = mem::take(&mut *lock(self.kept.get()?)).into_iter();
        let first = kept.next().map(|(_, payload)| payload);
        kept.for_each(drop_quietly);
        first
    }
}
