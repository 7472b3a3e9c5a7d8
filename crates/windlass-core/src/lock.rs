//! A name that one holder at a time may have.
//!
//! Every hand-over raises the lock's token, so that whoever is told to do something in a holder's
//! name can refuse one that has been overtaken. Knows nothing of processes: whoever calls decides
//! whether a holder is gone, and says so with [`Lock::free_from`].

use std::fmt;

use thiserror::Error;

use crate::Timestamp;

/// Who holds or asks for a name; unique for one life of one holder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderId(String);

impl HolderId {
    /// The holder that goes by this text.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HolderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A number that grows with every hand-over of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One holder's hold on a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Who.
    pub holder: HolderId,
    /// Since when.
    pub since: Timestamp,
}

/// A lock: free, or held under a lease.
///
/// ```
/// use windlass_core::{Acquired, HolderId, Lock, Timestamp, Token};
///
/// let (a, b, now) = (HolderId::new("a"), HolderId::new("b"), Timestamp::ZERO);
/// let mut lock = Lock::default();
/// assert_eq!(lock.acquire(&a, now), Ok(Acquired::New(Token(1))));
/// assert_eq!(lock.acquire(&b, now).unwrap_err().holder, a);
/// assert_eq!(lock.release(&a, Token(1)), Ok(()));
/// assert_eq!(lock.acquire(&b, now), Ok(Acquired::New(Token(2))));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    token: Token,
    lease: Option<Lease>,
}

/// The name was had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// It was free; the token is larger than any before.
    New(Token),
    /// The same holder had it already, with this token.
    Extended(Token),
}

impl Acquired {
    /// The token to show.
    #[must_use]
    pub fn token(self) -> Token {
        match self {
            Acquired::New(token) | Acquired::Extended(token) => token,
        }
    }
}

/// Someone else has the name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("held by {holder}")]
pub struct Busy {
    /// Who.
    pub holder: HolderId,
    /// Since when.
    pub since: Timestamp,
}

/// The one who releases does not hold the name under that token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not held by this holder with this token")]
pub struct NotOwner;

impl Lock {
    /// A lock as it was stored.
    #[must_use]
    pub fn restore(token: Token, lease: Option<Lease>) -> Self {
        Self { token, lease }
    }

    /// The largest token given out so far.
    #[must_use]
    pub fn token(&self) -> Token {
        self.token
    }

    /// The lease under which it is held.
    #[must_use]
    pub fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// Takes the name if it is free, or had by the same holder already.
    pub fn acquire(&mut self, holder: &HolderId, now: Timestamp) -> Result<Acquired, Busy> {
        match &self.lease {
            Some(lease) if lease.holder == *holder => Ok(Acquired::Extended(self.token)),
            Some(Lease { holder, since }) => Err(Busy { holder: holder.clone(), since: *since }),
            None => {
                self.token.0 += 1;
                self.lease = Some(Lease { holder: holder.clone(), since: now });
                Ok(Acquired::New(self.token))
            }
        }
    }

    /// Gives the name back; only with the token of the present hold.
    pub fn release(&mut self, holder: &HolderId, token: Token) -> Result<(), NotOwner> {
        let owns = |lease: &Lease| lease.holder == *holder && self.token == token;
        if !self.lease.as_ref().is_some_and(owns) {
            return Err(NotOwner);
        }
        self.lease = None;
        Ok(())
    }

    /// Takes the name from `holder`, who is known to be gone. Whether it had it.
    pub fn free_from(&mut self, holder: &HolderId) -> bool {
        let held = self.lease.as_ref().is_some_and(|lease| lease.holder == *holder);
        if held {
            self.lease = None;
        }
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(holder: &HolderId) -> (Lock, Token) {
        let mut lock = Lock::default();
        let token = lock.acquire(holder, Timestamp::ZERO).expect("it is free").token();
        (lock, token)
    }

    #[test]
    fn a_second_holder_is_told_who_has_it() {
        let (a, b) = (HolderId::new("a"), HolderId::new("b"));
        let (mut lock, _) = held(&a);
        let busy = lock.acquire(&b, Timestamp::from_millis(5)).unwrap_err();
        assert_eq!(busy, Busy { holder: a, since: Timestamp::ZERO });
    }

    #[test]
    fn the_same_holder_keeps_its_token() {
        let a = HolderId::new("a");
        let (mut lock, token) = held(&a);
        assert_eq!(lock.acquire(&a, Timestamp::MAX), Ok(Acquired::Extended(token)));
    }

    #[test]
    fn tokens_grow_across_a_hand_over_and_a_restore() {
        let (a, b) = (HolderId::new("a"), HolderId::new("b"));
        let (mut lock, first) = held(&a);
        assert!(lock.free_from(&a) && !lock.free_from(&a));
        let mut lock = Lock::restore(lock.token(), lock.lease().cloned());
        let second = lock.acquire(&b, Timestamp::ZERO).expect("it was freed").token();
        assert!(second > first);
        assert_eq!(lock.release(&a, first), Err(NotOwner), "an old holder");
        assert_eq!(lock.release(&b, first), Err(NotOwner), "an old token");
        assert_eq!(lock.release(&b, second), Ok(()));
        assert_eq!(lock.release(&b, second), Err(NotOwner), "released twice");
    }
}
