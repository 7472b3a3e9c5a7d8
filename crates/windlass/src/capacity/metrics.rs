//! What a level has done so far, and how fast it does it lately.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use windlass_core::{LevelCounts, RefusalCounts, Timestamp};

use super::ResourceCapacity;
use super::shared::unpoisoned;

/// Counters over all clients at one level or below it.
///
/// ```
/// use windlass::{ResourceCapacity, ResourceCost};
///
/// let capacity = ResourceCapacity::new([("gpu", 4)]);
/// let three = ResourceCost::from([("gpu", 3)]);
/// let _held = capacity.try_acquire(&three)?;
/// assert!(capacity.try_acquire(&three).is_err());
///
/// let metrics = capacity.metrics();
/// assert_eq!((metrics.accepted, metrics.in_flight, metrics.refused.limit), (1, 1, 1));
/// assert_eq!(metrics.utilization["gpu"], 0.75);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CapacityMetrics {
    /// How many requests were granted.
    pub accepted: u64,
    /// How many requests this level itself refused, by reason. A waiter is refused each time it tries.
    pub refused: RefusalCounts,
    /// How many grants are not released yet.
    pub in_flight: u64,
    /// How many clients are queued.
    pub waiting: usize,
    /// What part of each limit of this level is in use, from 0 to 1.
    pub utilization: BTreeMap<String, f64>,
    /// The rates of the last seconds.
    pub rolling: RollingRates,
}

/// How many requests per second a level has granted and refused of late. [`CapacityMetrics`] has an example.
///
/// The level keeps what it had counted at some of the last looks at its metrics, and compares with
/// the oldest of about the last ten seconds; if the last look is older than that, with that one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RollingRates {
    /// Over what time.
    pub over: Duration,
    /// Granted requests per second.
    pub accepted_per_second: f64,
    /// Refused requests per second.
    pub refused_per_second: f64,
}

const WINDOW: Duration = Duration::from_secs(10);
/// Looks that follow faster than this are not kept.
const SPACING: Duration = Duration::from_millis(250);

impl ResourceCapacity {
    /// Returns the counters of this level.
    #[must_use]
    pub fn metrics(&self) -> CapacityMetrics {
        let now = self.now();
        let LevelCounts { accepted, refused, in_flight, waiting, .. } =
            self.lock().counts(self.level.id);
        let utilization = self.utilization();
        let seen = Seen { at: now, accepted, refused: refused.total() };
        let rolling = unpoisoned(&self.level.history).look(seen);
        CapacityMetrics { accepted, refused, in_flight, waiting, utilization, rolling }
    }
}

/// What was counted at a look.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    at: Timestamp,
    accepted: u64,
    refused: u64,
}

/// The last looks, the oldest first; never empty.
#[derive(Debug)]
pub(super) struct History(VecDeque<Seen>);

impl History {
    /// Nothing was counted at the start.
    pub(super) fn new(at: Timestamp) -> Self {
        Self(VecDeque::from([Seen { at, ..Seen::default() }]))
    }

    fn look(&mut self, now: Seen) -> RollingRates {
        while let Some(second) = self.0.get(1)
            && now.at.since(second.at) >= WINDOW
        {
            self.0.pop_front();
        }
        let base = self.0[0];
        if now.at.since(self.0[self.0.len() - 1].at) >= SPACING {
            self.0.push_back(now);
        }
        rates(base, now)
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown to people, not decided by")]
fn rates(base: Seen, now: Seen) -> RollingRates {
    let over = now.at.since(base.at);
    if over.is_zero() {
        return RollingRates::default();
    }
    let per_second = |count: u64| count as f64 / over.as_secs_f64();
    RollingRates {
        over,
        accepted_per_second: per_second(now.accepted.saturating_sub(base.accepted)),
        refused_per_second: per_second(now.refused.saturating_sub(base.refused)),
    }
}
