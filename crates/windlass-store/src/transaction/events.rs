//! Events: names with a number, for processes that wait for them.

use super::Notices;
use crate::error::StoreError;
use crate::name::check_text;
use crate::tables::EventTable;
use crate::wakeup::Topic;

/// An event. Numbers grow in the order of commits, without gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its number, from 1.
    pub number: u64,
    /// Its name.
    pub name: String,
    /// When it was emitted, in milliseconds since the Unix epoch, for display.
    pub at_ms: i64,
}

/// The events of a store, within a [`Transaction`](super::Transaction).
pub struct Events<'a> {
    table: &'a dyn EventTable,
    wall_ms: i64,
    notices: &'a Notices,
}

impl<'a> Events<'a> {
    pub(super) fn new(table: &'a dyn EventTable, wall_ms: i64, notices: &'a Notices) -> Self {
        Self { table, wall_ms, notices }
    }

    /// Emits an event and returns its number.
    pub fn emit(&self, name: &str) -> Result<u64, StoreError> {
        check_text(name)?;
        self.notices.add(Topic::Events);
        self.table.append_event(name, self.wall_ms)
    }

    /// Returns up to `limit` events with numbers above `after`, in order.
    pub fn after(&self, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.table.events(after, limit)
    }

    /// Returns the number of the latest event; 0 if there was none.
    pub fn last(&self) -> Result<u64, StoreError> {
        self.table.last_event()
    }

    /// Deletes the events from before `before_ms` and returns how many. Numbers are never reused.
    pub fn delete_before(&self, before_ms: i64) -> Result<usize, StoreError> {
        self.table.delete_events(before_ms)
    }
}
