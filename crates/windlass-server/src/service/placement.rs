//! The workers of a store, as the capacity that all runs share knows them, and as orders are written to them.
//!
//! Core decides at which worker a step starts. Knows nothing of runs.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::{Amount, ResourceCost, SLOTS, WORKER, WorkerKind};
use windlass_store::{Life, Process, StoreError, StoredWorker, Transaction};
use windlass_workflow::Plan;

use super::equipment::{Equipment, Supply};
use super::texts::{COMMANDS, takes_of};
use crate::schedule::{ItemNames, SharedCapacity};

/// The slots of the workers, as a run sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slots {
    /// How many commands the workers execute at a time.
    pub(crate) all: u64,
    /// How many of them are commands of other runs.
    pub(crate) others: u64,
}

/// The workers of a store.
pub(crate) struct Placement {
    capacity: SharedCapacity,
    /// By name.
    workers: BTreeMap<String, Place>,
}

#[derive(PartialEq, Eq)]
struct Place {
    worker: StoredWorker,
    process: Process,
}

impl Placement {
    /// Creates a placement without workers, which keeps those of `capacity` up to date.
    pub(crate) fn new(capacity: SharedCapacity) -> Self {
        Self { capacity, workers: BTreeMap::new() }
    }

    /// Looks which workers are there. Returns whether something has changed.
    pub(crate) fn look(&mut self, transaction: &Transaction<'_>) -> Result<bool, StoreError> {
        let live = transaction.orders().live_workers()?.into_iter();
        let place = |(worker, process): (StoredWorker, Process)| {
            (worker.life.worker.clone(), Place { worker, process })
        };
        let found: BTreeMap<_, _> = live.map(place).collect();
        if found == self.workers {
            return Ok(false);
        }
        for name in self.workers.keys().filter(|name| !found.contains_key(*name)) {
            self.capacity.remove_worker(name);
        }
        for (name, place) in &found {
            if self.workers.get(name) != Some(place) {
                let StoredWorker { slots, state, .. } = place.worker;
                let offer = Equipment::of(&place.worker).offer(slots, state);
                self.capacity.put_worker(name, &offer);
            }
        }
        self.workers = found;
        Ok(true)
    }

    /// Returns the capacity that one run sees, with all workers and what commands of other runs have of them.
    pub(crate) fn seen_by(
        transaction: &Transaction<'_>,
        run: &str,
    ) -> Result<(SharedCapacity, Slots), StoreError> {
        let capacity = SharedCapacity::new(&ResourceCost::new());
        let mut placement = Self::new(capacity.clone());
        placement.look(transaction)?;
        let mut slots = Slots { all: 0, others: 0 };
        for (name, place) in &placement.workers {
            slots.all += u64::from(place.worker.slots);
            for order in transaction.orders().of_life(&place.worker.life, 0)? {
                if order.run != run && order.key.starts_with(COMMANDS) {
                    slots.others += 1;
                    capacity.occupy(name, &cost_of(&takes_of(&order)));
                }
            }
        }
        Ok((capacity, slots))
    }

    /// Returns the first step of a plan that no worker could ever execute, and what the workers lack; none if
    /// there are no workers.
    pub(crate) fn never(
        transaction: &Transaction<'_>,
        plan: &Plan,
    ) -> Result<Option<(String, Vec<WorkerKind>)>, StoreError> {
        let mut placement = Self::new(SharedCapacity::new(&ResourceCost::new()));
        placement.look(transaction)?;
        let mut seen = BTreeSet::new();
        for step in &plan.steps {
            if seen.insert((&step.needs.resources, &step.needs.on)) {
                let kinds = placement.capacity.never_placed(step);
                if !kinds.is_empty() {
                    return Ok(Some((step.name.clone(), kinds)));
                }
            }
        }
        Ok(None)
    }

    pub(crate) fn has_workers(&self) -> bool {
        self.at(None).is_some()
    }

    /// Returns the present life of a worker, and its process.
    pub(crate) fn of(&self, name: &str) -> Option<(&Life, &Process)> {
        self.workers.get(name).map(|place| (&place.worker.life, &place.process))
    }

    /// Returns the items of the resources of a worker that have some.
    pub(crate) fn items(&self, name: &str) -> ItemNames {
        let equipment = self.workers.get(name).map(|place| Equipment::of(&place.worker));
        let resources = equipment.unwrap_or_default().resources.into_iter();
        let items = resources.filter_map(|(resource, supply)| match supply {
            Supply::Items(items) => Some((resource, items)),
            Supply::Steps(_) => None,
        });
        items.collect()
    }

    /// Returns a life with its process, if it is there.
    pub(crate) fn find(&self, life: &Life) -> Option<(&Life, &Process)> {
        self.of(&life.worker).filter(|(of, _)| *of == life)
    }

    /// Returns `wanted` if it is there, or else the worker with the most free slots, with its process.
    pub(crate) fn at(&self, wanted: Option<&Life>) -> Option<(&Life, &Process)> {
        let wanted = wanted.and_then(|life| self.find(life));
        wanted.or_else(|| self.of(&self.capacity.idlest_worker()?))
    }
}

/// Returns a cost that takes this of a worker.
fn cost_of(takes: &BTreeMap<String, u64>) -> ResourceCost {
    let name = |name: &String| match name.as_str() {
        SLOTS => SLOTS.to_owned(),
        name => format!("{WORKER}{name}"),
    };
    takes.iter().map(|(of, steps)| (name(of), Amount::from_steps(*steps))).collect()
}
