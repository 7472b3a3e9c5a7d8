//! Claims: acquiring several names together, or waiting for them in the queue.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use super::{CoordinationEvent, CoordinationState, Entry, Machine};
use crate::lease::{HolderId, LeaseTerms, Remains, Token};
use crate::lock::LockAcquire;
use crate::semaphore::{SemaphoreAcquire, WeightError};
use crate::wait_queue::{Name, Need, Waiter};
use crate::{Amount, Timestamp};

/// A request for several names, all or none.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claim {
    /// The holder, with an id that is unique for its lifetime.
    pub holder: HolderId,
    /// The names that it needs.
    pub needs: Vec<Need>,
    /// The priority; larger is more urgent.
    pub priority: i64,
    /// How long it wants to hold the names.
    pub terms: LeaseTerms,
    /// Whether processes of the holder may be left once its lease is stale.
    pub remains: Remains,
    /// A waiter that lets the claim have its place in the queues of limits, and keeps it.
    pub in_place_of: Option<HolderId>,
}

impl Claim {
    /// Returns a claim with priority 0 and the default terms.
    #[must_use]
    pub fn new(holder: HolderId, needs: Vec<Need>) -> Self {
        let (terms, remains) = (LeaseTerms::default(), Remains::None);
        Self { holder, needs, priority: 0, terms, remains, in_place_of: None }
    }
}

/// The result of a [`Claim`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Claimed {
    /// All names are held, in the order of the claim.
    Held(Vec<Hold>),
    /// No name was acquired, and the holder is a waiter in the queue. Never empty.
    Refused(Vec<NameRefusal>),
}

/// One name that was acquired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The name.
    pub name: Name,
    /// The fencing token of the hold.
    pub token: Token,
    /// How it was acquired.
    pub taken: Taken,
}

/// How a name was acquired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The name was free.
    Acquired,
    /// The holder has the lock already.
    Extended,
    /// The holder has at least as many slots already.
    AlreadyHeld,
    /// The holder had fewer slots.
    Upgraded,
    /// The lock was reclaimed from a stale holder.
    Reclaimed {
        /// The stale holder.
        from: HolderId,
    },
}

/// One name that refused a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameRefusal {
    /// The name.
    pub name: Name,
    /// The number of its free slots.
    pub available: u64,
    /// The holders, if too little is free.
    pub holders: Vec<HolderId>,
    /// The waiters before this claim for which the free slots are reserved, in order.
    pub ahead: Vec<HolderId>,
}

/// A claim that is not valid; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// The claim names nothing.
    #[error("no name given")]
    Nothing,
    /// The claim repeats a name.
    #[error("{name} is named twice")]
    Twice {
        /// The repeated name.
        name: Name,
    },
    /// A semaphore was never declared.
    #[error("unknown semaphore {name:?}; declare its number of slots with --capacity")]
    Undeclared {
        /// The semaphore's name.
        name: String,
    },
    /// The store has no limit of this name.
    #[error("the store has no limit {name:?}; set it with: windlass limits set {name}=AMOUNT")]
    NoLimit {
        /// The limit's name.
        name: String,
    },
    /// The claim needs more than a limit has.
    #[error("requires {wanted} of limit {name:?}, but the limit is {limit}")]
    AboveLimit {
        /// The limit's name.
        name: String,
        /// How much the claim needs.
        wanted: Amount,
        /// The limit.
        limit: Amount,
    },
    /// The claim needs a weight other than 1 of a lock.
    #[error("{name} has no slots: its weight must be 1")]
    LockWeight {
        /// The lock.
        name: Name,
    },
    /// A weight can never be acquired.
    #[error("{name}: {source}")]
    Weight {
        /// The semaphore.
        name: Name,
        /// The reason.
        source: WeightError,
    },
}

impl CoordinationState {
    /// Returns the names that would refuse a claim now.
    pub fn obstacles(&self, claim: &Claim, now: Timestamp) -> Result<Vec<NameRefusal>, ClaimError> {
        self.validate(claim)?;
        Ok(self.refusals(claim, now))
    }

    /// Acquires all names, or none and queues the claim. A name refuses a claim while other holders
    /// have too much of it, or while what is free is reserved for earlier waiters.
    pub fn claim(&mut self, claim: &Claim, now: Timestamp) -> Result<Claimed, ClaimError> {
        self.validate(claim)?;
        self.make_room(claim, now);
        let refusals = self.refusals(claim, now);
        if refusals.is_empty() {
            let holds = claim.needs.iter().map(|need| self.take(claim, need, now)).collect();
            self.queue.remove(&claim.holder);
            self.notify(now);
            return Ok(Claimed::Held(holds));
        }
        self.enqueue(claim, &refusals);
        self.notify(now);
        Ok(Claimed::Refused(refusals))
    }

    fn validate(&self, claim: &Claim) -> Result<(), ClaimError> {
        if claim.needs.is_empty() {
            return Err(ClaimError::Nothing);
        }
        let mut seen = BTreeSet::new();
        for Need { name, weight } in &claim.needs {
            if !seen.insert(name) {
                return Err(ClaimError::Twice { name: name.clone() });
            }
            let machine = self.names.get(name).map(|entry| &entry.machine);
            match (name, machine) {
                (Name::Semaphore(_), Some(Machine::Semaphore(semaphore))) => {
                    let above = |source| ClaimError::Weight { name: name.clone(), source };
                    semaphore.allows(*weight).map_err(above)?;
                }
                (Name::Semaphore(name), _) => {
                    return Err(ClaimError::Undeclared { name: name.clone() });
                }
                (Name::Limit(name), Some(Machine::Semaphore(semaphore))) => {
                    semaphore.allows(*weight).map_err(|_| ClaimError::AboveLimit {
                        name: name.clone(),
                        wanted: Amount::from_steps(*weight),
                        limit: Amount::from_steps(semaphore.capacity()),
                    })?;
                }
                (Name::Limit(name), _) => {
                    return Err(ClaimError::NoLimit { name: name.clone() });
                }
                _ if *weight != 1 => return Err(ClaimError::LockWeight { name: name.clone() }),
                _ => {}
            }
        }
        Ok(())
    }

    /// Frees stale slots. A stale lock stays, because [`Lock::acquire`] reclaims it and returns its
    /// holder.
    fn make_room(&mut self, claim: &Claim, now: Timestamp) {
        for need in &claim.needs {
            match need.name {
                Name::Semaphore(_) | Name::Limit(_) => drop(self.reclaim_stale(&need.name, now)),
                _ => self.notice_stale(&need.name, now),
            }
        }
    }

    fn refusals(&self, claim: &Claim, now: Timestamp) -> Vec<NameRefusal> {
        let own = self.queue.place(&claim.holder, claim.priority);
        let lent = claim.in_place_of.as_ref();
        let lent = lent.map_or(own, |waiter| self.queue.place(waiter, claim.priority).min(own));
        let place = |need: &Need| if matches!(need.name, Name::Limit(_)) { lent } else { own };
        let refusals = claim.needs.iter();
        refusals.filter_map(|need| self.refusal(claim, need, place(need), now)).collect()
    }

    /// Returns why a name refuses a claim at `place` in the queue, or `None` if it does not.
    fn refusal(
        &self,
        claim: &Claim,
        need: &Need,
        place: usize,
        now: Timestamp,
    ) -> Option<NameRefusal> {
        let (name, holder) = (&need.name, &claim.holder);
        let room = self.room(name, Some(holder), now);
        // A holder that extends its hold is not bound by waiters, which wait for it to release.
        let holds = self.leases(name).any(|lease| lease.holder == *holder && !lease.is_stale(now));
        let bound = if holds { 0 } else { place };
        let reservations =
            self.queue.ahead(bound, now).map(|waiter| (waiter, waiter.reserved(name)));
        let reservations: Vec<_> = reservations.filter(|(_, reserved)| *reserved > 0).collect();
        let reserved =
            reservations.iter().fold(0_u64, |sum, (_, reserved)| sum.saturating_add(*reserved));
        if need.weight <= room.saturating_sub(reserved) {
            return None;
        }
        let held = need.weight > room;
        let others = self.leases(name).filter(|lease| !lease.is_reclaimable(now));
        let others = others.filter(|lease| lease.holder != *holder || lease.is_stale(now));
        let holders = others.filter(|_| held).map(|lease| lease.holder.clone()).collect();
        let ahead = reservations.iter().filter(|_| !held).map(|(waiter, _)| waiter.holder.clone());
        let available = self.room(name, None, now);
        Some(NameRefusal { name: name.clone(), available, holders, ahead: ahead.collect() })
    }

    /// Returns how much of a name a claim could take now that has the place of `waiter` in the queue, or else
    /// the one that a new waiter of this priority would get. What is reserved for waiters that are its `own`
    /// counts as free.
    #[must_use]
    pub fn room_at(
        &self,
        name: &Name,
        waiter: &HolderId,
        priority: i64,
        own: impl Fn(&HolderId) -> bool,
        now: Timestamp,
    ) -> u64 {
        let place = self.queue.place(waiter, priority);
        let ahead = self.queue.ahead(place, now).filter(|waiter| !own(&waiter.holder));
        let ahead = ahead.map(|waiter| waiter.reserved(name));
        ahead.fold(self.room(name, None, now), u64::saturating_sub)
    }

    /// Returns how much of a name no holder but `holder` has.
    fn room(&self, name: &Name, holder: Option<&HolderId>, now: Timestamp) -> u64 {
        let Some(entry) = self.names.get(name) else { return 1 };
        let slots = entry.machine.slots();
        let own = holder.filter(|holder| slots.lease(holder).is_some_and(|l| !l.is_stale(now)));
        slots.free_besides(own, now)
    }

    fn take(&mut self, claim: &Claim, need: &Need, now: Timestamp) -> Hold {
        let (holder, terms, floor) = (&claim.holder, claim.terms, self.floor);
        let entry = self.names.entry(need.name.clone()).or_insert_with(Entry::lock);
        let before = entry.machine.slots().leases().next().map(|lease| lease.token);
        let (token, taken) = match &mut entry.machine {
            Machine::Lock(lock) => lock.acquire_above(floor, holder, terms, now).taken(),
            Machine::Semaphore(semaphore) => {
                let acquired = semaphore.acquire_above(floor, holder, need.weight, terms, now);
                acquired.expect("the weight was looked at").taken()
            }
        };
        let name = need.name.clone();
        if let Taken::Reclaimed { from } = &taken {
            let (name, from) = (name.clone(), from.clone());
            let token = before.expect("it was held");
            self.record(CoordinationEvent::Reclaimed { name, from, token });
        }
        if matches!(taken, Taken::Acquired | Taken::Reclaimed { .. }) {
            let lease = self.lease_mut(&name, token).expect("it was taken just now");
            lease.remains = claim.remains;
            let (name, holder) = (name.clone(), holder.clone());
            self.record(CoordinationEvent::Acquired { name, holder, token });
        }
        Hold { name, token, taken }
    }

    /// Records on the holder's waiter what has refused the claim. Queues a new waiter if there is
    /// none, or if its needs have changed.
    fn enqueue(&mut self, claim: &Claim, refusals: &[NameRefusal]) {
        let refused = refusals.iter().map(|refusal| refusal.name.clone());
        let waiter = self.queue.get_mut(&claim.holder);
        if let Some(waiter) = waiter.filter(|waiter| waiter.needs == claim.needs) {
            waiter.refused.extend(refused);
            waiter.notified_at = None;
            return;
        }
        for name in refused.clone() {
            self.record(CoordinationEvent::Denied { name, holder: claim.holder.clone() });
        }
        self.queue.remove(&claim.holder);
        let arrival = self.next_arrival(&claim.needs);
        self.queue.insert(Waiter {
            holder: claim.holder.clone(),
            priority: claim.priority,
            arrival,
            needs: claim.needs.clone(),
            refused: refused.collect(),
            notified_at: None,
        });
    }

    /// Returns an arrival number above those of all waiters for any of these names. So waiters that have a
    /// name in common are in the order of their claims, and no counter is common to all names.
    fn next_arrival(&mut self, needs: &[Need]) -> u64 {
        let known = needs.iter().filter_map(|need| self.names.get(&need.name));
        let arrival = known.map(|entry| entry.arrivals).max().unwrap_or_default() + 1;
        for Need { name, .. } in needs {
            self.names.entry(name.clone()).or_insert_with(Entry::lock).arrivals = arrival;
        }
        arrival
    }

    /// Notifies each waiter once for which there is room now. What a waiter still lacks, when there is
    /// room for it in all the names that have refused it, has refused it from now on. So each waiter that
    /// cannot have its names is in the queue of one that it lacks, and that name's release finds it.
    pub fn notify(&mut self, now: Timestamp) {
        let Self { names, queue, notified, .. } = self;
        let mut left: BTreeMap<Name, u64> = BTreeMap::new();
        for waiter in queue.iter_mut().filter(|waiter| !waiter.is_overdue(now)) {
            let mut lacking = BTreeSet::new();
            for Need { name, weight } in &waiter.needs {
                let Some(entry) = names.get(name) else { continue };
                let free = || entry.machine.slots().free_besides(None, now);
                let left = *left.entry(name.clone()).or_insert_with(free);
                if *weight > left.saturating_add(entry.held_by(&waiter.holder, now)) {
                    lacking.insert(name.clone());
                }
            }
            let is_known = waiter.needs.iter().all(|need| names.contains_key(&need.name));
            let fits = is_known && lacking.is_empty();
            if is_known && lacking.is_disjoint(&waiter.refused) {
                waiter.refused.append(&mut lacking);
            }
            for need in &waiter.needs {
                let taken = if fits { need.weight } else { waiter.reserved(&need.name) };
                if let Some(left) = left.get_mut(&need.name) {
                    *left = left.saturating_sub(taken);
                }
            }
            if fits && waiter.notified_at.is_none() {
                waiter.notified_at = Some(now);
                notified.push(waiter.holder.clone());
            }
        }
    }
}

impl LockAcquire {
    fn taken(self) -> (Token, Taken) {
        match self {
            LockAcquire::Acquired { token } => (token, Taken::Acquired),
            LockAcquire::Extended { token } => (token, Taken::Extended),
            LockAcquire::Reclaimed { token, from } => (token, Taken::Reclaimed { from }),
            LockAcquire::Busy { holder, .. } => unreachable!("{holder} was looked at"),
        }
    }
}

impl SemaphoreAcquire {
    fn taken(self) -> (Token, Taken) {
        match self {
            SemaphoreAcquire::Acquired { token } => (token, Taken::Acquired),
            SemaphoreAcquire::AlreadyHeld { token } => (token, Taken::AlreadyHeld),
            SemaphoreAcquire::Upgraded { token } => (token, Taken::Upgraded),
            SemaphoreAcquire::Full { available } => unreachable!("{available} were looked at"),
        }
    }
}
