//! A semaphore: a name with slots that several holders share, each with a weight.
//!
//! Every hold has its own token, larger than all before. Sums are computed from the leases and
//! never wrap.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::Timestamp;
use crate::answer::Answer;
use crate::lease::{HolderId, Lease, LeaseTerms, Token};

/// A number of slots, and the leases of their holders.
///
/// ```
/// use windlass_core::{HolderId, LeaseTerms, Semaphore, SemaphoreAcquire, Timestamp, Token};
///
/// let (a, b, now) = (HolderId::new("a"), HolderId::new("b"), Timestamp::ZERO);
/// let terms = LeaseTerms::default();
/// let mut slots = Semaphore::new(4);
/// assert_eq!(slots.acquire(&a, 3, terms, now), Ok(SemaphoreAcquire::Acquired { token: Token(1) }));
/// assert_eq!(slots.acquire(&b, 2, terms, now), Ok(SemaphoreAcquire::Full { available: 1 }));
/// assert_eq!(slots.acquire(&a, 4, terms, now), Ok(SemaphoreAcquire::Upgraded { token: Token(1) }));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Semaphore {
    capacity: u64,
    token: Token,
    leases: BTreeMap<HolderId, Lease>,
}

/// A weight that no holder can ever acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WeightError {
    /// The weight is 0.
    #[error("the weight must be at least 1")]
    Zero,
    /// The weight exceeds the capacity.
    #[error("a weight of {weight} exceeds the capacity of {capacity}")]
    AboveCapacity {
        /// The weight of the claim.
        weight: u64,
        /// The capacity of the semaphore.
        capacity: u64,
    },
}

/// The result of [`Semaphore::acquire`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum SemaphoreAcquire {
    /// The slots were free.
    Acquired {
        /// The token of the hold, larger than all before.
        token: Token,
    },
    /// The holder has at least as many slots already.
    AlreadyHeld {
        /// The token of the present hold.
        token: Token,
    },
    /// The holder had fewer slots, and has as many as requested now.
    Upgraded {
        /// The token of the present hold.
        token: Token,
    },
    /// Too few slots are free; the holder keeps what it had.
    Full {
        /// The number of free slots.
        available: u64,
    },
}

impl Semaphore {
    /// Creates a semaphore with so many free slots.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        Self { capacity, token: Token(0), leases: BTreeMap::new() }
    }

    /// Restores a stored semaphore. Does not refresh its leases.
    #[must_use]
    pub fn restore(capacity: u64, token: Token, leases: impl IntoIterator<Item = Lease>) -> Self {
        let by_holder = |lease: Lease| (lease.holder.clone(), lease);
        Self { capacity, token, leases: leases.into_iter().map(by_holder).collect() }
    }

    /// Returns the number of slots.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the largest token issued so far.
    #[must_use]
    pub fn token(&self) -> Token {
        self.token
    }

    /// Iterates over the leases by holder, including stale ones.
    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.leases.values()
    }

    /// Returns the number of free slots; slots of reclaimable leases count as free.
    #[must_use]
    pub fn available(&self, now: Timestamp) -> u64 {
        self.free_besides(None, now)
    }

    /// Acquires slots, all or none. Reclaims stale leases first.
    pub fn acquire(
        &mut self,
        holder: &HolderId,
        weight: u64,
        terms: LeaseTerms,
        now: Timestamp,
    ) -> Result<SemaphoreAcquire, WeightError> {
        self.acquire_above(Token(0), holder, weight, terms, now)
    }

    /// As [`Semaphore::acquire`], with a token that is also above `floor`.
    pub fn acquire_above(
        &mut self,
        floor: Token,
        holder: &HolderId,
        weight: u64,
        terms: LeaseTerms,
        now: Timestamp,
    ) -> Result<SemaphoreAcquire, WeightError> {
        self.allows(weight)?;
        self.reclaim_stale(now);
        let available = self.available(now);
        let fits = weight <= self.free_besides(Some(holder), now);
        Ok(match self.leases.get_mut(holder) {
            // Processes of a stale holder may be left, and have to be ended first.
            Some(lease) if lease.is_stale(now) => SemaphoreAcquire::Full { available },
            Some(lease) if lease.weight >= weight => {
                lease.refresh(now);
                SemaphoreAcquire::AlreadyHeld { token: lease.token }
            }
            _ if !fits => SemaphoreAcquire::Full { available },
            Some(lease) => {
                lease.refresh(now);
                lease.weight = weight;
                SemaphoreAcquire::Upgraded { token: lease.token }
            }
            None => {
                let token = self.token.next_above(floor);
                let mut lease = Lease::new(holder.clone(), token, terms, now);
                lease.weight = weight;
                self.token = token;
                self.leases.insert(holder.clone(), lease);
                SemaphoreAcquire::Acquired { token }
            }
        })
    }

    /// Releases the slots of a holder if `token` is that of its present hold. Returns `Released` or
    /// `NotHolder`.
    pub fn release(&mut self, holder: &HolderId, token: Token) -> Answer {
        match self.leases.get(holder) {
            Some(lease) if lease.token == token => {
                self.leases.remove(holder);
                Answer::Released
            }
            _ => Answer::NotHolder,
        }
    }

    /// Records a heartbeat of a holder. Returns `Refreshed`, or `NotHolder` if it has no slots
    /// under this token or its lease is stale.
    pub fn heartbeat(&mut self, holder: &HolderId, token: Token, now: Timestamp) -> Answer {
        match self.leases.get_mut(holder) {
            Some(lease) if lease.token == token && !lease.is_stale(now) => {
                lease.refresh(now);
                Answer::Refreshed
            }
            _ => Answer::NotHolder,
        }
    }

    /// Returns whether `token` is that of a present hold: `Valid`, `NotHolder`, or `AlreadyFree` if
    /// no slots are held.
    #[must_use]
    pub fn check(&self, token: Token, now: Timestamp) -> Answer {
        let lease = self.leases.values().find(|lease| lease.token == token);
        match lease {
            Some(lease) if !lease.is_stale(now) => Answer::Valid,
            _ if self.leases.is_empty() => Answer::AlreadyFree,
            _ => Answer::NotHolder,
        }
    }

    /// Frees the slots of every reclaimable lease, and returns those leases.
    pub fn reclaim_stale(&mut self, now: Timestamp) -> Vec<Lease> {
        self.leases.extract_if(.., |_, lease| lease.is_reclaimable(now)).map(|(_, l)| l).collect()
    }

    /// Checks that a holder can ever acquire this many slots.
    pub fn allows(&self, weight: u64) -> Result<(), WeightError> {
        match (weight, self.capacity) {
            (0, _) => Err(WeightError::Zero),
            (weight, capacity) if weight > capacity => {
                Err(WeightError::AboveCapacity { weight, capacity })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn lease(&self, holder: &HolderId) -> Option<&Lease> {
        self.leases.get(holder)
    }

    /// Returns the number of slots that no holder but `holder` has.
    pub(crate) fn free_besides(&self, holder: Option<&HolderId>, now: Timestamp) -> u64 {
        let others = self.leases.values().filter(|lease| Some(&lease.holder) != holder);
        let held = others.filter(|lease| !lease.is_reclaimable(now)).map(|lease| lease.weight);
        held.fold(self.capacity, u64::saturating_sub)
    }

    pub(crate) fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
    }

    pub(crate) fn lease_mut(&mut self, token: Token) -> Option<&mut Lease> {
        self.leases.values_mut().find(|lease| lease.token == token)
    }
}

#[cfg(test)]
mod tests;
