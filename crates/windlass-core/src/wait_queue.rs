//! The line of those who wait for names: by priority, then in order of arrival.
//!
//! A waiter is a place in line and never a hold. What has refused it is set reserved for it, and binds
//! only those who stand behind it, so the first of all is bound by nothing. One that was told that
//! its turn has come and does not come is passed over, and keeps its place.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use crate::Timestamp;
use crate::lease::HolderId;

/// How long one who was notified may take to come before others may pass.
pub const CLAIM_GRACE: Duration = Duration::from_secs(1);

/// A name that holders share. Names of different kinds are different names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Name {
    /// A lock that users name.
    Lock(String),
    /// A semaphore that users name.
    Semaphore(String),
    /// The right to lead a run: a lock whose token is the run's epoch.
    Run(String),
}

impl Name {
    /// The name without its kind.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Name::Lock(text) | Name::Semaphore(text) | Name::Run(text) => text,
        }
    }

    /// What kind of name it is, as one word.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Name::Lock(_) => "lock",
            Name::Semaphore(_) => "semaphore",
            Name::Run(_) => "run",
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.kind(), self.text())
    }
}

/// How much of a name is asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Need {
    /// The name.
    pub name: Name,
    /// How many slots of a semaphore; 1 for a lock.
    pub weight: u32,
}

impl Need {
    /// A name as a whole, or one slot of it.
    #[must_use]
    pub fn one(name: Name) -> Self {
        Self { name, weight: 1 }
    }
}

/// A place in line for names that were refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// Who waits.
    pub holder: HolderId,
    /// Larger is more urgent.
    pub priority: i64,
    /// The order of arrival among equals.
    pub arrival: u64,
    /// What it waits for, together.
    pub needs: Vec<Need>,
    /// Those of its names that have refused it since it came.
    pub refused: BTreeSet<Name>,
    /// When it was told to come, if it has not come since.
    pub notified_at: Option<Timestamp>,
}

impl Waiter {
    /// Its place: smaller comes first.
    fn rank(&self) -> (Reverse<i64>, u64) {
        (Reverse(self.priority), self.arrival)
    }

    /// Whether it was told to come and has not, for so long that others may pass.
    #[must_use]
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        self.notified_at.is_some_and(|notified| now.since(notified) > CLAIM_GRACE)
    }

    /// How much of a name is set reserved for it.
    pub(crate) fn reserved(&self, name: &Name) -> u32 {
        let need = self.needs.iter().find(|need| need.name == *name);
        need.filter(|_| self.refused.contains(name)).map_or(0, |need| need.weight)
    }
}

/// The waiters in order.
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

    /// Where a holder stands; one without a waiter would come behind its equals.
    pub(crate) fn place(&self, holder: &HolderId, priority: i64) -> usize {
        let own = self.waiters.iter().position(|waiter| waiter.holder == *holder);
        let rank = (Reverse(priority), u64::MAX);
        own.unwrap_or_else(|| self.waiters.partition_point(|waiter| waiter.rank() <= rank))
    }

    /// Those before a place who are not passed over.
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
