//! Locks and semaphores by name, and the line of those who wait for them.
//!
//! Several names are taken together or not at all, so nobody holds one while waiting for another.
//! Whoever is refused gets a waiter; the rules of the line are in `line`. After every change those
//! whose turn has come are named once, for whoever drives this to wake them. Knows no processes and
//! no clock, and can be exported and restored at any point.

mod claim;
mod event;

use std::collections::BTreeMap;

use thiserror::Error;

pub use self::claim::{Claim, ClaimError, Claimed, Hold, NameRefusal, Taken};
pub use self::event::{CoordinationEvent, CoordinationStats};
use crate::Timestamp;
use crate::answer::Answer;
use crate::lease::{HolderId, Lease, Presence, Remains, Token};
use crate::lock::Lock;
use crate::semaphore::Semaphore;
use crate::wait_queue::{Name, WaitQueue, Waiter};

/// Everything that is held and waited for.
///
/// ```
/// use windlass_core::{Claim, Claimed, CoordinationState, HolderId, Name, Need, Timestamp};
///
/// let now = Timestamp::ZERO;
/// let both = |holder: &str| {
///     let names = ["db", "dns"].map(|name| Need::one(Name::Lock(name.to_owned())));
///     Claim::new(HolderId::new(holder), names.to_vec())
/// };
/// let mut state = CoordinationState::default();
/// assert!(matches!(state.claim(&both("a"), now)?, Claimed::Held(holds) if holds.len() == 2));
/// assert!(matches!(state.claim(&both("b"), now)?, Claimed::Refused(_)));
/// let restored = CoordinationState::restore(state.export());
/// assert_eq!(restored.export(), state.export());
/// # Ok::<(), windlass_core::ClaimError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct CoordinationState {
    names: BTreeMap<Name, Entry>,
    queue: WaitQueue,
    /// Every new token is above this.
    floor: Token,
    /// How many have come to the line so far.
    arrivals: u64,
    notified: Vec<HolderId>,
    events: Vec<CoordinationEvent>,
}

#[derive(Clone, Debug)]
struct Entry {
    machine: Machine,
    stats: CoordinationStats,
}

#[derive(Clone, Debug)]
enum Machine {
    Lock(Lock),
    Semaphore(Semaphore),
}

/// All of a [`CoordinationState`] as plain values, for whoever stores it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoordinationRecord {
    /// Every new token is above this.
    pub floor: Token,
    /// How many have come to the line so far.
    pub arrivals: u64,
    /// What is known of each name.
    pub names: BTreeMap<Name, NameRecord>,
    /// The places in line, in order.
    pub waiters: Vec<Waiter>,
}

/// What is known of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameRecord {
    /// The slots of a semaphore; none for a lock.
    pub capacity: Option<u32>,
    /// The largest token so far.
    pub token: Token,
    /// Who holds it; at most one for a lock.
    pub leases: Vec<Lease>,
    /// What has happened to it.
    pub stats: CoordinationStats,
}

/// A semaphore cannot be declared as was asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DeclareError {
    /// It has no slots.
    #[error("semaphore {name:?} would have no slots: a capacity is at least 1")]
    NoSlots {
        /// Its name.
        name: String,
    },
    /// It has another capacity, and is in use.
    #[error(
        "semaphore {name:?} has a capacity of {stored}, not {asked}; it can be changed only while nobody holds or waits for it"
    )]
    InUse {
        /// Its name.
        name: String,
        /// The capacity it has.
        stored: u32,
        /// The capacity that was asked for.
        asked: u32,
    },
}

impl CoordinationState {
    /// The state that was exported. Refreshes nobody's lease.
    #[must_use]
    pub fn restore(record: CoordinationRecord) -> Self {
        let entries = record.names.into_iter().map(|(name, record)| (name, Entry::from(record)));
        Self {
            names: entries.collect(),
            queue: WaitQueue::new(record.waiters),
            floor: record.floor,
            arrivals: record.arrivals,
            notified: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Everything, as plain values.
    #[must_use]
    pub fn export(&self) -> CoordinationRecord {
        let names = self.names.iter().map(|(name, entry)| (name.clone(), entry.into()));
        let waiters = self.queue.waiters().to_vec();
        let (floor, arrivals) = (self.floor, self.arrivals);
        CoordinationRecord { floor, arrivals, names: names.collect(), waiters }
    }

    /// Makes a semaphore, or gives it another capacity if nobody holds or waits for it.
    pub fn declare(
        &mut self,
        name: &str,
        capacity: u32,
        now: Timestamp,
    ) -> Result<(), DeclareError> {
        if capacity == 0 {
            return Err(DeclareError::NoSlots { name: name.to_owned() });
        }
        let key = Name::Semaphore(name.to_owned());
        self.reclaim_stale(&key, now);
        let waited_for = self.waiters(&key).next().is_some();
        let fresh = || Entry::new(Machine::Semaphore(Semaphore::new(capacity)));
        let entry = self.names.entry(key).or_insert_with(fresh);
        let Machine::Semaphore(semaphore) = &mut entry.machine else {
            unreachable!("a semaphore's name belongs to a semaphore")
        };
        let stored = semaphore.capacity();
        let in_use = waited_for || semaphore.leases().next().is_some();
        if stored != capacity && in_use {
            return Err(DeclareError::InUse { name: name.to_owned(), stored, asked: capacity });
        }
        semaphore.set_capacity(capacity);
        Ok(())
    }

    /// Gives one name back; only with the token of the present hold.
    pub fn release(
        &mut self,
        name: &Name,
        holder: &HolderId,
        token: Token,
        now: Timestamp,
    ) -> Answer {
        let Some(entry) = self.names.get_mut(name) else { return absent(name) };
        let answer = match &mut entry.machine {
            Machine::Lock(lock) => lock.release(holder, token),
            Machine::Semaphore(semaphore) => semaphore.release(holder, token),
        };
        if answer == Answer::Released {
            let (name, holder) = (name.clone(), holder.clone());
            self.record(CoordinationEvent::Released { name, holder, token });
            self.notify(now);
        }
        answer
    }

    /// A sign of life of a holder.
    pub fn heartbeat(
        &mut self,
        name: &Name,
        holder: &HolderId,
        token: Token,
        now: Timestamp,
    ) -> Answer {
        let Some(entry) = self.names.get_mut(name) else { return stranger(name) };
        match &mut entry.machine {
            Machine::Lock(lock) => lock.heartbeat(holder, token, now),
            Machine::Semaphore(semaphore) => semaphore.heartbeat(holder, token, now),
        }
    }

    /// Whether what is done under `token` is still covered by it.
    #[must_use]
    pub fn check(&self, name: &Name, token: Token, now: Timestamp) -> Answer {
        let Some(entry) = self.names.get(name) else { return Answer::AlreadyFree };
        match &entry.machine {
            Machine::Lock(lock) => lock.check(token, now),
            Machine::Semaphore(semaphore) => semaphore.check(token, now),
        }
    }

    /// Gives up a place in line, if there is one.
    pub fn leave(&mut self, holder: &HolderId, now: Timestamp) {
        if self.queue.remove(holder).is_some() {
            self.notify(now);
        }
    }

    /// Learns that the holder under `token` is gone: from now on its lease is stale.
    pub fn abandon(&mut self, name: &Name, token: Token) {
        let Some(lease) = self.lease_mut(name, token) else { return };
        if lease.note(Presence::Gone) {
            let holder = lease.holder.clone();
            self.record(CoordinationEvent::Stale { name: name.clone(), holder, token });
        }
    }

    /// Learns that the holder under `token` is there, though its heartbeats are missing. Changes nothing
    /// once its lease was found stale.
    pub fn vouch(&mut self, name: &Name, token: Token, now: Timestamp) {
        if let Some(lease) = self.lease_mut(name, token).filter(|l| l.is_only_silent(now)) {
            lease.refresh(now);
        }
    }

    /// Learns that nothing is left of the holder under `token`, so that its lease may be given away
    /// if it is stale.
    pub fn clear_remains(&mut self, name: &Name, token: Token) {
        if let Some(lease) = self.lease_mut(name, token) {
            lease.remains = Remains::None;
        }
    }

    /// Frees what is stale of a name, and returns it.
    pub fn reclaim_stale(&mut self, name: &Name, now: Timestamp) -> Vec<Lease> {
        self.notice_stale(name, now);
        let entry = self.names.get_mut(name);
        let stale = entry.map(|entry| entry.machine.slots_mut().reclaim_stale(now));
        let stale = stale.unwrap_or_default();
        for Lease { holder, token, .. } in &stale {
            let (name, from) = (name.clone(), holder.clone());
            self.record(CoordinationEvent::Reclaimed { name, from, token: *token });
        }
        if !stale.is_empty() {
            self.notify(now);
        }
        stale
    }

    /// The leases on a name, also stale ones.
    pub fn leases(&self, name: &Name) -> impl Iterator<Item = &Lease> {
        let slots = self.names.get(name).map(|entry| entry.machine.slots());
        slots.into_iter().flat_map(Semaphore::leases)
    }

    /// The places in line for a name, in order.
    pub fn waiters(&self, name: &Name) -> impl Iterator<Item = &Waiter> {
        let wants = move |waiter: &&Waiter| waiter.needs.iter().any(|need| need.name == *name);
        self.queue.waiters().iter().filter(wants)
    }

    /// Those whose turn has come since the last call, in order.
    pub fn take_notified(&mut self) -> Vec<HolderId> {
        std::mem::take(&mut self.notified)
    }

    /// What has happened since the last call.
    pub fn take_events(&mut self) -> Vec<CoordinationEvent> {
        std::mem::take(&mut self.events)
    }

    /// Says once of each stale lease that it is.
    fn notice_stale(&mut self, name: &Name, now: Timestamp) {
        let stale = self.leases(name).filter(|lease| lease.is_stale(now));
        let stale: Vec<_> = stale.map(|lease| (lease.token, lease.holder.clone())).collect();
        for (token, holder) in stale {
            if self.lease_mut(name, token).is_some_and(|lease| lease.note(Presence::Stale)) {
                self.record(CoordinationEvent::Stale { name: name.clone(), holder, token });
            }
        }
    }

    fn lease_mut(&mut self, name: &Name, token: Token) -> Option<&mut Lease> {
        self.names.get_mut(name)?.machine.slots_mut().lease_mut(token)
    }

    fn record(&mut self, event: CoordinationEvent) {
        if let Some(entry) = self.names.get_mut(event.name()) {
            entry.stats.count(&event);
        }
        self.events.push(event);
    }
}

impl Machine {
    fn slots(&self) -> &Semaphore {
        match self {
            Machine::Lock(lock) => lock.slots(),
            Machine::Semaphore(semaphore) => semaphore,
        }
    }

    fn slots_mut(&mut self) -> &mut Semaphore {
        match self {
            Machine::Lock(lock) => lock.slots_mut(),
            Machine::Semaphore(semaphore) => semaphore,
        }
    }
}

impl Entry {
    fn new(machine: Machine) -> Self {
        Self { machine, stats: CoordinationStats::default() }
    }
}

impl From<NameRecord> for Entry {
    fn from(record: NameRecord) -> Self {
        let NameRecord { capacity, token, leases, stats } = record;
        let machine = match capacity {
            Some(capacity) => Machine::Semaphore(Semaphore::restore(capacity, token, leases)),
            None => Machine::Lock(Lock::restore(token, leases.into_iter().next())),
        };
        Self { machine, stats }
    }
}

impl From<&Entry> for NameRecord {
    fn from(entry: &Entry) -> Self {
        let slots = entry.machine.slots();
        let capacity = match entry.machine {
            Machine::Lock(_) => None,
            Machine::Semaphore(_) => Some(slots.capacity()),
        };
        let leases = slots.leases().cloned().collect();
        Self { capacity, token: slots.token(), leases, stats: entry.stats }
    }
}

/// What releasing a name says that nobody has ever held.
fn absent(name: &Name) -> Answer {
    if matches!(name, Name::Semaphore(_)) { Answer::NotHolder } else { Answer::AlreadyFree }
}

/// What a heartbeat for a name says that nobody has ever held.
fn stranger(name: &Name) -> Answer {
    if matches!(name, Name::Semaphore(_)) { Answer::NotHolder } else { Answer::NotOwner }
}

#[cfg(test)]
mod tests;
