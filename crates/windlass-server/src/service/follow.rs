//! Looking who schedules and executes submitted runs.

use windlass_core::Name;
use windlass_store::{Process, Store, StoreError, StoredWorker, Transaction};

use super::texts::COMMANDS;
use crate::look::run::{leader_of, live_holder};
/// A run that does not go on, as nothing leads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unled {
    /// It was submitted, and no scheduler is running.
    Queued,
    /// The process that led it has ended before it.
    Interrupted,
}

/// Returns why a run that has not ended does not go on, if that is so.
pub(super) fn unled(transaction: &Transaction<'_>, run: &str) -> Result<Option<Unled>, StoreError> {
    if transaction.runs().listing(run)?.end.is_some() {
        return Ok(None);
    }
    let (leader, unled) = match transaction.runs().find(run)?.env {
        Some(_) => (live_holder(transaction, &Name::Scheduler)?.is_some(), Unled::Queued),
        None => (leader_of(transaction, run)?.is_some(), Unled::Interrupted),
    };
    Ok((!leader).then_some(unled))
}

/// Returns the process of the scheduler that leads the runs of a store, if one is alive.
pub fn live_scheduler(store: &mut Store) -> Result<Option<Process>, StoreError> {
    store.read(|transaction| live_holder(transaction, &Name::Scheduler))
}

/// Returns the process of the worker of a name, if it is alive.
pub fn live_worker(store: &mut Store, name: &str) -> Result<Option<Process>, StoreError> {
    store.read(|transaction| live_holder(transaction, &Name::Worker(name.to_owned())))
}

/// A worker, as it was at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SeenWorker {
    /// The worker.
    pub worker: StoredWorker,
    /// Whether its process is alive.
    pub alive: bool,
    /// How many commands it executes.
    pub busy: usize,
}

impl SeenWorker {
    /// Returns its state as a word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        if self.alive { self.worker.state.word() } else { "gone" }
    }
}

/// Returns the workers of a store, by name.
pub fn workers(store: &mut Store) -> Result<Vec<SeenWorker>, StoreError> {
    store.read(|transaction| {
        let workers = transaction.orders().workers()?.into_iter();
        let seen = |worker: StoredWorker| {
            let alive = transaction.orders().process_of(&worker.life)?.is_some();
            let orders = transaction.orders().of_life(&worker.life, 0)?;
            let busy = orders.iter().filter(|order| order.key.starts_with(COMMANDS)).count();
            Ok(SeenWorker { worker, alive, busy })
        };
        workers.map(seen).collect()
    })
}
