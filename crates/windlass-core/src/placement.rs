//! Decides which worker executes a work: one that takes works, has the labels that the work asks for, and
//! has room for it.
//!
//! *Best fit.* Of several workers, the one is taken that is left with the least: first one without resources
//! that the work does not use, then the one with the least free. So room for large works stays whole.
//!
//! *Reservations.* What the first work of a client asks of workers, if no worker has room for it, is reserved
//! at one worker: where the least has to be given back until the work fits. A worker has at most one
//! reservation, and a client too. It binds works with a later turn, at that worker only, and stays there
//! until the work starts or leaves, or the worker takes no more works.
//!
//! *Watching.* A client watches for each [`Shape`] that was refused. [`Workers::pass_on`] offers the room that
//! workers have got since to the watching shapes that fit, in the order of their turns, as many as the room
//! may serve. Once their clients have searched, it offers what these have left to the others. So what is
//! decided does not depend on the order in which workers have got room.
//!
//! Knows neither limits, works nor time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::capacity::SLOTS;
use crate::{Amount, ClientId, ResourceCost};

mod check;
mod choice;
mod kinds;
mod labels;
mod shape;
mod watches;

pub(crate) use choice::Asked;
use choice::Reserved;
pub use kinds::{Lack, WorkerKind};
pub use labels::Selector;
use labels::{LabelId, Labels};
pub(crate) use shape::Shape;
use watches::Watches;

/// The column of [`SLOTS`].
const SLOTS_COLUMN: usize = 0;

/// What the names of resources begin with that a work takes from its worker.
pub const WORKER: &str = "worker.";

/// What a worker has: amounts of resources, without [`WORKER`] before their names, and labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerOffer {
    /// How much it has of each resource, slots included.
    pub capacity: ResourceCost,
    /// Its labels and their values.
    pub labels: BTreeMap<String, String>,
    /// Whether it takes works.
    pub intake: Intake,
}

/// Whether a worker takes works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Intake {
    /// It does.
    #[default]
    Open,
    /// It does not, and lets those that it executes end.
    Closed,
}

/// The number of a worker in a tree; one that is gone may leave it to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WorkerIndex(u32);

impl WorkerIndex {
    fn at(index: usize) -> Self {
        Self(u32::try_from(index).expect("fewer than 2^32 workers"))
    }

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// The workers of a tree.
#[derive(Clone, Debug)]
pub(crate) struct Workers {
    /// The names of resources, [`SLOTS`] first; their places are their columns in `rooms`.
    resources: Vec<Arc<str>>,
    labels: Labels,
    workers: Vec<Worker>,
    rooms: Rooms,
    numbers: BTreeMap<Arc<str>, WorkerIndex>,
    /// Numbers of workers that are gone and execute nothing, for reuse.
    vacant: BTreeSet<WorkerIndex>,
    /// What each client has at each worker, and how often.
    holds: BTreeMap<(ClientId, WorkerIndex, Arc<Shape>), usize>,
    /// Where each client has a reservation.
    reservations: BTreeMap<ClientId, WorkerIndex>,
    watches: Watches,
}

#[derive(Clone, Debug)]
struct Worker {
    name: Arc<str>,
    /// Whether it takes works; none once it is gone.
    intake: Option<Intake>,
    /// Its labels, in order, with the one that its name is.
    labels: Vec<LabelId>,
    /// How many resources it has.
    kinds: usize,
    /// How many attempts it executes.
    executing: usize,
    reserved: Option<Reserved>,
}

/// How much workers have, and have free, of each resource, in steps of 1/10 000. Free is negative while a
/// worker executes more than it has now. By resource first: a decision looks at one amount of many workers.
#[derive(Clone, Debug, Default)]
struct Rooms {
    total: Vec<Vec<i128>>,
    free: Vec<Vec<i128>>,
    workers: usize,
}

impl Rooms {
    fn total(&self, worker: usize) -> Vec<i128> {
        self.total.iter().map(|amounts| amounts[worker]).collect()
    }

    fn free(&self, worker: usize) -> Vec<i128> {
        self.free.iter().map(|amounts| amounts[worker]).collect()
    }

    /// Changes what a worker has; what it executes stays.
    fn set_total(&mut self, worker: usize, column: usize, total: i128) {
        let before = std::mem::replace(&mut self.total[column][worker], total);
        self.free[column][worker] += total - before;
    }

    fn add_worker(&mut self) {
        self.workers += 1;
        for amounts in self.total.iter_mut().chain(&mut self.free) {
            amounts.resize(self.workers, 0);
        }
    }

    fn add_column(&mut self) {
        self.total.push(vec![0; self.workers]);
        self.free.push(vec![0; self.workers]);
    }
}

impl Default for Workers {
    fn default() -> Self {
        let mut workers = Self {
            resources: Vec::new(),
            labels: Labels::default(),
            workers: Vec::new(),
            rooms: Rooms::default(),
            numbers: BTreeMap::new(),
            vacant: BTreeSet::new(),
            holds: BTreeMap::new(),
            reservations: BTreeMap::new(),
            watches: Watches::default(),
        };
        workers.column(SLOTS);
        workers
    }
}

impl Workers {
    /// Adds a worker, or changes what it has. What it executes stays.
    pub(crate) fn put(&mut self, name: &str, offer: &WorkerOffer) {
        let id = self.number(name);
        let mut labels: Vec<_> =
            offer.labels.iter().map(|(key, value)| self.labels.number(key, value)).collect();
        labels.push(self.labels.number_of_name(name));
        labels.sort_unstable();
        let amounts = offer.capacity.iter().filter(|(_, amount)| *amount != Amount::ZERO);
        let amounts: Vec<_> =
            amounts.map(|(name, amount)| (self.column(name), amount.steps())).collect();
        let worker = &mut self.workers[id.index()];
        (worker.labels, worker.kinds) = (labels, amounts.len());
        worker.intake = Some(offer.intake);
        for column in 0..self.resources.len() {
            let amount = amounts.iter().find(|(of, _)| *of == column);
            let total = amount.map_or(0, |(_, steps)| i128::from(*steps));
            self.rooms.set_total(id.index(), column, total);
        }
        self.changed(id);
    }

    /// Removes a worker: what it executes goes on to count until it is given back.
    pub(crate) fn remove(&mut self, name: &str) {
        let Some(&id) = self.numbers.get(name) else { return };
        self.workers[id.index()].intake = None;
        for column in 0..self.resources.len() {
            self.rooms.set_total(id.index(), column, 0);
        }
        self.changed(id);
        self.vacate(id);
    }

    /// Returns the names of the workers that are not gone.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let here = self.numbers.iter().filter(|(_, id)| self.workers[id.index()].intake.is_some());
        here.map(|(name, _)| &**name)
    }

    pub(crate) fn name(&self, id: WorkerIndex) -> &Arc<str> {
        &self.workers[id.index()].name
    }

    /// Takes the room of a shape at a worker for a client, whether the worker has it or not.
    pub(crate) fn take(&mut self, id: WorkerIndex, shape: &Arc<Shape>, client: ClientId) {
        *self.holds.entry((client, id, shape.clone())).or_default() += 1;
        let free = &mut self.rooms.free;
        shape.wants().for_each(|(column, steps)| free[column][id.index()] -= steps);
        self.workers[id.index()].executing += 1;
    }

    /// As [`Workers::take`], by the name of a worker, which may be gone: it executes this, or did.
    pub(crate) fn take_at(
        &mut self,
        name: &str,
        shape: &Arc<Shape>,
        client: ClientId,
    ) -> WorkerIndex {
        let id = self.number(name);
        self.take(id, shape, client);
        id
    }

    /// Gives back the room of a shape that a client has at a worker.
    pub(crate) fn give_back(&mut self, id: WorkerIndex, shape: &Arc<Shape>, client: ClientId) {
        let key = (client, id, shape.clone());
        let count = self.holds.get_mut(&key).expect("a client gives back at most what it has");
        *count -= 1;
        if *count == 0 {
            self.holds.remove(&key);
        }
        let free = &mut self.rooms.free;
        shape.wants().for_each(|(column, steps)| free[column][id.index()] += steps);
        let worker = &mut self.workers[id.index()];
        worker.executing = worker.executing.checked_sub(1).expect("it executes what it took");
        self.release(id);
        self.vacate(id);
    }

    /// Ends the reservation of a client.
    pub(crate) fn withdraw(&mut self, client: ClientId) {
        self.watches.want_no_reservation(client);
        if let Some(id) = self.reservations.remove(&client) {
            self.workers[id.index()].reserved = None;
            self.release(id);
        }
    }

    /// Forgets a client, which gives back all that it has.
    pub(crate) fn remove_client(&mut self, client: ClientId) {
        self.withdraw(client);
        while let Some((id, shape)) = self.hold_of(client) {
            self.give_back(id, &shape, client);
        }
        self.watches.forget(client);
    }

    /// Returns something that a client has.
    fn hold_of(&self, client: ClientId) -> Option<(WorkerIndex, Arc<Shape>)> {
        let first = (client, WorkerIndex(0), Arc::new(Shape::default()));
        let mut held = self.holds.range(first..).take_while(|((of, ..), _)| *of == client);
        held.next().map(|((_, id, shape), _)| (*id, shape.clone()))
    }

    /// Returns the number of the worker of a name, which may be new, and then counts as gone.
    fn number(&mut self, name: &str) -> WorkerIndex {
        if let Some(&id) = self.numbers.get(name) {
            return id;
        }
        let name: Arc<str> = Arc::from(name);
        let (labels, reserved) = (vec![self.labels.number_of_name(&name)], None);
        let worker =
            Worker { name: name.clone(), intake: None, labels, kinds: 0, executing: 0, reserved };
        let id = match self.vacant.pop_first() {
            Some(id) => {
                self.workers[id.index()] = worker;
                id
            }
            None => {
                self.workers.push(worker);
                self.rooms.add_worker();
                WorkerIndex::at(self.workers.len() - 1)
            }
        };
        self.numbers.insert(name, id);
        id
    }

    /// Forgets a worker that is gone and executes nothing.
    fn vacate(&mut self, id: WorkerIndex) {
        let worker = &self.workers[id.index()];
        if worker.intake.is_none() && worker.executing == 0 {
            self.numbers.remove(&worker.name);
            self.vacant.insert(id);
        }
    }

    /// Returns the column of a resource, which may be new.
    fn column(&mut self, name: &str) -> usize {
        if let Some(known) = self.resources.iter().position(|known| **known == *name) {
            return known;
        }
        self.resources.push(Arc::from(name));
        self.rooms.add_column();
        self.resources.len() - 1
    }
}

#[cfg(test)]
mod tests;
