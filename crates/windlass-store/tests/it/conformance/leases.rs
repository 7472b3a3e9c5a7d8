use std::time::Duration;

use windlass_store::{Clock, HoldState, Name, StoreError, Taken};

use super::*;

pub(super) fn several_names_are_taken_together_or_not_at_all(on: &mut Fixture) {
    assert_eq!(on.tokens("a", "x"), [1]);
    assert_eq!(refused_by(on.claim("b", "y x")), "a");
    assert_eq!(on.tokens("c", "y"), [1], "b took nothing of it");
}

pub(super) fn a_lease_without_heartbeats_goes_to_the_next_claimant(on: &mut Fixture) {
    assert_eq!(on.tokens("a", "x"), [1]);
    on.clock.advance(TIMEOUT);
    assert_eq!(refused_by(on.claim("b", "x")), "a", "not yet");
    on.clock.advance(Duration::from_nanos(1));
    let holds = held(on.claim("b", "x"));
    assert_eq!(holds[0].taken, Taken::Reclaimed { from: HolderId::new("a") });
    assert_eq!(on.release("a", "x", 1), Answer::NotOwner);
}

pub(super) fn the_wall_clock_decides_nothing(on: &mut Fixture) {
    const YEAR_MS: i64 = 365 * 24 * 3600 * 1000;
    assert_eq!(on.tokens("a", "x"), [1]);
    for wall_ms in [-3600 * 1000, YEAR_MS, i64::MAX, i64::MIN] {
        on.clock.set_wall(wall_ms);
        assert_eq!(refused_by(on.claim("b", "x")), "a");
        assert_eq!(heartbeat(on, "a", "x", 1), Answer::Refreshed);
    }
    on.clock.advance(TIMEOUT * 2);
    assert_eq!(on.tokens("b", "x"), [2]);
}

fn heartbeat(on: &mut Fixture, holder: &str, name: &str, token: u64) -> Answer {
    let (name, holder) = (needs(name)[0].name.clone(), HolderId::new(holder));
    let beat = on.store.transact(|t| t.leases().heartbeat(&name, &holder, Token(token)));
    beat.expect("the store works")
}

pub(super) fn a_late_heartbeat_does_not_revive_a_lease(on: &mut Fixture) {
    on.declare("s", 1);
    assert_eq!(on.tokens("a", "x s:1"), [1, 1]);
    on.clock.advance(TIMEOUT);
    assert_eq!(heartbeat(on, "a", "x", 1), Answer::Refreshed);
    assert_eq!(heartbeat(on, "a", "s:1", 1), Answer::Refreshed);
    on.clock.advance(TIMEOUT + Duration::from_nanos(1));
    assert_eq!(heartbeat(on, "a", "x", 1), Answer::Expired);
    assert_eq!(heartbeat(on, "a", "s:1", 1), Answer::NotHolder);
    assert_eq!(heartbeat(on, "b", "never", 1), Answer::NotOwner);
}

pub(super) fn a_lease_ends_at_its_maximum_hold(on: &mut Fixture) {
    let most = TIMEOUT + Duration::from_secs(1);
    let _ = held(on.claim_with("a", "x", |claim| claim.terms.max_hold = Some(most)));
    on.clock.advance(TIMEOUT);
    assert_eq!(heartbeat(on, "a", "x", 1), Answer::Refreshed);
    on.clock.advance(Duration::from_secs(2));
    assert_eq!(heartbeat(on, "a", "x", 1), Answer::Expired);
    assert_eq!(on.tokens("b", "x"), [2]);
}

pub(super) fn the_lease_of_an_ended_process_is_free_at_once(on: &mut Fixture) {
    let gone = gone();
    let _ = held(on.claim_with("dead", "x", |claim| claim.process = Some(&gone)));
    assert_eq!(on.tokens("b", "x"), [2], "with a larger token");
    assert_eq!(on.release("dead", "x", 1), Answer::NotOwner);
}

pub(super) fn a_process_that_is_not_visible_is_judged_by_its_heartbeats(on: &mut Fixture) {
    let (elsewhere, tree) = (elsewhere(), tree());
    let _ = held(on.claim_with("far", "x", |claim| {
        (claim.process, claim.tree) = (Some(&elsewhere), Some(&tree));
    }));
    assert_eq!(refused_by(on.claim("b", "x")), "far");
    on.clock.advance(TIMEOUT * 2);
    assert_eq!(on.tokens("b", "x"), [2], "processes that are not visible cannot be ended");
}

pub(super) fn the_processes_of_a_dead_holder_are_reported_before_its_lease_is_free(
    on: &mut Fixture,
) {
    let (gone, tree) = (gone(), tree());
    let _ = held(on.claim_with("dead", "x", |claim| {
        (claim.process, claim.tree) = (Some(&gone), Some(&tree));
    }));
    let refused = refused(on.claim("b", "x"));
    let [leftover] = refused.leftovers.as_slice() else { panic!("{refused:?}") };
    assert_eq!((leftover.holder.as_str(), &leftover.tree), ("dead", &tree));
    assert_eq!(leftover.uid, Some(rustix::process::geteuid().as_raw()));
    assert_eq!(leftover.left, TIMEOUT);
    assert_eq!(refused_by(on.claim("c", "x")), "dead", "no other claim gets it meanwhile");
    let ended = [(leftover.name.clone(), leftover.token)];
    let holds = held(on.claim_with("b", "x", |claim| claim.ended = &ended));
    assert_eq!(holds[0].taken, Taken::Reclaimed { from: HolderId::new("dead") });
}

pub(super) fn one_heartbeat_of_a_process_covers_all_its_leases(on: &mut Fixture) {
    let (here, elsewhere, tree) = (here(), elsewhere(), tree());
    for (holder, name, process) in [("a", "x", &here), ("b", "y", &here), ("c", "z", &elsewhere)] {
        let _ = held(on.claim_with(holder, name, |claim| {
            (claim.process, claim.tree) = (Some(process), Some(&tree));
        }));
    }
    on.clock.advance(TIMEOUT);
    let held = on.store.transact(|t| t.leases().heartbeat_process(&here)).expect("the store works");
    let lock = |name: &str| Name::Lock(name.to_owned());
    assert_eq!(held, [(lock("x"), Token(1)), (lock("y"), Token(1))]);
    on.clock.advance(Duration::from_secs(1));
    assert_eq!(refused_by(on.claim("d", "x")), "a");
    assert_eq!(refused_by(on.claim("e", "y")), "b");
    assert_eq!(on.tokens("f", "z"), [2]);
    on.clock.advance(TIMEOUT);
    let held = on.store.transact(|t| t.leases().heartbeat_process(&here)).expect("the store works");
    assert_eq!(held, [], "both are lost");
}

pub(super) fn a_named_process_that_is_running_needs_no_heartbeats(on: &mut Fixture) {
    let (here, elsewhere) = (here(), elsewhere());
    for (holder, name, process) in
        [("a", "x", &here), ("b", "y", &elsewhere), ("c", "run/r", &here)]
    {
        let _ = held(on.claim_with(holder, name, |claim| claim.process = Some(process)));
    }
    let _ = held(on.claim_with("d", "z", |claim| {
        (claim.process, claim.terms.max_hold) = (Some(&here), Some(TIMEOUT));
    }));
    on.clock.advance(TIMEOUT * 2);
    let now = on.clock.now().at;
    let views = on.store.overview().expect("it can be read");
    let states: Vec<_> = views.iter().map(|view| view.leases[0].state(now)).collect();
    let (held, stale) = (HoldState::Held, HoldState::Stale);
    assert_eq!(states, [held, stale, stale, stale], "x, y, z, run r");
    assert_eq!(refused_by(on.claim("e", "x")), "a");
    assert_eq!(on.tokens("e", "y"), [2], "a process that is not visible needs heartbeats");
    assert_eq!(on.tokens("e", "z"), [2], "a lease ends at its maximum hold");
    assert_eq!(on.tokens("e", "run/r"), [2], "a leader needs heartbeats");
    let (name, holder) = (Name::Lock("x".to_owned()), HolderId::new("a"));
    let beat = on.store.transact(|t| t.leases().heartbeat(&name, &holder, Token(1)));
    assert_eq!(beat.expect("the store works"), Answer::Refreshed);
}

pub(super) fn semaphores_are_declared_and_never_exceeded(on: &mut Fixture) {
    let (holder, want) = (HolderId::new("a"), needs("s:1"));
    let undeclared = on.store.transact(|t| t.leases().claim(&Claim::new(&holder, &want)));
    assert!(matches!(undeclared, Err(StoreError::Claim(_))), "{undeclared:?}");
    on.declare("s", 3);
    assert_eq!(on.tokens("a", "s:2"), [1]);
    assert_eq!(on.tokens("b", "s:1"), [2]);
    assert_eq!(refused(on.claim("c", "s:1")).refusals[0].available, 0);
    let declared = on.store.transact(|t| t.leases().declare("s", 4));
    let said = declared.expect_err("it is in use").to_string();
    assert!(said.contains("3, not 4"), "{said}");
    assert_eq!(on.release("a", "s:2", 1), Answer::Released);
    assert_eq!(on.release("a", "s:2", 1), Answer::NotHolder);
    assert_eq!(on.tokens("c", "s:1"), [3]);
    assert_eq!(on.tokens("b", "s:2"), [2], "an upgrade keeps its token");
}

pub(super) fn a_failed_transaction_leaves_nothing(on: &mut Fixture) {
    let (holder, want) = (HolderId::new("a"), needs("x"));
    let failed = on.store.transact(|transaction| {
        let _ = transaction.leases().claim(&Claim::new(&holder, &want))?;
        transaction.events().emit("never:happened")?;
        Err::<(), _>(StoreError::UnknownRun { run: String::new() })
    });
    failed.expect_err("it failed");
    assert_eq!(on.tokens("b", "x"), [1]);
    assert_eq!(on.store.last_event().expect("it can be read"), 0);
}

pub(super) fn invalid_names_are_refused(on: &mut Fixture) {
    let long = "x".repeat(64 << 10);
    for name in ["", "a\nb", "a\0b", "acquire", "release", "heartbeat", "check", &long] {
        let (holder, want) = (HolderId::new("a"), [Need::one(Name::Lock(name.to_owned()))]);
        let refused = on.store.transact(|t| t.leases().claim(&Claim::new(&holder, &want)));
        assert!(matches!(refused, Err(StoreError::Name(_))), "{name:?}: {refused:?}");
    }
    for name in ["/../", "🚀", "-x", "a'b\"c", "%s", "é"] {
        let (holder, want) = (HolderId::new("a"), [Need::one(Name::Lock(name.to_owned()))]);
        let claimed = on.store.transact(|t| t.leases().claim(&Claim::new(&holder, &want)));
        assert!(matches!(claimed, Ok(Claimed::Held(_))), "{name:?}: {claimed:?}");
    }
}

pub(super) fn extreme_times_are_kept(on: &mut Fixture) {
    let long = Duration::from_secs(1_000_000_000_000);
    let _ = held(on.claim_with("a", "x", |claim| {
        (claim.terms.heartbeat_timeout, claim.terms.max_hold) = (long, Some(long));
    }));
    let _ = held(on.claim_with("b", "y", |claim| {
        claim.terms.heartbeat_timeout = Duration::from_nanos(1);
    }));
    let _ = held(on.claim_with("c", "z", |claim| claim.terms.heartbeat_timeout = Duration::ZERO));
    on.clock.advance(Duration::from_nanos(1));
    assert_eq!(refused_by(on.claim("d", "y")), "b");
    assert_eq!(on.tokens("d", "z"), [2]);
    on.clock.advance(Duration::from_secs(1_000_000_000));
    assert_eq!(refused_by(on.claim("e", "x")), "a");
}

pub(super) fn stats_are_kept_by_name(on: &mut Fixture) {
    let gone = gone();
    let _ = held(on.claim_with("dead", "x", |claim| claim.process = Some(&gone)));
    assert_eq!(on.tokens("a", "x"), [2]);
    assert_eq!(refused_by(on.claim("b", "x")), "a");
    assert_eq!(refused_by(on.claim("b", "x")), "a");
    let views = on.store.overview().expect("it can be read");
    let [view] = views.as_slice() else { panic!("{views:?}") };
    let stats = view.stored.stats;
    assert_eq!((stats.acquired, stats.denied, stats.reclaimed, stats.stale), (2, 1, 1, 1));
    assert_eq!(view.leases[0].lease.holder.as_str(), "a");
    assert_eq!(view.waiters[0].waiter.holder.as_str(), "b");
}

pub(super) fn a_check_returns_the_holder_of_a_token(on: &mut Fixture) {
    let check = |on: &mut Fixture, token| {
        let name = Name::Lock("x".to_owned());
        on.store.transact(|t| t.leases().check(&name, Token(token))).expect("the store works")
    };
    assert_eq!(check(on, 1), (Answer::AlreadyFree, None));
    assert_eq!(on.tokens("a", "x"), [1]);
    assert_eq!(check(on, 1), (Answer::Valid, Some(HolderId::new("a"))));
    assert_eq!(check(on, 2), (Answer::NotOwner, None));
}
