//! How often a work is retried, and the delays before retries.
//!
//! A policy is a pure function of the number of the retry and of a random number for the jitter.
//! The journal stores the resulting time, so a replay needs neither.

use std::time::Duration;

use crate::Random;

/// The work has one attempt.
pub const RETRY_NEVER: u32 = 0;
/// The work may be retried once, so it has up to two attempts.
pub const RETRY_ONCE: u32 = 1;
/// The work may be retried five times, so it has up to six attempts.
pub const RETRY_A_FEW: u32 = 5;
/// The work may be retried 32 times, so it has up to 33 attempts.
pub const RETRY_A_LOT: u32 = 32;

/// The number of retries, and the delays before them.
///
/// ```
/// use std::time::Duration;
/// use windlass_core::{Random, RetryPolicy};
///
/// let policy = RetryPolicy::exponential(Duration::from_secs(1)).cap(Duration::from_secs(5)).times(8);
/// let delays: Vec<_> = (1..=4).map(|n| policy.delay(n, &mut Random::new(0)).as_secs()).collect();
/// assert_eq!(delays, [1, 2, 4, 5]);
/// assert_eq!(policy.retries(), 8);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    retries: u32,
    backoff: Backoff,
    cap: Duration,
    jitter: bool,
}

/// How delays grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backoff {
    Fixed(Duration),
    Linear(Duration),
    Exponential(Duration),
    /// Up to `2^n` seconds, 512 at most, and more than half of that.
    Spread,
}

/// The maximum number of doublings of [`RetryPolicy::default`].
const MOST_DOUBLINGS: u32 = 9;

impl Default for RetryPolicy {
    /// Exponential with jitter: the n-th delay is between `u/2 + 1` and `u` seconds, with `u` = 2,
    /// 4, 8 … 512. Five retries, so six attempts, unless [`times`](RetryPolicy::times) says
    /// otherwise.
    fn default() -> Self {
        Self::growing(Backoff::Spread)
    }
}

impl RetryPolicy {
    /// Returns a policy with a constant delay. Five retries, so six attempts, unless
    /// [`times`](RetryPolicy::times) says otherwise.
    #[must_use]
    pub const fn fixed(delay: Duration) -> Self {
        Self::growing(Backoff::Fixed(delay))
    }

    /// Returns a policy whose delays are `step`, twice `step`, and so on. Five retries, so six
    /// attempts, unless [`times`](RetryPolicy::times) says otherwise.
    #[must_use]
    pub const fn linear(step: Duration) -> Self {
        Self::growing(Backoff::Linear(step))
    }

    /// Returns a policy whose delays begin with `first` and double each time. Five retries, so six
    /// attempts, unless [`times`](RetryPolicy::times) says otherwise.
    #[must_use]
    pub const fn exponential(first: Duration) -> Self {
        Self::growing(Backoff::Exponential(first))
    }

    const fn growing(backoff: Backoff) -> Self {
        Self { retries: RETRY_A_FEW, backoff, cap: Duration::MAX, jitter: false }
    }

    /// Limits every delay to `longest`.
    #[must_use]
    pub const fn cap(mut self, longest: Duration) -> Self {
        self.cap = longest;
        self
    }

    /// Randomises each delay between half of it and all of it, so that works that failed together
    /// are not retried together.
    #[must_use]
    pub const fn jitter(mut self) -> Self {
        self.jitter = true;
        self
    }

    /// Sets the number of retries; [`RETRY_A_FEW`] by default.
    #[must_use]
    pub const fn times(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Returns the number of retries.
    #[must_use]
    pub const fn retries(&self) -> u32 {
        self.retries
    }

    /// Returns the delay before the n-th retry, counted from 1.
    #[must_use]
    pub fn delay(&self, n: u32, random: &mut Random) -> Duration {
        let doublings = n.saturating_sub(1);
        let whole = match self.backoff {
            Backoff::Fixed(delay) => delay,
            Backoff::Linear(step) => step.saturating_mul(n),
            Backoff::Exponential(first) => {
                let nanos = first.as_nanos().saturating_mul(1 << doublings.min(64));
                Duration::from_nanos_u128(nanos.min(Duration::MAX.as_nanos()))
            }
            Backoff::Spread => {
                let most = 1u64 << n.min(MOST_DOUBLINGS);
                let (least, most) = (Duration::from_secs(most / 2 + 1), Duration::from_secs(most));
                between(least.min(most), most, random)
            }
        };
        let whole = whole.min(self.cap);
        if self.jitter { between(whole / 2, whole, random) } else { whole }
    }
}

/// Returns a random duration from `least` to `most`, both included.
fn between(least: Duration, most: Duration, random: &mut Random) -> Duration {
    let nanos = |length: Duration| u64::try_from(length.as_nanos()).unwrap_or(u64::MAX - 1);
    let (least, most) = (nanos(least), nanos(most));
    Duration::from_nanos(random.within(least..most.saturating_add(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(policy: RetryPolicy, ns: impl IntoIterator<Item = u32>) -> Vec<u64> {
        let mut random = Random::new(1);
        ns.into_iter().map(|n| policy.delay(n, &mut random).as_millis() as u64).collect()
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn delays_grow_as_the_policy_says() {
        assert_eq!(delays(RetryPolicy::fixed(SECOND), 1..4), [1000, 1000, 1000]);
        assert_eq!(delays(RetryPolicy::linear(SECOND), 1..4), [1000, 2000, 3000]);
        assert_eq!(delays(RetryPolicy::exponential(SECOND), 1..5), [1000, 2000, 4000, 8000]);
    }

    #[test]
    fn an_exponential_delay_keeps_doubling() {
        let policy = RetryPolicy::exponential(Duration::from_nanos(1));
        let delay = policy.delay(41, &mut Random::new(1));
        assert_eq!(delay, Duration::from_nanos(1 << 40));
    }

    #[test]
    fn a_policy_that_does_not_say_how_often_means_five_times() {
        let policies = [
            RetryPolicy::default(),
            RetryPolicy::fixed(SECOND),
            RetryPolicy::linear(SECOND),
            RetryPolicy::exponential(SECOND),
        ];
        assert_eq!(policies.map(|policy| policy.retries()), [5; 4]);
    }

    #[test]
    fn no_delay_exceeds_the_cap() {
        let capped = RetryPolicy::exponential(SECOND).cap(SECOND * 3);
        assert_eq!(delays(capped, 1..4), [1000, 2000, 3000]);
    }

    #[test]
    fn the_default_stays_within_half_and_whole_of_a_power_of_two() {
        let mut random = Random::new(5);
        for n in 1..40 {
            let u = 1u64 << n.min(9);
            let delay = RetryPolicy::default().delay(n, &mut random);
            assert!(delay >= Duration::from_secs(u / 2 + 1) && delay <= Duration::from_secs(u));
        }
        let first = RetryPolicy::default().delay(1, &mut random);
        assert_eq!(first, SECOND * 2, "between 2 and 2 seconds");
    }

    #[test]
    fn jitter_takes_off_up_to_half_and_is_the_same_for_the_same_seed() {
        let policy = RetryPolicy::fixed(SECOND).jitter();
        let first = delays(policy, 1..100);
        assert!(first.iter().all(|delay| (500..=1000).contains(delay)));
        assert!(first.iter().any(|delay| *delay != first[0]));
        assert_eq!(first, delays(policy, 1..100));
    }

    #[test]
    fn nothing_overflows_at_any_attempt() {
        let policies = [
            RetryPolicy::default(),
            RetryPolicy::fixed(Duration::MAX),
            RetryPolicy::linear(Duration::MAX).jitter(),
            RetryPolicy::exponential(Duration::MAX).jitter(),
        ];
        for policy in policies {
            assert_eq!(delays(policy, [0, 1, 31, 32, 33, u32::MAX]).len(), 6);
        }
    }
}
