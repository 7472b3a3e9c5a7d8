//! Where the steps of a run are executed: at workers, to which core sends them.

use std::collections::BTreeMap;

use windlass_core::{Input, WorkId};

use super::{ItemNames, Schedule};
use crate::service::taken_of_worker;

impl Schedule {
    /// Returns the names of the workers that facts of the run mean by numbers, in the order of these.
    pub(crate) fn worker_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.engine.worker_names()
    }

    /// Names the workers that the facts of a journal mean by numbers, before these are replayed.
    pub(crate) fn name_workers(&mut self, names: &[String]) {
        names.iter().for_each(|name| _ = self.engine.name_worker(name));
    }

    /// Searches again for a step that lacked room at workers, which may have some now.
    pub(crate) fn search_placement(&mut self) {
        self.apply(Input::RetryPlacement).expect("it can always search");
    }

    /// Returns the name of the worker at which a granted or running step is.
    pub(crate) fn placed_at(&self, work: WorkId) -> Option<String> {
        self.capacity.look(|tree| self.engine.placed_at(tree, work).map(str::to_owned))
    }

    /// Returns what a step takes of its worker, in steps of 1/10 000.
    pub(crate) fn takes_of_worker(&self, work: WorkId) -> BTreeMap<String, u64> {
        taken_of_worker(&self.step(work).needs.resources)
    }

    /// Gives a step that starts items of its worker, which has these.
    pub(crate) fn take_worker_items(&mut self, work: WorkId, worker: &str, has: &ItemNames) {
        let whole = |steps: u64| usize::try_from(steps / windlass_core::Amount::ONE.steps());
        let wanted = self.takes_of_worker(work).into_iter();
        let wanted = wanted.map(|(name, steps)| (name, whole(steps).unwrap_or(usize::MAX)));
        self.capacity.take_items(work, worker, has, &wanted.collect());
    }

    /// Notes the items of its worker that an attempt got from an earlier scheduler.
    pub(crate) fn take_worker_items_again(&mut self, work: WorkId, worker: &str, items: ItemNames) {
        self.capacity.take_items_again(work, worker, items);
    }

    /// Returns the items of its worker that a step has.
    pub(crate) fn worker_items(&self, work: WorkId) -> ItemNames {
        match self.capacity.is_placed() {
            true => self.capacity.items(work),
            false => ItemNames::new(),
        }
    }

    /// Takes back the items of steps whose transitions, from that one on, have ended what they hold.
    pub(super) fn give_items_back(&self, from: usize) {
        if self.capacity.is_placed() {
            let ended = self.transitions[from..].iter().filter(|change| !change.to.holds());
            ended.for_each(|change| self.capacity.give_items_back(change.work));
        }
    }
}
