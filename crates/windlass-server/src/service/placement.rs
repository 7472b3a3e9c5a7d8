//! Which worker executes a command: the one with the most free slots.
//!
//! That there is a free slot is decided before, by the capacity that all runs share: its limit on slots
//! is what the workers have together. Knows nothing of runs.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::texts::COMMANDS;
use windlass_core::{Amount, ResourceCost, SLOTS};
use windlass_store::{Life, Process, StoreError, Transaction, WorkerState};

/// The slots of the workers, as a run sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slots {
    /// How many commands the workers execute at a time.
    pub(crate) all: u64,
    /// How many of them are commands of other runs.
    pub(crate) others: u64,
}

impl Slots {
    /// Returns what is left for the run, as a limit.
    pub(crate) fn limit(self) -> ResourceCost {
        let left = self.all.saturating_sub(self.others);
        let left = u32::try_from(left).unwrap_or(u32::MAX);
        ResourceCost::new().with(SLOTS, Amount::from(left))
    }
}

/// The workers that take orders, with their slots.
#[derive(Default)]
pub(crate) struct Placement {
    workers: BTreeMap<Life, Place>,
}

struct Place {
    process: Process,
    slots: u32,
    /// How many commands it executes.
    busy: Cell<u32>,
}

impl Placement {
    /// Looks which workers are there. Returns whether their slots have changed.
    pub(crate) fn look(&mut self, transaction: &Transaction<'_>) -> Result<bool, StoreError> {
        let mut found = BTreeMap::new();
        for worker in transaction.orders().workers()? {
            let process = transaction.orders().process_of(&worker.life)?;
            let Some(process) = process.filter(|_| worker.state == WorkerState::Up) else {
                continue;
            };
            let busy = self.workers.get(&worker.life).map(|known| known.busy.get());
            let busy = Cell::new(busy.unwrap_or_default());
            found.insert(worker.life, Place { process, slots: worker.slots, busy });
        }
        let before = std::mem::replace(&mut self.workers, found);
        let slots = |place: &Place| place.slots;
        Ok(!before
            .iter()
            .map(|(life, place)| (life, slots(place)))
            .eq(self.workers.iter().map(|(life, place)| (life, slots(place)))))
    }

    /// Returns the slots that workers have for one run, and how many of them other runs use.
    pub(crate) fn slots_for(transaction: &Transaction<'_>, run: &str) -> Result<Slots, StoreError> {
        let mut placement = Self::default();
        placement.look(transaction)?;
        let all = placement.workers.values().map(|place| u64::from(place.slots)).sum();
        let commands = transaction.orders().counts(COMMANDS)?.into_iter();
        let others =
            commands.filter(|(other, _)| other != run).map(|(_, count)| count as u64).sum();
        Ok(Slots { all, others })
    }

    pub(crate) fn has_workers(&self) -> bool {
        !self.workers.is_empty()
    }

    /// Returns the slots that all workers have together, as a limit.
    pub(crate) fn limit(&self) -> ResourceCost {
        let slots: u32 =
            self.workers.values().fold(0, |sum, place| sum.saturating_add(place.slots));
        ResourceCost::new().with(SLOTS, Amount::from(slots))
    }

    /// Returns the life and the process of the worker with the most free slots; none without workers.
    pub(crate) fn roomiest(&self) -> Option<(&Life, &Process)> {
        let free = |place: &Place| i64::from(place.slots) - i64::from(place.busy.get());
        let roomiest = self.workers.iter().max_by_key(|(_, place)| free(place));
        roomiest.map(|(life, place)| (life, &place.process))
    }

    /// Forgets which commands the workers execute.
    pub(crate) fn forget_busy(&self) {
        self.workers.values().for_each(|place| place.busy.set(0));
    }

    /// Counts a command that a worker executes.
    pub(crate) fn take_slot(&self, life: &Life) {
        if let Some(place) = self.workers.get(life) {
            place.busy.set(place.busy.get() + 1);
        }
    }

    /// Counts a command that a worker executes no more.
    pub(crate) fn give_slot(&self, life: &Life) {
        if let Some(place) = self.workers.get(life) {
            place.busy.set(place.busy.get().saturating_sub(1));
        }
    }

    /// Returns `wanted` if it takes orders, or else the worker with the most room, with its process.
    pub(crate) fn at(&self, wanted: Option<&Life>) -> Option<(&Life, &Process)> {
        let wanted = wanted.and_then(|life| self.workers.get_key_value(life));
        wanted.map(|(life, place)| (life, &place.process)).or_else(|| self.roomiest())
    }
}
