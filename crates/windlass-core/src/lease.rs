//! A hold on a name that expires: its holder, its token, and when it counts as stale.
//!
//! Heartbeats extend a lease. A stale lease stays stale: no heartbeat revives it, so a caller that
//! sees a stale lease can act on that without a race.
//!
//! Knows nothing of processes: the caller records that a holder is gone, and that no process of it
//! is left.

use std::fmt;
use std::time::Duration;

use crate::Timestamp;

/// A holder of names, or a waiter for them. The id is unique for the lifetime of one holder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderId(String);

impl HolderId {
    /// Creates an id from its text.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// Returns the text.
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

/// A fencing token: a number that grows with every hand-over of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

impl Token {
    /// Returns the first token above both this one and `floor`.
    ///
    /// # Panics
    ///
    /// Panics when a name has changed hands 2^64 times.
    #[must_use]
    pub fn next_above(self, floor: Token) -> Self {
        Token(self.0.max(floor.0).checked_add(1).expect("no name changes hands 2^64 times"))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How long a hold lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    /// The time without a heartbeat after which the lease is stale.
    pub heartbeat_timeout: Duration,
    /// The maximum time of the hold, whatever its heartbeats are.
    pub max_hold: Option<Duration>,
}

impl Default for LeaseTerms {
    /// A minute without a heartbeat, and no maximum.
    fn default() -> Self {
        Self { heartbeat_timeout: Duration::from_secs(60), max_hold: None }
    }
}

/// Whether a stale lease can be reclaimed at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Remains {
    /// No process of the holder is left that could still act in its name.
    #[default]
    None,
    /// A process may be left, and has to be ended before another holder gets the name.
    Possible,
}

/// What is known about a holder besides its heartbeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// Nothing: the holder is presumed alive.
    #[default]
    Presumed,
    /// The lease was seen to be stale.
    Stale,
    /// The holder was seen to be gone.
    Gone,
}

/// One holder's hold on a name.
///
/// ```
/// use std::time::Duration;
/// use windlass_core::{HolderId, Lease, LeaseTerms, Timestamp, Token};
///
/// let terms = LeaseTerms { heartbeat_timeout: Duration::from_secs(10), max_hold: None };
/// let lease = Lease::new(HolderId::new("a"), Token(1), terms, Timestamp::ZERO);
/// assert!(!lease.is_stale(Timestamp::from_millis(10_000)));
/// assert!(lease.is_stale(Timestamp::from_millis(10_001)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lease {
    /// The holder.
    pub holder: HolderId,
    /// The token of the hold.
    pub token: Token,
    /// The number of slots of a semaphore, the steps of an amount of a limit; 1 for a lock.
    pub weight: u64,
    /// When the hold began.
    pub since: Timestamp,
    /// The time of the last heartbeat.
    pub last_heartbeat: Timestamp,
    /// How long the hold lasts.
    pub terms: LeaseTerms,
    /// What is known about the holder.
    pub presence: Presence,
    /// What may be left of the holder.
    pub remains: Remains,
}

impl Lease {
    /// Creates a lease that begins at `now`.
    #[must_use]
    pub fn new(holder: HolderId, token: Token, terms: LeaseTerms, now: Timestamp) -> Self {
        Self {
            holder,
            token,
            weight: 1,
            since: now,
            last_heartbeat: now,
            terms,
            presence: Presence::Presumed,
            remains: Remains::None,
        }
    }

    /// Returns the time since the last heartbeat.
    #[must_use]
    pub fn age(&self, now: Timestamp) -> Duration {
        now.since(self.last_heartbeat)
    }

    /// Returns whether the hold has exceeded its maximum time.
    #[must_use]
    pub fn is_overheld(&self, now: Timestamp) -> bool {
        self.terms.max_hold.is_some_and(|most| now.since(self.since) > most)
    }

    /// Returns whether the lease is stale.
    #[must_use]
    pub fn is_stale(&self, now: Timestamp) -> bool {
        self.presence != Presence::Presumed || self.is_silent(now) || self.is_overheld(now)
    }

    /// Returns whether the lease is stale only because heartbeats are missing.
    #[must_use]
    pub fn is_only_silent(&self, now: Timestamp) -> bool {
        self.presence == Presence::Presumed && self.is_silent(now) && !self.is_overheld(now)
    }

    /// Returns how long the lease lasts without another heartbeat, whatever is known of its holder;
    /// zero once it has expired.
    #[must_use]
    pub fn time_left(&self, now: Timestamp) -> Duration {
        let silence = self.terms.heartbeat_timeout.saturating_sub(self.age(now));
        let most = self.terms.max_hold.map(|most| most.saturating_sub(now.since(self.since)));
        most.map_or(silence, |most| most.min(silence))
    }

    fn is_silent(&self, now: Timestamp) -> bool {
        self.age(now) > self.terms.heartbeat_timeout
    }

    /// Returns whether another holder can get what it holds.
    #[must_use]
    pub fn is_reclaimable(&self, now: Timestamp) -> bool {
        self.is_stale(now) && self.remains == Remains::None
    }

    /// Records more about the holder; a weaker record never replaces a stronger one. Returns
    /// whether the holder was presumed alive before.
    pub(crate) fn note(&mut self, presence: Presence) -> bool {
        let first = self.presence == Presence::Presumed && presence != Presence::Presumed;
        if self.presence != Presence::Gone {
            self.presence = presence;
        }
        first
    }

    /// Records a heartbeat; one older than the last has no effect. The caller makes sure that the lease is
    /// not stale.
    pub fn refresh(&mut self, now: Timestamp) {
        self.last_heartbeat = self.last_heartbeat.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(max_hold: Option<u64>) -> Lease {
        let max_hold = max_hold.map(Duration::from_millis);
        let terms = LeaseTerms { heartbeat_timeout: Duration::from_millis(10), max_hold };
        Lease::new(HolderId::new("a"), Token(1), terms, Timestamp::from_millis(100))
    }

    #[test]
    fn a_lease_is_stale_only_beyond_its_timeout() {
        let lease = lease(None);
        assert!(!lease.is_stale(Timestamp::from_millis(110)));
        assert!(lease.is_stale(Timestamp::from_nanos(110_000_001)));
        assert!(!lease.is_stale(Timestamp::ZERO), "time never makes it younger than new");
    }

    #[test]
    fn heartbeats_do_not_help_beyond_the_longest_hold() {
        let mut lease = lease(Some(15));
        lease.refresh(Timestamp::from_millis(114));
        assert!(!lease.is_stale(Timestamp::from_millis(115)));
        assert!(lease.is_stale(Timestamp::from_millis(116)));
    }

    #[test]
    fn an_older_heartbeat_changes_nothing() {
        let mut lease = lease(None);
        lease.refresh(Timestamp::from_millis(108));
        lease.refresh(Timestamp::from_millis(103));
        assert_eq!(lease.last_heartbeat, Timestamp::from_millis(108));
    }

    #[test]
    fn what_is_left_of_a_holder_keeps_its_lease_from_being_given_away() {
        let mut lease = lease(None);
        lease.remains = Remains::Possible;
        lease.presence = Presence::Gone;
        assert!(lease.is_stale(Timestamp::ZERO) && !lease.is_reclaimable(Timestamp::MAX));
        lease.remains = Remains::None;
        assert!(lease.is_reclaimable(Timestamp::ZERO));
    }

    #[test]
    fn extreme_terms_are_just_long_or_short() {
        let mut lease = lease(None);
        lease.terms.heartbeat_timeout = Duration::from_secs(1_000_000_000_000);
        assert!(!lease.is_stale(Timestamp::MAX));
        lease.terms.heartbeat_timeout = Duration::ZERO;
        assert!(!lease.is_stale(Timestamp::from_millis(100)));
        assert!(lease.is_stale(Timestamp::from_nanos(100_000_001)));
    }
}
