//! A name that one holder at a time may have.
//!
//! Every hand-over raises the lock's token, so that whoever is told to do something in a holder's
//! name can refuse one that has been overtaken. What is stale is reclaimed by the next who asks.

use std::time::Duration;

use crate::Timestamp;
use crate::answer::Answer;
use crate::lease::{HolderId, Lease, LeaseTerms, Token};
use crate::semaphore::{Semaphore, SemaphoreAcquire};

/// A lock: free, or held under a lease. It is a [`Semaphore`] with one slot.
///
/// ```
/// use windlass_core::{Answer, HolderId, LeaseTerms, Lock, LockAcquire, Timestamp, Token};
///
/// let (a, b, now) = (HolderId::new("a"), HolderId::new("b"), Timestamp::ZERO);
/// let terms = LeaseTerms::default();
/// let mut lock = Lock::default();
/// assert_eq!(lock.acquire(&a, terms, now), LockAcquire::Acquired { token: Token(1) });
/// assert!(matches!(lock.acquire(&b, terms, now), LockAcquire::Busy { holder, .. } if holder == a));
/// assert_eq!(lock.release(&a, Token(1)), Answer::Released);
/// assert_eq!(lock.acquire(&b, terms, now), LockAcquire::Acquired { token: Token(2) });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    slots: Semaphore,
}

/// The answer to [`Lock::acquire`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum LockAcquire {
    /// It was free.
    Acquired {
        /// Larger than any before.
        token: Token,
    },
    /// The same holder had it already.
    Extended {
        /// The one it had.
        token: Token,
    },
    /// It was taken from a holder whose lease was stale.
    Reclaimed {
        /// Larger than any before.
        token: Token,
        /// From whom.
        from: HolderId,
    },
    /// Someone else has it.
    Busy {
        /// Who.
        holder: HolderId,
        /// Since when.
        since: Timestamp,
        /// How long ago the holder's last sign of life was.
        age: Duration,
    },
}

impl Default for Lock {
    fn default() -> Self {
        Self { slots: Semaphore::new(1) }
    }
}

impl Lock {
    /// A lock as it was stored: the largest token so far, and the lease. Refreshes nothing.
    #[must_use]
    pub fn restore(token: Token, lease: Option<Lease>) -> Self {
        Self { slots: Semaphore::restore(1, token, lease) }
    }

    /// The largest token given out so far.
    #[must_use]
    pub fn token(&self) -> Token {
        self.slots.token()
    }

    /// The lease under which it is held, also if that is stale.
    #[must_use]
    pub fn lease(&self) -> Option<&Lease> {
        self.slots.leases().next()
    }

    /// Takes the name if it is free, stale, or had by the same holder already.
    pub fn acquire(&mut self, holder: &HolderId, terms: LeaseTerms, now: Timestamp) -> LockAcquire {
        self.acquire_above(Token(0), holder, terms, now)
    }

    /// As [`Lock::acquire`], with a token above `floor` as well.
    pub fn acquire_above(
        &mut self,
        floor: Token,
        holder: &HolderId,
        terms: LeaseTerms,
        now: Timestamp,
    ) -> LockAcquire {
        let stale = self.reclaim_stale(now);
        let acquired = self.slots.acquire_above(floor, holder, 1, terms, now);
        match (acquired.expect("one slot of one can be had"), stale) {
            (SemaphoreAcquire::Acquired { token }, None) => LockAcquire::Acquired { token },
            (SemaphoreAcquire::Acquired { token }, Some(stale)) => {
                LockAcquire::Reclaimed { token, from: stale.holder }
            }
            (SemaphoreAcquire::AlreadyHeld { token } | SemaphoreAcquire::Upgraded { token }, _) => {
                LockAcquire::Extended { token }
            }
            (SemaphoreAcquire::Full { .. }, _) => {
                let lease = self.lease().expect("its slot is held");
                let (holder, since, age) = (lease.holder.clone(), lease.since, lease.age(now));
                LockAcquire::Busy { holder, since, age }
            }
        }
    }

    /// Gives the name back; only with the token of the present hold. Answers `Released`, `NotOwner`, or
    /// `AlreadyFree`.
    pub fn release(&mut self, holder: &HolderId, token: Token) -> Answer {
        match self.slots.release(holder, token) {
            Answer::NotHolder if self.lease().is_none() => Answer::AlreadyFree,
            Answer::NotHolder => Answer::NotOwner,
            answer => answer,
        }
    }

    /// Takes in a sign of life of the holder. Answers `Refreshed`, `NotOwner`, or `Expired` if the lease was
    /// stale already, or has been held for longer than it may be.
    pub fn heartbeat(&mut self, holder: &HolderId, token: Token, now: Timestamp) -> Answer {
        let held = self.slots.lease(holder).is_some_and(|lease| lease.token == token);
        match self.slots.heartbeat(holder, token, now) {
            Answer::NotHolder if held => Answer::Expired,
            Answer::NotHolder => Answer::NotOwner,
            answer => answer,
        }
    }

    /// Returns whether what is done under `token` is still covered by it: `Valid`, `NotOwner`, or
    /// `AlreadyFree`.
    #[must_use]
    pub fn check(&self, token: Token, now: Timestamp) -> Answer {
        match self.slots.check(token, now) {
            Answer::NotHolder => Answer::NotOwner,
            answer => answer,
        }
    }

    /// Frees the lock if its lease is stale, and returns that.
    pub fn reclaim_stale(&mut self, now: Timestamp) -> Option<Lease> {
        self.slots.reclaim_stale(now).pop()
    }

    pub(crate) fn slots(&self) -> &Semaphore {
        &self.slots
    }

    pub(crate) fn slots_mut(&mut self) -> &mut Semaphore {
        &mut self.slots
    }
}

#[cfg(test)]
mod tests;
