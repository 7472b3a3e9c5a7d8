//! A worker: executes the orders of a scheduler, and reports how they ended.
//!
//! It works under a lease on its name. The token of the lease is its *life*: orders are written to a life,
//! and a life that is over reports nothing any more. A worker that begins first ends whatever earlier lives of
//! its name have left running, and only then reports their orders: as they ended, where the ledger knows it,
//! and otherwise as lost.
//!
//! An order may be running from the commit that wrote it, so nothing is acknowledged. A report follows once no
//! process of the order is left, and is repeated until the store has it. Everything that ends an order by time
//! is part of the order, so a worker needs no scheduler for it.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use thiserror::Error;
use windlass_core::{HolderId, LeaseTerms};
use windlass_store::{Life, Process, Store, StoreError, StoredWorker, WorkerState};

use super::duty::{Duty, Place};
use super::equipment::Equipment;
use super::guarded::Guarded;
use super::life::{
    await_name, host_name, is_worker_name, orders_before, take_presence, worker_dir, worker_tag,
};
use super::log_sender::LogSender;
use super::texts::to_text;
use super::watchdog::Watchdog;
use super::workers::{AboutWorker, live_worker};
use crate::clock::Clock;
use crate::coordinator::RunError;
use crate::coordinator::attempts::LocalAttempts;
use crate::heartbeat::Heartbeat;
use crate::inherited::Inherited;
use crate::processes::ProcessSettings;
use crate::tree;

/// A look at the store takes at most this part of a lease, and at least so long as a busy machine needs.
const LOOKS: u32 = 12;
const LOOK: Duration = Duration::from_millis(250);
/// How many checks and hooks a worker executes beside its commands, at least.
const BESIDE: usize = 64;

/// How a worker works.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// Its name, which no other worker of the store has.
    pub name: String,
    /// How many commands it executes at a time.
    pub slots: u32,
    /// What it has besides slots.
    pub equipment: Equipment,
    /// How long its lease lasts without heartbeats.
    pub lease: Duration,
    /// After which time without orders and without a scheduler it ends; none if it never does.
    pub idle: Option<Duration>,
    /// How many bytes of each log a store keeps that keeps logs: the beginning and the end.
    pub kept_log: u64,
    /// The arguments with which this program calls [`guard`](super::guard) for the worker.
    pub guardian: Vec<OsString>,
}

/// Executes orders.
pub struct Worker {
    duty: Duty<Guarded>,
    _heartbeat: Heartbeat,
}

/// What a worker reports to its user.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerNews {
    /// It takes orders.
    Ready {
        /// Its life.
        life: Life,
        /// How many orders of its earlier lives it has reported as lost.
        lost: usize,
    },
    /// Another process has had its name, and only the lease can tell whether that is alive.
    AwaitingName,
    /// It takes no new orders, and ends once those that it has have ended.
    Draining,
    /// It takes no new orders, and stays.
    Cordoned,
    /// It takes orders again.
    Uncordoned,
    /// The store cannot be used at the moment; the worker tries again.
    Trouble(String),
    /// The store can be used again.
    Recovered,
    /// Orders wait, because the system lacks room for another process, or the disk for a log.
    NoRoom(String),
}

/// Why a worker has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerEnd {
    /// A signal has asked it to, and all of its orders have ended.
    Drained,
    /// A second signal has come; its orders were killed and reported as lost.
    Killed,
    /// It had nothing to do for long.
    Idle,
    /// Its heartbeats came too late, or not at all, so that other processes could take it for dead. Its orders
    /// were killed, and it can begin another life.
    LifeOver,
}

/// Why a process cannot be a worker.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The name cannot be one of a worker.
    #[error("invalid worker name {name:?}: use letters, digits, dots, dashes and underscores")]
    Name {
        /// The name.
        name: String,
    },
    /// Another process is the worker of that name.
    #[error("a worker named {name} is already running; give this one another name with --name")]
    Running {
        /// The name.
        name: String,
    },
    /// The system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Orders cannot be executed.
    #[error(transparent)]
    Execute(#[from] RunError),
}

impl Worker {
    /// Becomes the worker of a name: ends what its earlier lives have left running, and reports their
    /// orders.
    pub fn start(
        mut store: Store,
        settings: WorkerSettings,
        tell: &mut dyn FnMut(&WorkerNews),
    ) -> Result<Self, WorkerError> {
        let io = |what| move |source| WorkerError::Io { what, source };
        let (name, kept) = (settings.name.clone(), settings.kept_log);
        if !is_worker_name(&name) {
            return Err(WorkerError::Name { name });
        }
        let dir = worker_dir(store.dir(), &name);
        let presence = take_presence(&dir, || Ok(live_worker(&mut store, &name)?.is_some()))?;
        let Some(presence) = presence else { return Err(WorkerError::Running { name }) };
        let tag = worker_tag(&dir, &name).map_err(io("cannot write the worker's directory"))?;
        let process = Process::current().map_err(io("this process cannot be identified"))?;
        let (lease, holder) = (settings.lease, worker_holder(&name, &process));
        await_name(&mut store, &name, &holder, || tell(&WorkerNews::AwaitingName))?;
        store.keep_pace_with(lease);
        let mut store = store.opener_within((lease / LOOKS).max(LOOK)).open()?;
        let inherited = Inherited::without_password_of(&store)?;
        let (clock, at_once) = (Clock::start(), BESIDE.saturating_add(settings.slots as usize));
        let processes = ProcessSettings { tag: tag.clone(), at_once, inherited: inherited.clone() };
        let mut attempts = LocalAttempts::new(processes, clock.clone())?;
        attempts.isolate_logs();
        let attempts = Guarded::new(attempts, presence);
        let place = Place { dir: &dir, tag: &tag, process: &process, kill: &tree::kill_all };
        let logs = store.try_clone()?;
        let keeps_logs = store.logs().is_some();
        let before = store.read(|transaction| orders_before(transaction, &name))?;
        let (mut duty, begun) = Duty::begin(store, settings, &place, attempts, clock)?;
        let _heartbeat = duty.guard(process, &begun, inherited)?;
        if keeps_logs {
            let sender = LogSender::start(logs, kept);
            let sender = sender.map_err(io("the thread that sends logs cannot be started"))?;
            duty.send_logs(sender, &before);
        }
        duty.set_ready(Watchdog::of_process());
        tell(&WorkerNews::Ready { life: duty.life().clone(), lost: begun.lost });
        Ok(Self { duty, _heartbeat })
    }

    /// Executes orders until a signal asks it to end, or there has been nothing to do for long.
    pub fn work(mut self, tell: &mut dyn FnMut(&WorkerNews)) -> Result<WorkerEnd, WorkerError> {
        loop {
            if let Some(end) = self.duty.go_on(tell)? {
                return self.duty.end(end);
            }
        }
    }
}

pub(super) fn stored(settings: &WorkerSettings, life: Life, state: WorkerState) -> StoredWorker {
    let offer = settings.equipment.to_text();
    let about = to_text(&AboutWorker::this(host_name()));
    StoredWorker { life, slots: settings.slots, offer, state, since_ms: 0, about }
}

/// Returns the holder of a worker's name that a process is.
pub(super) fn worker_holder(name: &str, process: &Process) -> HolderId {
    HolderId::new(format!("worker {name}[{}]", process.id()))
}

pub(super) fn lease_terms(lease: Duration) -> LeaseTerms {
    LeaseTerms { heartbeat_timeout: lease, ..LeaseTerms::default() }
}
