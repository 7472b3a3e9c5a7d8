//! Timers in the order in which they are due.

use std::collections::BTreeSet;

use crate::{Timestamp, WorkId};

/// The earliest is cached: every input reads it, and most engines have no timer.
#[derive(Clone, Debug)]
pub(super) struct Timers {
    due: BTreeSet<(Timestamp, WorkId)>,
    earliest: Timestamp,
}

impl Timers {
    pub(super) fn new() -> Self {
        Self { due: BTreeSet::new(), earliest: Timestamp::MAX }
    }

    /// Returns when the first timer is due; [`Timestamp::MAX`] if there is none.
    #[inline]
    pub(super) fn earliest(&self) -> Timestamp {
        self.earliest
    }

    pub(super) fn insert(&mut self, timer: (Timestamp, WorkId)) {
        self.due.insert(timer);
        self.earliest = self.earliest.min(timer.0);
    }

    pub(super) fn remove(&mut self, timer: &(Timestamp, WorkId)) {
        self.due.remove(timer);
        self.look();
    }

    /// Removes and returns the first timer, if it is due by `now`.
    pub(super) fn pop_due(&mut self, now: Timestamp) -> Option<(Timestamp, WorkId)> {
        let first = *self.due.first().filter(|(due, _)| *due <= now)?;
        self.due.pop_first();
        self.look();
        Some(first)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(Timestamp, WorkId)> {
        self.due.iter()
    }

    fn look(&mut self) {
        self.earliest = self.due.first().map_or(Timestamp::MAX, |(due, _)| *due);
    }
}
