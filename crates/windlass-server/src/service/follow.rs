//! Waiting for submitted runs, and looking who schedules and executes them.

use std::os::fd::AsFd;
use std::time::Duration;

use windlass_core::Name;
use windlass_store::{Process, RunEnd, Store, StoreError, StoredWorker, Topic, Transaction};

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

/// Returns the workers of a store, each with whether its process is alive.
pub fn workers(store: &mut Store) -> Result<Vec<(StoredWorker, bool)>, StoreError> {
    store.read(|transaction| {
        let workers = transaction.orders().workers()?.into_iter();
        let with_life = |worker: StoredWorker| {
            let alive = transaction.orders().process_of(&worker.life)?.is_some();
            Ok((worker, alive))
        };
        workers.map(with_life).collect()
    })
}

fn holder_of(transaction: &Transaction<'_>, name: &Name) -> Result<Option<Process>, StoreError> {
    let processes =
        transaction.leases().on(name)?.into_iter().filter_map(|held| held.owner.process);
    let mut alive = processes.filter(|process| !process.is_gone());
    Ok(alive.next())
}
