//! How waiting makes a work more urgent.
//!
//! Effective priority is `priority + min(rate × age, cap)`. It is never computed for all works: as
//! everything ages at one rate, `priority − rate × entered` orders those below the cap for ever, and
//! those at the cap stand at `priority + cap`. Only the best of each kind have to be compared at an
//! instant. All of it is exact, in wide integers.

use std::time::Duration;

use thiserror::Error;

use crate::{Amount, Timestamp};

/// How fast waiting works become more urgent, and how far.
///
/// ```
/// use windlass_core::{Ageing, Amount};
///
/// // One hundredth of a priority level per millisecond, five levels at most.
/// let ageing = Ageing::new("0.01".parse()?, Some(Amount::from(5)))?;
/// assert_eq!(Ageing::default(), Ageing::NONE);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ageing {
    /// Priority per millisecond.
    rate: Amount,
    cap: Option<Amount>,
    /// How long it takes to reach the cap.
    rise: Option<Duration>,
}

/// The rate is beyond what can be computed exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("an ageing rate of {rate} per millisecond is above the largest, {max}", max = Ageing::MAX_RATE)]
pub struct AgeingError {
    rate: Amount,
}

/// Effective priorities are counted in 1/10 000 of a level, times the nanoseconds of a millisecond.
const NANOS: i128 = 1_000_000;
const LEVEL: i128 = 10_000 * NANOS;

impl Ageing {
    /// Waiting changes nothing.
    pub const NONE: Ageing = Ageing { rate: Amount::ZERO, cap: None, rise: None };

    /// A billion levels per millisecond: fast enough for anybody, and far from overflow.
    pub const MAX_RATE: Amount = Amount::from_steps(1_000_000_000 * 10_000);

    /// `rate` levels of priority per millisecond, at most `cap` levels in all.
    pub fn new(rate: Amount, cap: Option<Amount>) -> Result<Self, AgeingError> {
        if rate > Self::MAX_RATE {
            return Err(AgeingError { rate });
        }
        let rise = cap.filter(|_| rate > Amount::ZERO).map(|cap| {
            let (cap, rate) = (i128::from(cap.steps()) * NANOS, i128::from(rate.steps()));
            let nanos = (cap + rate - 1) / rate;
            Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        });
        Ok(Self { rate, cap, rise })
    }

    /// Where a work that entered at `since` stands among those below the cap, whatever the time.
    pub(crate) fn rising(&self, priority: i64, since: Timestamp) -> i128 {
        i128::from(priority) * LEVEL - self.rate() * i128::from(since.as_nanos())
    }

    /// The effective priority of one that stands at `rising` among those below the cap.
    pub(crate) fn risen(&self, rising: i128, now: Timestamp) -> i128 {
        rising + self.rate() * i128::from(now.as_nanos())
    }

    /// When one that stands at `rising` among those below the cap has an effective priority of at
    /// least `priority`; none if it never has.
    pub(crate) fn reaches(&self, rising: i128, priority: i128) -> Option<Timestamp> {
        if self.rate == Amount::ZERO {
            return None;
        }
        let nanos = (priority - rising + self.rate() - 1).div_euclid(self.rate());
        Some(Timestamp::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX)))
    }

    /// The effective priority of one at the cap.
    pub(crate) fn topped(&self, priority: i64) -> i128 {
        let cap = self.cap.map_or(0, |cap| i128::from(cap.steps()) * NANOS);
        i128::from(priority) * LEVEL + cap
    }

    /// The effective priority at `now` of one that entered at `since`.
    pub(crate) fn effective(&self, priority: i64, since: Timestamp, now: Timestamp) -> i128 {
        if self.tops_at(since).is_some_and(|top| top <= now) {
            return self.topped(priority);
        }
        self.risen(self.rising(priority, since), now)
    }

    /// When a work that entered at `since` reaches the cap; none if it never does.
    pub(crate) fn tops_at(&self, since: Timestamp) -> Option<Timestamp> {
        self.rise.map(|rise| since.after(rise))
    }

    fn rate(&self) -> i128 {
        i128::from(self.rate.steps())
    }
}
