//! The tables of a backend, as one transaction reads and writes them.
//!
//! A backend decides nothing: it finds rows, and stores the changes that the code above has computed,
//! once for all backends.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use windlass_core::{Fact, HolderId, Name, Timestamp, Token, Waiter, WorkId};

use crate::clock::ServerTime;
use crate::error::StoreError;
use crate::lease::{LimitItems, StoredLease, StoredName, StoredWaiter};
use crate::order::{Life, NewOrder, StoredOrder, StoredReport, StoredWorker};
use crate::process::Process;
use crate::queue::{StoredBase, StoredChange, StoredQueue, StoredStep};
use crate::run::{HomeMachine, RunEnd, RunListing, RunRecord};
use crate::step::{AttemptRecord, Decision, GuardWait, StepOutput};
use crate::transaction::{Event, Request};

/// How many waiters that were passed over a decision about a name looks at.
const PASSED_OVER: usize = 4;

/// Everything that a backend stores.
pub trait Tables:
    LeaseTables + EventTable + RequestTable + RunTables + StepTables + OrderTables + QueueTables
{
}

impl<T> Tables for T where
    T: LeaseTables + EventTable + RequestTable + RunTables + StepTables + OrderTables + QueueTables
{
}

/// What is known about the store as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// The [era](crate::Frame::era) in which the store was last used; empty for a new store.
    pub era: String,
    /// How many eras the store was used in before that one.
    pub eras: u64,
}

/// What a decision about names has to know.
#[derive(Clone, Copy, Debug)]
pub struct LeaseQuery<'a> {
    /// The names that it is about.
    pub names: &'a [Name],
    /// The holders whose places in the queue it depends on or may change, with the names for which they wait.
    pub holders: &'a [&'a HolderId],
    /// How much of the queues.
    pub queues: QueuePart,
    /// When it is made.
    pub at: Timestamp,
}

impl LeaseQuery<'_> {
    /// Returns whether the head of a queue needs this waiter: it is not overdue, and is none of those that may
    /// leave the queue now.
    #[must_use]
    pub fn counts(&self, waiter: &Waiter) -> bool {
        !self.holders.contains(&&waiter.holder) && !waiter.is_overdue(self.at)
    }

    /// Returns whether the queue goes on without this waiter, which may be dead.
    fn passes_over(&self, waiter: &Waiter) -> bool {
        !self.holders.contains(&&waiter.holder) && waiter.is_overdue(self.at)
    }
}

/// How much of a queue to load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuePart {
    /// The first waiters that could have the name together, because for all others it is reserved, and some of
    /// those that were passed over.
    Head,
    /// All waiters.
    Whole,
}

/// What a decision about names is based on, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseSnapshot {
    /// What is known about the store as a whole.
    pub meta: Meta,
    /// The names of the query, and those that the loaded waiters need besides. A lock that no holder has
    /// asked for yet is there as well; a semaphore that was not declared and a limit that was not set are
    /// not.
    pub names: BTreeMap<Name, StoredName>,
    /// The leases on them.
    pub leases: Vec<StoredLease>,
    /// The waiters for them.
    pub waiters: BTreeMap<HolderId, StoredWaiter>,
}

/// The rows that a decision has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseChanges {
    /// Another boot has begun: what to know about the store now. The waiters of other boots are deleted.
    pub era: Option<Meta>,
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
///
/// A decision reads everything that it depends on with [`LeaseTables::load`], and writes everything that
/// follows with [`LeaseTables::save`]. A backend in a network answers each in one round trip.
pub trait LeaseTables {
    /// Returns what is known about the store as a whole.
    fn meta(&self) -> Result<Meta, StoreError>;

    /// Returns whether writers were kept out for so long before this transaction that holders may have
    /// missed heartbeats. To be asked after the clock was read, so that no writer is kept out in between.
    fn has_stalled(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Returns the time that the server has read for this transaction, if the store is on one.
    fn server_time(&self) -> Option<ServerTime> {
        None
    }

    /// Stores that a fail-over, a restore or a copy has begun another era of the database. The numbers of
    /// orders, requests and events continue above `floor`, because those that were lost may be known.
    fn begin_era(&self, _meta: &Meta, _floor: u64) -> Result<(), StoreError> {
        Ok(())
    }

    /// Records a heartbeat at `at` for all leases of a frame that were not seen to be stale, in one
    /// statement.
    fn refresh_all(&self, frame: &str, at: Timestamp) -> Result<(), StoreError>;

    /// Returns a name, if the store knows it.
    fn name(&self, name: &Name) -> Result<Option<StoredName>, StoreError>;

    /// Returns the leases on one name, or on all.
    fn leases(&self, name: Option<&Name>) -> Result<Vec<StoredLease>, StoreError>;

    /// Returns the leases on the names of workers, without looking at others: each round of a scheduler asks
    /// this.
    fn leases_of_workers(&self) -> Result<Vec<StoredLease>, StoreError>;

    /// Returns the leases that a process holds, without looking at those of other processes: each
    /// heartbeat asks this.
    fn leases_of_process(&self, process: &Process) -> Result<Vec<StoredLease>, StoreError>;

    /// Returns whether `name` is held under `token`. Each commit of a run asks this, so a backend may
    /// answer it without loading leases.
    fn is_held_as(&self, name: &Name, token: Token) -> Result<bool, StoreError> {
        Ok(self.leases(Some(name))?.iter().any(|stored| stored.lease.token == token))
    }

    /// Returns the waiters for one name, or for all, in no particular order.
    fn waiters(&self, name: Option<&Name>) -> Result<Vec<StoredWaiter>, StoreError>;

    /// Returns the first waiters that `name` has refused, in order, until their weights add up to `enough`.
    /// Leaves out those that `counts` rejects, and reads no other rows.
    fn queue_head(
        &self,
        name: &Name,
        enough: u64,
        counts: &dyn Fn(&Waiter) -> bool,
    ) -> Result<Vec<StoredWaiter>, StoreError>;

    /// Returns the place of a holder in the queue, if it waits.
    fn waiter(&self, holder: &HolderId) -> Result<Option<StoredWaiter>, StoreError>;

    /// Returns how many of the waiters that `name` has refused come before `waiter`, but at most `limit`.
    /// Reads no more rows than that.
    fn ahead(&self, name: &Name, waiter: &Waiter, limit: usize) -> Result<usize, StoreError>;

    /// Returns what a decision depends on. The number of rows that this reads does not depend on the
    /// length of the queues.
    fn load(&self, query: &LeaseQuery<'_>) -> Result<LeaseSnapshot, StoreError> {
        load_rows(self, query)
    }

    /// Returns the limits of the store that are set, by name.
    fn limits(&self) -> Result<Vec<(Name, StoredName)>, StoreError>;

    /// Returns the items of a limit, if it has items.
    fn limit_items(&self, limit: &str) -> Result<Option<LimitItems>, StoreError>;

    /// Sets the items of a limit, or that it has none.
    fn put_limit_items(&self, limit: &str, items: Option<&LimitItems>) -> Result<(), StoreError>;

    /// Stores what a decision has changed.
    fn save(&self, changes: &LeaseChanges) -> Result<(), StoreError>;
}

/// Loads what a decision depends on, row by row.
pub(crate) fn load_rows(
    tables: &(impl LeaseTables + ?Sized),
    query: &LeaseQuery<'_>,
) -> Result<LeaseSnapshot, StoreError> {
    let mut snapshot = LeaseSnapshot { meta: tables.meta()?, ..LeaseSnapshot::default() };
    let mut names: BTreeSet<Name> = query.names.iter().cloned().collect();
    for holder in query.holders {
        if let Some(own) = tables.waiter(holder)? {
            names.extend(own.waiter.needs.iter().map(|need| need.name.clone()));
            snapshot.waiters.insert((*holder).clone(), own);
        }
    }
    names.iter().try_for_each(|name| load_name(tables, name, query, &mut snapshot))?;
    // Whether one of these waiters can have its names depends on the others that it needs.
    let needs = snapshot.waiters.values().flat_map(|stored| &stored.waiter.needs);
    let others: BTreeSet<Name> = needs.map(|need| need.name.clone()).collect();
    let mut others = others.difference(&names);
    others.try_for_each(|name| load_name(tables, name, query, &mut snapshot))?;
    Ok(snapshot)
}

/// Loads one name, its leases, and as much of its queue as the query wants.
fn load_name(
    tables: &(impl LeaseTables + ?Sized),
    name: &Name,
    query: &LeaseQuery<'_>,
    snapshot: &mut LeaseSnapshot,
) -> Result<(), StoreError> {
    let stored = match tables.name(name)? {
        // It was removed.
        Some(stored) if matches!(name, Name::Limit(_)) && stored.capacity.is_none() => {
            return Ok(());
        }
        Some(stored) => {
            snapshot.leases.extend(tables.leases(Some(name))?);
            stored
        }
        None if matches!(name, Name::Semaphore(_) | Name::Limit(_)) => return Ok(()),
        None => StoredName::default(),
    };
    snapshot.names.insert(name.clone(), stored);
    let waiters = match query.queues {
        QueuePart::Head => {
            let enough = stored.capacity.unwrap_or(1);
            let passed_over = RefCell::new(Vec::new());
            let mut head = tables.queue_head(name, enough, &|waiter| {
                let mut passed_over = passed_over.borrow_mut();
                if query.passes_over(waiter) && passed_over.len() < PASSED_OVER {
                    passed_over.push(waiter.holder.clone());
                }
                query.counts(waiter)
            })?;
            for holder in passed_over.into_inner() {
                head.extend(tables.waiter(&holder)?);
            }
            head
        }
        QueuePart::Whole => tables.waiters(Some(name))?,
    };
    snapshot.waiters.extend(waiters.into_iter().map(|w| (w.waiter.holder.clone(), w)));
    Ok(())
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
    /// Sets the machine that leads a run in the foreground. A store of one machine need not keep it.
    fn set_home(&self, _run: &str, _home: &HomeMachine) -> Result<(), StoreError> {
        Ok(())
    }
    /// Returns the machine that leads a run in the foreground, if the store keeps it.
    fn home(&self, _run: &str) -> Result<Option<HomeMachine>, StoreError> {
        Ok(None)
    }
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
    /// Sets the environment that a run takes along to a service.
    fn set_run_env(&self, run: &str, env: &BTreeMap<String, String>) -> Result<(), StoreError>;
    /// Sets how many steps of a run may run at once.
    fn set_run_jobs(&self, run: &str, jobs: u32) -> Result<(), StoreError>;
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
    /// Inserts or replaces the records of attempts. Of two records of one attempt, the later one stays.
    fn put_attempts(&self, run: &str, attempts: &[&AttemptRecord]) -> Result<(), StoreError>;
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
    /// Inserts or replaces the values that an attempt has handed on.
    fn put_output(&self, run: &str, output: &StepOutput) -> Result<(), StoreError>;
    /// Returns the values that the attempts of a run have handed on, by step and attempt.
    fn outputs(&self, run: &str) -> Result<Vec<StepOutput>, StoreError>;
}

/// What a process of a service reads first of all, again and again.
#[derive(Clone, Copy, Debug)]
pub enum Look<'a> {
    /// What is new for a scheduler.
    OfScheduler,
    /// What is new for a worker: of this life, above the last order, and among the requests to a target.
    OfWorker {
        /// The life.
        life: &'a Life,
        /// The last order that it has taken.
        after: u64,
        /// The target.
        target: &'a str,
    },
}

/// Orders to workers, their reports, and the workers.
pub trait OrderTables {
    /// Says what is read next, before anything of it is written, so that a backend in a network can ask for all
    /// of it at once.
    fn expect(&self, _: Look<'_>) -> Result<(), StoreError> {
        Ok(())
    }
    /// Inserts orders and returns their tokens, each of which is larger than all before.
    fn insert_orders(&self, run: &str, orders: &[NewOrder]) -> Result<Vec<u64>, StoreError>;
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
    /// Inserts reports by the tokens of their orders. Passes over one whose order is not there or has one.
    fn put_reports(&self, reports: &[(u64, String)]) -> Result<(), StoreError>;
    /// Returns whether there are reports.
    fn has_reports(&self) -> Result<bool, StoreError>;
    /// Returns all reports, in the order of their tokens.
    fn reports(&self) -> Result<Vec<StoredReport>, StoreError>;
    /// Deletes all reports with their orders, and returns them as [`OrderTables::reports`] does.
    fn take_reports(&self) -> Result<Vec<StoredReport>, StoreError>;
    /// Inserts a worker, or replaces the one of that name.
    fn put_worker(&self, worker: &StoredWorker) -> Result<(), StoreError>;
    /// Deletes a worker, if it has this life.
    fn delete_worker(&self, life: &Life) -> Result<(), StoreError>;
    /// Returns the workers, by name.
    fn workers(&self) -> Result<Vec<StoredWorker>, StoreError>;
    /// Names a worker that facts of a run mean by a number.
    fn name_worker(&self, run: &str, number: u32, name: &str) -> Result<(), StoreError>;
    /// Returns the names of the workers of a run, in the order of their numbers.
    fn worker_names(&self, run: &str) -> Result<Vec<String>, StoreError>;
}

/// Queues, the steps that were added to them, and the bases of their journals.
pub trait QueueTables {
    /// Inserts a queue to which nothing was added.
    fn insert_queue(&self, name: &str, run: &str) -> Result<(), StoreError>;
    /// Returns the queues, by name.
    fn queues(&self) -> Result<Vec<StoredQueue>, StoreError>;
    /// Returns the queue of a name, if there is one.
    fn queue(&self, name: &str) -> Result<Option<StoredQueue>, StoreError> {
        Ok(self.queues()?.into_iter().find(|queue| queue.name == name))
    }
    /// Returns the queue that a run is, if it is one.
    fn queue_of_run(&self, run: &str) -> Result<Option<StoredQueue>, StoreError> {
        Ok(self.queues()?.into_iter().find(|queue| queue.run == run))
    }
    /// Inserts a step under the next number of its queue, and returns the number.
    fn add_step(&self, run: &str, text: &str) -> Result<WorkId, StoreError>;
    /// Returns the steps of a queue with numbers above `after`, in order.
    fn steps_after(&self, run: &str, after: u64) -> Result<Vec<StoredStep>, StoreError>;
    /// Returns one step of a queue.
    fn step(&self, run: &str, work: WorkId) -> Result<Option<StoredStep>, StoreError>;
    /// Replaces the text of a step of a queue.
    fn set_step(&self, run: &str, work: WorkId, text: &str) -> Result<(), StoreError>;
    /// Inserts a change under the next number of its queue, and returns the number.
    fn add_change(&self, run: &str, text: &str) -> Result<u64, StoreError>;
    /// Returns the changes of a queue with numbers above `after`, in order.
    fn changes_after(&self, run: &str, after: u64) -> Result<Vec<StoredChange>, StoreError>;
    /// Deletes a change of a queue.
    fn delete_change(&self, run: &str, number: u64) -> Result<(), StoreError>;
    /// Deletes a step of a queue, with its attempts.
    fn delete_step(&self, run: &str, work: WorkId) -> Result<(), StoreError>;
    /// Returns the base of a run's journal.
    fn base(&self, run: &str) -> Result<Option<StoredBase>, StoreError>;
    /// Inserts or replaces the base of a run's journal, and deletes all facts. The numbers of later facts
    /// continue those of the deleted ones.
    fn set_base(&self, run: &str, text: &str) -> Result<(), StoreError>;
}
