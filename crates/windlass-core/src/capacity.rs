//! Decides whether a cost fits: limits by resource on every level of a tree, all or nothing.
//!
//! Whoever takes is a client at one level and is bound by that level and all above it. A client
//! whose first work was refused has one standing request: what refused it is set aside for it, and
//! binds everybody who stands later in line. What is stored is what is in use, signed, so lowering
//! a limit below it is a debt that has to be worked off first.
//!
//! Knows nothing of works, time or waiting: whatever makes room names the clients that should look
//! again, and waking them is the driver's affair.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use crate::nearest::nearest;
use crate::{Amount, ClientId, LevelId, ResourceCost, ResourceId};

/// The resource that every work takes one of, unless its cost says how many. Unlike any other it
/// needs no declaration: where no level limits it, there is no limit.
pub const SLOTS: &str = "slots";
const SLOTS_ID: ResourceId = ResourceId(0);

/// A tree of limits that several clients share.
///
/// ```
/// use windlass_core::{Amount, CapacityTree, Place, ResourceCost};
///
/// let gpus = |n: u32| ResourceCost::new().with("gpu", Amount::from(n));
/// let mut tree = CapacityTree::new(&gpus(16));
/// let team = tree.add_level(CapacityTree::ROOT, &gpus(8));
/// let client = tree.add_client(team);
///
/// let demand = tree.demand(team, &gpus(6))?;
/// assert!(tree.try_take(client, &demand, Place::First).is_ok());
/// let refusal = tree.try_take(client, &demand, Place::First).unwrap_err();
/// assert_eq!((refusal.shortages[0].level, refusal.shortages[0].free), (team, 2 * 10_000));
/// # Ok::<(), windlass_core::CostError>(())
/// ```
#[derive(Clone, Debug)]
pub struct CapacityTree {
    names: Vec<String>,
    levels: Vec<Level>,
    clients: Vec<Client>,
    turns: u64,
}

#[derive(Clone, Debug)]
struct Level {
    parent: Option<LevelId>,
    /// By resource; shorter than `names` where the later ones are not declared.
    cells: Vec<Cell>,
}

/// One resource at one level.
#[derive(Clone, Debug, Default)]
struct Cell {
    limit: Option<Amount>,
    in_use: i128,
    /// What standing requests were refused here, by their turn.
    set_aside: BTreeMap<u64, Amount>,
    /// Who was refused here and has not been told since to look again.
    watchers: BTreeSet<ClientId>,
}

#[derive(Clone, Debug)]
struct Client {
    level: LevelId,
    /// In use by this client, by resource.
    held: Vec<i128>,
    standing: Option<Standing>,
}

/// The place in line of a client's first refused work.
#[derive(Clone, Debug)]
struct Standing {
    turn: u64,
    owner: u64,
    cells: BTreeSet<(LevelId, ResourceId)>,
}

/// A cost checked against a tree: it fits in principle, and its names are numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Demand(Box<[(ResourceId, Amount)]>);

/// Where in its client's own order the one who asks stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Before everything of this client that waits.
    First,
    /// Behind the client's standing request, and so bound by what is set aside for it.
    Later,
}

/// Everything that stood in the way of a cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What was short, from the client's level upwards; never empty.
    pub shortages: Vec<Shortage>,
}

/// One resource at one level of which there was too little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The level that refused.
    pub level: LevelId,
    /// The resource that was short.
    pub resource: ResourceId,
    /// What was asked for.
    pub wanted: Amount,
    /// What was free for the one who asked, in steps of 1/10 000; negative when in debt.
    pub free: i128,
}

/// Why a cost can never be met.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CostError {
    /// No level of the chain declares this resource.
    #[error("no resource is called {name:?}{}", did_you_mean(nearest))]
    Unknown {
        /// The name asked for.
        name: String,
        /// The declared name that is most like it, if one is.
        nearest: Option<String>,
    },
    /// More than a level has in all.
    #[error("{wanted} of {name:?} can never be had: the limit is {limit}")]
    AboveLimit {
        /// The resource asked for.
        name: String,
        /// How much was asked for.
        wanted: Amount,
        /// The limit that it exceeds.
        limit: Amount,
        /// The level whose limit it is.
        level: LevelId,
    },
}

fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!("; did you mean {name:?}?")).unwrap_or_default()
}

impl CapacityTree {
    /// The level that all others stand under.
    pub const ROOT: LevelId = LevelId(0);

    /// A tree with these limits at its root.
    #[must_use]
    pub fn new(limits: &ResourceCost) -> Self {
        let mut tree = Self {
            names: vec![SLOTS.to_owned()],
            levels: vec![Level { parent: None, cells: Vec::new() }],
            clients: Vec::new(),
            turns: 0,
        };
        tree.set_limits(Self::ROOT, limits);
        tree
    }

    /// A level under `parent`: what it gives is bound by its own limits and by all above it.
    pub fn add_level(&mut self, parent: LevelId, limits: &ResourceCost) -> LevelId {
        let level = LevelId::at(self.levels.len());
        self.levels.push(Level { parent: Some(parent), cells: Vec::new() });
        self.set_limits(level, limits);
        level
    }

    /// Someone who takes at `level`.
    pub fn add_client(&mut self, level: LevelId) -> ClientId {
        self.clients.push(Client { level, held: Vec::new(), standing: None });
        ClientId::at(self.clients.len() - 1)
    }

    /// The level at which `client` takes.
    #[must_use]
    pub fn level_of(&self, client: ClientId) -> LevelId {
        self.clients[client.index()].level
    }

    /// Sets the named limits and leaves the others; a name may be new. Returns who should look
    /// again.
    pub fn set_limits(&mut self, level: LevelId, limits: &ResourceCost) -> Vec<ClientId> {
        let mut wakes = BTreeSet::new();
        for (name, limit) in limits.iter() {
            let resource = self.resource_or_new(name);
            let cell = self.cell_mut(level, resource);
            cell.limit = Some(limit);
            wakes.append(&mut cell.watchers);
        }
        wakes.into_iter().collect()
    }

    /// What `cost` means at `level`, or why it could never be met there.
    pub fn demand(&self, level: LevelId, cost: &ResourceCost) -> Result<Demand, CostError> {
        let amounts = cost.iter().map(|(name, wanted)| self.need(level, name, wanted));
        let mut amounts = amounts.collect::<Result<Vec<_>, _>>()?;
        amounts.sort_unstable();
        Ok(Demand(amounts.into()))
    }

    /// Takes all of `demand` at every level of the client's chain, or nothing.
    pub fn try_take(
        &mut self,
        client: ClientId,
        demand: &Demand,
        place: Place,
    ) -> Result<(), Refusal> {
        let shortages = self.shortages(client, demand, place);
        if !shortages.is_empty() {
            return Err(Refusal { shortages });
        }
        self.take(client, demand);
        Ok(())
    }

    /// Takes `demand` whether it fits or not: for replaying what was admitted before.
    pub fn take(&mut self, client: ClientId, demand: &Demand) {
        self.add(client, demand, 1);
    }

    /// Gives back what was taken. Returns who should look again.
    ///
    /// # Panics
    ///
    /// If the client does not hold that much.
    pub fn give_back(&mut self, client: ClientId, demand: &Demand) -> Vec<ClientId> {
        self.add(client, demand, -1);
        let mut wakes = BTreeSet::new();
        for level in self.chain(self.level_of(client)).collect::<Vec<_>>() {
            for (resource, _) in &demand.0 {
                if let Some(cell) = self.levels[level.index()].cells.get_mut(resource.index()) {
                    wakes.append(&mut cell.watchers);
                }
            }
        }
        wakes.into_iter().collect()
    }

    /// Has `client` told to look again once there may be more of what was short.
    pub fn watch(&mut self, client: ClientId, refusal: &Refusal) {
        for short in &refusal.shortages {
            self.cell_mut(short.level, short.resource).watchers.insert(client);
        }
    }

    /// Sets what refused the first work of `client` aside for it. `owner` names that work: the same
    /// one again adds to its request, another takes over its place in line. Returns who should
    /// look again.
    pub fn stand(&mut self, client: ClientId, owner: u64, refusal: &Refusal) -> Vec<ClientId> {
        let turn = self.clients[client.index()].standing.as_ref().map(|standing| standing.turn);
        let same = self.clients[client.index()].standing.as_ref().is_some_and(|s| s.owner == owner);
        let wakes = if same { Vec::new() } else { self.withdraw(client) };
        let turn = turn.unwrap_or_else(|| {
            self.turns += 1;
            self.turns
        });
        for short in &refusal.shortages {
            self.cell_mut(short.level, short.resource).set_aside.insert(turn, short.wanted);
        }
        let client = &mut self.clients[client.index()];
        let standing =
            client.standing.get_or_insert(Standing { turn, owner, cells: BTreeSet::new() });
        standing.cells.extend(refusal.shortages.iter().map(|short| (short.level, short.resource)));
        wakes
    }

    /// Ends the client's standing request, if it has one. Returns who should look again.
    pub fn withdraw(&mut self, client: ClientId) -> Vec<ClientId> {
        let Some(standing) = self.clients[client.index()].standing.take() else {
            return Vec::new();
        };
        let mut wakes = BTreeSet::new();
        for (level, resource) in standing.cells {
            let cell = self.cell_mut(level, resource);
            cell.set_aside.remove(&standing.turn);
            wakes.append(&mut cell.watchers);
        }
        wakes.into_iter().collect()
    }

    /// What is free of a resource at one level, in steps of 1/10 000; negative when in debt, none
    /// where it is not limited.
    #[must_use]
    pub fn free(&self, level: LevelId, name: &str) -> Option<i128> {
        let cell = self.levels[level.index()].cells.get(self.resource(name)?.index())?;
        Some(i128::from(cell.limit?.steps()) - cell.in_use)
    }

    /// The name of a resource.
    #[must_use]
    pub fn name(&self, resource: ResourceId) -> &str {
        &self.names[resource.index()]
    }

    /// What `client` has in use, by resource number, in steps of 1/10 000.
    pub(crate) fn held(&self, client: ClientId) -> &[i128] {
        &self.clients[client.index()].held
    }

    /// Verifies that what is in use at every level is the sum over the clients at and below it.
    ///
    /// # Panics
    ///
    /// If it is not.
    pub fn check(&self) {
        let mut sums = vec![vec![0i128; self.names.len()]; self.levels.len()];
        for client in &self.clients {
            for level in self.chain(client.level) {
                let cells = sums[level.index()].iter_mut();
                cells.zip(&client.held).for_each(|(sum, held)| *sum += held);
            }
        }
        for (level, sums) in self.levels.iter().zip(&sums) {
            for (cell, sum) in level.cells.iter().zip(sums) {
                assert_eq!(cell.in_use, *sum, "in use is the sum over the clients");
            }
        }
    }

    fn need(
        &self,
        level: LevelId,
        name: &str,
        wanted: Amount,
    ) -> Result<(ResourceId, Amount), CostError> {
        let unknown = || CostError::Unknown {
            name: name.to_owned(),
            nearest: nearest(name, self.names.iter().map(String::as_str)).map(str::to_owned),
        };
        let resource = self.resource(name).ok_or_else(unknown)?;
        let mut limited = resource == SLOTS_ID;
        for level in self.chain(level) {
            let Some(limit) = self.limit(level, resource) else { continue };
            limited = true;
            if wanted > limit {
                let name = name.to_owned();
                return Err(CostError::AboveLimit { name, wanted, limit, level });
            }
        }
        if limited { Ok((resource, wanted)) } else { Err(unknown()) }
    }

    fn shortages(&self, client: ClientId, demand: &Demand, place: Place) -> Vec<Shortage> {
        let mut shortages = Vec::new();
        for level in self.chain(self.level_of(client)) {
            for &(resource, wanted) in &demand.0 {
                let Some(cell) = self.levels[level.index()].cells.get(resource.index()) else {
                    continue;
                };
                let Some(limit) = cell.limit else { continue };
                let free = i128::from(limit.steps())
                    - cell.in_use
                    - self.set_aside_before(client, cell, place);
                if wanted > Amount::ZERO && i128::from(wanted.steps()) > free {
                    shortages.push(Shortage { level, resource, wanted, free });
                }
            }
        }
        shortages
    }

    /// What is set aside in `cell` for those who stand before the one who asks.
    fn set_aside_before(&self, client: ClientId, cell: &Cell, place: Place) -> i128 {
        if cell.set_aside.is_empty() {
            return 0;
        }
        let before = match (&self.clients[client.index()].standing, place) {
            (None, _) => u64::MAX,
            (Some(standing), Place::First) => standing.turn,
            (Some(standing), Place::Later) => standing.turn + 1,
        };
        cell.set_aside.range(..before).map(|(_, amount)| i128::from(amount.steps())).sum()
    }

    fn add(&mut self, client: ClientId, demand: &Demand, sign: i128) {
        let level = self.level_of(client);
        for &(resource, amount) in &demand.0 {
            let amount = sign * i128::from(amount.steps());
            let held = grown(&mut self.clients[client.index()].held, resource.index());
            *held += amount;
            assert!(*held >= 0, "a client gives back at most what it holds");
            let mut next = Some(level);
            while let Some(level) = next {
                self.cell_mut(level, resource).in_use += amount;
                next = self.levels[level.index()].parent;
            }
        }
    }

    fn chain(&self, level: LevelId) -> impl Iterator<Item = LevelId> {
        std::iter::successors(Some(level), |level| self.levels[level.index()].parent)
    }

    fn resource(&self, name: &str) -> Option<ResourceId> {
        self.names.iter().position(|known| known == name).map(ResourceId::at)
    }

    fn resource_or_new(&mut self, name: &str) -> ResourceId {
        self.resource(name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            ResourceId::at(self.names.len() - 1)
        })
    }

    fn limit(&self, level: LevelId, resource: ResourceId) -> Option<Amount> {
        self.levels[level.index()].cells.get(resource.index())?.limit
    }

    fn cell_mut(&mut self, level: LevelId, resource: ResourceId) -> &mut Cell {
        grown(&mut self.levels[level.index()].cells, resource.index())
    }
}

impl Demand {
    /// The amounts, by resource.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ResourceId, Amount)> {
        self.0.iter().copied()
    }
}

/// The place `index` of `column`, which grows as far as needed.
fn grown<T: Default>(column: &mut Vec<T>, index: usize) -> &mut T {
    if column.len() <= index {
        column.resize_with(index + 1, T::default);
    }
    &mut column[index]
}

#[cfg(test)]
mod tests;
