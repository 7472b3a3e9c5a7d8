//! Requests: texts that other processes send to coordinators and waiting guards.
//!
//! A request is taken in the transaction that carries it out. The store does not know what it means.

use super::Notices;
use crate::error::StoreError;
use crate::name::check_text;
use crate::tables::RequestTable;
use crate::wakeup::Topic;

/// A request to a running coordinator or a waiting guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its number, from 1; later requests have larger numbers.
    pub number: u64,
    /// The receiver: a run, or whatever else the two sides agree on.
    pub target: String,
    /// The text of the request.
    pub text: String,
}

/// The requests of a store, within a [`Transaction`](super::Transaction).
pub struct Requests<'a> {
    table: &'a dyn RequestTable,
    wall_ms: i64,
    notices: &'a Notices,
}

impl<'a> Requests<'a> {
    pub(super) fn new(table: &'a dyn RequestTable, wall_ms: i64, notices: &'a Notices) -> Self {
        Self { table, wall_ms, notices }
    }

    /// Sends a request to `target` and returns its number.
    pub fn send(&self, target: &str, text: &str) -> Result<u64, StoreError> {
        check_text(target)?;
        self.notices.add(Topic::Requests);
        self.table.append_request(target, text, self.wall_ms)
    }

    /// Returns the requests to `target` that have not been taken, in order.
    pub fn pending(&self, target: &str) -> Result<Vec<Request>, StoreError> {
        self.table.requests(target)
    }

    /// Returns all requests that have not been taken, in order.
    pub fn all_pending(&self) -> Result<Vec<Request>, StoreError> {
        self.table.all_requests()
    }

    /// Takes a request, so that no other process does. Returns whether it was still there.
    pub fn take(&self, number: u64) -> Result<bool, StoreError> {
        self.table.take_request(number)
    }
}
