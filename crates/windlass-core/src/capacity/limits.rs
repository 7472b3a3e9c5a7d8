//! Declarations of limits, rates and quotas, and the check whether a cost can ever be met.

use super::counter::{Counter, Kind};
use super::{CapacityTree, CostError, Demand, SLOTS_ID, in_order};
use crate::nearest::nearest;
use crate::rate::{Bucket, Window};
use crate::{ClientId, LevelId, Quota, Rate, RateError, ResourceCost, ResourceId, Timestamp};

/// The result of a recent check of a cost.
#[derive(Clone, Debug)]
pub(super) struct Recent {
    level: LevelId,
    revision: u64,
    cost: ResourceCost,
    demand: Demand,
    /// The number of checks of other costs since.
    misses: u32,
}

impl Recent {
    const PATIENCE: u32 = 8;
}

impl CapacityTree {
    /// Sets the named limits and leaves the others unchanged. A name may be new, or have been a
    /// rate or a quota. A limit below what is in use creates a debt. Returns the clients to wake.
    pub fn set_limits(&mut self, level: LevelId, limits: &ResourceCost) -> Vec<ClientId> {
        let mut wakes = Vec::new();
        self.revision += 1;
        for (name, limit) in limits.iter() {
            let counter = self.declare(level, name, &mut wakes);
            match counter.kind {
                Kind::Limit(before) => {
                    counter.kind = Kind::Limit(limit);
                    if limit > before {
                        counter.wake(&mut wakes);
                    }
                }
                _ => counter.become_kind(Kind::Limit(limit), &mut wakes),
            }
        }
        in_order(wakes)
    }

    /// Replaces the limit, rate or quota of a resource at this level with a rate. The bucket starts
    /// full; if the resource had a rate, it keeps the accumulated amount up to the new burst.
    /// Returns the clients to wake.
    pub fn set_rate(
        &mut self,
        level: LevelId,
        name: &str,
        rate: Rate,
        now: Timestamp,
    ) -> Result<Vec<ClientId>, RateError> {
        self.set_kind(level, name, |before| match before {
            Some(Kind::Rate(bucket)) => Ok(Kind::Rate(Box::new(bucket.at_rate(rate, now)?))),
            _ => Ok(Kind::Rate(Box::new(Bucket::new(rate, now)?))),
        })
    }

    /// Replaces the limit, rate or quota of a resource at this level with a quota. If the resource
    /// had a quota, the present window keeps what was used. Returns the clients to wake.
    pub fn set_quota(
        &mut self,
        level: LevelId,
        name: &str,
        quota: Quota,
        now: Timestamp,
    ) -> Result<Vec<ClientId>, RateError> {
        self.set_kind(level, name, |before| match before {
            Some(Kind::Quota(window)) => Ok(Kind::Quota(Box::new(window.under(quota, now)?))),
            _ => Ok(Kind::Quota(Box::new(Window::new(quota, now)?))),
        })
    }

    /// Checks `cost` against the limits of `level` and all above it. Fails if it could never be
    /// met.
    pub fn demand(&self, level: LevelId, cost: &ResourceCost) -> Result<Demand, CostError> {
        let demand = self.actual(level, cost)?;
        for level in self.chain(level) {
            for (resource, wanted) in demand.iter() {
                let most = self.counter(level, resource).and_then(Counter::most);
                if let Some(limit) = most.filter(|most| wanted > *most) {
                    let name = self.name(resource).to_owned();
                    return Err(CostError::AboveLimit { name, wanted, limit, level });
                }
            }
        }
        Ok(demand)
    }

    /// As [`CapacityTree::demand`], for a client that takes at once. Caches the result, because
    /// frequent callers repeat a cost. Counts a cost above a limit as a refusal, for the balancer.
    pub fn recent_demand(
        &mut self,
        level: LevelId,
        cost: &ResourceCost,
    ) -> Result<Demand, CostError> {
        if self.remembers(level, cost)
            && let Some(recent) = &mut self.recent
        {
            recent.misses = 0;
            return Ok(recent.demand.clone());
        }
        let demand = self.demand(level, cost);
        match &demand {
            Ok(demand) => self.remember(level, cost, demand),
            Err(error) => self.count_impossible(level, error),
        }
        demand
    }

    fn count_impossible(&mut self, asked_at: LevelId, error: &CostError) {
        if let CostError::AboveLimit { name, level, .. } = error
            && let Some(resource) = self.resource(name)
        {
            self.climb(asked_at, |level| level.refusals += 1);
            self.levels[level.index()].counter_mut(resource).refusals += 1;
        }
    }

    #[inline]
    fn remembers(&self, level: LevelId, cost: &ResourceCost) -> bool {
        self.recent.as_ref().is_some_and(|recent| {
            recent.level == level && recent.revision == self.revision && recent.cost == *cost
        })
    }

    /// Caches a result, unless the cached one was used recently: an insertion costs more than a
    /// check.
    fn remember(&mut self, level: LevelId, cost: &ResourceCost, demand: &Demand) {
        if let Some(recent) = &mut self.recent
            && recent.misses < Recent::PATIENCE
        {
            recent.misses += 1;
            return;
        }
        let (revision, cost, demand) = (self.revision, cost.clone(), demand.clone());
        self.recent = Some(Box::new(Recent { level, revision, cost, demand, misses: 0 }));
    }

    /// Returns the demand for `cost` at `level`, even above a limit: for
    /// [`CapacityTree::reconcile`], as actual use may exceed what could have been requested.
    pub fn actual(&self, level: LevelId, cost: &ResourceCost) -> Result<Demand, CostError> {
        Demand::of(cost.iter().map(|(name, amount)| Ok((self.declared(level, name)?, amount))))
    }

    /// Returns the id of a name that a level of the chain declares.
    fn declared(&self, level: LevelId, name: &str) -> Result<ResourceId, CostError> {
        let limited =
            |resource, level| self.counter(level, resource).and_then(Counter::most).is_some();
        let known = |resource: &ResourceId| {
            *resource == SLOTS_ID || self.chain(level).any(|level| limited(*resource, level))
        };
        self.resource(name).filter(known).ok_or_else(|| self.unknown(name, known))
    }

    #[cold]
    fn unknown(&self, name: &str, known: impl Fn(&ResourceId) -> bool) -> CostError {
        let names = (0..self.names.len()).map(ResourceId::at).filter(known);
        let nearest = nearest(name, names.map(|resource| self.name(resource)));
        CostError::Unknown { name: name.to_owned(), nearest: nearest.map(str::to_owned) }
    }

    fn set_kind(
        &mut self,
        level: LevelId,
        name: &str,
        kind: impl FnOnce(Option<&Kind>) -> Result<Kind, RateError>,
    ) -> Result<Vec<ClientId>, RateError> {
        if name.is_empty() {
            return Err(RateError::NoName);
        }
        let counter = self.resource(name).and_then(|resource| self.counter(level, resource));
        let kind = kind(counter.map(|counter| &counter.kind))?;
        let mut wakes = Vec::new();
        self.timed = true;
        self.revision += 1;
        self.declare(level, name, &mut wakes).become_kind(kind, &mut wakes);
        Ok(in_order(wakes))
    }

    /// Returns the counter of a name at a level. A new name has no watchers of its own yet, so the
    /// clients that watch everything are notified.
    fn declare(&mut self, level: LevelId, name: &str, wakes: &mut Vec<ClientId>) -> &mut Counter {
        let resource = self.resource(name).unwrap_or_else(|| {
            wakes.extend(std::mem::take(&mut self.subscribers));
            self.names.add(name)
        });
        self.levels[level.index()].counter_mut(resource)
    }
}
