//! A stint: a few works that one runner runs one after the other before it comes back to the state.
//!
//! Those that have not begun are granted, and their bodies are with the stint. Whoever else comes to
//! the state settles it first (`visit/stints`): what has ended is put down, what is under
//! way has begun, and the others are back in line. So nobody ever sees that they were gone, and nobody
//! waits for a runner that is held up.
//!
//! Its lock is taken after the scheduler's, for a moment at a time; nothing of the user's runs or is
//! dropped under it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use windlass_core::Grant;

use crate::work::Body;

/// What its runner and the state have in common.
#[derive(Default)]
pub(crate) struct Stint(Mutex<Books>);

/// What has become of the works of a stint.
#[derive(Default)]
pub(crate) struct Books {
    /// The attempt under way; none if there is no stint, and the state knows everything.
    current: Option<Grant>,
    /// Those that have ended well, in order. The state knows that the first of them has begun.
    pub(crate) ended: Vec<Ended>,
    /// Those that are yet to begin, the first one last.
    pub(crate) next: Vec<(Grant, Body)>,
}

/// An attempt that has ended well, with its body.
pub(crate) struct Ended {
    pub(crate) grant: Grant,
    pub(crate) body: Body,
    pub(crate) took: Duration,
}

/// The one that is on. There is one at most, and nobody but its runner begins anything meanwhile: so works
/// begin in the order of their line.
#[derive(Default)]
pub(crate) struct Stints {
    on: Option<Arc<Stint>>,
    /// How many ends have to be reported before there is another one.
    rest: u32,
    /// How many works were ever given ahead.
    #[cfg(all(test, not(windlass_loom)))]
    given: usize,
}

/// After somebody has had to settle it, and after one that could not be had.
const REST: u32 = if cfg!(test) { 1 } else { 16 };

impl Stint {
    pub(crate) fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stint begins with an attempt that the state knows of.
    fn begin(&self, current: Grant, next: impl Iterator<Item = (Grant, Body)>) {
        let mut books = self.books();
        books.current = Some(current);
        books.next.extend(next);
        books.next.reverse();
    }

    /// The attempt under way has ended well, and the next one begins. Nothing has changed if there is
    /// none.
    pub(crate) fn go_on(
        &self,
        body: &mut Option<Body>,
        took: Duration,
        begun: impl FnOnce(),
    ) -> Option<Grant> {
        let mut books = self.books();
        let (next, next_body) = books.next.pop()?;
        begun();
        let grant = books.current.replace(next).expect("what is to begin follows something");
        let body = body.replace(next_body).expect("a body is handed in at the end");
        books.ended.push(Ended { grant, body, took });
        Some(next)
    }
}

impl Books {
    /// The stint is over, if it was on: the attempt under way, and whether the state knows that it has
    /// begun.
    pub(crate) fn close(&mut self) -> Option<(Grant, bool)> {
        Some((self.current.take()?, self.ended.is_empty()))
    }
}

impl Stints {
    /// Whether one is on.
    pub(crate) fn are_on(&self) -> bool {
        self.on.is_some()
    }

    /// Whether it is this one.
    pub(crate) fn is_on(&self, own: &Arc<Stint>) -> bool {
        self.on.as_ref().is_some_and(|on| Arc::ptr_eq(on, own))
    }

    /// Whether there may be one now; to be asked once with each end that is reported.
    pub(crate) fn may_begin(&mut self) -> bool {
        let rest = self.rest;
        self.rest = rest.saturating_sub(1);
        rest == 0 && self.on.is_none()
    }

    pub(crate) fn begin(
        &mut self,
        stint: &Arc<Stint>,
        current: Grant,
        next: impl Iterator<Item = (Grant, Body)>,
    ) {
        stint.begin(current, next);
        #[cfg(all(test, not(windlass_loom)))]
        {
            self.given += stint.books().next.len();
        }
        self.on = Some(Arc::clone(stint));
    }

    /// There are none for a while.
    pub(crate) fn rest(&mut self) {
        self.rest = REST;
    }

    /// It is reported by its own runner.
    pub(crate) fn end(&mut self) {
        self.on = None;
    }

    /// The one that is on, which somebody else has to settle.
    pub(crate) fn take(&mut self) -> Option<Arc<Stint>> {
        let stint = self.on.take()?;
        self.rest();
        Some(stint)
    }
}

#[cfg(all(test, not(windlass_loom)))]
mod tests;
