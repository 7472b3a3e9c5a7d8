//! Decides whether a demand fits: limits, rates and quotas by resource on every level of a tree,
//! all or nothing.
//!
//! Whoever takes is a client at one level and is bound by that level and all above it. A client
//! whose first work was refused has one reservation: what refused it is reserved for it, and
//! binds every client that comes later in the queue. What is stored is what is in use, signed, so lowering
//! a limit below it is a debt that has to be worked off first.
//!
//! Knows nothing of works or of waiting, and of time only what it is told: whatever makes room
//! names the clients that should look again, and waking them is the driver's affair. Room that
//! comes with time alone wakes no client; [`CapacityTree::when`] tells when to look.

use std::collections::BTreeSet;

use crate::{ClientId, LevelId, ResourceCost, ResourceId, Timestamp};

mod check;
mod client;
mod counter;
mod counts;
mod demand;
mod level;
mod limits;
mod refusal;
mod reservation;
mod reservations;
mod view;
mod watchers;

use client::Client;
use counter::Counter;
pub use counts::{LevelCounts, RefusalCounts};
pub use demand::Demand;
use level::{Level, grown};
pub use refusal::{CostError, Place, Refusal, ReleaseError, Short, Shortage};
use reservation::Turns;
pub(crate) use view::Usage;

/// The resource that every work takes one of, unless its cost says how many. Unlike any other it
/// needs no declaration: where no level limits it, there is no limit.
pub const SLOTS: &str = "slots";
const SLOTS_ID: ResourceId = ResourceId(0);

/// A tree of limits that several clients share.
///
/// ```
/// use windlass_core::{CapacityTree, Place, ResourceCost, Short, Timestamp};
///
/// let now = Timestamp::ZERO;
/// let mut tree = CapacityTree::new(&ResourceCost::of([("gpu", 16)])?);
/// let team = tree.add_level(CapacityTree::ROOT, &ResourceCost::of([("gpu", 8)])?);
/// let client = tree.add_client(team);
///
/// let six = tree.demand(team, &ResourceCost::of([("gpu", 6)])?)?;
/// assert!(tree.try_take(client, &six, Place::First, now).is_ok());
/// assert_eq!(tree.available(team, now).to_string(), "gpu=2");
///
/// let refusal = tree.try_take(client, &six, Place::First, now).unwrap_err();
/// assert_eq!(refusal.shortages[0].level, team, "the root would have had enough");
/// assert_eq!(refusal.shortages[0].why, Short::Limit { free: 2 * 10_000, reserved: 0 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct CapacityTree {
    names: Vec<String>,
    levels: Vec<Level>,
    /// Numbers of removed levels, to be used again.
    vacant_levels: Vec<LevelId>,
    /// None where a client was removed.
    clients: Vec<Option<Client>>,
    /// Numbers of removed clients, to be used again.
    vacant: Vec<ClientId>,
    turns: Turns,
    /// Who watches everything, also names that are not declared yet.
    subscribers: BTreeSet<ClientId>,
    /// Whether a rate or a quota was ever set.
    timed: bool,
    /// How often something was declared.
    revision: u64,
    recent: Option<Box<limits::Recent>>,
}

impl CapacityTree {
    /// The level that all others stand under.
    pub const ROOT: LevelId = LevelId(0);

    /// A tree with these limits at its root.
    #[must_use]
    pub fn new(limits: &ResourceCost) -> Self {
        let mut tree = Self {
            names: vec![SLOTS.to_owned()],
            levels: vec![Level::under(None)],
            vacant_levels: Vec::new(),
            clients: Vec::new(),
            vacant: Vec::new(),
            turns: Turns::default(),
            subscribers: BTreeSet::new(),
            timed: false,
            revision: 0,
            recent: None,
        };
        tree.set_limits(Self::ROOT, limits);
        tree
    }

    /// Takes all of `demand` at every level of the client's chain, or nothing.
    pub fn try_take(
        &mut self,
        client: ClientId,
        demand: &Demand,
        place: Place,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        self.fit(client, demand, place, now)?;
        if place.is_resuming() {
            self.take_again(client, demand);
        } else {
            self.take(client, demand, now);
        }
        Ok(())
    }

    /// Whether [`CapacityTree::try_take`] would take; if not, that is counted as a refusal.
    #[inline]
    pub(crate) fn fit(
        &mut self,
        client: ClientId,
        demand: &Demand,
        place: Place,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        if self.can_take(client, demand, place, now) {
            return Ok(());
        }
        let refusal = self.shortages(client, demand, place, now);
        self.count_refusal(client, &refusal);
        Err(refusal)
    }

    /// Whether [`CapacityTree::try_take`] would take.
    #[must_use]
    #[inline]
    pub fn can_take(
        &self,
        client: ClientId,
        demand: &Demand,
        place: Place,
        now: Timestamp,
    ) -> bool {
        let before = self.bound(client, place);
        self.chain(self.level_of(client)).all(|level| {
            let counters = &self.levels[level.index()].counters;
            let fits = |counter: &Counter, wanted| counter.fits(wanted, place, before, now);
            demand.iter().all(|(r, wanted)| counters.get(r.index()).is_none_or(|c| fits(c, wanted)))
        })
    }

    /// Takes `demand` whether it fits or not: for replaying what was admitted before.
    #[inline]
    pub fn take(&mut self, client: ClientId, demand: &Demand, now: Timestamp) {
        let client = self.client_mut(client);
        for (resource, amount) in demand.iter() {
            *grown(&mut client.held, resource.index()) += i128::from(amount.steps());
        }
        client.in_flight += 1;
        let level = client.level;
        self.climb(level, |level| {
            level.accepted += 1;
            level.in_flight += 1;
            for (resource, amount) in demand.iter() {
                level.counter_mut(resource).take(i128::from(amount.steps()), now);
            }
        });
    }

    /// Takes what was given back by someone who goes on now: no start, so a rate or a quota counts
    /// nothing.
    pub fn take_again(&mut self, client: ClientId, demand: &Demand) {
        let client = self.client_mut(client);
        for (resource, amount) in demand.iter() {
            *grown(&mut client.held, resource.index()) += i128::from(amount.steps());
        }
        client.in_flight += 1;
        let level = client.level;
        self.climb(level, |level| {
            level.in_flight += 1;
            for (resource, amount) in demand.iter() {
                level.counter_mut(resource).in_use += i128::from(amount.steps());
            }
        });
    }

    /// Gives back what was taken; of a rate or a quota nothing comes back. Returns who should look
    /// again.
    ///
    /// # Panics
    ///
    /// If the client does not hold that much.
    pub fn give_back(&mut self, client: ClientId, demand: &Demand) -> Vec<ClientId> {
        let mut wakes = Vec::new();
        self.give_back_to(client, demand, &mut wakes);
        in_order(wakes)
    }

    /// As [`CapacityTree::give_back`]; adds the clients that should look again to `wakes`, in any order and
    /// some of them more than once.
    #[inline]
    pub(crate) fn give_back_to(
        &mut self,
        client: ClientId,
        demand: &Demand,
        wakes: &mut Vec<ClientId>,
    ) {
        assert!(self.holds(client, demand), "a client gives back at most what it holds");
        let gone = self.client(client).in_flight.min(1);
        self.release(client, demand, gone, wakes);
    }

    /// Gives back as [`CapacityTree::give_back`] does, unless the client holds less: a part of what was
    /// taken at once, or several together.
    pub fn try_give_back(
        &mut self,
        client: ClientId,
        demand: &Demand,
    ) -> Result<Vec<ClientId>, ReleaseError> {
        self.expect_held(client, demand)?;
        let mut wakes = Vec::new();
        self.release(client, demand, 0, &mut wakes);
        self.land_some(client);
        Ok(in_order(wakes))
    }

    /// Puts what was really used in place of what was taken for it. That may be more than a limit,
    /// which is a debt then; a rate or quota is charged or given the difference. Returns who should
    /// look again.
    pub fn reconcile(
        &mut self,
        client: ClientId,
        estimated: &Demand,
        actual: &Demand,
        now: Timestamp,
    ) -> Result<Vec<ClientId>, ReleaseError> {
        self.expect_held(client, estimated)?;
        let mut changes = vec![0i128; self.names.len()];
        estimated.iter().for_each(|(r, amount)| changes[r.index()] -= i128::from(amount.steps()));
        actual.iter().for_each(|(r, amount)| changes[r.index()] += i128::from(amount.steps()));
        let mut wakes = Vec::new();
        for (resource, change) in changes.into_iter().enumerate().filter(|(_, change)| *change != 0)
        {
            *grown(&mut self.client_mut(client).held, resource) += change;
            self.climb(self.level_of(client), |level| {
                let counter = level.counter_mut(ResourceId::at(resource));
                counter.take(change, now);
                if change < 0 {
                    counter.wake(&mut wakes);
                }
            });
        }
        Ok(in_order(wakes))
    }

    /// Takes back what was taken for something that never began: it is as if it had not been taken,
    /// also of a rate or a quota. Returns who should look again.
    ///
    /// # Panics
    ///
    /// If the client does not hold that much.
    pub fn take_back(
        &mut self,
        client: ClientId,
        demand: &Demand,
        now: Timestamp,
    ) -> Vec<ClientId> {
        let nothing = Demand::default();
        let taken = self.reconcile(client, demand, &nothing, now);
        let wakes = taken.expect("what never began was taken before");
        self.land_one(client);
        self.climb(self.level_of(client), |level| level.accepted -= 1);
        wakes
    }

    /// The name of a resource.
    #[must_use]
    pub fn name(&self, resource: ResourceId) -> &str {
        &self.names[resource.index()]
    }

    /// Gives back, with which so many are no longer in flight.
    #[inline]
    fn release(&mut self, giver: ClientId, demand: &Demand, gone: u64, wakes: &mut Vec<ClientId>) {
        let client = self.client_mut(giver);
        client.in_flight -= gone;
        for (resource, amount) in demand.iter() {
            client.held[resource.index()] -= i128::from(amount.steps());
        }
        let level = client.level;
        self.climb(level, |level| {
            level.in_flight -= gone;
            for (resource, amount) in demand.iter() {
                let counter = &mut level.counters[resource.index()];
                counter.give_back(giver, i128::from(amount.steps()), wakes);
            }
        });
    }

    /// Everything that stands in the way of a demand that does not fit.
    #[cold]
    pub(crate) fn shortages(
        &self,
        client: ClientId,
        demand: &Demand,
        place: Place,
        now: Timestamp,
    ) -> Refusal {
        let before = self.bound(client, place);
        let mut shortages = Vec::new();
        for level in self.chain(self.level_of(client)) {
            for (resource, wanted) in demand.iter() {
                if let Some(counter) = self.counter(level, resource)
                    && !counter.fits(wanted, place, before, now)
                {
                    let why = counter.short(wanted, before, now);
                    shortages.push(Shortage { level, resource, wanted, why });
                }
            }
        }
        Refusal { shortages }
    }

    fn count_refusal(&mut self, client: ClientId, refusal: &Refusal) {
        self.climb(self.level_of(client), |level| level.refusals += 1);
        for short in &refusal.shortages {
            let level = &mut self.levels[short.level.index()];
            level.refused.add(short);
            level.counter_mut(short.resource).refusals += 1;
        }
    }

    /// The number of a resource; none if no level ever declared it.
    #[must_use]
    pub fn resource(&self, name: &str) -> Option<ResourceId> {
        self.names.iter().position(|known| known == name).map(ResourceId::at)
    }

    fn counter(&self, level: LevelId, resource: ResourceId) -> Option<&Counter> {
        self.levels[level.index()].counters.get(resource.index())
    }

    fn chain(&self, level: LevelId) -> impl Iterator<Item = LevelId> {
        std::iter::successors(Some(level), |level| self.levels[level.index()].parent)
    }

    /// Visits `level` and all above it.
    #[inline]
    fn climb(&mut self, level: LevelId, mut visit: impl FnMut(&mut Level)) {
        let mut next = Some(level);
        while let Some(level) = next {
            let level = &mut self.levels[level.index()];
            visit(level);
            next = level.parent;
        }
    }
}

/// Each client once, in order.
#[inline]
fn in_order(clients: Vec<ClientId>) -> Vec<ClientId> {
    if clients.len() < 2 { clients } else { sorted(clients) }
}

#[cold]
fn sorted(mut clients: Vec<ClientId>) -> Vec<ClientId> {
    clients.sort_unstable();
    clients.dedup();
    clients
}

#[cfg(test)]
mod tests;
