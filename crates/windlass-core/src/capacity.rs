//! Decides whether a demand fits: limits, rates and quotas by resource on every level of a tree,
//! all or nothing.
//!
//! A *client* (an engine or a waiting task) belongs to one level, and that level and all above it
//! bind it. Each level has one *counter* per resource. A counter stores what is in use, signed:
//! lowering a limit below that creates a debt, which releases pay off before the counter admits
//! anything.
//!
//! *Reservations.* A client reserves for at most one demand: the first in its queue, if it was
//! refused. The counters that refused it reserve the amount, and the reservation gets a sequence
//! number, the *turn*. A reservation binds every demand with a later turn, so the head of a queue
//! is not starved by smaller demands behind it. Resumed attempts have turns before all starts.
//!
//! *Watching.* A refused client watches the counters that refused it, from its turn. A counter that
//! gains room notifies its watchers in the order of their turns, up to the first for which the room
//! minus the earlier reservations cannot be enough. A notified client retries its search. At a rate
//! or a quota, time alone makes room and notifies no client: [`CapacityTree::when`] returns the
//! time at which the client should retry.
//!
//! Knows nothing of works, and reads no clock. Every call that makes room returns the clients to
//! wake; the driver wakes them.

use std::collections::BTreeSet;

use crate::placement::{WorkerIndex, Workers};
use crate::{ClientId, LevelId, ResourceCost, ResourceId, Timestamp};

mod check;
mod client;
mod counter;
mod counts;
mod demand;
mod level;
mod limits;
mod names;
mod refusal;
mod reservation;
mod reservations;
mod view;
mod watchers;
mod workers;

use client::Client;
use counter::Counter;
pub use counts::{LevelCounts, RefusalCounts};
pub use demand::Demand;
use level::{Level, grown};
use names::ResourceNames;
pub use refusal::{CostError, NamedLevel, Place, Refusal, ReleaseError, Short, Shortage};
use reservation::Turns;
pub(crate) use view::Usage;

/// The resource of which every work takes one unit, unless its cost names another amount. It is the
/// only resource that needs no declaration: where no level limits it, it is unlimited.
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
    names: ResourceNames,
    levels: Vec<Level>,
    /// Ids of removed levels, for reuse.
    vacant_levels: Vec<LevelId>,
    /// `None` where a client was removed.
    clients: Vec<Option<Client>>,
    /// Ids of removed clients, for reuse.
    vacant: Vec<ClientId>,
    turns: Turns,
    /// The clients that watch all resources, including those not declared yet.
    subscribers: BTreeSet<ClientId>,
    /// Whether a rate or a quota was ever set.
    timed: bool,
    /// The number of declarations so far.
    revision: u64,
    recent: Option<Box<limits::Recent>>,
    workers: Workers,
}

impl CapacityTree {
    /// The level above all others.
    pub const ROOT: LevelId = LevelId(0);

    /// Creates a tree with these limits at its root.
    #[must_use]
    pub fn new(limits: &ResourceCost) -> Self {
        let mut tree = Self {
            names: ResourceNames::new(),
            levels: vec![Level::under(None)],
            vacant_levels: Vec::new(),
            clients: Vec::new(),
            vacant: Vec::new(),
            turns: Turns::default(),
            subscribers: BTreeSet::new(),
            timed: false,
            revision: 0,
            recent: None,
            workers: Workers::default(),
        };
        tree.set_limits(Self::ROOT, limits);
        tree
    }

    /// Takes `demand` at every level of the client's chain, or takes nothing.
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

    /// Returns whether [`CapacityTree::try_take`] would succeed, and at which worker; counts a refusal if
    /// not.
    #[inline]
    pub(crate) fn fit(
        &mut self,
        client: ClientId,
        demand: &Demand,
        place: Place,
        now: Timestamp,
    ) -> Result<Option<WorkerIndex>, Refusal> {
        if self.levels_have(client, demand, place, now) {
            if demand.shape().is_none() {
                return Ok(None);
            }
            if let Some(worker) = self.worker_for(client, demand, place) {
                return Ok(Some(worker));
            }
        }
        let refusal = self.shortages(client, demand, place, now);
        self.count_refusal(client, &refusal);
        Err(refusal)
    }

    /// Returns whether [`CapacityTree::try_take`] would succeed.
    #[must_use]
    #[inline]
    pub fn can_take(
        &self,
        client: ClientId,
        demand: &Demand,
        place: Place,
        now: Timestamp,
    ) -> bool {
        self.levels_have(client, demand, place, now)
            && (demand.shape().is_none() || self.worker_for(client, demand, place).is_some())
    }

    #[inline]
    fn levels_have(&self, client: ClientId, demand: &Demand, place: Place, now: Timestamp) -> bool {
        let before = self.bound(client, place);
        self.chain(self.level_of(client)).all(|level| {
            let counters = &self.levels[level.index()].counters;
            let fits = |counter: &Counter, wanted| counter.fits(wanted, place, before, now);
            demand.iter().all(|(r, wanted)| counters.get(r.index()).is_none_or(|c| fits(c, wanted)))
        })
    }

    /// Takes `demand` whether it fits or not, to replay an earlier admission.
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

    /// Takes `demand` for an attempt that resumes. This is not a start, so it is not charged to
    /// rates or quotas.
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

    /// Releases `demand`. Rates and quotas get nothing back. Returns the clients to wake.
    ///
    /// # Panics
    ///
    /// Panics if the client holds less.
    pub fn give_back(&mut self, client: ClientId, demand: &Demand) -> Vec<ClientId> {
        let mut wakes = Vec::new();
        if self.give_back_to(client, demand, &mut wakes) {
            wakes.push(client);
        }
        in_order(wakes)
    }

    /// As [`CapacityTree::give_back`], but appends the other clients to wake to `wakes`, unsorted
    /// and possibly repeated, and returns whether `client` itself watches what it has given back.
    #[inline]
    pub(crate) fn give_back_to(
        &mut self,
        client: ClientId,
        demand: &Demand,
        wakes: &mut Vec<ClientId>,
    ) -> bool {
        assert!(self.holds(client, demand), "a client gives back at most what it holds");
        let gone = self.client(client).in_flight.min(1);
        self.release(client, demand, gone, wakes)
    }

    /// Releases `demand`, which may be a part of what was taken at once or several takes together.
    /// Fails if the client holds less.
    pub fn try_give_back(
        &mut self,
        client: ClientId,
        demand: &Demand,
    ) -> Result<Vec<ClientId>, ReleaseError> {
        self.expect_held(client, demand)?;
        let mut wakes = Vec::new();
        if self.release(client, demand, 0, &mut wakes) {
            wakes.push(client);
        }
        self.count_partial_release(client);
        Ok(in_order(wakes))
    }

    /// Replaces an estimated demand with the actual one. The actual demand may exceed a limit,
    /// which creates a debt. Rates and quotas are charged or refunded the difference. Returns the
    /// clients to wake.
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

    /// Undoes a take whose attempt never began, including its charge to rates and quotas. Returns
    /// the clients to wake.
    ///
    /// # Panics
    ///
    /// Panics if the client holds less.
    pub fn take_back(
        &mut self,
        client: ClientId,
        demand: &Demand,
        now: Timestamp,
    ) -> Vec<ClientId> {
        let nothing = Demand::default();
        let taken = self.reconcile(client, demand, &nothing, now);
        let wakes = taken.expect("what never began was taken before");
        self.count_release(client);
        self.climb(self.level_of(client), |level| level.accepted -= 1);
        wakes
    }

    /// Returns the name of a resource.
    #[must_use]
    pub fn name(&self, resource: ResourceId) -> &str {
        self.names.name(resource)
    }

    /// Releases `demand` and counts `gone` attempts as no longer in flight. Returns whether `giver`
    /// itself watches what it has released.
    #[inline]
    fn release(
        &mut self,
        giver: ClientId,
        demand: &Demand,
        gone: u64,
        wakes: &mut Vec<ClientId>,
    ) -> bool {
        let client = self.client_mut(giver);
        client.in_flight -= gone;
        for (resource, amount) in demand.iter() {
            client.held[resource.index()] -= i128::from(amount.steps());
        }
        let (level, mut watches) = (client.level, false);
        self.climb(level, |level| {
            level.in_flight -= gone;
            for (resource, amount) in demand.iter() {
                let counter = &mut level.counters[resource.index()];
                watches |= counter.give_back(giver, i128::from(amount.steps()), wakes);
            }
        });
        watches
    }

    /// Returns every shortage that refuses a demand.
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
        let lacks_worker =
            demand.shape().is_some() && self.worker_for(client, demand, place).is_none();
        let shape = demand.shape().filter(|_| lacks_worker).cloned();
        Refusal { shortages, shape }
    }

    fn count_refusal(&mut self, client: ClientId, refusal: &Refusal) {
        self.climb(self.level_of(client), |level| level.refusals += 1);
        for short in &refusal.shortages {
            let level = &mut self.levels[short.level.index()];
            level.refused.add(short);
            level.counter_mut(short.resource).refusals += 1;
        }
    }

    /// Returns the id of a resource, or `None` if no level ever declared it.
    #[must_use]
    pub fn resource(&self, name: &str) -> Option<ResourceId> {
        self.names.find(name)
    }

    fn counter(&self, level: LevelId, resource: ResourceId) -> Option<&Counter> {
        self.levels[level.index()].counters.get(resource.index())
    }

    fn chain(&self, level: LevelId) -> impl Iterator<Item = LevelId> {
        std::iter::successors(Some(level), |level| self.levels[level.index()].parent)
    }

    /// Calls `visit` with `level` and every level above it.
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

/// Sorts the clients and removes duplicates.
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
