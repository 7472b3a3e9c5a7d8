//! The tables of a backend, as one transaction reads and writes them.
//!
//! A backend decides nothing: it finds rows, and stores the changes that the code above has computed,
//! once for all backends. Leases are saved by whole groups, so a backend over a network can do it in
//! one round trip.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::{Fact, HolderId, Name, Token, WorkId};

use crate::error::StoreError;
use crate::lease::{StoredLease, StoredName, StoredWaiter};
use crate::order::{Life, StoredOrder, StoredReport, StoredWorker};
use crate::process::Process;
use crate::run::{RunEnd, RunListing, RunRecord};
use crate::step::{AttemptRecord, Decision, GuardWait};
use crate::transaction::{Event, Request};

/// Everything that a backend stores.
pub trait Tables:
    LeaseTables + EventTable + RequestTable + RunTables + StepTables + OrderTables
{
}

impl<T: LeaseTables + EventTable + RequestTable + RunTables + StepTables + OrderTables> Tables
    for T
{
}

/// Counters of the store as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// The boot during which the store was last used; empty for a new store.
    pub boot: String,
    /// How many boots the store was used in before that one.
    pub boots: u64,
    /// How many waiters have joined a queue so far.
    pub arrivals: u64,
}

/// How much of the queues to load.
#[derive(Clone, Copy, Debug)]
pub enum Scope<'a> {
    /// All waiters that are connected to the names, through other waiters and their names.
    Group,
    /// Only this holder's own place: enough to see that the present holders refuse it.
    Own(&'a HolderId),
}

/// Names that are connected through waiters, with everything that bears on a decision about them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredGroup {
    /// The store's counters.
    pub meta: Meta,
    /// The names that the store knows.
    pub names: BTreeMap<Name, StoredName>,
    /// The leases on them.
    pub leases: Vec<StoredLease>,
    /// The waiters for them.
    pub waiters: Vec<StoredWaiter>,
}

/// The rows of a group that a decision has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupChanges {
    /// The store's counters, if they changed.
    pub meta: Option<Meta>,
    /// Names to insert or replace.
    pub names: Vec<(Name, StoredName)>,
    /// Leases to delete. The backend deletes before it inserts.
    pub ended_leases: Vec<(Name, HolderId)>,
    /// Leases to insert, or to put in the place of the same holder's on the same name.
    pub leases: Vec<StoredLease>,
    /// Waiters to delete.
    pub left_waiters: Vec<HolderId>,
    /// Waiters to insert, or to put in the place of the same holder's.
    pub waiters: Vec<StoredWaiter>,
}

/// Names, leases and waiters.
pub trait LeaseTables {
    /// Returns the store's counters.
    fn meta(&self) -> Result<Meta, StoreError>;

    /// Returns whether writers were kept out for so long before this transaction that holders may have
    /// missed heartbeats. To be asked after the clock was read, so that no writer is kept out in between.
    fn has_stalled(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Returns a name, if the store knows it.
    fn name(&self, name: &Name) -> Result<Option<StoredName>, StoreError>;

    /// Returns the leases on one name, or on all.
    fn leases(&self, name: Option<&Name>) -> Result<Vec<StoredLease>, StoreError>;

    /// Returns the leases that a process holds. Each heartbeat asks this, so a backend may answer it
    /// without loading the leases of other processes.
    fn leases_of_process(&self, process: &Process) -> Result<Vec<StoredLease>, StoreError> {
        let mut leases = self.leases(None)?;
        leases.retain(|stored| stored.owner.process.as_ref() == Some(process));
        Ok(leases)
    }

    /// Returns whether `name` is held under `token`. Each commit of a run asks this, so a backend may
    /// answer it without loading leases.
    fn is_held_as(&self, name: &Name, token: Token) -> Result<bool, StoreError> {
        Ok(self.leases(Some(name))?.iter().any(|stored| stored.lease.token == token))
    }

    /// Returns the waiters for one name, or for all, in no particular order.
    fn waiters(&self, name: Option<&Name>) -> Result<Vec<StoredWaiter>, StoreError>;

    /// Returns the place of a holder in the queue, if it waits.
    fn waiter(&self, holder: &HolderId) -> Result<Option<StoredWaiter>, StoreError>;

    /// Returns how many waiters for `name` come before one with this priority and arrival number.
    fn ahead(&self, name: &Name, priority: i64, arrival: u64) -> Result<usize, StoreError>;

    /// Loads the names and whatever is connected to them within `scope`.
    fn load_group(&self, names: &[Name], scope: Scope<'_>) -> Result<StoredGroup, StoreError> {
        let mut group = StoredGroup { meta: self.meta()?, ..StoredGroup::default() };
        let names = match scope {
            Scope::Group => connected(self, names, &mut group.waiters)?,
            Scope::Own(holder) => {
                group.waiters.extend(self.waiter(holder)?);
                names.iter().cloned().collect()
            }
        };
        for name in names {
            if let Some(stored) = self.name(&name)? {
                group.leases.extend(self.leases(Some(&name))?);
                group.names.insert(name, stored);
            }
        }
        Ok(group)
    }

    /// Stores what has changed in a group.
    fn save_group(&self, changes: &GroupChanges) -> Result<(), StoreError>;
}

/// Returns the names connected to `names`, and collects the waiters that connect them.
fn connected(
    tables: &(impl LeaseTables + ?Sized),
    names: &[Name],
    waiters: &mut Vec<StoredWaiter>,
) -> Result<BTreeSet<Name>, StoreError> {
    let (mut seen, mut known) = (BTreeSet::new(), BTreeSet::new());
    let mut open = names.to_vec();
    while let Some(name) = open.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        for stored in tables.waiters(Some(&name))? {
            if known.insert(stored.waiter.holder.clone()) {
                open.extend(stored.waiter.needs.iter().map(|need| need.name.clone()));
                waiters.push(stored);
            }
        }
    }
    Ok(seen)
}

/// Events, numbered in the order of their commits.
pub trait EventTable {
    /// Appends an event and returns its number.
    fn append_event(&self, name: &str, at_ms: i64) -> Result<u64, StoreError>;
    /// Returns up to `limit` events with numbers above `after`, in order.
    fn events(&self, after: u64, limit: usize) -> Result<Vec<Event>, StoreError>;
    /// Returns the number of the latest event; 0 if there was none.
    fn last_event(&self) -> Result<u64, StoreError>;
    /// Deletes the events from before `before_ms` and returns how many. Numbers are never reused.
    fn delete_events(&self, before_ms: i64) -> Result<usize, StoreError>;
}

/// Requests to coordinators and waiting guards.
pub trait RequestTable {
    /// Appends a request and returns its number.
    fn append_request(&self, target: &str, text: &str, at_ms: i64) -> Result<u64, StoreError>;
    /// Returns the requests to a target, in order.
    fn requests(&self, target: &str) -> Result<Vec<Request>, StoreError>;
    /// Returns all requests, in order.
    fn all_requests(&self) -> Result<Vec<Request>, StoreError>;
    /// Deletes a request and returns whether it was there.
    fn take_request(&self, number: u64) -> Result<bool, StoreError>;
}

/// Runs and their journals.
pub trait RunTables {
    /// Returns an id that no run has.
    fn new_run_id(&self) -> Result<String, StoreError>;
    /// Inserts a run.
    fn insert_run(&self, run: &RunRecord, at_ms: i64) -> Result<(), StoreError>;
    /// Returns up to two runs whose ids begin with `prefix`.
    fn runs(&self, prefix: &str) -> Result<Vec<RunRecord>, StoreError>;
    /// Returns up to `limit` runs, the newest first; of one workflow, or of all.
    fn latest_runs(
        &self,
        workflow: Option<&str>,
        limit: usize,
    ) -> Result<Vec<RunListing>, StoreError>;
    /// Returns the end of a run; none while it has not ended.
    fn run_end(&self, run: &str) -> Result<Option<RunEnd>, StoreError>;
    /// Returns the listing of one run, if there is such a run.
    fn listing(&self, run: &str) -> Result<Option<RunListing>, StoreError>;
    /// Returns the runs that have not ended, the newest first.
    fn open_runs(&self) -> Result<Vec<RunListing>, StoreError>;
    /// Returns the ids of the runs that were submitted to a service and have not ended, the oldest first.
    fn served_runs(&self) -> Result<Vec<String>, StoreError>;
    /// Sets the end of a run, or clears it.
    fn set_run_end(&self, run: &str, end: Option<RunEnd>) -> Result<(), StoreError>;
    /// Deletes a run with its journal, its attempts and its leases.
    fn delete_run(&self, run: &str) -> Result<(), StoreError>;

    /// Appends to the journal of a run.
    fn append_facts(&self, run: &str, epoch: Token, facts: &[Fact]) -> Result<(), StoreError>;
    /// Returns the journal of a run, in order.
    fn facts(&self, run: &str) -> Result<Vec<Fact>, StoreError> {
        self.facts_after(run, 0)
    }
    /// Returns the journal of a run, in order, without its first `seen` facts.
    fn facts_after(&self, run: &str, seen: usize) -> Result<Vec<Fact>, StoreError>;
}

/// What is recorded of the steps of runs.
pub trait StepTables {
    /// Inserts or replaces the record of an attempt.
    fn put_attempt(&self, run: &str, attempt: &AttemptRecord) -> Result<(), StoreError>;
    /// Returns one attempt, if it is recorded.
    fn attempt(
        &self,
        run: &str,
        work: WorkId,
        attempt: u32,
    ) -> Result<Option<AttemptRecord>, StoreError>;
    /// Returns the attempts of a run, by step and attempt.
    fn attempts(&self, run: &str) -> Result<Vec<AttemptRecord>, StoreError>;
    /// Inserts or replaces the guard that a step waits for.
    fn put_guard_wait(&self, run: &str, wait: &GuardWait) -> Result<(), StoreError>;
    /// Deletes the guard that a step waits for.
    fn delete_guard_wait(&self, run: &str, work: WorkId) -> Result<(), StoreError>;
    /// Returns the guards that the steps of a run wait for.
    fn guard_waits(&self, run: &str) -> Result<Vec<GuardWait>, StoreError>;
    /// Inserts a decision about a guard that was not decided for that attempt.
    fn insert_decision(&self, run: &str, decision: &Decision) -> Result<(), StoreError>;
    /// Deletes the decisions about the guards of a step, which waits for them anew.
    fn delete_decisions(&self, run: &str, work: WorkId) -> Result<(), StoreError>;
    /// Returns what users have decided about the guards of a run, the earliest first.
    fn decisions(&self, run: &str) -> Result<Vec<Decision>, StoreError>;
}

/// Orders to workers, their reports, and the workers.
pub trait OrderTables {
    /// Inserts an order and returns its token, which is larger than all before.
    fn insert_order(
        &self,
        run: &str,
        key: &str,
        life: &Life,
        text: &str,
    ) -> Result<u64, StoreError>;
    /// Sets the wish of an order, if the order is there.
    fn set_wish(&self, token: u64, wish: &str) -> Result<(), StoreError>;
    /// Returns the orders of a life with tokens above `after`, in order.
    fn orders_of_life(&self, life: &Life, after: u64) -> Result<Vec<StoredOrder>, StoreError>;
    /// Returns the tokens and the wishes of all orders of a life, in order.
    fn wishes(&self, life: &Life) -> Result<Vec<(u64, Option<String>)>, StoreError>;
    /// Returns the orders without a report of the worker's lives before this one, in order.
    fn orders_before(&self, life: &Life) -> Result<Vec<StoredOrder>, StoreError>;
    /// Returns the orders of a run, in order.
    fn orders_of_run(&self, run: &str) -> Result<Vec<StoredOrder>, StoreError>;
    /// Returns how many orders with keys that begin with `prefix` each run has.
    fn order_counts(&self, prefix: &str) -> Result<Vec<(String, usize)>, StoreError>;
    /// Inserts a report, if its order is there and has none.
    fn put_report(&self, token: u64, text: &str) -> Result<(), StoreError>;
    /// Returns all reports, in the order of their tokens.
    fn reports(&self) -> Result<Vec<StoredReport>, StoreError>;
    /// Deletes a report and its order. Returns whether both were there.
    fn take_report(&self, token: u64) -> Result<bool, StoreError>;
    /// Inserts a worker, or replaces the one of that name.
    fn put_worker(&self, worker: &StoredWorker) -> Result<(), StoreError>;
    /// Deletes a worker, if it has this life.
    fn delete_worker(&self, life: &Life) -> Result<(), StoreError>;
    /// Returns the workers, by name.
    fn workers(&self) -> Result<Vec<StoredWorker>, StoreError>;
}
