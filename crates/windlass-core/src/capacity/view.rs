//! What a tree tells about itself; nothing here changes anything.

use std::collections::BTreeMap;

use super::counter::{Counter, Kind};
use super::{CapacityTree, Place};
use crate::{Amount, ClientId, LevelId, Quota, Rate, ResourceCost, ResourceId, Timestamp};

/// How a resource with a limit fares at one level, in steps of 1/10 000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    /// What is in use, no more than the limit.
    pub(crate) used: u64,
    pub(crate) limit: u64,
    /// How often it has refused someone, ever.
    pub(crate) refusals: u64,
    /// Whether those who are in the queue here want more than is free.
    pub(crate) short: bool,
}

impl CapacityTree {
    /// What the one who asks may take of one resource at one level, in steps of 1/10 000: what is
    /// free without what is reserved for those before it. Negative when in debt, `i128::MAX` where
    /// it is not limited.
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
                counter.free(now).saturating_sub(counter.set_aside(self.bound(client, place)))
            }
        }
    }

    /// When time makes room for `wanted` at a rate or quota, if nothing else takes; `now` if there
    /// is room, [`Timestamp::MAX`] if those who stand before have to take theirs first. None where
    /// time does not matter.
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

    /// `level` and all above it, upwards.
    pub fn levels_from(&self, level: LevelId) -> impl Iterator<Item = LevelId> {
        self.chain(level)
    }

    /// Whether time matters: a rate or a quota has been set somewhere. If not, any time will do
    /// where one is asked for.
    #[must_use]
    #[inline]
    pub fn is_timed(&self) -> bool {
        self.timed
    }

    /// A number that changes whenever a level, a limit, a rate or a quota is declared: while it stays,
    /// a cost that could be met still can.
    #[must_use]
    #[inline]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// What this level itself has free, by name; nothing when in debt.
    #[must_use]
    pub fn available(&self, level: LevelId, now: Timestamp) -> ResourceCost {
        let amounts = self
            .counters(level)
            .filter_map(|(name, counter)| Some((name, counter.available(now)?)));
        amounts.map(|(name, amount)| (name.to_owned(), amount)).collect()
    }

    /// What is free at `level` and all above it, the least of each; none if anything is exhausted.
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

    /// What part of each limit of this level is in use, from 0 to 1; 0 for a limit of 0. Rates and
    /// quotas have no part in it: nothing holds them.
    #[must_use]
    pub fn utilization(&self, level: LevelId) -> Vec<(&str, f64)> {
        let limited =
            self.counters(level).filter_map(|(name, counter)| Some((name, counter.used()?)));
        limited.map(|(name, (used, limit))| (name, ratio(used, limit))).collect()
    }

    /// The limits of this level, by name. Rates and quotas are not among them.
    #[must_use]
    pub fn limits(&self, level: LevelId) -> ResourceCost {
        let limited =
            self.counters(level).filter_map(|(name, counter)| Some((name, counter.limit()?)));
        limited.map(|(name, limit)| (name.to_owned(), limit)).collect()
    }

    /// The rate at which a resource of this level comes, if it does.
    #[must_use]
    pub fn rate(&self, level: LevelId, name: &str) -> Option<Rate> {
        match &self.counter(level, self.resource(name)?)?.kind {
            Kind::Rate(bucket) => Some(bucket.rate()),
            _ => None,
        }
    }

    /// The quota of a resource of this level, if it has one.
    #[must_use]
    pub fn quota(&self, level: LevelId, name: &str) -> Option<Quota> {
        match &self.counter(level, self.resource(name)?)?.kind {
            Kind::Quota(window) => Some(window.quota()),
            _ => None,
        }
    }

    /// What is free of a resource at one level, in steps of 1/10 000; negative when in debt, none
    /// where it has no limit.
    #[must_use]
    pub fn free(&self, level: LevelId, name: &str) -> Option<i128> {
        let counter = self.counter(level, self.resource(name)?)?;
        Some(i128::from(counter.limit()?.steps()) - counter.in_use)
    }

    /// How a resource of this level fares; none where it has no limit.
    pub(crate) fn usage(&self, level: LevelId, name: &str) -> Option<Usage> {
        let counter = self.counter(level, self.resource(name)?)?;
        let (used, limit) = counter.used()?;
        let free = i128::from(limit) - counter.in_use;
        let wanted = counter.set_aside(u64::MAX);
        Some(Usage { used, limit, refusals: counter.refusals, short: wanted > free.max(0) })
    }

    /// How often clients at or below this level were refused, ever, and how many are in the queue.
    pub(crate) fn asked(&self, level: LevelId) -> (u64, usize) {
        let level = &self.levels[level.index()];
        (level.refusals, level.reservation)
    }

    /// The counters of a level with their names.
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

    /// What is in use of a limit, no more than all of it, and the limit.
    fn used(&self) -> Option<(u64, u64)> {
        let limit = self.limit()?.steps();
        Some((u64::try_from(self.in_use).map_or(limit, |used| used.min(limit)), limit))
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown to people, not decided by")]
fn ratio(used: u64, limit: u64) -> f64 {
    if limit == 0 { 0.0 } else { used as f64 / limit as f64 }
}
