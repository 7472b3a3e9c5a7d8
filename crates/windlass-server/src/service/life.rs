//! How a life of a worker begins: it locks the worker's directory, ends what earlier lives left running, takes
//! the worker's name, and reports the orders of earlier lives.
//!
//! A child that has not executed its program yet carries no tag, but it keeps the lock of its killed parent
//! until then. So once a new life has the lock, every process of an earlier one carries its tag or has ended.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use windlass_core::{HolderId, Name, Need, Token};
use windlass_store::{
    Access, Claim, Claimed, Life, OnRefusal, Process, ProcessTree, Refused, Store, StoreError,
    StoredOrder, StoredWorker, Transaction, check_text,
};

use super::texts::{EndText, OrderText, ReportText, to_text};
use super::worker::{WorkerError, WorkerSettings, lease_terms, stored};
use super::workers::{forget_drain, state};
use crate::process_tag;

/// How long a worker that has ended may keep its directory locked, by a child that has not executed its
/// program.
const EXEC_TIME: Duration = Duration::from_millis(500);
/// How long its guardian may, until it has ended what the worker has left.
const GUARDIAN_TIME: Duration = Duration::from_secs(15);
/// The interval between two looks at the lease of a worker that cannot be seen.
const NAME_INTERVAL: Duration = Duration::from_millis(250);
/// The interval between two looks at a locked directory.
const LOCK_INTERVAL: Duration = Duration::from_millis(5);

/// Returns the name of this machine, which is the name of its worker unless it has another.
#[must_use]
pub fn host_name() -> String {
    let name = windlass_store::host_name();
    if is_worker_name(&name) { name } else { "worker".to_owned() }
}

pub(super) fn is_worker_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    check_text(name).is_ok()
        && name.chars().all(plain)
        && !name.starts_with('.')
        && name.len() <= 200
}

/// Returns the directory of a worker, in that of its store.
pub(super) fn worker_dir(state: &Path, name: &str) -> PathBuf {
    state.join("workers").join(name)
}

/// Returns the tag that every process of a worker carries, in all of its lives. It contains a random
/// number, because a worker of another store may have the same name.
pub(super) fn worker_tag(dir: &Path, name: &str) -> io::Result<String> {
    let path = dir.join("tag");
    let tag = fs::read_to_string(&path).unwrap_or_default();
    if tag.starts_with("worker-") {
        return Ok(tag);
    }
    let unique = fs::read_to_string("/proc/sys/kernel/random/uuid")?;
    let tag = format!("worker-{}-{name}", unique.trim());
    let new = dir.join("tag.new");
    Access::open(&new, File::options().write(true).truncate(true))?.write_all(tag.as_bytes())?;
    fs::rename(new, path)?;
    Ok(tag)
}

/// Waits while only its heartbeats tell whether the holder of a worker's name is alive, as after a reboot of
/// this machine. Returns once the name is free, or its holder was heard of.
pub(super) fn await_name(
    store: &mut Store,
    name: &str,
    holder: &HolderId,
    mut tell: impl FnMut(),
) -> Result<(), StoreError> {
    let needs = [Need::one(Name::Worker(name.to_owned()))];
    let claim = Claim { on_refusal: OnRefusal::GiveUp, ..Claim::new(holder, &needs) };
    let mut first = None;
    while store.now().frame.is_shared() {
        let (refused, held) = store.transact(|transaction| {
            let refused = transaction.leases().refusal(&claim)?;
            Ok((refused, transaction.leases().on(&needs[0].name)?))
        })?;
        let Some(Refused { blockers, .. }) = refused else { return Ok(()) };
        // A lease that is doubted has as much time again, but no heartbeat.
        let beat = held.iter().find(|stored| !stored.doubted).map(|s| s.lease.last_heartbeat);
        let is_heard = beat.is_some_and(|beat| first.is_some_and(|first| first != beat));
        if is_heard || blockers.iter().any(Process::is_visible) {
            return Ok(());
        }
        if first.is_none() {
            tell();
        }
        first = first.or(beat);
        thread::sleep(NAME_INTERVAL);
    }
    Ok(())
}

/// How a life begins.
pub(super) struct Begin<'a> {
    pub(super) settings: &'a WorkerSettings,
    pub(super) holder: &'a HolderId,
    pub(super) process: &'a Process,
}

impl Begin<'_> {
    /// Takes the worker's name, and reports the orders of its earlier lives, of which no process is left.
    /// Returns how many of them are lost; none if another process has the name.
    pub(super) fn life(
        &self,
        transaction: &Transaction<'_>,
        ends: &BTreeMap<u64, String>,
    ) -> Result<Option<(Life, usize)>, StoreError> {
        let name = self.settings.name.clone();
        let needs = [Need::one(Name::Worker(name.clone()))];
        let terms = lease_terms(self.settings.lease);
        // An earlier life of this process, which has ended its orders.
        for earlier in transaction.leases().on(&Name::Worker(name.clone()))? {
            if earlier.lease.holder == *self.holder {
                transaction.leases().release(&earlier.name, self.holder, earlier.lease.token)?;
            }
        }
        let process = Some(self.process);
        let claim = Claim { process, terms, ..Claim::new(self.holder, &needs) };
        let Claimed::Held(holds) = transaction.leases().claim(&claim)? else {
            transaction.leases().leave_queue(self.holder)?;
            return Ok(None);
        };
        let life = Life { worker: name, token: holds[0].token };
        let orders = transaction.orders().before(&life)?;
        let lost = bury(transaction, orders, ends, "its worker was killed")?;
        let since_ms = transaction.now().wall_ms;
        // A worker that was drained is started again on purpose.
        let asked = forget_drain(transaction, &life.worker)?;
        let worker = stored(self.settings, life.clone(), state(asked));
        transaction.orders().put_worker(&StoredWorker { since_ms, ..worker })?;
        Ok(Some((life, lost)))
    }
}

/// Reports the orders of lives that are over, of which no process is left: as they ended, where that is
/// known, and otherwise as lost. Returns how many are lost.
pub(super) fn bury(
    transaction: &Transaction<'_>,
    orders: Vec<StoredOrder>,
    ends: &BTreeMap<u64, String>,
    why: &str,
) -> Result<usize, StoreError> {
    let at = transaction.now().at.as_nanos();
    let lost = to_text(&ReportText { at, end: EndText::Lost(why.to_owned()) });
    let report = |token: u64| (token, ends.get(&token).unwrap_or(&lost).clone());
    let reports: Vec<_> = orders.into_iter().map(|order| report(order.token)).collect();
    transaction.orders().bury(&reports)?;
    Ok(reports.iter().filter(|(token, _)| !ends.contains_key(token)).count())
}

/// Returns what may be left of the processes of a worker's earlier lives. A process that has cleared its
/// environment is found by the tag of its order.
pub(super) fn left_by(
    transaction: &Transaction<'_>,
    name: &str,
    tag: &str,
) -> Result<Vec<ProcessTree>, StoreError> {
    let orders = orders_before(transaction, name)?;
    let of_orders = orders.iter().filter_map(order_tree);
    Ok(std::iter::once(process_tag::tree_of(tag)).chain(of_orders).collect())
}

/// Returns the orders that no life of a worker has reported.
pub(super) fn orders_before(
    transaction: &Transaction<'_>,
    name: &str,
) -> Result<Vec<StoredOrder>, StoreError> {
    let next = Life { worker: name.to_owned(), token: Token(u64::MAX >> 1) };
    transaction.orders().before(&next)
}

/// Returns the processes of an order, as far as they can be told without their worker's tag.
pub(super) fn order_tree(order: &StoredOrder) -> Option<ProcessTree> {
    let text = serde_json::from_str::<OrderText>(&order.text).ok()?;
    Some(process_tag::tree_of(text.tag()))
}

/// Locks the directory of a worker for this process. Waits for what an earlier life has left, unless its
/// process `is_alive`. Returns none if another process holds the lock.
pub(super) fn take_presence(
    dir: &Path,
    mut is_alive: impl FnMut() -> Result<bool, StoreError>,
) -> Result<Option<File>, WorkerError> {
    let io = |source| WorkerError::Io { what: "cannot lock the directory of the worker", source };
    Access::create_dir(dir).map_err(io)?;
    let began = Instant::now();
    loop {
        if let Some(file) = try_presence(dir).map_err(io)? {
            return Ok(Some(file));
        }
        let waited = began.elapsed();
        if waited > GUARDIAN_TIME || waited > EXEC_TIME && is_alive()? {
            return Ok(None);
        }
        thread::sleep(LOCK_INTERVAL);
    }
}

/// Locks the directory of a worker, unless another process has locked it.
pub(super) fn try_presence(dir: &Path) -> io::Result<Option<File>> {
    let file = Access::open(&dir.join("lock"), File::options().write(true))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
