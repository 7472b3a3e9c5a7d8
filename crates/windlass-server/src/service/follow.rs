//! Waiting for submitted runs, and looking who schedules and executes them.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use windlass_core::Name;
use windlass_store::{Process, RunEnd, Store, StoreError, StoredWorker, Topic, Transaction};

use super::texts::COMMANDS;
use crate::coordinator::RunError;
use crate::look::run::{leader_of, live_holder};
use crate::poll::poll;
use crate::signals::SignalPipe;

/// How often to look without a wake-up.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// A run that does not go on, as nothing leads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unled {
    /// It was submitted, and no scheduler is running.
    Queued,
    /// The process that led it has ended before it.
    Interrupted,
}

/// Waits until all runs have ended; they are whole ids. Returns their ends, or the signal that came
/// first. Calls `tell` once for each run that is found without a leader.
pub fn await_ends(
    store: &mut Store,
    runs: &[String],
    tell: &mut dyn FnMut(&str, Unled),
) -> Result<Result<Vec<RunEnd>, i32>, RunError> {
    // A store that can only be read cannot notify a process.
    if let Some(ends) = ends_of(store, runs)? {
        return Ok(Ok(ends));
    }
    let what = "the ends of runs cannot be waited for";
    let io = |source| RunError::Io { what, source };
    let signals = SignalPipe::open().map_err(io)?;
    let wakeup = store.register(&Topic::Progress)?;
    let (mut told, mut sought) = (BTreeSet::new(), None::<Instant>);
    loop {
        wakeup.drain();
        if let Some(ends) = ends_of(store, runs)? {
            return Ok(Ok(ends));
        }
        // A busy scheduler notifies this process hundreds of times per second.
        if sought.is_none_or(|sought| sought.elapsed() >= LOOK_AGAIN) {
            for run in runs {
                if let Some(unled) = store.read(|transaction| unled(transaction, run))?
                    && told.insert(run)
                {
                    tell(run, unled);
                }
            }
            sought = Some(Instant::now());
        }
        let sources: [&dyn AsFd; 2] = [&signals, &wakeup];
        if poll(&sources, Some(LOOK_AGAIN)).map_err(io)?[0] {
            return Ok(Err(signals.next().map_err(io)?));
        }
    }
}

/// Returns the ends of runs, once all of them have ended.
fn ends_of(store: &mut Store, runs: &[String]) -> Result<Option<Vec<RunEnd>>, StoreError> {
    store.read(|transaction| {
        runs.iter().map(|run| Ok(transaction.runs().listing(run)?.end)).collect()
    })
}

fn unled(transaction: &Transaction<'_>, run: &str) -> Result<Option<Unled>, StoreError> {
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
