use std::time::Duration;

use super::*;
use crate::{Amount, Quota, Rate};

mod queue;
mod rates;

const NOW: Timestamp = Timestamp::ZERO;
const ROOT: LevelId = CapacityTree::ROOT;
/// One unit, in steps.
const UNIT: i128 = 10_000;

fn amounts<const N: usize>(pairs: [(&str, u32); N]) -> ResourceCost {
    ResourceCost::of(pairs).expect("each name once")
}

/// A root with 10 cpu and two teams below it with 8 each.
fn two_teams() -> (CapacityTree, [ClientId; 2]) {
    let mut tree = CapacityTree::new(&amounts([("cpu", 10)]));
    let clients = [(); 2].map(|()| {
        let level = tree.add_level(ROOT, &amounts([("cpu", 8)]));
        tree.add_client(level)
    });
    (tree, clients)
}

fn demand(tree: &CapacityTree, client: ClientId, cpu: u32) -> Demand {
    tree.demand(tree.level_of(client), &amounts([("cpu", cpu)])).expect("it fits in principle")
}

fn refused(tree: &mut CapacityTree, client: ClientId, demand: &Demand) -> Refusal {
    tree.try_take(client, demand, Place::First, NOW).expect_err("there is not enough")
}

fn watch(tree: &mut CapacityTree, client: ClientId, refusal: &Refusal) {
    for short in &refusal.shortages {
        tree.watch(client, short.level, short.resource);
    }
}

#[test]
fn the_usage_example_of_a_pool() {
    let mut tree = CapacityTree::new(&amounts([("gpu", 8), ("memory_gb", 32)]));
    let client = tree.add_client(ROOT);
    let task = tree.demand(ROOT, &amounts([("gpu", 2), ("memory_gb", 8)])).expect("it fits");
    assert!(tree.can_take(client, &task, Place::First, NOW));
    tree.try_take(client, &task, Place::First, NOW).expect("as was said");
    assert_eq!(tree.available(ROOT, NOW), amounts([("gpu", 6), ("memory_gb", 24)]));
    assert_eq!(tree.utilization(ROOT), [("gpu", 0.25), ("memory_gb", 0.25)]);
    tree.give_back(client, &task);
    assert_eq!(tree.available(ROOT, NOW), amounts([("gpu", 8), ("memory_gb", 32)]));
}

#[test]
fn the_hierarchical_example_of_two_teams() {
    let mut tree = CapacityTree::new(&amounts([("gpu", 16)]));
    let team = tree.add_level(ROOT, &amounts([("gpu", 8)]));
    let a = tree.add_client(team);
    let big = tree.demand(team, &amounts([("gpu", 6)])).expect("6 <= 8 and 6 <= 16");
    assert!(tree.can_take(a, &big, Place::First, NOW));
    tree.try_take(a, &big, Place::First, NOW).expect("as was said");
    assert_eq!(tree.available(team, NOW), amounts([("gpu", 2)]));
    assert_eq!(tree.available(ROOT, NOW), amounts([("gpu", 10)]));

    let team2 = tree.add_level(ROOT, &amounts([("gpu", 12)]));
    let b = tree.add_client(team2);
    let huge = tree.demand(team2, &amounts([("gpu", 11)])).expect("11 <= 12 and 11 <= 16");
    assert!(!tree.can_take(b, &huge, Place::First, NOW), "11 <= 12 but 11 > 10");
    assert_eq!(tree.peek(team2, NOW), Some(amounts([("gpu", 10)])));
}

#[test]
fn all_or_nothing_over_the_whole_chain() {
    let (mut tree, [a, b]) = two_teams();
    let six = demand(&tree, a, 6);
    tree.try_take(a, &six, Place::First, NOW).expect("everything is free");
    let refusal = refused(&mut tree, b, &six);
    let levels: Vec<_> = refusal.shortages.iter().map(|short| short.level).collect();
    assert_eq!(levels, [ROOT], "its own level would have had enough");
    assert_eq!(tree.free(tree.level_of(b), "cpu"), Some(8 * UNIT), "nothing was taken");
    tree.check();
}

#[test]
fn a_refusal_names_everything_that_was_short() {
    let mut tree = CapacityTree::new(&amounts([("cpu", 4), ("gpu", 4)]));
    let team = tree.add_level(ROOT, &amounts([("cpu", 3)]));
    let client = tree.add_client(team);
    let both = tree.demand(team, &amounts([("cpu", 3), ("gpu", 3)])).expect("it fits");
    tree.try_take(client, &both, Place::First, NOW).expect("everything is free");
    let refusal = refused(&mut tree, client, &both);
    let short = |short: &Shortage| (short.level, tree.name(short.resource).to_owned(), short.why);
    let shortages: Vec<_> = refusal.shortages.iter().map(short).collect();
    let limit = |units: i128| Short::Limit { free: units * UNIT, reserved: 0 };
    let expected = [(team, "cpu", limit(0)), (ROOT, "cpu", limit(1)), (ROOT, "gpu", limit(1))];
    assert_eq!(shortages, expected.map(|(level, name, why)| (level, name.to_owned(), why)));
}

#[test]
fn what_is_in_debt_is_shown_as_nothing_available() {
    let (mut tree, [a, _]) = two_teams();
    let team = tree.level_of(a);
    let six = demand(&tree, a, 6);
    tree.try_take(a, &six, Place::First, NOW).expect("everything is free");
    tree.set_limits(team, &amounts([("cpu", 4)]));
    let cpu = tree.resource("cpu").expect("declared");
    assert_eq!(tree.free(team, "cpu"), Some(-2 * UNIT), "what is stored is signed");
    assert_eq!(tree.room(a, team, cpu, Place::First, NOW), -2 * UNIT);
    assert_eq!(tree.available(team, NOW), amounts([("cpu", 0)]));
    assert_eq!(tree.utilization(team), [("cpu", 1.0)]);
}

#[test]
fn limit_8_with_8_in_use_set_to_4_then_4_released() {
    let (mut tree, [a, _]) = two_teams();
    let team = tree.level_of(a);
    let [eight, four] = [8, 4].map(|cpu| demand(&tree, a, cpu));
    tree.try_take(a, &eight, Place::First, NOW).expect("everything is free");
    tree.set_limits(team, &amounts([("cpu", 4)]));
    assert_eq!(tree.free(team, "cpu"), Some(-4 * UNIT));
    tree.give_back(a, &four);
    assert_eq!(tree.available(team, NOW), amounts([("cpu", 0)]), "4 still run");
    tree.set_limits(team, &amounts([("cpu", 8)]));
    assert_eq!(tree.available(team, NOW), amounts([("cpu", 4)]));
    tree.check();
}

#[test]
fn releasing_more_than_is_held_is_an_error_and_changes_nothing() {
    let (mut tree, [a, b]) = two_teams();
    let [two, three] = [2, 3].map(|cpu| demand(&tree, a, cpu));
    tree.try_take(a, &two, Place::First, NOW).expect("everything is free");
    tree.try_take(b, &three, Place::First, NOW).expect("everything is free");
    let error = tree.try_give_back(a, &three).unwrap_err();
    assert_eq!(error.to_string(), "cannot release 3 of \"cpu\": only 2 is held");
    assert_eq!(tree.free(tree.level_of(a), "cpu"), Some(6 * UNIT));
    assert_eq!(tree.free(ROOT, "cpu"), Some(5 * UNIT), "the parent is not credited");
    assert!(tree.reconcile(a, &three, &two, NOW).is_err());
    assert_eq!(tree.free(ROOT, "cpu"), Some(5 * UNIT));
    tree.check();
}

#[test]
fn releasing_one_of_two_resources_too_much_releases_neither() {
    let mut tree = CapacityTree::new(&amounts([("cpu", 4), ("gpu", 4)]));
    let client = tree.add_client(ROOT);
    let held = tree.demand(ROOT, &amounts([("cpu", 2), ("gpu", 1)])).expect("it fits");
    let more = tree.demand(ROOT, &amounts([("cpu", 2), ("gpu", 2)])).expect("it fits");
    tree.try_take(client, &held, Place::First, NOW).expect("everything is free");
    assert!(tree.try_give_back(client, &more).is_err());
    assert_eq!(tree.available(ROOT, NOW), amounts([("cpu", 2), ("gpu", 3)]));
}

#[test]
#[should_panic(expected = "at most what it holds")]
fn more_than_was_taken_is_never_given_back() {
    let (mut tree, [a, _]) = two_teams();
    let one = demand(&tree, a, 1);
    tree.give_back(a, &one);
}

#[test]
fn a_name_no_level_of_the_chain_declares_is_refused_with_the_nearest() {
    let (mut tree, [a, b]) = two_teams();
    let error = tree.demand(tree.level_of(a), &amounts([("cpus", 1)])).unwrap_err();
    assert_eq!(error.to_string(), "unknown resource \"cpus\"; did you mean \"cpu\"?");
    tree.set_limits(tree.level_of(b), &amounts([("gpu", 1)]));
    let error = tree.demand(tree.level_of(a), &amounts([("gpu", 0)])).unwrap_err();
    assert_eq!(error.to_string(), "unknown resource \"gpu\"; did you mean \"cpu\"?");
    let error = tree.demand(ROOT, &ResourceCost::new().with("", Amount::ZERO)).unwrap_err();
    assert_eq!(error, CostError::Unknown { name: String::new(), nearest: None });
}

#[test]
fn a_name_only_an_ancestor_declares_is_checked_there() {
    let mut tree = CapacityTree::new(&amounts([("gpu", 2)]));
    let team = tree.add_level(ROOT, &amounts([("cpu", 8)]));
    let client = tree.add_client(team);
    let two = tree.demand(team, &amounts([("gpu", 2)])).expect("the root has two");
    tree.try_take(client, &two, Place::First, NOW).expect("everything is free");
    assert_eq!(refused(&mut tree, client, &two).shortages[0].level, ROOT);
    tree.set_limits(team, &amounts([("gpu", 1)]));
    assert_eq!(tree.free(team, "gpu"), Some(-UNIT), "and known where it is declared later");
}

#[test]
fn a_cost_above_some_limit_is_refused_naming_the_level() {
    let (tree, [a, _]) = two_teams();
    let team = tree.level_of(a);
    for (cpu, refusing) in [(9, team), (11, team)] {
        let error = tree.demand(team, &amounts([("cpu", cpu)])).unwrap_err();
        assert!(matches!(error, CostError::AboveLimit { level, .. } if level == refusing));
    }
    let error = tree.demand(ROOT, &amounts([("cpu", 11)])).unwrap_err();
    assert!(matches!(error, CostError::AboveLimit { level: ROOT, .. }));
    assert_eq!(error.to_string(), "requires 11 of \"cpu\", but the limit is 10");
}

#[test]
fn slots_need_no_declaration() {
    let mut tree = CapacityTree::new(&ResourceCost::new());
    let client = tree.add_client(ROOT);
    let many = tree.demand(ROOT, &amounts([(SLOTS, u32::MAX)])).expect("nothing limits them");
    tree.try_take(client, &many, Place::First, NOW).expect("nothing limits them");
    assert_eq!(tree.room(client, ROOT, SLOTS_ID, Place::First, NOW), i128::MAX);
    assert_eq!(tree.when(client, ROOT, SLOTS_ID, Amount::MAX, Place::First, NOW), None);
    assert_eq!(tree.peek(ROOT, NOW), Some(ResourceCost::new()));
    assert_eq!(tree.utilization(ROOT), []);
}

#[test]
fn reconcile_above_the_limit_goes_into_debt() {
    let (mut tree, [a, _]) = two_teams();
    let team = tree.level_of(a);
    let two = demand(&tree, a, 2);
    let twelve = tree.actual(team, &amounts([("cpu", 12)])).expect("cpu is known");
    tree.try_take(a, &two, Place::First, NOW).expect("everything is free");
    assert_eq!(tree.reconcile(a, &two, &twelve, NOW), Ok(vec![]));
    assert_eq!(
        (tree.free(team, "cpu"), tree.free(ROOT, "cpu")),
        (Some(-4 * UNIT), Some(-2 * UNIT))
    );
    assert!(!tree.can_take(a, &two, Place::First, NOW));
    tree.give_back(a, &twelve);
    assert_eq!(tree.available(ROOT, NOW), amounts([("cpu", 10)]), "no phantom capacity appears");
    assert_eq!(tree.available(team, NOW), amounts([("cpu", 8)]));
    tree.check();
}

#[test]
fn reconcile_below_the_estimate_makes_room_at_every_level() {
    let (mut tree, [a, b]) = two_teams();
    let [two, eight] = [2, 8].map(|cpu| demand(&tree, a, cpu));
    tree.try_take(a, &eight, Place::First, NOW).expect("everything is free");
    let refusal = refused(&mut tree, b, &eight);
    watch(&mut tree, b, &refusal);
    assert_eq!(tree.reconcile(a, &eight, &two, NOW), Ok(vec![b]));
    tree.try_take(b, &eight, Place::First, NOW).expect("it was notified of the room");
    tree.check();
}

#[test]
fn set_limits_is_partial_and_may_add_names() {
    let (mut tree, [a, _]) = two_teams();
    let team = tree.level_of(a);
    tree.set_limits(team, &amounts([("disk", 5)]));
    assert_eq!(tree.limits(team), amounts([("cpu", 8), ("disk", 5)]));
}

#[test]
fn peek_is_the_minimum_along_the_chain_and_none_if_any_is_exhausted() {
    let mut tree = CapacityTree::new(&amounts([("cpu", 4), ("gpu", 1)]));
    let team = tree.add_level(ROOT, &amounts([("cpu", 8), ("disk", 9)]));
    let expected = amounts([("cpu", 4), ("disk", 9), ("gpu", 1)]);
    assert_eq!(tree.peek(team, NOW), Some(expected));
    let client = tree.add_client(ROOT);
    let gpu = tree.demand(ROOT, &amounts([("gpu", 1)])).expect("it fits");
    tree.try_take(client, &gpu, Place::First, NOW).expect("everything is free");
    assert_eq!(tree.peek(team, NOW), None, "an ancestor has no gpu left");
}

#[test]
fn utilization_stays_within_0_and_1() {
    let mut tree = CapacityTree::new(&amounts([("cpu", 4), ("gpu", 0), ("disk", 5)]));
    let client = tree.add_client(ROOT);
    let cost = tree.actual(ROOT, &amounts([("cpu", 9), ("gpu", 1), ("disk", 1)])).expect("known");
    tree.take(client, &cost, NOW);
    let by_name: std::collections::BTreeMap<_, _> = tree.utilization(ROOT).into_iter().collect();
    assert_eq!(by_name, [("cpu", 1.0), ("disk", 0.2), ("gpu", 0.0)].into());
}

#[test]
fn a_removed_client_leaves_nothing_behind() {
    let (mut tree, [a, b]) = two_teams();
    let team = tree.level_of(a);
    let eight = demand(&tree, a, 8);
    tree.try_take(a, &eight, Place::First, NOW).expect("everything is free");
    let refusal = refused(&mut tree, b, &eight);
    tree.reserve(b, 1, &refusal);
    watch(&mut tree, b, &refusal);
    let refusal = refused(&mut tree, a, &eight);
    tree.reserve(a, 1, &refusal);
    watch(&mut tree, a, &refusal);
    assert_eq!(tree.remove_client(a), [b], "it held, stood and watched");
    tree.check();
    assert_eq!(tree.available(ROOT, NOW), amounts([("cpu", 10)]));
    assert_eq!(tree.add_client(team), a, "its number is used again");
    assert_eq!(tree.set_limits(team, &amounts([("cpu", 9)])), [], "the new one watches nothing");
}

#[test]
#[should_panic(expected = "until it is removed")]
fn a_client_is_removed_once() {
    let (mut tree, [a, _]) = two_teams();
    tree.remove_client(a);
    tree.remove_client(a);
}

#[test]
fn the_largest_amounts_are_added_without_wrapping() {
    let most = ResourceCost::new().with("cpu", Amount::MAX);
    let mut tree = CapacityTree::new(&most);
    let client = tree.add_client(ROOT);
    let all = tree.demand(ROOT, &most).expect("as much as there is");
    tree.try_take(client, &all, Place::First, NOW).expect("everything is free");
    for _ in 0..3 {
        let refusal = refused(&mut tree, client, &all);
        tree.reserve(client, 1, &refusal);
        tree.take(client, &all, NOW);
    }
    assert_eq!(tree.free(ROOT, "cpu"), Some(-3 * i128::from(u64::MAX)));
    assert_eq!(tree.utilization(ROOT), [("cpu", 1.0)]);
    tree.remove_client(client);
    assert_eq!(tree.available(ROOT, Timestamp::MAX), most);
    tree.check();
}

#[test]
fn a_removed_level_goes_with_its_last_tenant() {
    let mut tree = CapacityTree::new(&amounts([("cpu", 10)]));
    let outer = tree.add_level(ROOT, &amounts([("cpu", 8)]));
    let inner = tree.add_level(outer, &amounts([("cpu", 2)]));
    let client = tree.add_client(inner);
    tree.remove_level(outer);
    tree.remove_level(inner);
    tree.check();
    let refusal = tree.demand(inner, &amounts([("cpu", 3)])).expect_err("it still binds");
    assert!(matches!(refusal, CostError::AboveLimit { level, .. } if level == inner));

    tree.remove_client(client);
    tree.check();
    let fresh = [(); 2].map(|()| tree.add_level(ROOT, &ResourceCost::new()));
    assert_eq!(fresh, [outer, inner], "their numbers are free");
    assert_eq!(tree.limits(inner), ResourceCost::new(), "nothing is left of what they declared");
    tree.check();
}

#[test]
fn levels_that_come_and_go_leave_nothing_behind() {
    let mut tree = CapacityTree::new(&amounts([("cpu", 10)]));
    for _ in 0..100 {
        let level = tree.add_level(ROOT, &amounts([("cpu", 8)]));
        tree.remove_level(level);
    }
    tree.remove_level(ROOT);
    assert_eq!(tree.levels.len(), 2);
    assert_eq!(tree.limits(ROOT), amounts([("cpu", 10)]), "the root stays");
    tree.check();
}

#[test]
fn a_level_counts_what_it_accepts_and_refuses_by_reason() {
    let (mut tree, [a, b]) = two_teams();
    let [two, eight] = [2, 8].map(|cpu| demand(&tree, a, cpu));
    tree.try_take(a, &eight, Place::First, NOW).expect("everything is free");
    let refusal = refused(&mut tree, b, &eight);
    tree.reserve(b, 1, &refusal);
    let c = tree.add_client(ROOT);
    refused(&mut tree, c, &two);

    let counts = tree.counts(ROOT);
    assert_eq!((counts.accepted, counts.in_flight, counts.waiting), (1, 1, 1));
    assert_eq!((counts.refused.limit, counts.refused.reserved), (1, 1));
    assert_eq!(counts.refused.total(), 2);
    let team_b = tree.level_of(b);
    assert_eq!(tree.counts(team_b).refused.total(), 0, "the root refused, not the team");
    tree.check();
}

#[test]
fn what_is_given_back_bit_by_bit_is_in_flight_until_nothing_is_left() {
    let (mut tree, [a, _]) = two_teams();
    let [one, two] = [1, 2].map(|cpu| demand(&tree, a, cpu));
    let in_flight = |tree: &CapacityTree| (tree.counts(ROOT).accepted, tree.counts(ROOT).in_flight);
    tree.try_give_back(a, &Demand::default()).expect("it holds that");
    assert_eq!(in_flight(&tree), (0, 0), "nothing of nothing");
    tree.take(a, &two, NOW);
    tree.try_give_back(a, &one).expect("it holds that");
    assert_eq!(in_flight(&tree), (1, 1));
    tree.try_give_back(a, &one).expect("it holds that");
    assert_eq!(in_flight(&tree), (1, 0));
    tree.take(a, &one, NOW);
    tree.take_back(a, &one, NOW);
    assert_eq!(in_flight(&tree), (1, 0), "it never began");
    tree.take(a, &one, NOW);
    tree.take(a, &two, NOW);
    assert_eq!(in_flight(&tree), (3, 2));
    let three = demand(&tree, a, 3);
    tree.try_give_back(a, &three).expect("it holds that");
    assert_eq!(in_flight(&tree), (3, 0), "both at once");
    tree.take(a, &two, NOW);
    tree.remove_client(a);
    assert_eq!(in_flight(&tree), (4, 0));
    tree.check();
}

#[test]
fn a_transferred_hold_is_released_by_its_new_client() {
    let mut tree = CapacityTree::new(&amounts([("cpu", 4)]));
    let [a, b] = [(); 2].map(|()| tree.add_client(ROOT));
    let three = demand(&tree, a, 3);
    tree.take(a, &three, NOW);
    tree.hand_over(a, b, &three);
    tree.check();
    assert_eq!(tree.remove_client(a), []);
    assert_eq!(tree.available(ROOT, NOW), amounts([("cpu", 1)]), "b holds it now");
    tree.give_back(b, &three);
    assert_eq!(tree.counts(ROOT).in_flight, 0);
    tree.check();
}

#[test]
fn a_client_that_watches_everything_is_notified_of_every_level_above_and_of_new_names() {
    let (mut tree, [a, b]) = two_teams();
    let two = demand(&tree, b, 2);
    tree.take(b, &two, NOW);
    tree.watch_everything(a);
    assert_eq!(tree.give_back(b, &two), [a], "at the root");
    tree.watch_everything(a);
    let team = tree.level_of(a);
    assert_eq!(tree.set_limits(team, &amounts([("gpu", 1)])), [a], "a new name");
    assert_eq!(tree.set_limits(team, &amounts([("cpu", 9)])), [a], "it still watched that");
    assert_eq!(tree.set_limits(team, &amounts([("gpu", 2), ("cpu", 10)])), [], "notified already");
    tree.check();
}

#[test]
fn a_remembered_demand_is_what_the_tree_would_say_now() {
    let (mut tree, [a, _]) = two_teams();
    let team = tree.level_of(a);
    for round in 0..40 {
        let cpu = [1, 1, 7, 9][round % 4];
        if round == 20 {
            tree.set_limits(team, &amounts([("cpu", 5)]));
        }
        let cost = amounts([("cpu", cpu)]);
        assert_eq!(tree.recent_demand(team, &cost), tree.demand(team, &cost), "round {round}");
        assert_eq!(tree.recent_demand(ROOT, &cost), tree.demand(ROOT, &cost), "round {round}");
    }
}
