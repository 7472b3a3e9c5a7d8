//! One transaction, through a view for each kind of record.
//!
//! A view checks what it is given and leaves finding and writing to the backend's
//! [`Tables`](crate::Tables). All of a transaction happens at one reading of the clock; wake-ups are
//! collected and sent after the commit.

mod claim;
mod era;
mod events;
mod facts;
mod leases;
mod limits;
mod orders;
mod queues;
mod requests;
mod runs;

use std::cell::RefCell;
use std::collections::BTreeSet;

use windlass_core::HolderId;

pub use self::claim::{Claim, Claimed, OnRefusal, Refused};
pub use self::events::{Event, Events};
pub use self::facts::Facts;
pub use self::leases::{Leases, NameView};
pub use self::limits::{LimitError, LimitKind, LimitRoom, LimitShare, Limits, check_limit_name};
pub use self::orders::Orders;
pub use self::queues::Queues;
pub use self::requests::{Request, Requests};
pub use self::runs::Runs;
use crate::clock::{Clock, ClockReading};
use crate::error::StoreError;
use crate::tables::{StepTables, Tables};
use crate::wakeup::{Notice, Topic};

/// A transaction under way: all of it is committed, or nothing.
pub struct Transaction<'a> {
    tables: &'a dyn Tables,
    clock: &'a dyn Clock,
    now: ClockReading,
    notices: Notices,
}

/// The wake-ups to notify after the commit.
#[derive(Default)]
struct Notices {
    topics: RefCell<Vec<Topic>>,
    /// The waiters whose turn has come, with their wake-ups.
    turns: RefCell<Vec<(HolderId, String)>>,
}

impl Notices {
    fn add(&self, topic: Topic) {
        let mut topics = self.topics.borrow_mut();
        if !topics.contains(&topic) {
            topics.push(topic);
        }
    }

    fn add_turns(&self, turns: Vec<(HolderId, String)>) {
        self.turns.borrow_mut().extend(turns);
    }

    /// Notes that a waiter has got its names in the same transaction, and need not be told of its turn.
    fn remove_turn(&self, holder: &HolderId) {
        self.turns.borrow_mut().retain(|(called, _)| called != holder);
    }

    fn into_all(self) -> Vec<Notice> {
        let turns: BTreeSet<_> = self.turns.into_inner().into_iter().map(|(_, w)| w).collect();
        let turns = turns.into_iter().map(|wakeup| Notice::One(Topic::Turn, wakeup));
        turns.chain(self.topics.into_inner().into_iter().map(Notice::All)).collect()
    }
}

impl<'a> Transaction<'a> {
    pub(crate) fn new(tables: &'a dyn Tables, clock: &'a dyn Clock) -> Self {
        let now = clock.within(tables.server_time().as_ref());
        Self { tables, clock, now, notices: Notices::default() }
    }

    /// Heeds what has happened to the store since the last writer. If no process could write, so that holders
    /// could send no heartbeats, all leases are refreshed; those that were found stale before stay stale.
    pub(crate) fn settle(&self) -> Result<(), StoreError> {
        if self.now.frame.is_shared() {
            era::settle(self.tables, &self.now)?;
        }
        if !self.tables.has_stalled()? {
            return Ok(());
        }
        self.tables.refresh_all(self.now.frame.id(), self.now.at)
    }

    /// Returns the wake-ups to notify after the commit.
    pub(crate) fn into_notices(self) -> Vec<Notice> {
        self.notices.into_all()
    }

    /// Returns whether the store has counted this era, so that its tokens are larger than all before.
    pub(crate) fn has_counted_era(&self) -> Result<bool, StoreError> {
        Ok(self.tables.meta()?.era == self.now.frame.era())
    }

    /// Returns the number of the era of the store: it grows with each boot of its machine, or whenever the
    /// history of its database changes.
    pub fn era(&self) -> Result<u64, StoreError> {
        Ok(self.tables.meta()?.eras)
    }

    /// Returns the time at which the whole transaction happens.
    #[must_use]
    pub fn now(&self) -> &ClockReading {
        &self.now
    }

    /// Returns the names that processes hold and wait for.
    #[must_use]
    pub fn leases(&self) -> Leases<'_> {
        Leases::new(self.tables, self.clock, &self.now, &self.notices)
    }

    /// Returns the limits that all runs and commands of the store share.
    #[must_use]
    pub fn limits(&self) -> Limits<'_> {
        Limits::new(self.leases())
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
        Orders::new(self.tables, self.clock, &self.now, &self.notices)
    }

    /// Returns the queues.
    #[must_use]
    pub fn queues(&self) -> Queues<'_> {
        Queues::new(self.tables, &self.notices)
    }

    /// Returns the requests to coordinators and waiting guards.
    #[must_use]
    pub fn requests(&self) -> Requests<'_> {
        Requests::new(self.tables, self.now.wall_ms, &self.notices)
    }
}
