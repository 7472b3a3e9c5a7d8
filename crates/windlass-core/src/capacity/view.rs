//! Read-only queries on a tree.

use std::collections::BTreeMap;

use super::counter::{Counter, Kind};
use super::{CapacityTree, Place};
use crate::{Amount, ClientId, LevelId, Quota, Rate, ResourceCost, ResourceId, Timestamp};

/// The usage of a limited resource at one level, in steps of 1/10 000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    /// What is in use, at most the limit.
    pub(crate) used: u64,
    pub(crate) limit: u64,
    /// The number of refusals so far.
    pub(crate) refusals: u64,
    /// Whether the reservations here exceed what is free.
    pub(crate) short: bool,
}

impl CapacityTree {
    /// Returns what a demand may take of one resource at one level, in steps of 1/10 000: what is
    /// free minus the reservations that bind it. Negative when in debt, `i128::MAX` where the
    /// resource is unlimited.
    #[must_use]
    pub fn room(
        &self,
        client: ClientId,
        level: LevelId,
        resource: ResourceId,
        place: Place,
        now: Timestamp,
    ) -> i128 {
        match self.counter(level, resource) {
            None | Some(Counter { kind: Kind::Open, .. }) => i128::MAX,
            Some(counter) => {
                counter.free(now).saturating_sub(counter.reserved_before(self.bound(client, place)))
            }
        }
    }

    /// Returns the largest amount of a resource that can ever be taken at once at a level, or `None`
    /// where nothing bounds it.
    #[must_use]
    pub fn most(&self, level: LevelId, resource: ResourceId) -> Option<Amount> {
        self.counter(level, resource)?.most()
    }

    /// Returns when a rate or quota has room for `wanted`, if no client takes meanwhile: `now` if
    /// it has room already, [`Timestamp::MAX`] if earlier reservations have to be served first.
    /// Returns `None` where time makes no room.
    #[must_use]
    pub fn when(
        &self,
        client: ClientId,
        level: LevelId,
        resource: ResourceId,
        wanted: Amount,
        place: Place,
        now: Timestamp,
    ) -> Option<Timestamp> {
        self.counter(level, resource)?.when(wanted, self.bound(client, place), now)
    }

    /// Iterates over `level` and all levels above it, upwards.
    pub fn levels_from(&self, level: LevelId) -> impl Iterator<Item = LevelId> {
        self.chain(level)
    }

    /// Returns whether a rate or a quota was ever set. If not, the times passed to other functions
    /// do not matter.
    #[must_use]
    #[inline]
    pub fn is_timed(&self) -> bool {
        self.timed
    }

    /// Returns a number that changes with every declaration of a level, limit, rate or quota. While
    /// it is unchanged, a cost that could be met still can.
    #[must_use]
    #[inline]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns what this level itself has free, by name; 0 when in debt.
    #[must_use]
    pub fn available(&self, level: LevelId, now: Timestamp) -> ResourceCost {
        let amounts = self
            .counters(level)
            .filter_map(|(name, counter)| Some((name, counter.available(now)?)));
        amounts.map(|(name, amount)| (name.to_owned(), amount)).collect()
    }

    /// Returns the minimum of what `level` and all levels above it have free, by name; `None` if a
    /// resource is exhausted.
    #[must_use]
    pub fn peek(&self, level: LevelId, now: Timestamp) -> Option<ResourceCost> {
        let mut least = BTreeMap::new();
        for (name, counter) in self.chain(level).flat_map(|level| self.counters(level)) {
            let Some(amount) = counter.available(now) else { continue };
            if amount == Amount::ZERO {
                return None;
            }
            least
                .entry(name.to_owned())
                .and_modify(|n: &mut Amount| *n = amount.min(*n))
                .or_insert(amount);
        }
        Some(least.into_iter().collect())
    }

    /// Returns the fraction of each limit of this level that is in use, from 0 to 1; 0 for a limit
    /// of 0. Rates and quotas are left out, because they are not held.
    #[must_use]
    pub fn utilization(&self, level: LevelId) -> Vec<(&str, f64)> {
        let limited =
            self.counters(level).filter_map(|(name, counter)| Some((name, counter.used()?)));
        limited.map(|(name, (used, limit))| (name, ratio(used, limit))).collect()
    }

    /// Returns the limits of this level by name, without rates and quotas.
    #[must_use]
    pub fn limits(&self, level: LevelId) -> ResourceCost {
        let limited =
            self.counters(level).filter_map(|(name, counter)| Some((name, counter.limit()?)));
        limited.map(|(name, limit)| (name.to_owned(), limit)).collect()
    }

    /// Returns the rate of a resource at this level, if it has one.
    #[must_use]
    pub fn rate(&self, level: LevelId, name: &str) -> Option<Rate> {
        match &self.counter(level, self.resource(name)?)?.kind {
            Kind::Rate(bucket) => Some(bucket.rate()),
            _ => None,
        }
    }

    /// Returns the quota of a resource at this level, if it has one.
    #[must_use]
    pub fn quota(&self, level: LevelId, name: &str) -> Option<Quota> {
        match &self.counter(level, self.resource(name)?)?.kind {
            Kind::Quota(window) => Some(window.quota()),
            _ => None,
        }
    }

    /// Returns what is free of a limited resource at one level, in steps of 1/10 000; negative when
    /// in debt, `None` without a limit.
    #[must_use]
    pub fn free(&self, level: LevelId, name: &str) -> Option<i128> {
        let counter = self.counter(level, self.resource(name)?)?;
        Some(i128::from(counter.limit()?.steps()) - counter.in_use)
    }

    /// Returns the usage of a resource at this level, or `None` without a limit.
    pub(crate) fn usage(&self, level: LevelId, name: &str) -> Option<Usage> {
        let counter = self.counter(level, self.resource(name)?)?;
        let (used, limit) = counter.used()?;
        let free = i128::from(limit) - counter.in_use;
        let wanted = counter.reserved_before(u64::MAX);
        Some(Usage { used, limit, refusals: counter.refusals, short: wanted > free.max(0) })
    }

    /// Returns the number of refusals so far of clients at or below this level, and the number of
    /// their reservations.
    pub(crate) fn asked(&self, level: LevelId) -> (u64, usize) {
        let level = &self.levels[level.index()];
        (level.refusals, level.reservation)
    }

    /// Iterates over the counters of a level with their names.
    fn counters(&self, level: LevelId) -> impl Iterator<Item = (&str, &Counter)> {
        self.names.iter().zip(&self.levels[level.index()].counters)
    }
}

impl Counter {
    fn limit(&self) -> Option<Amount> {
        match self.kind {
            Kind::Limit(limit) => Some(limit),
            _ => None,
        }
    }

    /// Returns what is in use of a limit, at most all of it, and the limit.
    fn used(&self) -> Option<(u64, u64)> {
        let limit = self.limit()?.steps();
        Some((u64::try_from(self.in_use).map_or(limit, |used| used.min(limit)), limit))
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown to people, not decided by")]
fn ratio(used: u64, limit: u64) -> f64 {
    if limit == 0 { 0.0 } else { used as f64 / limit as f64 }
}
