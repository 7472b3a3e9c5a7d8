//! The one suite that every backend passes.
//!
//! A backend joins with a [`Fixture`] and a line at the end of this file. Time is a clock that the
//! tests move; other processes are told apart by what they register.

mod events;
mod journal;
mod leases;
mod queue;
mod tokens;

use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use windlass_store::{
    Backend, Claim, Claimed, Hold, HolderId, LeaseTerms, ManualClock, Memory, Name, Need, Network,
    Process, ProcessTree, Refused, Sqlite, Store,
};

/// A backend to try, with whatever has to live as long as it does.
pub(crate) struct Fixture {
    pub(crate) store: Store,
    pub(crate) clock: ManualClock,
    _dir: TempDir,
}

/// What a claim may have besides a holder and names.
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

    fn sqlite() -> Self {
        Self::new(|dir| {
            Box::new(Sqlite::open(dir.path(), Network::Refuse).expect("it can be made"))
        })
    }

    fn memory() -> Self {
        Self::new(|_| Box::new(Memory::default()))
    }

    /// Asks for names as [`needs`] reads them.
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

pub(crate) use windlass_store::{Answer, Token};

pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);

/// `x y` are locks, `s:2` two slots of the semaphore s, `run/r` the right to lead r.
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

/// A process that has ended.
pub(crate) fn gone() -> Process {
    Process { started: here().started + 1, ..here() }
}

/// A process that cannot be seen from here.
pub(crate) fn elsewhere() -> Process {
    Process { namespace: "pid:[1]".to_owned(), ..here() }
}

pub(crate) fn tree() -> ProcessTree {
    ProcessTree { mark: "WINDLASS_LEASES=some".to_owned(), group: None }
}

/// Every test of the suite, for every backend.
macro_rules! suite {
    ($($module:ident: $($test:ident)*;)*) => {
        suite!(@backend sqlite $($module: $($test)*;)*);
        suite!(@backend memory $($module: $($test)*;)*);
    };
    (@backend $backend:ident $($module:ident: $($test:ident)*;)*) => {
        mod $backend {
            $($(
                #[test]
                fn $test() {
                    super::$module::$test(&mut super::Fixture::$backend());
                }
            )*)*
        }
    };
}

suite! {
    leases:
        several_names_are_taken_together_or_not_at_all
        a_lease_without_heartbeats_goes_to_the_next_who_asks
        a_heartbeat_that_comes_too_late_revives_nothing
        past_its_longest_hold_a_lease_is_lost
        the_wall_clock_decides_nothing
        what_a_gone_process_held_is_free_at_once
        a_process_that_cannot_be_seen_is_judged_by_its_heartbeats
        what_is_left_of_a_holder_is_told_before_its_hold_is_given_away
        one_process_beats_for_all_it_holds
        a_named_process_that_lives_needs_no_heartbeats
        semaphores_are_declared_and_never_exceeded
        a_failed_transaction_leaves_nothing
        names_that_cannot_be_names_are_refused
        extreme_times_are_kept
        stats_are_kept_by_name
        a_check_tells_whose_token_it_is;
    queue:
        who_was_refused_first_is_served_first
        a_place_in_line_holds_only_what_refused_it
        who_asks_for_another_name_waits_no_more_for_the_one_before
        the_place_in_line_of_a_gone_process_is_dropped
        a_place_in_line_goes_with_the_one_who_waits
        leaving_the_line_rings_the_next
        whose_turn_it_is_can_be_asked_without_taking_anything
        a_bell_rings_for_the_one_whose_turn_has_come
        a_waiter_that_claims_again_is_woken_as_it_asked_last
        who_does_not_come_is_passed_over
        many_waiters_are_served_in_order
        a_heavy_waiter_is_served_in_its_turn;
    tokens:
        tokens_grow_for_ever
        a_boot_ends_every_lease_and_raises_every_token
        old_tokens_change_nothing;
    events:
        events_are_numbered_in_the_order_of_commits
        old_events_are_forgotten_and_their_numbers_with_them
        a_failed_emit_uses_up_no_number
        every_listener_is_rung
        requests_are_taken_once
        what_many_threads_write_at_once_is_all_there;
    journal:
        facts_come_back_as_they_were_written
        a_run_in_a_directory_whose_name_is_no_text_is_refused
        a_stale_epoch_is_refused
        runs_are_found_by_the_beginning_of_their_id
        a_run_comes_back_as_it_was_submitted
        runs_are_listed_the_newest_first_with_their_ends
        attempts_and_waits_are_kept_and_go_with_their_run;
}
