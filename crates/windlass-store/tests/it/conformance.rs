//! The conformance suite that every backend passes.
//!
//! A backend joins with a [`Fixture`] and a line in `suite!`. Tests move the clock by hand; another
//! process is a claim with another process in it. Each backend also passes the suite while it aborts and
//! repeats transactions at random.

mod events;
mod growth;
mod journal;
mod leases;
mod limits;
mod orders;
mod queue;
mod tokens;

use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use windlass_sim::postgres::Server;
use windlass_sim::store::{Faults, Odds};
use windlass_store::{
    Backend, Claim, Claimed, Hold, HolderId, LeaseTerms, ManualClock, Memory, Name, Need, Network,
    Postgres, Process, ProcessTree, Refused, Sqlite, Store,
};

/// A store over the backend under test, with its clock.
pub(crate) struct Fixture {
    pub(crate) store: Store,
    pub(crate) clock: ManualClock,
    _dir: TempDir,
}

/// The optional fields of a claim.
pub(crate) struct Extra<'a> {
    pub(crate) terms: LeaseTerms,
    pub(crate) process: Option<&'a Process>,
    pub(crate) waiter: Option<&'a Process>,
    pub(crate) tree: Option<&'a ProcessTree>,
    pub(crate) wakeup: Option<&'a str>,
    pub(crate) ended: &'a [(Name, Token)],
}

impl Fixture {
    fn new(backend: impl FnOnce(&TempDir) -> Box<dyn Backend>) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let clock = ManualClock::default();
        let store = Store::new(backend(&dir), Arc::new(clock.clone()), dir.path());
        Self { store, clock, _dir: dir }
    }

    fn sqlite() -> Option<Self> {
        Some(Self::new(|dir| {
            Box::new(Sqlite::open(dir.path(), Network::Refuse).expect("it can be made"))
        }))
    }

    fn memory() -> Option<Self> {
        Some(Self::new(|_| Box::new(Memory::default())))
    }

    fn sqlite_repeating() -> Option<Self> {
        Some(Self::new(|dir| {
            let backend = Sqlite::open(dir.path(), Network::Refuse).expect("it can be made");
            repeating(Box::new(backend))
        }))
    }

    fn memory_repeating() -> Option<Self> {
        Some(Self::new(|_| repeating(Box::new(Memory::default()))))
    }

    /// Returns none if PostgreSQL is not installed.
    fn postgres() -> Option<Self> {
        let url = Server::shared()?.new_store();
        Some(Self::new(|_| Box::new(Postgres::create(&url).expect("it can be made"))))
    }

    fn postgres_repeating() -> Option<Self> {
        let url = Server::shared()?.new_store();
        let backend = Postgres::create(&url).expect("it can be made");
        Some(Self::new(|_| repeating(Box::new(backend))))
    }

    /// Claims names in the form that [`needs`] parses.
    pub(crate) fn claim(&mut self, holder: &str, names: &str) -> Claimed {
        self.claim_with(holder, names, |_| {})
    }

    pub(crate) fn claim_with<'a>(
        &mut self,
        holder: &str,
        names: &str,
        change: impl FnOnce(&mut Extra<'a>),
    ) -> Claimed {
        let terms = LeaseTerms { heartbeat_timeout: TIMEOUT, max_hold: None };
        let (process, waiter, tree, wakeup) = (None, None, None, None);
        let mut extra = Extra { terms, process, waiter, tree, wakeup, ended: &[] };
        change(&mut extra);
        let Extra { terms, process, waiter, tree, wakeup, ended } = extra;
        let (holder, needs) = (&HolderId::new(holder), &needs(names));
        let claim = Claim::new(holder, needs);
        let claim = Claim { terms, process, waiter, tree, wakeup, ended, ..claim };
        self.store
            .transact(|transaction| transaction.leases().claim(&claim))
            .expect("the store works")
    }

    pub(crate) fn tokens(&mut self, holder: &str, names: &str) -> Vec<u64> {
        held(self.claim(holder, names)).iter().map(|hold| hold.token.0).collect()
    }

    pub(crate) fn release(&mut self, holder: &str, name: &str, token: u64) -> Answer {
        let (name, holder) = (needs(name)[0].name.clone(), HolderId::new(holder));
        let released = self
            .store
            .transact(|transaction| transaction.leases().release(&name, &holder, Token(token)));
        released.expect("the store works")
    }

    pub(crate) fn declare(&mut self, name: &str, capacity: u32) {
        let declared =
            self.store.transact(|transaction| transaction.leases().declare(name, capacity));
        declared.expect("it can be declared");
    }
}

/// Returns a backend that aborts every other transaction, and repeats them.
fn repeating(backend: Box<dyn Backend>) -> Box<dyn Backend> {
    let odds = Odds { abort: Some(2), lose: None };
    Box::new(Faults::new(1, odds).over(backend))
}

pub(crate) use self::queue::is_notified;
pub(crate) use windlass_store::{Answer, Token};

pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);

/// Parses names: `x y` are locks, `s:2` is two slots of semaphore s, `run/r` is the right to lead r.
pub(crate) fn needs(names: &str) -> Vec<Need> {
    let need = |word: &str| match (word.split_once(':'), word.strip_prefix("run/")) {
        (Some((name, weight)), _) => {
            let weight = weight.parse().expect("a weight");
            Need { name: Name::Semaphore(name.to_owned()), weight }
        }
        (_, Some(run)) => Need::one(Name::Run(run.to_owned())),
        _ => Need::one(Name::Lock(word.to_owned())),
    };
    names.split_whitespace().map(need).collect()
}

pub(crate) fn held(claimed: Claimed) -> Vec<Hold> {
    match claimed {
        Claimed::Held(holds) => holds,
        Claimed::Refused(refused) => panic!("refused: {refused:?}"),
    }
}

pub(crate) fn refused(claimed: Claimed) -> Refused {
    match claimed {
        Claimed::Refused(refused) => refused,
        Claimed::Held(holds) => panic!("held: {holds:?}"),
    }
}

pub(crate) fn refused_by(claimed: Claimed) -> String {
    refused(claimed).first().1.to_string()
}

pub(crate) fn here() -> Process {
    Process::current().expect("this is Linux")
}

/// Returns a process that has ended.
pub(crate) fn gone() -> Process {
    Process { started: here().started + 1, ..here() }
}

/// Returns a process that is not visible from here.
pub(crate) fn elsewhere() -> Process {
    Process { namespace: "pid:[1]".to_owned(), ..here() }
}

pub(crate) fn tree() -> ProcessTree {
    ProcessTree { tag: "WINDLASS_LEASES=some".to_owned(), group: None }
}

/// Defines every test of the suite for every backend.
macro_rules! suite {
    ($($module:ident: $($test:ident)*;)*) => {
        suite!(@backend sqlite $($module: $($test)*;)*);
        suite!(@backend memory $($module: $($test)*;)*);
        suite!(@backend sqlite_repeating $($module: $($test)*;)*);
        suite!(@backend memory_repeating $($module: $($test)*;)*);
        suite!(@backend postgres $($module: $($test)*;)*);
        suite!(@backend postgres_repeating $($module: $($test)*;)*);
    };
    (@backend $backend:ident $($module:ident: $($test:ident)*;)*) => {
        mod $backend {
            $($(
                #[test]
                fn $test() {
                    if let Some(mut fixture) = super::Fixture::$backend() {
                        super::$module::$test(&mut fixture);
                    }
                }
            )*)*
        }
    };
}

suite! {
    leases:
        several_names_are_taken_together_or_not_at_all
        a_lease_without_heartbeats_goes_to_the_next_claimant
        a_late_heartbeat_does_not_revive_a_lease
        a_lease_ends_at_its_maximum_hold
        the_wall_clock_decides_nothing
        the_lease_of_an_ended_process_is_free_at_once
        a_process_that_is_not_visible_is_judged_by_its_heartbeats
        the_processes_of_a_dead_holder_are_reported_before_its_lease_is_free
        one_heartbeat_of_a_process_covers_all_its_leases
        a_named_process_that_is_running_needs_no_heartbeats
        semaphores_are_declared_and_never_exceeded
        a_failed_transaction_leaves_nothing
        invalid_names_are_refused
        extreme_times_are_kept
        stats_are_kept_by_name
        a_check_returns_the_holder_of_a_token;
    limits:
        a_limit_is_shared_by_weight_and_changes_while_it_is_in_use
        a_limit_that_is_not_set_or_too_small_is_refused
        no_two_holders_have_the_same_item
        a_limit_in_use_is_not_removed_and_its_tokens_outlive_it
        a_lower_limit_wakes_the_waiters_that_need_more
        a_participant_takes_what_those_before_its_place_leave;
    orders:
        an_order_is_there_until_its_report_is_taken
        workers_and_their_names_in_runs_are_kept
        the_workers_whose_leases_last_are_found_with_their_processes
        the_first_report_of_an_order_counts
        orders_and_reports_are_deleted_with_their_run;
    queue:
        waiters_are_served_first_in_first_out
        a_waiter_reserves_only_the_names_that_refused_it
        a_claim_for_another_name_leaves_the_queue_of_the_one_before
        a_waiter_whose_process_has_ended_leaves_the_queue
        a_waiter_leaves_the_queue_with_the_process_that_waits
        leaving_the_queue_notifies_the_next_waiter
        a_refusal_can_be_asked_for_without_acquiring_anything
        a_waiter_is_notified_when_its_turn_has_come
        a_waiter_that_claims_again_is_woken_as_it_asked_last
        a_waiter_that_does_not_claim_in_time_is_passed_over
        many_waiters_are_served_in_order
        a_heavy_waiter_is_served_in_its_turn;
    tokens:
        tokens_only_grow
        a_boot_ends_every_lease_and_raises_every_token
        old_tokens_change_nothing;
    events:
        events_are_numbered_in_the_order_of_commits
        old_events_are_deleted_and_their_numbers_not_reused
        a_failed_emit_uses_up_no_number
        every_wakeup_of_a_topic_is_notified
        requests_are_taken_once
        concurrent_writers_lose_nothing;
    journal:
        facts_come_back_as_they_were_written
        a_run_in_a_directory_that_is_not_utf8_is_refused
        a_stale_epoch_is_refused
        runs_are_found_by_a_prefix_of_their_id
        a_run_comes_back_as_it_was_submitted
        values_of_attempts_go_with_their_run
        runs_are_listed_the_newest_first_with_their_ends
        attempts_and_guard_waits_are_deleted_with_their_run
        decisions_are_kept_with_their_run;
    growth:
        steps_are_numbered_as_they_are_added_and_no_number_is_used_again
        changes_are_numbered_and_go_with_their_queue
        a_base_stands_for_the_facts_before_it;
}
