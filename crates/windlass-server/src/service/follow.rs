//! Waiting for submitted runs, and looking who schedules and executes them.

use std::os::fd::AsFd;
use std::time::Duration;

use windlass_core::Name;
use windlass_store::{Process, RunEnd, Store, StoreError, StoredWorker, Topic, Transaction};

use super::texts::COMMANDS;
use crate::coordinator::RunError;
use crate::poll::poll;
use crate::signals::SignalPipe;

/// How often to look without a wake-up.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Waits until all runs have ended; they are whole ids. Returns their ends, or the signal that came
/// first.
pub fn await_ends(
    store: &mut Store,
    runs: &[String],
) -> Result<Result<Vec<RunEnd>, i32>, RunError> {
    let what = "the ends of runs cannot be waited for";
    let io = |source| RunError::Io { what, source };
    let signals = SignalPipe::open().map_err(io)?;
    let wakeup = store.register(&Topic::Progress)?;
    loop {
        wakeup.drain();
        let ends = store.read(|transaction| {
            let end = |run: &String| Ok(transaction.runs().listing(run)?.end);
            runs.iter().map(end).collect::<Result<Option<Vec<_>>, StoreError>>()
        })?;
        if let Some(ends) = ends {
            return Ok(Ok(ends));
        }
        let sources: [&dyn AsFd; 2] = [&signals, &wakeup];
        if poll(&sources, Some(LOOK_AGAIN)).map_err(io)?[0] {
            return Ok(Err(signals.next().map_err(io)?));
        }
    }
}

/// Returns the process of the scheduler that leads the runs of a store, if one is alive.
pub fn live_scheduler(store: &mut Store) -> Result<Option<Process>, StoreError> {
    store.read(|transaction| holder_of(transaction, &Name::Scheduler))
}

/// Returns the process of the worker of a name, if it is alive.
pub fn live_worker(store: &mut Store, name: &str) -> Result<Option<Process>, StoreError> {
    store.read(|transaction| holder_of(transaction, &Name::Worker(name.to_owned())))
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

fn holder_of(transaction: &Transaction<'_>, name: &Name) -> Result<Option<Process>, StoreError> {
    let processes =
        transaction.leases().on(name)?.into_iter().filter_map(|held| held.owner.process);
    let mut alive = processes.filter(|process| !process.is_gone());
    Ok(alive.next())
}
