//! The panics of a scope's tasks, until somebody receives them.
//!
//! Kept in the order in which they happened, each with the address of its task. A task whose handle
//! is gone can no longer be awaited; its panic then belongs to the owner of the scope.

use std::any::Any;

use crate::sync::{Mutex, lock};

/// What a panic was raised with.
pub(crate) type Payload = Box<dyn Any + Send>;

/// What becomes of a panic that nobody can receive any more by awaiting its task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Orphans {
    /// It goes on in the owner of the scope.
    Keep,
    /// There is no owner; the panic hook has reported it.
    Forget,
}

/// Whose panic it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Origin {
    /// Of the task at this address, which has a handle.
    Task(usize),
    /// Of a task that can no longer be awaited, or of the body of the scope.
    Orphan,
}

/// The panics that nobody has received.
pub(crate) struct Panics {
    orphans: Orphans,
    kept: Mutex<Vec<(Origin, Payload)>>,
}

impl Panics {
    /// For a scope, whose owner gets what is left.
    pub(crate) fn of_a_scope() -> Self {
        Self { orphans: Orphans::Keep, kept: Mutex::new(Vec::new()) }
    }

    /// For tasks that nobody owns but their handles.
    pub(crate) fn without_owner() -> Self {
        Self { orphans: Orphans::Forget, kept: Mutex::new(Vec::new()) }
    }

    /// Keeps the panic of the task at `address`.
    pub(crate) fn record(&self, address: usize, payload: Payload) {
        lock(&self.kept).push((Origin::Task(address), payload));
    }

    /// Keeps a panic of the scope's own body.
    pub(crate) fn record_own(&self, payload: Payload) {
        lock(&self.kept).push((Origin::Orphan, payload));
    }

    /// Takes out the panic of the task at `address`.
    pub(crate) fn take(&self, address: usize) -> Option<Payload> {
        let mut kept = lock(&self.kept);
        let index = kept.iter().position(|(origin, _)| *origin == Origin::Task(address))?;
        Some(kept.remove(index).1)
    }

    /// The task at `address` has no handle any more, and its address may be used again.
    pub(crate) fn orphan(&self, address: usize) {
        if self.orphans == Orphans::Forget {
            drop(self.take(address));
            return;
        }
        let mut kept = lock(&self.kept);
        if let Some(entry) = kept.iter_mut().find(|(origin, _)| *origin == Origin::Task(address)) {
            entry.0 = Origin::Orphan;
        }
    }

    /// Takes out everything, and returns the earliest.
    pub(crate) fn take_first(&self) -> Option<Payload> {
        let kept = std::mem::take(&mut *lock(&self.kept));
        kept.into_iter().next().map(|(_, payload)| payload)
    }
}
