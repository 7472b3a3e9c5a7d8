//! Rates and quotas beside limits.

use super::*;
use crate::RateError;

/// A root with 10 calls, and a level below it with 2 calls a second and a burst of 4.
fn limited_calls() -> (CapacityTree, ClientId, ResourceId) {
    let mut tree = CapacityTree::new(&amounts([("calls", 10)]));
    let level = tree.add_level(ROOT, &ResourceCost::new());
    tree.set_rate(level, "calls", two_a_second(), NOW).expect("a sound rate");
    let client = tree.add_client(level);
    let calls = tree.resource("calls").expect("declared");
    (tree, client, calls)
}

fn two_a_second() -> Rate {
    Rate { amount: 2.into(), per: Duration::from_secs(1), burst: 4.into() }
}

fn calls(tree: &CapacityTree, client: ClientId, n: u32) -> Demand {
    tree.demand(tree.level_of(client), &amounts([("calls", n)])).expect("within the burst")
}

const fn ms(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

#[test]
fn taking_counts_a_start_and_releasing_gives_nothing_back() {
    let (mut tree, client, _) = limited_calls();
    let level = tree.level_of(client);
    let four = calls(&tree, client, 4);
    tree.try_take(client, &four, Place::First, NOW).expect("it starts full");
    assert_eq!(tree.available(ROOT, NOW), amounts([("calls", 6)]));
    tree.give_back(client, &four);
    assert_eq!(tree.available(ROOT, NOW), amounts([("calls", 10)]), "the ordinary part is back");
    assert_eq!(tree.available(level, NOW), amounts([("calls", 0)]));
    assert_eq!(tree.available(level, ms(1500)), amounts([("calls", 3)]), "time brings more");
    assert_eq!(tree.peek(level, ms(1500)), Some(amounts([("calls", 3)])));
    tree.check();
}

#[test]
fn a_rate_says_when_there_is_room() {
    let (mut tree, client, resource) = limited_calls();
    let level = tree.level_of(client);
    let [one, four] = [1, 4].map(|n| calls(&tree, client, n));
    tree.take(client, &four, NOW);
    let refusal = tree.try_take(client, &one, Place::First, ms(499)).unwrap_err();
    let at = ms(500);
    let wanted = Amount::from(1);
    assert_eq!(refusal.shortages, [Shortage { level, resource, wanted, why: Short::Rate { at } }]);
    let when = |n: u32| tree.when(client, level, resource, n.into(), Place::First, ms(499));
    assert_eq!((when(0), when(3), when(4)), (Some(ms(499)), Some(ms(1500)), Some(ms(2000))));
    assert_eq!(when(5), Some(Timestamp::MAX), "more than ever gathers");
    assert_eq!(tree.when(client, ROOT, resource, wanted, Place::First, NOW), None);
    tree.try_take(client, &one, Place::First, at).expect("it was said so");
}

#[test]
fn a_reservation_at_a_rate_binds_later_demands() {
    let (mut tree, a, resource) = limited_calls();
    let level = tree.level_of(a);
    let b = tree.add_client(level);
    let [one, three, four] = [1, 3, 4].map(|n| calls(&tree, a, n));
    tree.take(a, &four, NOW);
    let refusal = refused(&mut tree, a, &three);
    tree.reserve(a, 1, &refusal);
    assert!(!tree.can_take(b, &one, Place::First, ms(1500)), "three have come, for a");
    assert!(tree.can_take(b, &one, Place::First, ms(2000)));
    assert!(tree.can_take(a, &three, Place::First, ms(1500)));
    assert_eq!(tree.room(b, level, resource, Place::First, ms(1000)), -UNIT);
    let when = |n: u32| tree.when(b, level, resource, n.into(), Place::First, NOW);
    assert_eq!((when(1), when(2)), (Some(ms(2000)), Some(Timestamp::MAX)));
}

#[test]
fn a_quota_is_whole_again_in_the_next_window() {
    let mut tree = CapacityTree::new(&ResourceCost::new());
    let quota = Quota { amount: 5.into(), window: Duration::from_secs(60) };
    tree.set_quota(ROOT, "mails", quota, ms(59_000)).expect("a sound quota");
    let client = tree.add_client(ROOT);
    let four = tree.demand(ROOT, &amounts([("mails", 4)])).expect("within the quota");
    tree.try_take(client, &four, Place::First, ms(59_000)).expect("nothing is used");
    tree.give_back(client, &four);
    let refusal = tree.try_take(client, &four, Place::First, ms(59_999)).unwrap_err();
    assert_eq!(refusal.shortages[0].why, Short::Quota { at: ms(60_000) });
    tree.try_take(client, &four, Place::First, ms(60_000)).expect("a new window");
    assert_eq!(tree.available(ROOT, ms(60_000)), amounts([("mails", 1)]));
    assert_eq!(tree.quota(ROOT, "mails"), Some(quota));
    assert_eq!(tree.rate(ROOT, "mails"), None);
}

#[test]
fn a_cost_above_the_burst_or_quota_is_refused_naming_the_level() {
    let (mut tree, client, _) = limited_calls();
    let level = tree.level_of(client);
    let error = tree.demand(level, &amounts([("calls", 5)])).unwrap_err();
    assert!(matches!(error, CostError::AboveLimit { level: at, .. } if at == level));
    let quota = Quota { amount: 3.into(), window: Duration::from_secs(60) };
    tree.set_quota(ROOT, "calls", quota, NOW).expect("a sound quota");
    let error = tree.demand(level, &amounts([("calls", 4)])).unwrap_err();
    assert!(matches!(error, CostError::AboveLimit { level: ROOT, .. }));
}

#[test]
fn reconcile_charges_or_refunds_the_difference_at_a_rate() {
    let (mut tree, client, resource) = limited_calls();
    let level = tree.level_of(client);
    let [one, three] = [1, 3].map(|n| calls(&tree, client, n));
    let nine = tree.actual(level, &amounts([("calls", 9)])).expect("calls are known");
    let room = |tree: &CapacityTree| tree.room(client, level, resource, Place::First, NOW) / UNIT;
    tree.take(client, &three, NOW);
    tree.watch(client, level, resource);
    assert_eq!(tree.reconcile(client, &three, &one, NOW), Ok(vec![client]));
    assert_eq!(room(&tree), 3);
    tree.reconcile(client, &one, &nine, NOW).expect("it holds one");
    assert_eq!(room(&tree), -5, "a rate can be in debt");
    tree.reconcile(client, &nine, &one, ms(2000)).expect("it holds nine");
    assert_eq!(tree.available(level, ms(2000)), amounts([("calls", 4)]), "never above the burst");
    tree.check();
}

#[test]
fn a_rate_in_place_of_a_limit_forgets_nothing_in_use() {
    let (mut tree, client, resource) = limited_calls();
    let level = tree.level_of(client);
    let four = calls(&tree, client, 4);
    tree.take(client, &four, NOW);
    tree.set_limits(level, &amounts([("calls", 5)]));
    assert_eq!(tree.room(client, level, resource, Place::First, NOW), UNIT);
    tree.watch(client, level, resource);
    let wakes = tree.set_rate(level, "calls", two_a_second(), NOW);
    assert_eq!(wakes, Ok(vec![client]));
    assert_eq!(tree.available(level, NOW), amounts([("calls", 4)]), "and starts full");
    assert_eq!(tree.limits(level), ResourceCost::new());
    tree.give_back(client, &four);
    tree.check();
}

#[test]
fn a_rate_that_makes_no_sense_changes_nothing() {
    let (mut tree, client, _) = limited_calls();
    let level = tree.level_of(client);
    let never = Rate { amount: Amount::ZERO, ..two_a_second() };
    assert_eq!(tree.set_rate(level, "calls", never, NOW), Err(RateError::ZeroAmount));
    assert_eq!(tree.set_rate(level, "other", never, NOW), Err(RateError::ZeroAmount));
    assert_eq!(tree.set_rate(level, "", two_a_second(), NOW), Err(RateError::NoName));
    assert_eq!(tree.rate(level, "calls"), Some(two_a_second()));
    assert_eq!(tree.resource("other"), None);
}
