//! Locks and semaphores by name, and the queue of holders that wait for them.
//!
//! A claim acquires all its names or none, so no holder keeps one name while it waits for another.
//! A refused claim becomes a waiter in the queue, whose rules are in `wait_queue`. After every
//! change, each waiter that can now acquire its names is notified once: the caller takes the list
//! and wakes them. The state can be exported and restored at any point.
//!
//! A state need not have all waiters. For a decision about some names it suffices to have, of each of
//! them, the head of its queue ([`CoordinationRecord`] says how much that is).
//!
//! Knows no processes and reads no clock.

mod claim;
mod event;

use std::collections::BTreeMap;

use thiserror::Error;

pub use self::claim::{Claim, ClaimError, Claimed, Hold, NameRefusal, Taken};
pub use self::event::{CoordinationEvent, CoordinationStats};
use crate::answer::Answer;
use crate::lease::{HolderId, Lease, Presence, Remains, Token};
use crate::lock::Lock;
use crate::semaphore::Semaphore;
use crate::wait_queue::{Name, Need, WaitQueue, Waiter};
use crate::{Amount, Timestamp};

/// The holders of all names and the waiters for them.
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
    /// New tokens are above this one.
    floor: Token,
    notified: Vec<HolderId>,
    events: Vec<CoordinationEvent>,
}

#[derive(Clone, Debug)]
struct Entry {
    machine: Machine,
    /// The largest arrival number of a waiter so far.
    arrivals: u64,
    stats: CoordinationStats,
}

#[derive(Clone, Debug)]
enum Machine {
    Lock(Lock),
    Semaphore(Semaphore),
}

/// The contents of a [`CoordinationState`] as plain values, for a store.
///
/// A store with long queues restores only what bears on a decision: the names that it is about, the
/// claimant's own place, and for each name the first waiters that it has refused and that are not
/// overdue, until their needs add up to the capacity, because all of it is reserved for these. So that
/// these can be notified, it also restores the other names that they need, in the same way; a waiter
/// that needs a name which the state does not know is never notified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoordinationRecord {
    /// New tokens are above this one.
    pub floor: Token,
    /// The state of each name.
    pub names: BTreeMap<Name, NameRecord>,
    /// The waiters, in queue order.
    pub waiters: Vec<Waiter>,
}

/// The state of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameRecord {
    /// The number of slots of a semaphore or limit; `None` for a lock.
    pub capacity: Option<u64>,
    /// The largest token issued so far.
    pub token: Token,
    /// The leases of its holders; at most one for a lock.
    pub leases: Vec<Lease>,
    /// The largest arrival number of a waiter for it so far.
    pub arrivals: u64,
    /// How often each event happened to it.
    pub stats: CoordinationStats,
}

/// A semaphore that cannot be declared.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DeclareError {
    /// The capacity is 0.
    #[error("semaphore {name:?} needs a capacity of at least 1")]
    NoSlots {
        /// The semaphore's name.
        name: String,
    },
    /// The semaphore has another capacity and is in use.
    #[error(
        "semaphore {name:?} has a capacity of {stored}, not {asked}; change it while it has no holder and no waiter"
    )]
    InUse {
        /// The semaphore's name.
        name: String,
        /// The present capacity.
        stored: u64,
        /// The capacity of the declaration.
        asked: u64,
    },
}

impl CoordinationState {
    /// Restores an exported state. Refreshes no lease.
    #[must_use]
    pub fn restore(record: CoordinationRecord) -> Self {
        let entries = record.names.into_iter().map(|(name, record)| (name, Entry::from(record)));
        Self {
            names: entries.collect(),
            queue: WaitQueue::new(record.waiters),
            floor: record.floor,
            notified: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Returns the contents as plain values.
    #[must_use]
    pub fn export(&self) -> CoordinationRecord {
        let names = self.names.iter().map(|(name, entry)| (name.clone(), entry.into()));
        let waiters = self.queue.waiters().to_vec();
        CoordinationRecord { floor: self.floor, names: names.collect(), waiters }
    }

    /// Creates a semaphore, or changes its capacity if it has no holder and no waiter.
    pub fn declare(
        &mut self,
        name: &str,
        capacity: u64,
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

    /// Sets the amount of a limit, also while it is in use: holders keep what they have. Removes the waiters
    /// that need more than that from the queue, and returns them.
    pub fn set_limit(&mut self, name: &str, amount: Amount, now: Timestamp) -> Vec<HolderId> {
        let key = Name::Limit(name.to_owned());
        let too_much = |need: &Need| need.name == key && need.weight > amount.steps();
        let waiters = self.queue.waiters().iter();
        let impossible = waiters.filter(|waiter| waiter.needs.iter().any(too_much));
        let impossible: Vec<_> = impossible.map(|waiter| waiter.holder.clone()).collect();
        for holder in &impossible {
            self.queue.remove(holder);
        }
        let fresh = || Entry::new(Machine::Semaphore(Semaphore::new(0)));
        let entry = self.names.entry(key).or_insert_with(fresh);
        entry.machine.slots_mut().set_capacity(amount.steps());
        self.notify(now);
        impossible
    }

    /// Releases a name if `token` is that of the current hold.
    pub fn release(
        &mut self,
        name: &Name,
        holder: &HolderId,
        token: Token,
        now: Timestamp,
    ) -> Answer {
        let Some(entry) = self.names.get_mut(name) else { return release_of_unknown(name) };
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

    /// Extends the lease of a holder.
    pub fn heartbeat(
        &mut self,
        name: &Name,
        holder: &HolderId,
        token: Token,
        now: Timestamp,
    ) -> Answer {
        let Some(entry) = self.names.get_mut(name) else { return heartbeat_of_unknown(name) };
        match &mut entry.machine {
            Machine::Lock(lock) => lock.heartbeat(holder, token, now),
            Machine::Semaphore(semaphore) => semaphore.heartbeat(holder, token, now),
        }
    }

    /// Returns whether `token` still covers what is done under it.
    #[must_use]
    pub fn check(&self, name: &Name, token: Token, now: Timestamp) -> Answer {
        let Some(entry) = self.names.get(name) else { return Answer::AlreadyFree };
        match &entry.machine {
            Machine::Lock(lock) => lock.check(token, now),
            Machine::Semaphore(semaphore) => semaphore.check(token, now),
        }
    }

    /// Removes a holder's waiter from the queue, if there is one.
    pub fn leave(&mut self, holder: &HolderId, now: Timestamp) {
        if self.queue.remove(holder).is_some() {
            self.notify(now);
        }
    }

    /// Records that the holder under `token` is gone, which makes its lease stale.
    pub fn abandon(&mut self, name: &Name, token: Token) {
        let Some(lease) = self.lease_mut(name, token) else { return };
        if lease.note(Presence::Gone) {
            let holder = lease.holder.clone();
            self.record(CoordinationEvent::Stale { name: name.clone(), holder, token });
        }
    }

    /// Records that the holder under `token` is alive although its heartbeats are missing. Has no
    /// effect once the lease was recorded as stale.
    pub fn vouch(&mut self, name: &Name, token: Token, now: Timestamp) {
        if let Some(lease) = self.lease_mut(name, token).filter(|l| l.is_only_silent(now)) {
            lease.refresh(now);
        }
    }

    /// Records that no process is left of the holder under `token`, so that its lease can be
    /// reclaimed once it is stale.
    pub fn clear_remains(&mut self, name: &Name, token: Token) {
        if let Some(lease) = self.lease_mut(name, token) {
            lease.remains = Remains::None;
        }
    }

    /// Frees the stale leases on a name and returns them.
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

    /// Returns the leases on a name, including stale ones.
    pub fn leases(&self, name: &Name) -> impl Iterator<Item = &Lease> {
        let slots = self.names.get(name).map(|entry| entry.machine.slots());
        slots.into_iter().flat_map(Semaphore::leases)
    }

    /// Returns the waiters for a name, in queue order.
    pub fn waiters(&self, name: &Name) -> impl Iterator<Item = &Waiter> {
        let wants = move |waiter: &&Waiter| waiter.needs.iter().any(|need| need.name == *name);
        self.queue.waiters().iter().filter(wants)
    }

    /// Returns the waiters that were notified since the last call, in queue order.
    pub fn take_notified(&mut self) -> Vec<HolderId> {
        std::mem::take(&mut self.notified)
    }

    /// Returns the events since the last call.
    pub fn take_events(&mut self) -> Vec<CoordinationEvent> {
        std::mem::take(&mut self.events)
    }

    /// Records each stale lease on a name as stale, with one event for each.
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
        Self { machine, arrivals: 0, stats: CoordinationStats::default() }
    }

    /// Creates the entry of a lock that no holder has had.
    fn lock() -> Self {
        Self::new(Machine::Lock(Lock::default()))
    }

    /// Returns how much of the name `holder` has.
    fn held_by(&self, holder: &HolderId, now: Timestamp) -> u64 {
        let lease = self.machine.slots().lease(holder).filter(|lease| !lease.is_stale(now));
        lease.map_or(0, |lease| lease.weight)
    }
}

impl From<NameRecord> for Entry {
    fn from(record: NameRecord) -> Self {
        let NameRecord { capacity, token, leases, arrivals, stats } = record;
        let machine = match capacity {
            Some(capacity) => Machine::Semaphore(Semaphore::restore(capacity, token, leases)),
            None => Machine::Lock(Lock::restore(token, leases.into_iter().next())),
        };
        Self { machine, arrivals, stats }
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
        let (token, Entry { arrivals, stats, .. }) = (slots.token(), entry);
        Self { capacity, token, leases, arrivals: *arrivals, stats: *stats }
    }
}

/// Returns the answer to the release of a name that was never held.
fn release_of_unknown(name: &Name) -> Answer {
    if matches!(name, Name::Semaphore(_) | Name::Limit(_)) {
        Answer::NotHolder
    } else {
        Answer::AlreadyFree
    }
}

/// Returns the answer to a heartbeat for a name that was never held.
fn heartbeat_of_unknown(name: &Name) -> Answer {
    if matches!(name, Name::Semaphore(_) | Name::Limit(_)) {
        Answer::NotHolder
    } else {
        Answer::NotOwner
    }
}

#[cfg(test)]
mod tests;
