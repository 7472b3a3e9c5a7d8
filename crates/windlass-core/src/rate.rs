//! Rates and quotas: how much may be started in how much time, exactly.
//!
//! The present level is computed from the last change and the time since. A bucket counts in units
//! of one step times one nanosecond of its period, so nothing is rounded. Time does not go back: an
//! earlier time counts as that of the last change.
//!
//! Knows nothing of levels, clients or waiting.

use std::time::Duration;

use thiserror::Error;

use crate::{Amount, Timestamp};

/// A refill rate and a burst: the parameters of a token bucket.
///
/// ```
/// use windlass_core::{CapacityTree, Place, Rate, ResourceCost, Timestamp};
///
/// let mut tree = CapacityTree::new(&ResourceCost::new());
/// let rate = Rate::per_minute(100).burst(20);
/// tree.set_rate(CapacityTree::ROOT, "calls", rate, Timestamp::ZERO)?;
///
/// let client = tree.add_client(CapacityTree::ROOT);
/// let cost = ResourceCost::from([("calls", 20)]);
/// let twenty_calls = tree.demand(CapacityTree::ROOT, &cost)?;
/// tree.try_take(client, &twenty_calls, Place::First, Timestamp::ZERO).expect("it starts full");
/// assert!(!tree.can_take(client, &twenty_calls, Place::First, Timestamp::from_millis(11_999)));
/// assert!(tree.can_take(client, &twenty_calls, Place::First, Timestamp::from_millis(12_000)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The amount that each period adds, spread evenly over it.
    pub amount: Amount,
    /// The period.
    pub per: Duration,
    /// The most that an idle bucket accumulates, and so the most that one start can take.
    pub burst: Amount,
}

impl Rate {
    /// Returns a rate of `amount` per second, with a burst of the same amount.
    #[must_use]
    pub fn per_second(amount: impl Into<Amount>) -> Self {
        Self::per(amount, Duration::from_secs(1))
    }

    /// Returns a rate of `amount` per minute, with a burst of the same amount.
    #[must_use]
    pub fn per_minute(amount: impl Into<Amount>) -> Self {
        Self::per(amount, Duration::from_secs(60))
    }

    /// Returns a rate of `amount` per `period`, with a burst of the same amount.
    #[must_use]
    pub fn per(amount: impl Into<Amount>, period: Duration) -> Self {
        let amount = amount.into();
        Self { amount, per: period, burst: amount }
    }

    /// Replaces the burst.
    #[must_use]
    pub fn burst(self, burst: impl Into<Amount>) -> Self {
        Self { burst: burst.into(), ..self }
    }
}

/// A maximum amount per window of time; windows follow each other from [`Timestamp::ZERO`] on.
///
/// ```
/// use std::time::Duration;
/// use windlass_core::{Amount, CapacityTree, Quota, ResourceCost, Timestamp};
///
/// let mut tree = CapacityTree::new(&ResourceCost::new());
/// let daily = Quota { amount: Amount::from(1000), window: Duration::from_secs(86_400) };
/// tree.set_quota(CapacityTree::ROOT, "mails", daily, Timestamp::ZERO)?;
/// let available = tree.available(CapacityTree::ROOT, Timestamp::ZERO);
/// assert_eq!(available.to_string(), "mails=1000");
/// # Ok::<(), windlass_core::RateError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The amount per window.
    pub amount: Amount,
    /// The length of a window.
    pub window: Duration,
}

/// A rate or quota that cannot be used; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RateError {
    /// The name of the resource is empty.
    #[error("empty resource name")]
    NoName,
    /// The amount is 0, so nothing could ever be taken.
    #[error("the amount must be above 0")]
    ZeroAmount,
    /// The burst is 0, so nothing could ever be taken.
    #[error("the burst must be above 0")]
    ZeroBurst,
    /// The period or window is 0.
    #[error("the period or window must be above 0")]
    ZeroPeriod,
    /// The period or window exceeds the range of [`Timestamp`].
    #[error("{period:?} exceeds the maximum of 584 years")]
    TooLong {
        /// The period or window.
        period: Duration,
    },
    /// The product of burst and period is too large to compute with.
    #[error("a burst of {burst} over {per:?} is too large to compute exactly")]
    TooLarge {
        /// The burst.
        burst: Amount,
        /// The period.
        per: Duration,
    },
}

/// A token bucket: a [`Rate`] and the accumulated amount.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    rate: Rate,
    period: u64,
    full: i128,
    /// The level at the time of the last change; negative when in debt.
    level: i128,
    anchor: Timestamp,
}

impl Bucket {
    /// Creates a full bucket.
    pub(crate) fn new(rate: Rate, now: Timestamp) -> Result<Self, RateError> {
        let period = nanos(rate.per)?;
        if rate.amount == Amount::ZERO {
            return Err(RateError::ZeroAmount);
        }
        if rate.burst == Amount::ZERO {
            return Err(RateError::ZeroBurst);
        }
        let full = i128::from(rate.burst.steps()).checked_mul(i128::from(period));
        let full = full.ok_or(RateError::TooLarge { burst: rate.burst, per: rate.per })?;
        Ok(Self { rate, period, full, level: full, anchor: now })
    }

    /// Returns the same bucket at another rate. It keeps the accumulated amount, in whole steps.
    pub(crate) fn at_rate(&self, rate: Rate, now: Timestamp) -> Result<Self, RateError> {
        let now = now.max(self.anchor);
        let mut bucket = Self::new(rate, now)?;
        let level = self.free(now).saturating_mul(i128::from(bucket.period));
        bucket.level = level.min(bucket.full);
        Ok(bucket)
    }

    pub(crate) fn rate(&self) -> Rate {
        self.rate
    }

    /// Returns what may be taken now, in steps.
    pub(crate) fn free(&self, now: Timestamp) -> i128 {
        self.level_at(now).div_euclid(i128::from(self.period))
    }

    /// Returns whether there are this many steps. As `free`, without the division.
    #[inline]
    pub(crate) fn has(&self, steps: i128, now: Timestamp) -> bool {
        let needed = steps.checked_mul(i128::from(self.period));
        needed.is_some_and(|needed| needed <= self.level_at(now))
    }

    /// Takes steps out, or puts them back if negative, up to the burst.
    #[inline]
    pub(crate) fn charge(&mut self, steps: i128, now: Timestamp) {
        let cost = steps.saturating_mul(i128::from(self.period));
        self.level = self.level_at(now).saturating_sub(cost).min(self.full);
        self.anchor = self.anchor.max(now);
    }

    /// Returns when there are this many steps if no client takes any; [`Timestamp::MAX`] if never.
    pub(crate) fn when(&self, steps: i128, now: Timestamp) -> Timestamp {
        let needed = steps.checked_mul(i128::from(self.period));
        let Some(needed) = needed.filter(|needed| *needed <= self.full) else {
            return Timestamp::MAX;
        };
        if needed <= self.level_at(now) {
            return now;
        }
        let missing = needed.abs_diff(self.level);
        let wait = missing.div_ceil(u128::from(self.rate.amount.steps()));
        let wait = u64::try_from(wait).unwrap_or(u64::MAX);
        Timestamp::from_nanos(self.anchor.as_nanos().saturating_add(wait))
    }

    /// Returns the level in steps times nanoseconds of the period.
    #[inline]
    fn level_at(&self, now: Timestamp) -> i128 {
        let elapsed = now.as_nanos().saturating_sub(self.anchor.as_nanos());
        let gain = u128::from(elapsed) * u128::from(self.rate.amount.steps());
        if gain >= self.full.abs_diff(self.level) {
            return self.full;
        }
        self.level.checked_add_unsigned(gain).expect("less than what is missing")
    }
}

/// A [`Quota`] and what the latest window has used of it.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    quota: Quota,
    length: u64,
    /// The time of the last change, which determines the window that `used` belongs to.
    latest: Timestamp,
    used: i128,
}

impl Window {
    /// Creates a window of which nothing is used.
    pub(crate) fn new(quota: Quota, now: Timestamp) -> Result<Self, RateError> {
        let length = nanos(quota.window)?;
        if quota.amount == Amount::ZERO {
            return Err(RateError::ZeroAmount);
        }
        Ok(Self { quota, length, latest: now, used: 0 })
    }

    /// Returns the same window under another quota. It keeps what was used.
    pub(crate) fn under(&self, quota: Quota, now: Timestamp) -> Result<Self, RateError> {
        let now = now.max(self.latest);
        Ok(Self { used: self.used_at(now), ..Self::new(quota, now)? })
    }

    pub(crate) fn quota(&self) -> Quota {
        self.quota
    }

    /// Returns what may be taken now, in steps.
    #[inline]
    pub(crate) fn free(&self, now: Timestamp) -> i128 {
        i128::from(self.quota.amount.steps()).saturating_sub(self.used_at(now))
    }

    /// Takes steps, or puts them back if negative, up to the quota.
    #[inline]
    pub(crate) fn charge(&mut self, steps: i128, now: Timestamp) {
        self.used = self.used_at(now).saturating_add(steps).max(0);
        self.latest = self.latest.max(now);
    }

    /// Returns when there are this many steps if no client takes any; [`Timestamp::MAX`] if never.
    pub(crate) fn when(&self, steps: i128, now: Timestamp) -> Timestamp {
        if steps <= self.free(now) {
            return now;
        }
        if steps > i128::from(self.quota.amount.steps()) {
            return Timestamp::MAX;
        }
        let next = self.number_at(now).checked_add(1).and_then(|n| n.checked_mul(self.length));
        next.map_or(Timestamp::MAX, Timestamp::from_nanos)
    }

    fn used_at(&self, now: Timestamp) -> i128 {
        if self.number_at(now) > self.number_at(self.latest) { 0 } else { self.used }
    }

    /// Returns the number of the window, counted from the origin.
    fn number_at(&self, now: Timestamp) -> u64 {
        now.max(self.latest).as_nanos() / self.length
    }
}

fn nanos(period: Duration) -> Result<u64, RateError> {
    match u64::try_from(period.as_nanos()) {
        Ok(0) => Err(RateError::ZeroPeriod),
        Ok(nanos) => Ok(nanos),
        Err(_) => Err(RateError::TooLong { period }),
    }
}

#[cfg(test)]
mod tests;
