//! A name with slots that several holders share, each with a weight.
//!
//! Every hold has a token of its own, larger than all before. Sums are computed, never counted up
//! and down, and never wrap.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::Timestamp;
use crate::answer::Answer;
use crate::lease::{HolderId, Lease, LeaseTerms, Token};

/// A semaphore: so many slots, and who has them.
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
    capacity: u32,
    token: Token,
    leases: BTreeMap<HolderId, Lease>,
}

/// A number of slots that can never be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WeightError {
    /// Nothing was asked for.
    #[error("a weight of 0 asks for nothing")]
    Zero,
    /// More was asked for than there is.
    #[error("a weight of {weight} is above the capacity of {capacity}")]
    AboveCapacity {
        /// What was asked for.
        weight: u32,
        /// What there is.
        capacity: u32,
    },
}

/// The answer to [`Semaphore::acquire`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum SemaphoreAcquire {
    /// The slots were free.
    Acquired {
        /// Larger than any before.
        token: Token,
    },
    /// The holder had at least as many already.
    AlreadyHeld {
        /// The one it had.
        token: Token,
    },
    /// The holder had fewer, and has as many now.
    Upgraded {
        /// The one it had.
        token: Token,
    },
    /// There are not enough; what the holder had, it still has.
    Full {
        /// How many slots nobody holds.
        available: u32,
    },
}

impl Semaphore {
    /// A semaphore with so many slots, all free.
    #[must_use]
    pub fn new(capacity: u32) -> Self {
        Self { capacity, token: Token(0), leases: BTreeMap::new() }
    }

    /// A semaphore as it was stored. Refreshes nothing.
    #[must_use]
    pub fn restore(capacity: u32, token: Token, leases: impl IntoIterator<Item = Lease>) -> Self {
        let by_holder = |lease: Lease| (lease.holder.clone(), lease);
        Self { capacity, token, leases: leases.into_iter().map(by_holder).collect() }
    }

    /// How many slots there are.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The largest token given out so far.
    #[must_use]
    pub fn token(&self) -> Token {
        self.token
    }

    /// The leases under which slots are held, also stale ones, by holder.
    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.leases.values()
    }

    /// How many slots nobody holds; what is stale and can be reclaimed counts as free.
    #[must_use]
    pub fn available(&self, now: Timestamp) -> u32 {
        self.free_besides(None, now)
    }

    /// Takes slots, all or none. What is stale is reclaimed first.
    pub fn acquire(
        &mut self,
        holder: &HolderId,
        weight: u32,
        terms: LeaseTerms,
        now: Timestamp,
    ) -> Result<SemaphoreAcquire, WeightError> {
        self.acquire_above(Token(0), holder, weight, terms, now)
    }

    /// As [`Semaphore::acquire`], with a token above `floor` as well.
    pub fn acquire_above(
        &mut self,
        floor: Token,
        holder: &HolderId,
        weight: u32,
        terms: LeaseTerms,
        now: Timestamp,
    ) -> Result<SemaphoreAcquire, WeightError> {
        self.allows(weight)?;
        self.reclaim_stale(now);
        let available = self.available(now);
        let fits = weight <= self.free_besides(Some(holder), now);
        Ok(match self.leases.get_mut(holder) {
            // One that is stale and still in the way has to be cleared up after first.
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

    /// Gives a holder's slots back; only with the token of the present hold. Answers `Released` or
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

    /// Takes in a sign of life of a holder. Answers `Refreshed`, or `NotHolder` if it has no slots under this
    /// token, or its lease is stale.
    pub fn heartbeat(&mut self, holder: &HolderId, token: Token, now: Timestamp) -> Answer {
        match self.leases.get_mut(holder) {
            Some(lease) if lease.token == token && !lease.is_stale(now) => {
                lease.refresh(now);
                Answer::Refreshed
            }
            _ => Answer::NotHolder,
        }
    }

    /// Returns whether what is done under `token` is still covered by it: `Valid`, `NotHolder`, or
    /// `AlreadyFree` if no slots are held.
    #[must_use]
    pub fn check(&self, token: Token, now: Timestamp) -> Answer {
        let lease = self.leases.values().find(|lease| lease.token == token);
        match lease {
            Some(lease) if !lease.is_stale(now) => Answer::Valid,
            _ if self.leases.is_empty() => Answer::AlreadyFree,
            _ => Answer::NotHolder,
        }
    }

    /// Frees the slots of every holder whose lease is stale, and returns those leases.
    pub fn reclaim_stale(&mut self, now: Timestamp) -> Vec<Lease> {
        self.leases.extract_if(.., |_, lease| lease.is_reclaimable(now)).map(|(_, l)| l).collect()
    }

    /// Whether so many slots can ever be had.
    pub fn allows(&self, weight: u32) -> Result<(), WeightError> {
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

    /// How many slots are held by nobody but `holder`.
    pub(crate) fn free_besides(&self, holder: Option<&HolderId>, now: Timestamp) -> u32 {
        let others = self.leases.values().filter(|lease| Some(&lease.holder) != holder);
        let held = others.filter(|lease| !lease.is_reclaimable(now)).map(|lease| lease.weight);
        held.fold(self.capacity, u32::saturating_sub)
    }

    pub(crate) fn set_capacity(&mut self, capacity: u32) {
        self.capacity = capacity;
    }

    pub(crate) fn lease_mut(&mut self, token: Token) -> Option<&mut Lease> {
        self.leases.values_mut().find(|lease| lease.token == token)
    }
}

#[cfg(test)]
mod tests;
