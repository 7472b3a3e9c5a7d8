//! Shared capacity: what it grants, what it refuses and why, and which waiter is served next.

use std::time::Duration;

use futures::FutureExt;
use tokio::time::{Instant, advance};
use windlass::core::{RateError, Short};
use windlass::{
    Amount, ImpossibleCost, Quota, Rate, ReconcileError, ResourceCapacity, ResourceCost,
    TryAcquireError,
};

use crate::support::{cost, cpus, poll_once, processor_time, settle};

mod dropped;
mod keyed;
mod random;
mod waiting;

/// A cluster with 10 cpus, and two teams with 8 each.
fn two_teams() -> (ResourceCapacity, [ResourceCapacity; 2]) {
    let cluster = ResourceCapacity::new(cpus(10)).named("cluster");
    let teams = [(); 2].map(|()| cluster.child(cpus(8)));
    (cluster, teams)
}

/// `n` per second, as many at once.
fn per_second(n: u32) -> Rate {
    Rate { amount: Amount::from(n), per: Duration::from_secs(1), burst: Amount::from(n) }
}

#[test]
fn an_acquire_takes_at_every_level_or_nowhere() {
    let (cluster, [a, b]) = two_teams();
    let _held = a.try_acquire(cpus(6)).expect("everything is free");
    assert!(b.try_acquire(cpus(6)).is_err());
    assert_eq!(b.available(), cpus(8), "nothing of it was taken where there would have been room");
    assert_eq!(cluster.available(), cpus(4));
}

#[test]
fn one_of_two_resources_is_never_taken_without_the_other() {
    let capacity = ResourceCapacity::new(cost([("cpu", 4), ("gpu", 1)]));
    let _gpu = capacity.try_acquire(cost([("gpu", 1)])).expect("everything is free");
    assert!(capacity.try_acquire(cost([("cpu", 1), ("gpu", 1)])).is_err());
    assert_eq!(capacity.available(), cost([("cpu", 4), ("gpu", 0)]));
}

#[test]
fn a_limit_lowered_below_what_is_in_use_is_a_debt() {
    let capacity = ResourceCapacity::new(cpus(8));
    capacity.acquire_immediate(cpus(8)).expect("everything is free");
    capacity.set_limits(cpus(4));
    assert_eq!(capacity.available(), cpus(0), "a debt is shown as nothing");
    capacity.release(cpus(4)).expect("it was taken");
    assert_eq!(capacity.available(), cpus(0), "four run");
    capacity.set_limits(cpus(8));
    assert_eq!(capacity.available(), cpus(4));
}

#[test]
fn releasing_more_than_is_held_is_an_error_that_changes_nothing() {
    let (cluster, [a, _]) = two_teams();
    a.acquire_immediate(cpus(2)).expect("everything is free");
    let error = a.release(cpus(3)).expect_err("only two are held");
    assert_eq!(error.to_string(), "cannot release 3 of \"cpu\": only 2 is held");
    assert_eq!((a.available(), cluster.available()), (cpus(6), cpus(8)), "no level is credited");
    let error = a.release(cost([("gpu", 1)])).expect_err("no level declares it");
    assert_eq!((error.held, error.released), (Amount::ZERO, Amount::from(1)));
}

#[test]
fn a_release_counts_against_what_was_taken_without_a_permit_only() {
    let capacity = ResourceCapacity::new(cpus(4));
    let permit = capacity.try_acquire(cpus(2)).expect("everything is free");
    assert!(capacity.release(cpus(1)).is_err(), "a permit holds that");
    capacity.acquire_immediate(cpus(1)).expect("there is room");
    capacity.release(cpus(1)).expect("it was taken without a permit");
    drop(permit);
    assert_eq!(capacity.available(), cpus(4));
}

#[test]
fn a_name_that_no_level_declares_is_refused_with_the_nearest() {
    let (_cluster, [a, _]) = two_teams();
    let expected = ImpossibleCost::Unknown { name: "cpus".into(), nearest: Some("cpu".into()) };
    assert_eq!(a.validate_cost(cost([("cpus", 1)])), Err(expected.clone()));
    let refusal = a.try_acquire(cost([("cpus", 1)])).expect_err("no level declares it");
    assert_eq!(refusal, TryAcquireError::Impossible(expected));
    assert_eq!(refusal.to_string(), "unknown resource \"cpus\"; did you mean \"cpu\"?");
    assert!(!a.can_acquire(cost([("cpus", 1)])));
}

#[test]
fn a_name_that_only_an_ancestor_declares_is_checked_there() {
    let cluster = ResourceCapacity::new(cost([("cpu", 8), ("licence", 1)]));
    let team = cluster.child(cpus(4));
    let held = team.try_acquire(cost([("licence", 1)])).expect("the cluster has it");
    assert!(!team.can_acquire(cost([("licence", 1)])));
    assert_eq!(cluster.available(), cost([("cpu", 8), ("licence", 0)]));
    drop(held);
    assert!(team.can_acquire(cost([("licence", 1)])));
}

#[test]
fn a_cost_above_a_limit_is_refused_naming_the_level() {
    let (_cluster, [a, _]) = two_teams();
    a.set_limits(cpus(20));
    let refusal = a.validate_cost(cpus(11)).expect_err("more than there are in all");
    let text = "requires 11 of \"cpu\", but the limit of \"cluster\" is 10";
    assert_eq!(refusal.to_string(), text);
    let ImpossibleCost::AboveLimit { level, .. } = refusal else { panic!("{refusal}") };
    assert_eq!(level.above, 1);
    assert_eq!(a.validate_cost(cpus(10)), Ok(()), "it would fit in principle");
    assert!(a.acquire_immediate(cpus(11)).is_err());
    let waited = a.acquire(&cpus(11)).now_or_never().expect("it does not wait for ever");
    assert!(waited.is_err());
}

#[test]
fn a_refusal_lists_every_shortage_with_its_level() {
    let (_cluster, [a, b]) = two_teams();
    let _held = [a.try_acquire(cpus(7)), b.try_acquire(cpus(2))].map(|p| p.expect("they fit"));
    let refusal = a.try_acquire(cpus(2)).expect_err("there is one left at either level");
    let text = "requires 2 of \"cpu\", but this level has 1 free; \
                requires 2 of \"cpu\", but \"cluster\" has 1 free";
    assert_eq!(refusal.to_string(), text);
    let TryAcquireError::Short { shortfalls } = refusal else { panic!("{refusal}") };
    assert_eq!(shortfalls.iter().map(|short| short.level.above).collect::<Vec<_>>(), [0, 1]);
    assert!(matches!(shortfalls[0].why, Short::Limit { free: 10_000, reserved: 0 }));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_by_a_rate_contains_the_time_when_it_fits() {
    let capacity = ResourceCapacity::new(ResourceCost::new());
    capacity.set_rate("cpu", per_second(2)).expect("it makes sense");
    let minute = Quota { amount: Amount::from(2), window: Duration::from_secs(60) };
    capacity.set_quota("calls", minute).expect("it makes sense");
    drop(capacity.try_acquire(cost([("cpu", 2), ("calls", 2)])).expect("both start full"));
    let refused = |wanted| capacity.try_acquire(&wanted).expect_err("both are used up").to_string();
    let text = "requires 1 of \"cpu\", but this level has enough again in 500ms";
    assert_eq!(refused(cpus(1)), text);
    let text =
        "requires 1 of \"calls\", but this level has enough again in the window that begins in 60s";
    assert_eq!(refused(cost([("calls", 1)])), text);
}

#[test]
fn peek_returns_the_minimum_of_all_levels_and_none_if_one_is_exhausted() {
    let cluster = ResourceCapacity::new(cost([("cpu", 10), ("disk", 5)]));
    let team = cluster.child(cost([("cpu", 8), ("gpu", 2)]));
    let _held = cluster.try_acquire(cpus(7)).expect("everything is free");
    assert_eq!(team.peek(), Some(cost([("cpu", 3), ("disk", 5), ("gpu", 2)])));
    let _disk = cluster.try_acquire(cost([("disk", 5)])).expect("it is free");
    assert_eq!(team.peek(), None);
}

#[test]
fn utilization_stays_within_0_and_1() {
    let capacity = ResourceCapacity::new(cost([("cpu", 4), ("gpu", 0)]));
    let _held = capacity.try_acquire(cpus(3)).expect("everything is free");
    let parts = |capacity: &ResourceCapacity| capacity.utilization().into_values().collect();
    let used: Vec<f64> = parts(&capacity);
    assert_eq!(used, [0.75, 0.0], "a limit of 0 is never used");
    capacity.set_limits(cpus(2));
    let used: Vec<f64> = parts(&capacity);
    assert_eq!(used, [1.0, 0.0], "a debt is no more than all of it");
}

#[test]
fn set_limits_is_partial_and_may_add_names() {
    let capacity = ResourceCapacity::new(cost([("cpu", 4), ("disk", 5)]));
    capacity.set_limits(cost([("cpu", 6), ("gpu", 1)]));
    assert_eq!(capacity.limits(), cost([("cpu", 6), ("disk", 5), ("gpu", 1)]));
    assert!(capacity.can_acquire(cost([("gpu", 1)])));
}

#[test]
fn reconcile_above_the_limit_goes_into_debt_and_no_phantom_capacity_appears() {
    let capacity = ResourceCapacity::new(cpus(4));
    capacity.acquire_immediate(cpus(2)).expect("everything is free");
    capacity.reconcile(cpus(2), cpus(7)).expect("what was used was used");
    assert_eq!(capacity.available(), cpus(0));
    capacity.release(cpus(4)).expect("seven are held");
    assert_eq!(capacity.available(), cpus(1), "three of four are still held");
    capacity.release(cpus(3)).expect("three are held");
    assert_eq!(capacity.available(), cpus(4));
    let error = capacity.reconcile(cpus(1), cpus(1)).expect_err("nothing is held");
    assert!(matches!(error, ReconcileError::NotHeld(_)));
}

#[test]
fn a_permit_that_is_reconciled_gives_back_what_was_used() {
    let (cluster, [a, _]) = two_teams();
    let mut permit = a.try_acquire(cpus(6)).expect("everything is free");
    permit.reconcile(cpus(2)).expect("cpu is declared");
    assert_eq!((permit.cost(), cluster.available()), (cpus(2), cpus(8)));
    assert!(permit.reconcile(cost([("gpu", 1)])).is_err());
    assert_eq!(permit.cost(), cpus(2), "a refused one changes nothing");
    drop(permit);
    assert_eq!((a.available(), cluster.available()), (cpus(8), cpus(10)));
}

#[test]
fn amounts_are_exact() {
    let tenth = ResourceCost::new().with("cpu", "0.1".parse::<Amount>().expect("an amount"));
    let capacity = ResourceCapacity::new(cpus(1));
    let permits: Vec<_> = (0..10).map(|_| capacity.try_acquire(&tenth)).collect();
    assert!(permits.iter().all(Result::is_ok), "ten tenths are one");
    assert_eq!(capacity.available(), cpus(0));
    assert!(capacity.try_acquire(&tenth).is_err());
}

#[tokio::test(start_paused = true)]
async fn taking_from_a_rate_counts_a_start_and_giving_back_gives_nothing_back() {
    let capacity = ResourceCapacity::new(cpus(4));
    capacity.set_rate("calls", per_second(2)).expect("it makes sense");
    let call = cost([("calls", 1), ("cpu", 1)]);
    for _ in 0..2 {
        drop(capacity.try_acquire(&call).expect("it starts full"));
    }
    assert_eq!(capacity.available(), cost([("calls", 0), ("cpu", 4)]), "the cpu is given back");
    assert!(capacity.try_acquire(&call).is_err());
    advance(Duration::from_millis(499)).await;
    assert!(!capacity.can_acquire(&call));
    advance(Duration::from_millis(1)).await;
    assert!(capacity.can_acquire(&call));
}

#[tokio::test(start_paused = true)]
async fn a_quota_is_full_again_in_each_window() {
    let api = ResourceCapacity::new(cpus(8));
    let team = api.child(ResourceCost::new());
    let ten = Quota { amount: Amount::from(10), window: Duration::from_secs(60) };
    team.set_quota("calls", ten).expect("it makes sense");
    let ten_calls = cost([("calls", 10), ("cpu", 1)]);
    drop(team.acquire(&ten_calls).await.expect("it can be had"));
    assert_eq!(api.available(), cpus(8), "the ordinary part above it is given back");
    let began = Instant::now();
    drop(team.acquire(&ten_calls).await.expect("it can be had"));
    assert_eq!(began.elapsed(), Duration::from_secs(60));
}

#[test]
fn an_invalid_rate_is_refused() {
    let capacity = ResourceCapacity::new(cpus(1));
    assert_eq!(capacity.set_rate("calls", per_second(0)), Err(RateError::ZeroAmount));
    let empty = Quota { amount: Amount::from(1), window: Duration::ZERO };
    assert_eq!(capacity.set_quota("calls", empty), Err(RateError::ZeroPeriod));
    assert!(capacity.validate_cost(cost([("calls", 1)])).is_err(), "nothing was declared");
}

#[tokio::test(start_paused = true)]
async fn metrics_count_requests_and_have_recent_rates() {
    let (cluster, [a, _]) = two_teams();
    assert_eq!(cluster.metrics().rolling.over, Duration::ZERO);
    let held = a.try_acquire(cpus(8)).expect("everything is free");
    for _ in 0..3 {
        assert!(a.try_acquire(cpus(1)).is_err());
    }
    advance(Duration::from_secs(2)).await;
    let metrics = cluster.metrics();
    assert_eq!((metrics.accepted, metrics.in_flight, metrics.waiting), (1, 1, 0));
    assert_eq!(metrics.refused.total(), 0, "the team refused, not the cluster");
    assert_eq!(metrics.utilization["cpu"].to_bits(), 0.8f64.to_bits());
    assert_eq!(metrics.rolling.accepted_per_second.to_bits(), 0.5f64.to_bits());
    assert_eq!(a.metrics().refused.limit, 3);
    drop(held);
    advance(Duration::from_secs(10)).await;
    let metrics = cluster.metrics();
    assert_eq!((metrics.accepted, metrics.in_flight), (1, 0));
    assert_eq!(metrics.rolling.over, Duration::from_secs(10), "since the last look");
    assert_eq!(metrics.rolling.accepted_per_second.to_bits(), 0.0f64.to_bits());
}

#[tokio::test]
async fn a_subscriber_is_notified_of_releases_and_changed_limits() {
    let (cluster, [a, b]) = two_teams();
    let mut changes = a.subscribe();
    assert!(changes.changed().now_or_never().is_none(), "nothing has happened");
    drop(b.try_acquire(cpus(1)).expect("everything is free"));
    assert_eq!(changes.changed().await, cpus(8), "given back above it");
    a.set_limits(cpus(9));
    assert_eq!(changes.changed().await, cpus(9));
    cluster.set_limits(cost([("gpu", 1)]));
    assert_eq!(changes.changed().await, cpus(9), "a new name");
    assert!(changes.changed().now_or_never().is_none(), "all of it was told");
}

#[test]
fn dropping_a_child_leaves_its_parent_whole() {
    let cluster = ResourceCapacity::new(cpus(10));
    let child = cluster.child(cpus(8));
    child.acquire_immediate(cpus(3)).expect("everything is free");
    let permit = child.try_acquire(cpus(2)).expect("there is room");
    drop(child);
    assert_eq!(cluster.available(), cpus(5), "its permit keeps it");
    drop(permit);
    assert_eq!(cluster.available(), cpus(10), "and what had no permit goes with it");
}

/// Returns the processor time that an amount of one of `resources` takes to acquire and to give back.
fn takes(resources: u32) -> Duration {
    let limits = (0..resources).map(|n| (format!("host {n}"), Amount::from(1)));
    let capacity = ResourceCapacity::new(limits.collect::<ResourceCost>());
    let costs: Vec<_> =
        (0..200).map(|n| cost([(&*format!("host {}", n * resources / 200), 1)])).collect();
    let start = processor_time();
    for _ in 0..20 {
        costs.iter().for_each(|cost| drop(capacity.try_acquire(cost).expect("it is free")));
    }
    processor_time() - start
}

#[test]
fn the_cost_of_a_request_does_not_grow_with_the_number_of_resources() {
    let (few, many) = (takes(200), takes(20_000));
    assert!(many < few * 20, "100 times as many resources: {few:?}, then {many:?}");
}

#[test]
fn a_cost_of_many_names_is_built_without_copying_it_for_each_name() {
    const NAMES: u32 = 16_384;
    // The same number of names in all: in costs of so many names each, the last name first.
    let build = |names: u32| {
        let start = processor_time();
        for _ in 0..NAMES / names {
            let names = (0..names).rev().map(|name| format!("{name:05}"));
            let cost = names.fold(ResourceCost::new(), |cost, name| cost.with(name, 1));
            assert_eq!(cost.amount("00001"), Some(1.into()));
        }
        processor_time() - start
    };
    let shortest = |names| (0..5).map(|_| build(names)).min().expect("five builds");
    let (small, large) = (shortest(NAMES / 64), shortest(NAMES));
    assert!(large < small * 8, "64 times as many names each: {small:?}, then {large:?}");
}
