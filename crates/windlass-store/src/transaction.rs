//! One transaction, through a view for each kind of record.
//!
//! A view checks what it is given and leaves finding and writing to the backend's
//! [`Tables`](crate::Tables). All of a transaction happens at one reading of the clock; wake-ups are
//! collected and sent after the commit.

mod claim;
mod events;
mod facts;
mod leases;
mod orders;
mod requests;
mod runs;

use std::cell::RefCell;

use windlass_core::Presence;

pub use self::claim::{Claim, Claimed, OnRefusal, Refused};
pub use self::events::{Event, Events};
pub use self::facts::Facts;
pub use self::leases::{Leases, NameView};
pub use self::orders::Orders;
pub use self::requests::{Request, Requests};
pub use self::runs::Runs;
use crate::clock::ClockReading;
use crate::error::StoreError;
use crate::tables::{GroupChanges, StepTables, Tables};
use crate::wakeup::Notice;

/// A transaction under way: all of it is committed, or nothing.
pub struct Transaction<'a> {
    tables: &'a dyn Tables,
    now: ClockReading,
    notices: Notices,
}

/// The wake-ups to notify after the commit.
#[derive(Default)]
struct Notices(RefCell<Vec<Notice>>);

impl Notices {
    fn add(&self, notices: impl IntoIterator<Item = Notice>) {
        self.0.borrow_mut().extend(notices);
    }
}

impl<'a> Transaction<'a> {
    pub(crate) fn new(tables: &'a dyn Tables, now: ClockReading) -> Self {
        Self { tables, now, notices: Notices::default() }
    }

    /// Refreshes all leases if their holders could send no heartbeats because no process could write. Those
    /// that were found stale before stay stale.
    pub(crate) fn keep_leases(&self) -> Result<(), StoreError> {
        if !self.tables.has_stalled()? {
            return Ok(());
        }
        let ClockReading { at, boot, .. } = &self.now;
        let mut leases = self.tables.leases(None)?;
        leases.retain(|stored| {
            stored.owner.boot == *boot && stored.lease.presence == Presence::Presumed
        });
        for stored in &mut leases {
            stored.lease.last_heartbeat = stored.lease.last_heartbeat.max(*at);
        }
        self.tables.save_group(&GroupChanges { leases, ..GroupChanges::default() })
    }

    /// Returns the wake-ups to notify after the commit.
    pub(crate) fn into_notices(self) -> Vec<Notice> {
        self.notices.0.into_inner()
    }

    /// Returns whether the store has counted this boot, so that its tokens are larger than all before.
    pub(crate) fn has_counted_boot(&self) -> Result<bool, StoreError> {
        Ok(self.tables.meta()?.boot == self.now.boot)
    }

    /// Returns the time at which the whole transaction happens.
    #[must_use]
    pub fn now(&self) -> &ClockReading {
        &self.now
    }

    /// Returns the names that processes hold and wait for.
    #[must_use]
    pub fn leases(&self) -> Leases<'_> {
        Leases::new(self.tables, &self.now, &self.notices)
    }

    /// Returns the runs.
    #[must_use]
    pub fn runs(&self) -> Runs<'_> {
        Runs::new(self.tables, self.now.wall_ms, &self.notices)
    }

    /// Returns the journals of the runs.
    #[must_use]
    pub fn facts(&self) -> Facts<'_> {
        Facts::new(self.tables)
    }

    /// Returns the records of the runs' steps.
    #[must_use]
    pub fn steps(&self) -> &dyn StepTables {
        self.tables
    }

    /// Returns the events.
    #[must_use]
    pub fn events(&self) -> Events<'_> {
        Events::new(self.tables, self.now.wall_ms, &self.notices)
    }

    /// Returns the orders, the reports and the workers.
    #[must_use]
    pub fn orders(&self) -> Orders<'_> {
        Orders::new(self.tables, &self.notices)
    }

    /// Returns the requests to coordinators and waiting guards.
    #[must_use]
    pub fn requests(&self) -> Requests<'_> {
        Requests::new(self.tables, self.now.wall_ms, &self.notices)
    }
}
