//! The workers of a store: looking at them, and asking them to take nothing new.
//!
//! What is asked of a worker is a request in the store that stays until it is taken back, so that it also holds
//! for its next lives. The worker reads it whenever it looks for orders.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use windlass_core::{Name, Timestamp, nearest};
use windlass_store::{
    Process, Store, StoreError, StoredLease, StoredWorker, Transaction, WorkerState,
};

use super::equipment::Equipment;
use super::texts::COMMANDS;
use crate::look::run::live_holder;

/// A worker, as it was at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SeenWorker {
    /// The worker.
    pub worker: StoredWorker,
    /// What else it has told of itself.
    pub about: AboutWorker,
    /// What it has besides its slots.
    pub equipment: Equipment,
    /// Whether its process is alive.
    pub alive: bool,
    /// How many commands it executes.
    pub busy: usize,
    /// How many milliseconds ago it has sent its last heartbeat.
    pub heartbeat_ms: Option<u64>,
}

/// What a worker tells of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct AboutWorker {
    /// The name of its machine.
    pub machine: String,
    /// The version of its program.
    pub version: String,
    /// Its process on that machine.
    pub pid: u32,
}

/// What a worker can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To take nothing new, and to stay.
    Cordon,
    /// To take nothing new, and to leave when its steps have ended.
    Drain,
}

/// Why a worker cannot be asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AskWorkerError {
    /// There is none of that name.
    #[error("there is no worker {name:?}{}", suggestion(nearest.as_deref()))]
    Unknown {
        /// The name.
        name: String,
        /// A worker with a similar name.
        nearest: Option<String>,
    },
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map(|nearest| format!("; did you mean {nearest:?}?")).unwrap_or_default()
}

impl AboutWorker {
    pub(super) fn this(machine: String) -> Self {
        Self { machine, version: env!("CARGO_PKG_VERSION").to_owned(), pid: std::process::id() }
    }
}

impl SeenWorker {
    /// Returns its state as a word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        if self.alive { self.worker.state.word() } else { "gone" }
    }
}

impl Asked {
    fn word(self) -> &'static str {
        match self {
            Asked::Cordon => "cordon",
            Asked::Drain => "drain",
        }
    }
}

/// Returns the workers of a store, by name.
pub fn workers(store: &mut Store) -> Result<Vec<SeenWorker>, StoreError> {
    store.read(|transaction| {
        let now = transaction.now().at;
        let workers = transaction.orders().leased_workers()?.into_iter();
        workers.map(|(worker, lease)| seen(transaction, worker, lease, now)).collect()
    })
}

fn seen(
    transaction: &Transaction<'_>,
    worker: StoredWorker,
    lease: Option<StoredLease>,
    now: Timestamp,
) -> Result<SeenWorker, StoreError> {
    let process = lease.as_ref().and_then(|stored| transaction.orders().live_process(stored));
    let alive = process.is_some();
    let ago = lease.map(|stored| now.since(stored.lease.last_heartbeat).as_millis());
    let heartbeat_ms = ago.and_then(|ago| u64::try_from(ago).ok());
    let orders = transaction.orders().of_life(&worker.life, 0)?;
    let busy = orders.iter().filter(|order| order.key.starts_with(COMMANDS)).count();
    let about = serde_json::from_str(&worker.about).unwrap_or_default();
    let equipment = Equipment::of(&worker);
    Ok(SeenWorker { worker, about, equipment, alive, busy, heartbeat_ms })
}

/// Returns the user of a worker that may execute the steps which this process submits, if that is another user:
/// steps run as the user of their worker. Knows it only of a store that a group shares.
pub fn other_user(store: &mut Store) -> Result<Option<u32>, StoreError> {
    if !store.access().is_shared() {
        return Ok(None);
    }
    let this = store.access().creator();
    store.read(|transaction| {
        let orders = transaction.orders();
        let leases = orders.leased_workers()?.into_iter().filter_map(|(_, lease)| lease);
        let alive = leases.filter(|lease| orders.live_process(lease).is_some());
        Ok(alive.filter_map(|lease| lease.owner.uid).find(|uid| *uid != this))
    })
}

/// Returns the process of the worker of a name, if it is alive.
pub fn live_worker(store: &mut Store, name: &str) -> Result<Option<Process>, StoreError> {
    store.read(|transaction| live_holder(transaction, &Name::Worker(name.to_owned())))
}

/// Asks a worker for something, instead of what it was asked before; for nothing, if that is none. Returns
/// what it was asked before.
pub fn ask_worker(
    store: &mut Store,
    name: &str,
    asked: Option<Asked>,
) -> Result<Option<Asked>, AskWorkerError> {
    let known: Vec<_> = workers(store)?.into_iter().map(|seen| seen.worker.life.worker).collect();
    let before = store.transact(|transaction| {
        let (before, rows) = requests(transaction, name)?;
        if before.is_none() && !known.iter().any(|known| known == name) {
            return Ok(None);
        }
        for number in rows {
            transaction.requests().take(number)?;
        }
        if let Some(asked) = asked {
            transaction.requests().send(&target(name), asked.word())?;
        }
        transaction.orders().tell_workers();
        Ok(Some(before))
    })?;
    before.ok_or_else(|| {
        let nearest = nearest(name, known.iter().map(String::as_str));
        AskWorkerError::Unknown { name: name.to_owned(), nearest: nearest.map(str::to_owned) }
    })
}

/// Returns what the worker of a name is asked.
pub fn asked_of(store: &mut Store, name: &str) -> Result<Option<Asked>, StoreError> {
    store.read(|transaction| asked(transaction, name))
}

/// Returns what a worker is asked.
pub(super) fn asked(
    transaction: &Transaction<'_>,
    name: &str,
) -> Result<Option<Asked>, StoreError> {
    Ok(requests(transaction, name)?.0)
}

/// Forgets that a worker was asked to leave, because it begins again. Returns what it is asked else.
pub(super) fn forget_drain(
    transaction: &Transaction<'_>,
    name: &str,
) -> Result<Option<Asked>, StoreError> {
    let (asked, rows) = requests(transaction, name)?;
    if asked != Some(Asked::Drain) {
        return Ok(asked);
    }
    rows.into_iter().try_for_each(|number| transaction.requests().take(number).map(drop))?;
    Ok(None)
}

/// Returns what a worker is asked, and the numbers of the requests.
fn requests(
    transaction: &Transaction<'_>,
    name: &str,
) -> Result<(Option<Asked>, Vec<u64>), StoreError> {
    let requests = transaction.requests().pending(&target(name))?;
    let word = requests.last().map(|last| last.text.as_str());
    let asked = [Asked::Cordon, Asked::Drain].into_iter().find(|asked| Some(asked.word()) == word);
    Ok((asked, requests.iter().map(|request| request.number).collect()))
}

/// Returns the state in which a worker is that was asked this.
pub(super) fn state(asked: Option<Asked>) -> WorkerState {
    match asked {
        None => WorkerState::Up,
        Some(Asked::Cordon) => WorkerState::Cordoned,
        Some(Asked::Drain) => WorkerState::Draining,
    }
}

/// Returns the target of requests to a worker. No run has such an id, and no guard such a name.
pub(super) fn target(name: &str) -> String {
    format!("worker {name}")
}
