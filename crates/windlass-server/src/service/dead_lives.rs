//! Lives of workers that have ended without a word, as the scheduler that leads sees them.
//!
//! A life is dead once its lease is stale, and no heartbeat has come for a whole lease by the scheduler's own
//! clock, which does not count the time that the machine sleeps. The scheduler first ends the life in the
//! store, in a transaction of its own: until then a worker that could not write may still be alive. The
//! guardian has ended what the life has executed. The scheduler makes sure of that, and takes its orders for
//! lost, so that they are repeated elsewhere.
//!
//! Of a worker whose process has ended, the scheduler first locks the directory, so that no new life begins
//! meanwhile. The directory of one that is suspended is locked; there it searches only for processes of the
//! dead life's orders, because the worker may begin another life at any moment.
//!
//! Of workers whose processes cannot be seen from here, or belong to another user, it ends nothing. Where
//! workers may be on other machines, the lease alone decides: the guardian has ended what the life executed
//! long before. Otherwise their orders wait for their next life.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::geteuid;
use windlass_core::Timestamp;
use windlass_store::{
    Life, Liveness, Name, Process, ProcessTree, StoreError, StoredLease, StoredOrder, Transaction,
};

use super::ledger::Ledger;
use super::life::{bury, order_tree, try_presence, worker_dir, worker_tag};
use crate::process_tag;
use crate::tree;

#[cfg(test)]
mod tests;

/// How long a scheduler may not look, as while it is cut off, before it starts to watch anew; or this part of
/// a lease.
const BLINK: Duration = Duration::from_secs(6);
const BLINKS: u32 = 4;

/// The shortest interval between two looks: rounds may follow each other at once.
const SHORTEST: Duration = Duration::from_millis(250);
/// The longest interval while a life has missed a heartbeat. Without that, a look with each round is enough.
const ALARMED: Duration = Duration::from_secs(5);
/// A life whose last heartbeat is older than this part of its lease has missed one.
const MISSED: u32 = 3;

/// When the heartbeats of lives were seen to change.
#[derive(Default)]
pub(super) struct LifeWatch {
    seen: BTreeMap<Life, LastBeat>,
    looked: Option<Instant>,
    /// A heartbeat was missed.
    is_alarmed: bool,
}

struct LastBeat {
    heartbeat: Timestamp,
    since: Instant,
}

/// A life that sends no heartbeats any more.
pub(super) struct DeadLife {
    life: Life,
    lease: StoredLease,
    /// What it may be executing.
    orders: Vec<StoredOrder>,
    /// Whether it may be on another machine.
    is_shared: bool,
}

/// What a dead life has left: nothing that runs.
pub(super) struct Remains {
    dead: DeadLife,
    why: &'static str,
    ends: BTreeMap<u64, String>,
    /// Keeps the worker from beginning another life.
    _presence: Option<File>,
}

impl LifeWatch {
    /// Returns whether it is time to look.
    pub(super) fn is_due(&self) -> bool {
        self.looked.is_none_or(|looked| looked.elapsed() >= SHORTEST)
    }

    /// Returns how long until the next look at the latest.
    pub(super) fn pause(&self) -> Duration {
        if self.is_alarmed { ALARMED } else { Duration::MAX }
    }

    /// Looks at the workers. Returns the lives that are dead.
    pub(super) fn look(
        &mut self,
        transaction: &Transaction<'_>,
    ) -> Result<Vec<DeadLife>, StoreError> {
        let (mut seen, mut dead) = (BTreeMap::new(), Vec::new());
        self.is_alarmed = false;
        let is_shared = transaction.now().frame.is_shared();
        let now = Instant::now();
        let unseen = self.looked.replace(now).map(|looked| now.duration_since(looked));
        for (worker, lease) in transaction.orders().leased_workers()? {
            let Some(lease) = lease else { continue };
            let heartbeat = lease.lease.last_heartbeat;
            let timeout = lease.lease.terms.heartbeat_timeout;
            self.is_alarmed |= transaction.now().at.since(heartbeat) > timeout / MISSED;
            // While this process was cut off, the worker may have been, too.
            let has_watched = unseen.is_some_and(|unseen| unseen <= BLINK.max(timeout / BLINKS));
            let known = self.seen.remove(&worker.life);
            let known = known.filter(|seen| has_watched && seen.heartbeat == heartbeat);
            let known = known.unwrap_or(LastBeat { heartbeat, since: now });
            let stands_still = now.duration_since(known.since) >= timeout;
            seen.insert(worker.life.clone(), known);
            if stands_still && transaction.orders().is_silent(&worker.life)? {
                let orders = transaction.orders().of_life(&worker.life, 0)?;
                dead.push(DeadLife { life: worker.life, lease, orders, is_shared });
            }
        }
        self.seen = seen;
        Ok(dead)
    }

    /// Has a life be alive for another lease.
    pub(super) fn postpone(&mut self, life: &Life) {
        self.seen.remove(life);
    }
}

impl DeadLife {
    pub(super) fn life(&self) -> &Life {
        &self.life
    }

    /// Returns whether the life can be given up from here.
    pub(super) fn is_in_reach(&self) -> bool {
        self.is_shared || self.can_be_ended()
    }

    /// Returns whether this process could see and end the processes of the life.
    fn can_be_ended(&self) -> bool {
        let this = geteuid();
        let is_foreign = self.lease.owner.uid.is_some_and(|uid| uid != this.as_raw());
        self.liveness() != Liveness::Unknown && (this.is_root() || !is_foreign)
    }

    fn liveness(&self) -> Liveness {
        self.lease.owner.process.as_ref().map_or(Liveness::Unknown, Process::liveness)
    }

    /// Ends what the life, which is over in the store at `state`, has left running. Returns none if its
    /// directory is still locked by a guardian or another life.
    pub(super) fn end(self, state: &Path) -> io::Result<Option<Remains>> {
        if !self.can_be_ended() {
            let (why, ends) = ("its worker sent no heartbeats", BTreeMap::new());
            return Ok(Some(Remains { dead: self, why, ends, _presence: None }));
        }
        let dir = worker_dir(state, &self.life.worker);
        let mut trees: Vec<ProcessTree> = self.orders.iter().filter_map(order_tree).collect();
        let mut presence = None;
        let why = match self.liveness() {
            Liveness::Gone => {
                presence = try_presence(&dir)?;
                if presence.is_none() {
                    return Ok(None);
                }
                trees.push(process_tag::tree_of(&worker_tag(&dir, &self.life.worker)?));
                "its worker was killed"
            }
            _ => "its worker was suspended",
        };
        tree::kill_all(&trees)?;
        let (_, ends) = Ledger::open(&dir)?;
        Ok(Some(Remains { dead: self, why, ends, _presence: presence }))
    }
}

impl Remains {
    /// Gives up the life, and reports its orders. Returns how many are lost; none if another process has
    /// given it up.
    pub(super) fn give_up(
        &self,
        transaction: &Transaction<'_>,
    ) -> Result<Option<usize>, StoreError> {
        let DeadLife { life, lease, .. } = &self.dead;
        let orders = transaction.orders();
        if orders.lease_of(life)?.is_none() {
            return Ok(None);
        }
        let lost = bury(transaction, orders.of_life(life, 0)?, &self.ends, self.why)?;
        orders.delete_worker(life)?;
        let name = Name::Worker(life.worker.clone());
        transaction.leases().release(&name, &lease.lease.holder, life.token)?;
        Ok(Some(lost))
    }
}
