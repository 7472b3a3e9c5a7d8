//! Tables that report every call before they pass it on.

use std::collections::BTreeMap;

use windlass_core::{Fact, HolderId, Name, Timestamp, Token, Waiter, WorkId};
use windlass_store::{
    AttemptRecord, Decision, Event, EventTable, GuardWait, HomeMachine, LeaseChanges, LeaseQuery,
    LeaseSnapshot, LeaseTables, Life, LimitItems, Meta, NewOrder, OrderTables, Process,
    QueueTables, Request, RequestTable, RunEnd, RunListing, RunRecord, RunTables, StepOutput,
    StepTables, StoreError, StoredBase, StoredChange, StoredLease, StoredName, StoredOrder,
    StoredQueue, StoredReport, StoredStep, StoredWaiter, StoredWorker, Tables,
};

/// Tables behind a function that gets the name of each call, and may refuse it.
pub(super) struct Watched<'a> {
    tables: &'a dyn Tables,
    on_call: &'a dyn Fn(&'static str) -> Result<(), StoreError>,
}

impl<'a> Watched<'a> {
    pub(super) fn new(
        tables: &'a dyn Tables,
        on_call: &'a dyn Fn(&'static str) -> Result<(), StoreError>,
    ) -> Self {
        Self { tables, on_call }
    }
}

macro_rules! pass_on {
    ($(impl $tables:ident { $(fn $call:ident($($argument:ident: $type:ty),*) -> $result:ty;)* })*) => {
        $(impl $tables for Watched<'_> {
            $(fn $call(&self, $($argument: $type),*) -> Result<$result, StoreError> {
                (self.on_call)(stringify!($call))?;
                self.tables.$call($($argument),*)
            })*
        })*
    };
}

pass_on! {
    impl LeaseTables {
        fn meta() -> Meta;
        fn has_stalled() -> bool;
        fn begin_era(meta: &Meta, floor: u64) -> ();
        fn refresh_all(boot: &str, at: Timestamp) -> ();
        fn name(name: &Name) -> Option<StoredName>;
        fn leases(name: Option<&Name>) -> Vec<StoredLease>;
        fn leases_of_workers() -> Vec<StoredLease>;
        fn leases_of_process(process: &Process) -> Vec<StoredLease>;
        fn is_held_as(name: &Name, token: Token) -> bool;
        fn waiters(name: Option<&Name>) -> Vec<StoredWaiter>;
        fn queue_head(name: &Name, enough: u64, counts: &dyn Fn(&Waiter) -> bool) -> Vec<StoredWaiter>;
        fn waiter(holder: &HolderId) -> Option<StoredWaiter>;
        fn ahead(name: &Name, waiter: &Waiter, limit: usize) -> usize;
        fn limits() -> Vec<(Name, StoredName)>;
        fn limit_items(limit: &str) -> Option<LimitItems>;
        fn put_limit_items(limit: &str, items: Option<&LimitItems>) -> ();
        fn load(query: &LeaseQuery<'_>) -> LeaseSnapshot;
        fn save(changes: &LeaseChanges) -> ();
    }
    impl EventTable {
        fn append_event(name: &str, at_ms: i64) -> u64;
        fn events(after: u64, limit: usize) -> Vec<Event>;
        fn last_event() -> u64;
        fn delete_events(before_ms: i64) -> usize;
    }
    impl RequestTable {
        fn append_request(target: &str, text: &str, at_ms: i64) -> u64;
        fn requests(target: &str) -> Vec<Request>;
        fn all_requests() -> Vec<Request>;
        fn take_request(number: u64) -> bool;
    }
    impl RunTables {
        fn new_run_id() -> String;
        fn insert_run(run: &RunRecord, at_ms: i64) -> ();
        fn set_home(run: &str, home: &HomeMachine) -> ();
        fn home(run: &str) -> Option<HomeMachine>;
        fn runs(prefix: &str) -> Vec<RunRecord>;
        fn latest_runs(workflow: Option<&str>, limit: usize) -> Vec<RunListing>;
        fn run_end(run: &str) -> Option<RunEnd>;
        fn listing(run: &str) -> Option<RunListing>;
        fn open_runs() -> Vec<RunListing>;
        fn served_runs() -> Vec<String>;
        fn set_run_end(run: &str, end: Option<RunEnd>) -> ();
        fn set_run_env(run: &str, env: &BTreeMap<String, String>) -> ();
        fn set_run_jobs(run: &str, jobs: u32) -> ();
        fn delete_run(run: &str) -> ();
        fn append_facts(run: &str, epoch: Token, facts: &[Fact]) -> ();
        fn facts(run: &str) -> Vec<Fact>;
        fn facts_after(run: &str, seen: usize) -> Vec<Fact>;
    }
    impl StepTables {
        fn put_attempts(run: &str, attempts: &[&AttemptRecord]) -> ();
        fn attempt(run: &str, work: WorkId, attempt: u32) -> Option<AttemptRecord>;
        fn attempts(run: &str) -> Vec<AttemptRecord>;
        fn put_guard_wait(run: &str, wait: &GuardWait) -> ();
        fn delete_guard_wait(run: &str, work: WorkId) -> ();
        fn guard_waits(run: &str) -> Vec<GuardWait>;
        fn insert_decision(run: &str, decision: &Decision) -> ();
        fn delete_decisions(run: &str, work: WorkId) -> ();
        fn decisions(run: &str) -> Vec<Decision>;
        fn put_output(run: &str, output: &StepOutput) -> ();
        fn outputs(run: &str) -> Vec<StepOutput>;
    }
    impl OrderTables {
        fn insert_orders(run: &str, orders: &[NewOrder]) -> Vec<u64>;
        fn set_wish(token: u64, wish: &str) -> ();
        fn orders_of_life(life: &Life, after: u64) -> Vec<StoredOrder>;
        fn wishes(life: &Life) -> Vec<(u64, Option<String>)>;
        fn orders_before(life: &Life) -> Vec<StoredOrder>;
        fn orders_of_run(run: &str) -> Vec<StoredOrder>;
        fn order_counts(prefix: &str) -> Vec<(String, usize)>;
        fn put_reports(reports: &[(u64, String)]) -> ();
        fn has_reports() -> bool;
        fn reports() -> Vec<StoredReport>;
        fn take_reports() -> Vec<StoredReport>;
        fn put_worker(worker: &StoredWorker) -> ();
        fn delete_worker(life: &Life) -> ();
        fn workers() -> Vec<StoredWorker>;
        fn name_worker(run: &str, number: u32, name: &str) -> ();
        fn worker_names(run: &str) -> Vec<String>;
    }
    impl QueueTables {
        fn insert_queue(name: &str, run: &str) -> ();
        fn queues() -> Vec<StoredQueue>;
        fn queue(name: &str) -> Option<StoredQueue>;
        fn queue_of_run(run: &str) -> Option<StoredQueue>;
        fn add_step(run: &str, text: &str) -> WorkId;
        fn steps_after(run: &str, after: u64) -> Vec<StoredStep>;
        fn step(run: &str, work: WorkId) -> Option<StoredStep>;
        fn set_step(run: &str, work: WorkId, text: &str) -> ();
        fn add_change(run: &str, text: &str) -> u64;
        fn changes_after(run: &str, after: u64) -> Vec<StoredChange>;
        fn delete_change(run: &str, number: u64) -> ();
        fn delete_step(run: &str, work: WorkId) -> ();
        fn base(run: &str) -> Option<StoredBase>;
        fn set_base(run: &str, text: &str) -> ();
    }
}
