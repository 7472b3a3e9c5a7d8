//! What a backend keeps, record by record, within one transaction.
//!
//! A backend decides nothing: it finds and puts records. Everything that is decided over them is
//! decided above, once for all backends.

use windlass_core::{CoordinationStats, HolderId, Lease, Name, Ticket, Timestamp, Token};

use crate::error::StoreError;
use crate::process::{Liveness, Process, has_ended};
use crate::run::RunTables;

/// What the store knows about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// The boot during which it was last used.
    pub boot: String,
    /// How many boots it has seen before that one.
    pub epoch: u64,
    /// How many have come to the line so far.
    pub arrivals: u64,
}

/// What stays of a name also while nobody holds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredName {
    /// The slots of a semaphore; none for a lock.
    pub capacity: Option<u32>,
    /// The largest token so far.
    pub token: Token,
    /// What has happened to it.
    pub stats: CoordinationStats,
}

/// Who stands behind a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The boot during which it began.
    pub boot: String,
    /// The process without which it is void.
    pub process: Option<Process>,
    /// What acts in its name, besides that process.
    pub tree: Option<ProcessTree>,
    /// The user who asked for it, where that is known.
    pub uid: Option<u32>,
    /// When it began, in milliseconds since 1970, for display.
    pub since_ms: i64,
}

impl Owner {
    /// Whether it is certain that nobody stands behind the lease any more.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        has_ended(&self.boot, self.process.as_ref())
    }
}

/// The processes that act in the name of a lease, as far as others can find them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessTree {
    /// A word that each of them carries in an environment variable: `VARIABLE=word`.
    pub mark: String,
    /// The process group in which they began.
    pub group: Option<ProcessGroup>,
}

/// A process group, with what tells it from a later one of the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessGroup {
    /// Its leader's pid, which is its number.
    pub leader: u32,
    /// When its leader started, in the kernel's clock ticks since boot.
    pub started: u64,
    /// Its session.
    pub session: u32,
}

/// A hold on a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredLease {
    /// The name.
    pub name: Name,
    /// The hold.
    pub lease: Lease,
    /// Who stands behind it.
    pub owner: Owner,
}

/// What has become of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldState {
    /// Its holder has it.
    Held,
    /// Its holder has not been heard of for too long, or has had it for longer than it may.
    Stale,
    /// It is certain that its holder is gone.
    Gone,
}

impl StoredLease {
    /// Returns what has become of the hold by `now`, a time since this boot.
    #[must_use]
    pub fn state(&self, now: Timestamp) -> HoldState {
        if self.owner.is_gone() {
            HoldState::Gone
        } else if self.lease.is_stale(now) && !self.is_vouched_for(now) {
            HoldState::Stale
        } else {
            HoldState::Held
        }
    }

    /// Returns whether a process that is seen alive stands in for the heartbeats that are missing. It
    /// does where a process was named for a hold and nothing else acts for it. A run, or a command under
    /// a lock, beats for itself: if that stops, it hangs.
    pub(crate) fn is_vouched_for(&self, now: Timestamp) -> bool {
        let named = self.owner.tree.is_none() && !matches!(self.name, Name::Run(_));
        named
            && self.lease.is_only_silent(now)
            && self
                .owner
                .process
                .as_ref()
                .is_some_and(|process| process.liveness() == Liveness::Alive)
    }
}

/// A place in line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredWaiter {
    /// The place.
    pub waiter: Ticket,
    /// The boot during which it began.
    pub boot: String,
    /// The process without which it is void.
    pub process: Option<Process>,
    /// Which wakeup to ring when its turn comes.
    pub wakeup: Option<String>,
    /// When it began, in milliseconds since 1970, for display.
    pub since_ms: i64,
}

impl StoredWaiter {
    /// Whether it is certain that nobody waits there any more.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        has_ended(&self.boot, self.process.as_ref())
    }
}

/// Something that was emitted. Numbers grow in the order of commits, without gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its number, from 1.
    pub number: u64,
    /// What it is called.
    pub name: String,
    /// When, in milliseconds since 1970, for display.
    pub at_ms: i64,
}

/// Something that a running coordinator or a waiting guard is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its number, from 1; larger ones were asked later.
    pub number: u64,
    /// Who is asked: a run's id, or whatever else the two sides agree on.
    pub target: String,
    /// What is asked.
    pub text: String,
}

/// What a backend must be able to do within one transaction.
pub trait Tables: RunTables {
    /// What the store knows about itself.
    fn meta(&self) -> Result<Meta, StoreError>;
    /// Puts that.
    fn put_meta(&self, meta: &Meta) -> Result<(), StoreError>;

    /// What is known of a name.
    fn name(&self, name: &Name) -> Result<Option<StoredName>, StoreError>;
    /// Puts what is known of a name.
    fn put_name(&self, name: &Name, stored: &StoredName) -> Result<(), StoreError>;

    /// The holds on one name, or on all.
    fn leases(&self, name: Option<&Name>) -> Result<Vec<StoredLease>, StoreError>;
    /// Whether a name is held under this token. Asked at every commit of a run, so a backend may have a
    /// shorter way than to look at the holds.
    fn is_held_as(&self, name: &Name, token: Token) -> Result<bool, StoreError> {
        Ok(self.leases(Some(name))?.iter().any(|stored| stored.lease.token == token))
    }
    /// Puts a hold in the place of the same holder's on the same name.
    fn put_lease(&self, lease: &StoredLease) -> Result<(), StoreError>;
    /// Takes a hold away.
    fn delete_lease(&self, name: &Name, holder: &HolderId) -> Result<(), StoreError>;

    /// The places in line for one name, or all.
    fn waiters(&self, name: Option<&Name>) -> Result<Vec<StoredWaiter>, StoreError>;
    /// The place in line of a holder.
    fn waiter(&self, holder: &HolderId) -> Result<Option<StoredWaiter>, StoreError>;
    /// How many stand in line for a name before one with this priority and arrival.
    fn ahead(&self, name: &Name, priority: i64, arrival: u64) -> Result<usize, StoreError>;
    /// The names that a holder waits for.
    fn waits_for(&self, holder: &HolderId) -> Result<Vec<Name>, StoreError>;
    /// Puts a place in line in that of the same holder's.
    fn put_waiter(&self, waiter: &StoredWaiter) -> Result<(), StoreError>;
    /// Takes a place in line away.
    fn delete_waiter(&self, holder: &HolderId) -> Result<(), StoreError>;

    /// Adds an event and returns its number.
    fn append_event(&self, name: &str, at_ms: i64) -> Result<u64, StoreError>;
    /// Up to `limit` events with numbers above `after`, in order.
    fn events(&self, after: u64, limit: usize) -> Result<Vec<Event>, StoreError>;
    /// The number of the latest event; 0 if there is none.
    fn last_event(&self) -> Result<u64, StoreError>;

    /// Takes the events away that are older than this, and says how many. Numbers are not used again.
    fn delete_events(&self, before_ms: i64) -> Result<usize, StoreError>;

    /// Adds a request and returns its number.
    fn put_request(&self, target: &str, text: &str, at_ms: i64) -> Result<u64, StoreError>;
    /// The requests to a target that nobody has taken yet, in order.
    fn requests(&self, target: &str) -> Result<Vec<Request>, StoreError>;
    /// Takes a request away. Whether it was there.
    fn take_request(&self, number: u64) -> Result<bool, StoreError>;
}
