//! Raises the priority of works while they wait.
//!
//! The effective priority of a work is `priority + min(rate × age, cap)`. The engine never computes
//! it for all works. All works age at one rate, so `priority − rate × enqueue time` (the *ageing
//! key*) orders the works below the cap whatever the time is. A work at the cap keeps the fixed
//! priority `priority + cap`. The queue therefore keeps two orders, one by ageing key and one by
//! capped priority, and compares only the best of each at an instant. A work moves from the first
//! order to the second once, when it reaches the cap.
//!
//! All arithmetic is exact, in 128-bit integers. Knows nothing of queues or works.

use std::time::Duration;

use thiserror::Error;

use crate::{Amount, Timestamp};

/// The rate at which waiting works gain priority, and how much they gain at most.
///
/// ```
/// use std::time::Duration;
/// use windlass_core::{Ageing, Amount};
///
/// // One hundredth of a priority level per millisecond, five levels at most.
/// let ageing = Ageing::new("0.01".parse()?, Some(Amount::from(5)))?;
/// // One level per hour, without a cap.
/// let slow = Ageing::per(Amount::from(1), Duration::from_secs(3600), None)?;
/// assert_eq!(Ageing::default(), Ageing::NONE);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ageing {
    /// The rate is `rise` steps of priority per `run` nanoseconds, in lowest terms.
    rise: u64,
    run: u64,
    cap: Option<Amount>,
    /// The age at which a work reaches the cap.
    to_cap: Option<Duration>,
}

/// An ageing rate that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AgeingError {
    /// The rate is above [`Ageing::MAX_RATE`].
    #[error(
        "an ageing rate of {levels} per {per:?} exceeds the maximum of {max} per millisecond",
        max = Ageing::MAX_RATE
    )]
    TooFast {
        /// The levels of priority per period.
        levels: Amount,
        /// The period.
        per: Duration,
    },
    /// The rate is a fraction whose terms are too large to compute with.
    #[error(
        "an ageing rate of {levels} per {per:?} cannot be computed exactly; use a shorter or \
         a rounder period"
    )]
    TooFine {
        /// The levels of priority per period.
        levels: Amount,
        /// The period.
        per: Duration,
    },
}

/// How many steps of an [`Amount`] a level of priority has.
const STEPS: i128 = 10_000;
/// The largest terms of a rate. With them, priorities and times of any size stay within an `i128`:
/// 2^63 × 10 000 × 2^48 for a priority, and 2^60 × 2^64 for an age.
const MAX_RISE: u128 = 1 << 60;
const MAX_RUN: u128 = 1 << 48;

impl Ageing {
    /// No ageing: waiting does not change a priority.
    pub const NONE: Ageing = Ageing { rise: 0, run: 1, cap: None, to_cap: None };

    /// The highest rate: a billion levels per millisecond.
    pub const MAX_RATE: Amount = Amount::from_steps(1_000_000_000 * 10_000);

    /// Returns a rate of `rate` levels of priority per millisecond, capped at `cap` levels. Use
    /// [`Ageing::per`] for rates below the smallest amount per millisecond.
    pub fn new(rate: Amount, cap: Option<Amount>) -> Result<Self, AgeingError> {
        Self::per(rate, Duration::from_millis(1), cap)
    }

    /// Returns a rate of `levels` levels of priority per `per`, capped at `cap` levels.
    ///
    /// Priorities rise continuously: after half of `per`, by half of `levels`.
    pub fn per(levels: Amount, per: Duration, cap: Option<Amount>) -> Result<Self, AgeingError> {
        let (rise, run) = (u128::from(levels.steps()), per.as_nanos());
        let fastest = u128::from(Self::MAX_RATE.steps());
        if rise * Duration::from_millis(1).as_nanos() > run.saturating_mul(fastest) {
            return Err(AgeingError::TooFast { levels, per });
        }
        let common = greatest_common_divisor(rise, run).max(1);
        let (rise, run) = (rise / common, (run / common).max(1));
        if rise > MAX_RISE || run > MAX_RUN {
            return Err(AgeingError::TooFine { levels, per });
        }
        let to_cap = cap.filter(|_| rise > 0).map(|cap| {
            let nanos = (u128::from(cap.steps()) * run).div_ceil(rise);
            Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        });
        // The checks above bound both terms.
        Ok(Self { rise: rise as u64, run: run as u64, cap, to_cap })
    }

    /// Returns the key that orders works below the cap, whatever the time: higher is more urgent.
    pub(crate) fn ageing_key(&self, priority: i64, since: Timestamp) -> i128 {
        i128::from(priority) * self.level() - self.rate() * i128::from(since.as_nanos())
    }

    /// Returns the effective priority at `now` of a work below the cap with this ageing key.
    pub(crate) fn aged(&self, ageing_key: i128, now: Timestamp) -> i128 {
        ageing_key + self.rate() * i128::from(now.as_nanos())
    }

    /// Returns when a work below the cap with this ageing key reaches the effective priority
    /// `priority`, or `None` if it never does.
    pub(crate) fn reaches(&self, ageing_key: i128, priority: i128) -> Option<Timestamp> {
        if self.rise == 0 {
            return None;
        }
        let nanos = (priority - ageing_key + self.rate() - 1).div_euclid(self.rate());
        Some(Timestamp::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX)))
    }

    /// Returns the effective priority of a work at the cap.
    pub(crate) fn capped(&self, priority: i64) -> i128 {
        let cap = self.cap.map_or(0, |cap| i128::from(cap.steps()) * i128::from(self.run));
        i128::from(priority) * self.level() + cap
    }

    /// Returns the effective priority at `now` of a work queued since `since`.
    pub(crate) fn effective(&self, priority: i64, since: Timestamp, now: Timestamp) -> i128 {
        if self.capped_at(since).is_some_and(|top| top <= now) {
            return self.capped(priority);
        }
        self.aged(self.ageing_key(priority, since), now)
    }

    /// Returns when a work queued since `since` reaches the cap, or `None` if it never does.
    pub(crate) fn capped_at(&self, since: Timestamp) -> Option<Timestamp> {
        self.to_cap.map(|to_cap| since.after(to_cap))
    }

    /// Returns what one nanosecond of waiting adds. Effective priorities are counted in fractions
    /// of a step that make this a whole number.
    fn rate(&self) -> i128 {
        i128::from(self.rise)
    }

    /// Returns one level of priority in the unit of [`Ageing::rate`].
    fn level(&self) -> i128 {
        STEPS * i128::from(self.run)
    }
}

impl Default for Ageing {
    fn default() -> Self {
        Self::NONE
    }
}

fn greatest_common_divisor(mut one: u128, mut other: u128) -> u128 {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn one_rate_said_in_two_ways_is_the_same() {
        let tenth = "0.1".parse().expect("an amount");
        let per_hour = Ageing::per(Amount::from(360_000), HOUR, Some(Amount::from(5)));
        assert_eq!(Ageing::new(tenth, Some(Amount::from(5))), per_hour);
    }

    #[test]
    fn a_rate_that_cannot_be_computed_exactly_is_refused() {
        let one = Amount::from(1);
        let too_fast = |levels, per| AgeingError::TooFast { levels, per };
        let too_fine = |levels, per| AgeingError::TooFine { levels, per };
        let check =
            |levels, per, expected| assert_eq!(Ageing::per(levels, per, None), Err(expected));
        check(one, Duration::ZERO, too_fast(one, Duration::ZERO));
        let second = Duration::from_secs(1);
        check(Amount::MAX, second, too_fast(Amount::MAX, second));
        check(Amount::MAX, HOUR * 24, too_fine(Amount::MAX, HOUR * 24));
        check(one, Duration::MAX, too_fine(one, Duration::MAX));
        let odd = HOUR * 24 * 30 + Duration::from_nanos(1);
        check(one, odd, too_fine(one, odd));
        let thirty_years = HOUR * 24 * 365 * 30;
        assert!(Ageing::per(one, thirty_years, None).is_ok(), "any slow rate");
    }

    #[test]
    fn a_rate_of_nothing_changes_nothing() {
        assert_eq!(Ageing::per(Amount::ZERO, HOUR, None), Ok(Ageing::NONE));
        assert_eq!(Ageing::per(Amount::ZERO, Duration::ZERO, None), Ok(Ageing::NONE));
    }

    #[test]
    fn the_largest_terms_overflow_nowhere() {
        let largest = Ageing { rise: 1 << 60, run: 1 << 48, cap: Some(Amount::MAX), to_cap: None };
        for (priority, since) in [(i64::MIN, Timestamp::MAX), (i64::MAX, Timestamp::ZERO)] {
            let ageing_key = largest.ageing_key(priority, since);
            largest.aged(ageing_key, Timestamp::MAX);
            largest.reaches(ageing_key, largest.capped(i64::MAX));
            largest.reaches(ageing_key, largest.capped(i64::MIN));
        }
    }
}
