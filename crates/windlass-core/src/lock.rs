//! A name that one holder at a time may have.
//!
//! Every hand-over raises the lock's token, so that whoever is told to do something in a holder's
//! name can refuse one that has been overtaken. What is stale is reclaimed by the next who asks.

use std::time::Duration;

use crate::Timestamp;
use crate::lease::{HolderId, Lease, LeaseTerms, Token};

/// A lock: free, or held under a lease.
///
/// ```
/// use windlass_core::{HolderId, LeaseTerms, Lock, LockAcquire, LockRelease, Timestamp, Token};
///
/// let (a, b, now) = (HolderId::new("a"), HolderId::new("b"), Timestamp::ZERO);
/// let terms = LeaseTerms::default();
/// let mut lock = Lock::default();
/// assert_eq!(lock.acquire(&a, terms, now), LockAcquire::Acquired { token: Token(1) });
/// assert!(matches!(lock.acquire(&b, terms, now), LockAcquire::Busy { holder, .. } if holder == a));
/// assert_eq!(lock.release(&a, Token(1)), LockRelease::Released);
/// assert_eq!(lock.acquire(&b, terms, now), LockAcquire::Acquired { token: Token(2) });
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    token: Token,
    lease: Option<Lease>,
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

/// The answer to [`Lock::release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockRelease {
    /// It is free now.
    Released,
    /// Someone else has it, or the same holder under another token.
    NotOwner,
    /// Nobody has it.
    AlreadyFree,
}

/// The answer to [`Lock::heartbeat`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockHeartbeat {
    /// The lease goes on.
    Refreshed,
    /// It is not held by this holder under this token.
    NotOwner,
    /// The lease was stale already, or has been held for longer than it may be.
    Expired,
}

/// The answer to [`Lock::check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockCheck {
    /// The token is that of the present hold.
    Valid,
    /// It is not, or no longer.
    NotOwner,
    /// Nobody holds it.
    AlreadyFree,
}

impl Lock {
    /// A lock as it was stored: the largest token so far, and the lease. Refreshes nothing.
    #[must_use]
    pub fn restore(token: Token, lease: Option<Lease>) -> Self {
        Self { token, lease }
    }

    /// The largest token given out so far.
    #[must_use]
    pub fn token(&self) -> Token {
        self.token
    }

    /// The lease under which it is held, also if that is stale.
    #[must_use]
    pub fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
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
        let from = match &mut self.lease {
            None => None,
            Some(lease) if lease.is_reclaimable(now) => Some(lease.holder.clone()),
            Some(lease) if lease.holder == *holder && !lease.is_stale(now) => {
                lease.refresh(now);
                return LockAcquire::Extended { token: lease.token };
            }
            Some(lease) => return busy(lease, now),
        };
        let token = self.token.next_above(floor);
        self.token = token;
        self.lease = Some(Lease::new(holder.clone(), token, terms, now));
        from.map_or(LockAcquire::Acquired { token }, |from| LockAcquire::Reclaimed { token, from })
    }

    /// Gives the name back; only with the token of the present hold.
    pub fn release(&mut self, holder: &HolderId, token: Token) -> LockRelease {
        match &self.lease {
            None => LockRelease::AlreadyFree,
            Some(lease) if lease.holder == *holder && lease.token == token => {
                self.lease = None;
                LockRelease::Released
            }
            Some(_) => LockRelease::NotOwner,
        }
    }

    /// A sign of life of the holder.
    pub fn heartbeat(&mut self, holder: &HolderId, token: Token, now: Timestamp) -> LockHeartbeat {
        match &mut self.lease {
            Some(lease) if lease.holder == *holder && lease.token == token => {
                if lease.is_stale(now) {
                    return LockHeartbeat::Expired;
                }
                lease.refresh(now);
                LockHeartbeat::Refreshed
            }
            _ => LockHeartbeat::NotOwner,
        }
    }

    /// Whether what is done under `token` is still covered by it.
    #[must_use]
    pub fn check(&self, token: Token, now: Timestamp) -> LockCheck {
        match &self.lease {
            None => LockCheck::AlreadyFree,
            Some(lease) if lease.token == token && !lease.is_stale(now) => LockCheck::Valid,
            Some(_) => LockCheck::NotOwner,
        }
    }

    /// Frees the lock if its lease is stale, and returns that.
    pub fn reclaim_stale(&mut self, now: Timestamp) -> Option<Lease> {
        self.lease.take_if(|lease| lease.is_reclaimable(now))
    }

    pub(crate) fn lease_mut(&mut self, token: Token) -> Option<&mut Lease> {
        self.lease.as_mut().filter(|lease| lease.token == token)
    }
}

fn busy(lease: &Lease, now: Timestamp) -> LockAcquire {
    LockAcquire::Busy { holder: lease.holder.clone(), since: lease.since, age: lease.age(now) }
}

#[cfg(test)]
mod tests;
