use super::*;

fn amounts(pairs: &[(&str, u32)]) -> ResourceCost {
    pairs.iter().map(|&(name, n)| (name.to_owned(), Amount::from(n))).collect()
}

/// A root with 10 cpu and two teams below it with 8 each.
fn two_teams() -> (CapacityTree, [ClientId; 2]) {
    let mut tree = CapacityTree::new(&amounts(&[("cpu", 10)]));
    let clients = [(); 2].map(|()| {
        let level = tree.add_level(CapacityTree::ROOT, &amounts(&[("cpu", 8)]));
        tree.add_client(level)
    });
    (tree, clients)
}

fn demand(tree: &CapacityTree, client: ClientId, cpu: u32) -> Demand {
    tree.demand(tree.level_of(client), &amounts(&[("cpu", cpu)])).expect("it fits in principle")
}

#[test]
fn a_cost_is_taken_at_every_level_or_at_none() {
    let (mut tree, [a, b]) = two_teams();
    let six = demand(&tree, a, 6);
    tree.try_take(a, &six, Place::First).expect("everything is free");
    let refusal = tree.try_take(b, &six, Place::First).unwrap_err();
    let levels: Vec<_> = refusal.shortages.iter().map(|short| short.level).collect();
    assert_eq!(levels, [CapacityTree::ROOT], "its own level would have had enough");
    assert_eq!(tree.free(tree.level_of(b), "cpu"), Some(8 * 10_000), "nothing was taken");
    tree.check();
}

#[test]
fn a_lowered_limit_is_a_debt() {
    let (mut tree, [a, _]) = two_teams();
    let eight = demand(&tree, a, 8);
    let four = demand(&tree, a, 4);
    tree.try_take(a, &eight, Place::First).expect("everything is free");
    let team = tree.level_of(a);
    tree.set_limits(team, &amounts(&[("cpu", 4)]));
    assert_eq!(tree.free(team, "cpu"), Some(-4 * 10_000));
    tree.give_back(a, &four);
    assert_eq!(tree.free(team, "cpu"), Some(0), "what runs still fills the lowered limit");
    tree.set_limits(team, &amounts(&[("cpu", 8)]));
    assert_eq!(tree.free(team, "cpu"), Some(4 * 10_000));
}

#[test]
#[should_panic(expected = "at most what it holds")]
fn more_than_was_taken_cannot_be_given_back() {
    let (mut tree, [a, _]) = two_teams();
    let one = demand(&tree, a, 1);
    tree.give_back(a, &one);
}

#[test]
fn what_can_never_be_had_is_refused_by_name_and_level() {
    let (tree, [a, _]) = two_teams();
    let team = tree.level_of(a);
    let error = tree.demand(team, &amounts(&[("cpus", 1)])).unwrap_err();
    assert_eq!(error.to_string(), "no resource is called \"cpus\"; did you mean \"cpu\"?");
    let error = tree.demand(team, &amounts(&[("cpu", 9)])).unwrap_err();
    assert!(matches!(error, CostError::AboveLimit { level, .. } if level == team), "{error}");
}

#[test]
fn what_refused_the_first_in_line_is_kept_from_those_behind_it() {
    let (mut tree, [a, b]) = two_teams();
    let [two, eight] = [2, 8].map(|cpu| demand(&tree, a, cpu));
    tree.try_take(b, &eight, Place::First).expect("everything is free");
    let refusal = tree.try_take(a, &eight, Place::First).unwrap_err();
    tree.stand(a, 1, &refusal);
    assert!(tree.try_take(b, &two, Place::First).is_err(), "the root's cpu is set aside for a");
    assert!(tree.try_take(a, &two, Place::Later).is_err(), "also from a's own later works");
    assert!(tree.try_take(a, &two, Place::First).is_ok(), "but not from one before it");
}

#[test]
fn whoever_was_refused_is_told_once_when_there_is_more() {
    let (mut tree, [a, b]) = two_teams();
    let eight = demand(&tree, a, 8);
    tree.try_take(a, &eight, Place::First).expect("everything is free");
    let refusal = tree.try_take(b, &eight, Place::First).unwrap_err();
    tree.watch(b, &refusal);
    assert_eq!(tree.give_back(a, &eight), [b], "a release below the same root");
    tree.try_take(a, &eight, Place::First).expect("everything is free again");
    assert_eq!(tree.give_back(a, &eight), [], "b has been told already");
}

#[test]
fn the_end_of_a_standing_request_wakes_whom_it_bound() {
    let (mut tree, [a, b]) = two_teams();
    let [two, eight] = [2, 8].map(|cpu| demand(&tree, a, cpu));
    tree.try_take(b, &eight, Place::First).expect("everything is free");
    let refusal = tree.try_take(a, &eight, Place::First).unwrap_err();
    tree.stand(a, 1, &refusal);
    let refusal = tree.try_take(b, &two, Place::First).unwrap_err();
    tree.watch(b, &refusal);
    assert_eq!(tree.withdraw(a), [b]);
    assert!(tree.try_take(b, &two, Place::First).is_err(), "b's own level is full");
}
