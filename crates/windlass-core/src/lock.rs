//! A lock: a name with one holder at a time.
//!
//! Every hand-over raises the lock's fencing token, so that a resource can refuse a request from an
//! earlier holder. The next claim reclaims a stale lease.

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

/// The result of [`Lock::acquire`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum LockAcquire {
    /// The lock was free.
    Acquired {
        /// The token of the hold, larger than all before.
        token: Token,
    },
    /// The same holder has the lock already.
    Extended {
        /// The token of the present hold.
        token: Token,
    },
    /// The lock was reclaimed from a holder whose lease was stale.
    Reclaimed {
        /// The token of the hold, larger than all before.
        token: Token,
        /// The holder whose lease was stale.
        from: HolderId,
    },
    /// Another holder has the lock.
    Busy {
        /// That holder.
        holder: HolderId,
        /// When its hold began.
        since: Timestamp,
        /// The time since its last heartbeat.
        age: Duration,
    },
}

impl Default for Lock {
    fn default() -> Self {
        Self { slots: Semaphore::new(1) }
    }
}

impl Lock {
    /// Restores a lock from its largest token and its lease. Does not refresh the lease.
    #[must_use]
    pub fn restore(token: Token, lease: Option<Lease>) -> Self {
        Self { slots: Semaphore::restore(1, token, lease) }
    }

    /// Returns the largest token issued so far.
    #[must_use]
    pub fn token(&self) -> Token {
        self.slots.token()
    }

    /// Returns the lease of the holder, which may be stale.
    #[must_use]
    pub fn lease(&self) -> Option<&Lease> {
        self.slots.leases().next()
    }

    /// Acquires the lock if it is free or stale, or extends the lease if `holder` has it already.
    pub fn acquire(&mut self, holder: &HolderId, terms: LeaseTerms, now: Timestamp) -> LockAcquire {
        self.acquire_above(Token(0), holder, terms, now)
    }

    /// As [`Lock::acquire`], with a token that is also above `floor`.
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

    /// Releases the lock if `token` is that of the present hold. Returns `Released`, `NotOwner`, or
    /// `AlreadyFree`.
    pub fn release(&mut self, holder: &HolderId, token: Token) -> Answer {
        match self.slots.release(holder, token) {
            Answer::NotHolder if self.lease().is_none() => Answer::AlreadyFree,
            Answer::NotHolder => Answer::NotOwner,
            answer => answer,
        }
    }

    /// Records a heartbeat of the holder. Returns `Refreshed`, `NotOwner`, or `Expired` if the
    /// lease is stale or the hold has exceeded its maximum time.
    pub fn heartbeat(&mut self, holder: &HolderId, token: Token, now: Timestamp) -> Answer {
        let held = self.slots.lease(holder).is_some_and(|lease| lease.token == token);
        match self.slots.heartbeat(holder, token, now) {
            Answer::NotHolder if held => Answer::Expired,
            Answer::NotHolder => Answer::NotOwner,
            answer => answer,
        }
    }

    /// Returns whether `token` is that of the present hold: `Valid`, `NotOwner`, or `AlreadyFree`.
    #[must_use]
    pub fn check(&self, token: Token, now: Timestamp) -> Answer {
        match self.slots.check(token, now) {
            Answer::NotHolder => Answer::NotOwner,
            answer => answer,
        }
    }

    /// Frees the lock if its lease is stale, and returns the lease.
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
