//! The queue of waiters for names: by priority, then in order of arrival.
//!
//! A waiter holds nothing. The names that refused it are reserved for it, and so is what it still lacks when
//! these are free. A reservation binds only the waiters behind it, so none binds the first. A waiter that was
//! notified and does not claim within [`CLAIM_GRACE`] is passed over, and keeps its place.
//!
//! Knows nothing of leases or processes.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use crate::Timestamp;
use crate::lease::HolderId;

/// How long a notified waiter may take to claim before waiters behind it may pass.
pub const CLAIM_GRACE: Duration = Duration::from_secs(1);

/// A name that holders share. Names of different kinds are different names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Name {
    /// A lock that users name.
    Lock(String),
    /// A semaphore that users name.
    Semaphore(String),
    /// A limit that all users of a store share: a semaphore whose slots are steps of an
    /// [`Amount`](crate::Amount).
    Limit(String),
    /// The right to lead a run: a lock whose token is the run's epoch.
    Run(String),
    /// The right to schedule all runs that were submitted to a service.
    Scheduler,
    /// The right to be the worker of that name: a lock whose token is the worker's life.
    Worker(String),
}

impl Name {
    /// Returns the name without its kind.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Name::Lock(text)
            | Name::Semaphore(text)
            | Name::Limit(text)
            | Name::Run(text)
            | Name::Worker(text) => text,
            Name::Scheduler => "scheduler",
        }
    }

    /// Returns the kind of the name as one word.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Name::Lock(_) => "lock",
            Name::Semaphore(_) => "semaphore",
            Name::Limit(_) => "limit",
            Name::Run(_) => "run",
            Name::Scheduler => "scheduler",
            Name::Worker(_) => "worker",
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.kind(), self.text())
    }
}

/// A name and how much of it a claim needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Need {
    /// The name.
    pub name: Name,
    /// The number of slots of a semaphore, the steps of an amount of a limit; 1 for a lock.
    pub weight: u64,
}

impl Need {
    /// Returns the need for a lock, or for one slot of a semaphore.
    #[must_use]
    pub fn one(name: Name) -> Self {
        Self { name, weight: 1 }
    }
}

/// A refused claim in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// The holder that waits.
    pub holder: HolderId,
    /// The priority; larger is more urgent.
    pub priority: i64,
    /// The sequence number of the claim among those for its names, which orders waiters of equal priority.
    pub arrival: u64,
    /// The names that it needs, all together.
    pub needs: Vec<Need>,
    /// The names of these that have refused it so far, or that it lacked when the others were free.
    pub refused: BTreeSet<Name>,
    /// When it was notified, if it has not claimed since.
    pub notified_at: Option<Timestamp>,
}

impl Waiter {
    /// Returns its place in the order; the smallest comes first.
    fn rank(&self) -> (Reverse<i64>, u64) {
        (Reverse(self.priority), self.arrival)
    }

    /// Returns whether it was notified longer than [`CLAIM_GRACE`] ago and has not claimed.
    #[must_use]
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        self.notified_at.is_some_and(|notified| now.since(notified) > CLAIM_GRACE)
    }

    /// Returns how much of a name is reserved for it.
    pub(crate) fn reserved(&self, name: &Name) -> u64 {
        let need = self.needs.iter().find(|need| need.name == *name);
        need.filter(|_| self.refused.contains(name)).map_or(0, |need| need.weight)
    }
}

/// The waiters, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WaitQueue {
    waiters: Vec<Waiter>,
}

impl WaitQueue {
    pub(crate) fn new(mut waiters: Vec<Waiter>) -> Self {
        waiters.sort_by_key(Waiter::rank);
        Self { waiters }
    }

    pub(crate) fn waiters(&self) -> &[Waiter] {
        &self.waiters
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Waiter> {
        self.waiters.iter_mut()
    }

    pub(crate) fn get_mut(&mut self, holder: &HolderId) -> Option<&mut Waiter> {
        self.waiters.iter_mut().find(|waiter| waiter.holder == *holder)
    }

    /// Returns the position of a holder's waiter, or the one that a new waiter of this priority
    /// would get.
    pub(crate) fn place(&self, holder: &HolderId, priority: i64) -> usize {
        let own = self.waiters.iter().position(|waiter| waiter.holder == *holder);
        let rank = (Reverse(priority), u64::MAX);
        own.unwrap_or_else(|| self.waiters.partition_point(|waiter| waiter.rank() <= rank))
    }

    /// Iterates over the waiters before a position, without overdue ones.
    pub(crate) fn ahead(&self, place: usize, now: Timestamp) -> impl Iterator<Item = &Waiter> {
        self.waiters[..place].iter().filter(move |waiter| !waiter.is_overdue(now))
    }

    pub(crate) fn insert(&mut self, waiter: Waiter) {
        let rank = waiter.rank();
        let place = self.waiters.partition_point(|other| other.rank() <= rank);
        self.waiters.insert(place, waiter);
    }

    pub(crate) fn remove(&mut self, holder: &HolderId) -> Option<Waiter> {
        let place = self.waiters.iter().position(|waiter| waiter.holder == *holder)?;
        Some(self.waiters.remove(place))
    }
}
