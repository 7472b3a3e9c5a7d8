//! Which demands a reservation binds, and which clients are notified.

use super::*;

#[test]
fn what_refused_the_first_is_reserved_from_later_demands() {
    let (mut tree, [a, b]) = two_teams();
    let [two, eight] = [2, 8].map(|cpu| demand(&tree, a, cpu));
    tree.try_take(b, &eight, Place::First, NOW).expect("everything is free");
    let refusal = refused(&mut tree, a, &eight);
    tree.reserve(a, 1, &refusal);
    assert!(!tree.can_take(b, &two, Place::First, NOW), "the root's cpu is reserved for a");
    assert!(!tree.can_take(a, &two, Place::Later, NOW), "also from a's own later works");
    assert!(tree.can_take(a, &two, Place::First, NOW), "but not from one before it");
    let cpu = tree.resource("cpu").expect("declared");
    let room = |client, place| tree.room(client, ROOT, cpu, place, NOW) / UNIT;
    assert_eq!(room(a, Place::First), 2);
    assert_eq!((room(a, Place::Later), room(b, Place::First)), (-6, -6));
    assert_eq!(room(b, Place::Resuming), 2, "what has begun goes before all that wait");
    assert_eq!(
        tree.available(ROOT, NOW),
        amounts([("cpu", 2)]),
        "no client holds what is reserved"
    );
}

#[test]
fn what_did_not_refuse_the_first_is_not_reserved() {
    let mut tree = CapacityTree::new(&amounts([("cpu", 4), ("gpu", 4)]));
    let [a, b] = [(); 2].map(|()| tree.add_client(ROOT));
    let gpus = tree.demand(ROOT, &amounts([("gpu", 4)])).expect("it fits");
    let both = tree.demand(ROOT, &amounts([("cpu", 4), ("gpu", 4)])).expect("it fits");
    let cpus = tree.demand(ROOT, &amounts([("cpu", 4)])).expect("it fits");
    tree.try_take(b, &gpus, Place::First, NOW).expect("everything is free");
    let refusal = refused(&mut tree, a, &both);
    tree.reserve(a, 1, &refusal);
    assert!(tree.can_take(b, &cpus, Place::First, NOW), "a was refused gpus, not cpus");
    tree.try_take(b, &cpus, Place::First, NOW).expect("as was said");
    let refusal = refused(&mut tree, a, &both);
    tree.reserve(a, 1, &refusal);
    tree.give_back(b, &cpus);
    assert!(!tree.can_take(b, &cpus, Place::First, NOW), "it is held up once per resource");
    tree.check();
}

#[test]
fn clients_are_served_in_the_order_of_their_requests() {
    let mut tree = CapacityTree::new(&amounts([("cpu", 4)]));
    let clients = [(); 4].map(|()| tree.add_client(ROOT));
    let [one, four] = [1, 4].map(|cpu| demand(&tree, clients[0], cpu));
    tree.try_take(clients[0], &four, Place::First, NOW).expect("everything is free");
    for (owner, client) in (1..).zip(&clients[1..]) {
        let refusal = refused(&mut tree, *client, &one);
        tree.reserve(*client, owner, &refusal);
    }
    tree.give_back(clients[0], &one);
    let fits = |tree: &CapacityTree| clients.map(|c| tree.can_take(c, &one, Place::First, NOW));
    assert_eq!(fits(&tree), [false, true, false, false]);
    tree.give_back(clients[0], &one);
    assert_eq!(fits(&tree), [false, true, true, false]);
    tree.withdraw(clients[1]);
    assert_eq!(fits(&tree), [false, false, true, true], "who withdrew asks as a newcomer");
}

#[test]
fn a_client_of_greater_priority_is_served_before_those_that_reserved_earlier() {
    let mut tree = CapacityTree::new(&amounts([("cpu", 4)]));
    let clients = [0, 0, 7, -7].map(|priority| tree.add_client_with(ROOT, priority));
    let [one, four] = [1, 4].map(|cpu| demand(&tree, clients[0], cpu));
    tree.try_take(clients[0], &four, Place::First, NOW).expect("everything is free");
    let fits = |tree: &CapacityTree| clients.map(|c| tree.can_take(c, &one, Place::First, NOW));
    let refusal = refused(&mut tree, clients[1], &one);
    tree.reserve(clients[1], 1, &refusal);
    tree.give_back(clients[0], &one);
    assert_eq!(fits(&tree), [false, true, true, false], "only the urgent one may pass");
    let both = [1, 4].map(|cpu| demand(&tree, clients[2], cpu));
    let refusal = refused(&mut tree, clients[2], &both[1]);
    tree.reserve(clients[2], 1, &refusal);
    assert_eq!(fits(&tree), [false, false, true, false], "its reservation binds the others");
    tree.check();
}

#[test]
fn another_work_takes_over_the_reservation() {
    let (mut tree, [a, b]) = two_teams();
    let [two, three, eight] = [2, 3, 8].map(|cpu| demand(&tree, a, cpu));
    tree.take(b, &eight, NOW);
    for client in [a, b] {
        let refusal = refused(&mut tree, client, &eight);
        tree.reserve(client, 1, &refusal);
    }
    let refusal = refused(&mut tree, a, &three);
    tree.reserve(a, 2, &refusal);
    tree.check();
    assert!(tree.can_take(a, &two, Place::First, NOW), "it still reserves before b");
    let cpu = tree.resource("cpu").expect("declared");
    assert_eq!(tree.room(b, ROOT, cpu, Place::First, NOW), -UNIT, "three are reserved, not eight");
}

#[test]
fn release_anywhere_in_a_tree_wakes_every_waiter_that_may_now_fit() {
    let (mut tree, [a, b]) = two_teams();
    let c = tree.add_client(ROOT);
    let eight = demand(&tree, a, 8);
    tree.try_take(a, &eight, Place::First, NOW).expect("everything is free");
    for client in [c, b] {
        let refusal = refused(&mut tree, client, &eight);
        watch(&mut tree, client, &refusal);
    }
    assert_eq!(tree.give_back(a, &eight), [b, c], "a release below the same root");
    tree.try_take(a, &eight, Place::First, NOW).expect("everything is free again");
    assert_eq!(tree.give_back(a, &eight), [], "they were notified already");
}

#[test]
fn only_watchers_of_the_same_resource_are_notified() {
    let mut tree = CapacityTree::new(&amounts([("cpu", 4), ("gpu", 4)]));
    let [a, b] = [(); 2].map(|()| tree.add_client(ROOT));
    let [cpus, gpus] =
        ["cpu", "gpu"].map(|name| tree.demand(ROOT, &amounts([(name, 4)])).expect("it fits"));
    tree.take(a, &cpus, NOW);
    tree.take(a, &gpus, NOW);
    let refusal = refused(&mut tree, b, &gpus);
    watch(&mut tree, b, &refusal);
    assert_eq!(tree.give_back(a, &cpus), []);
    assert_eq!(tree.give_back(a, &gpus), [b]);
}

#[test]
fn the_end_of_a_reservation_wakes_the_clients_it_bound() {
    let (mut tree, [a, b]) = two_teams();
    let [two, eight] = [2, 8].map(|cpu| demand(&tree, a, cpu));
    tree.try_take(b, &eight, Place::First, NOW).expect("everything is free");
    let refusal = refused(&mut tree, a, &eight);
    tree.reserve(a, 1, &refusal);
    let refusal = refused(&mut tree, b, &two);
    watch(&mut tree, b, &refusal);
    assert_eq!(tree.withdraw(a), [b]);
    assert_eq!(tree.withdraw(a), [], "there is nothing left to withdraw");
    assert!(!tree.can_take(b, &two, Place::First, NOW), "b's own level is full");
}

#[test]
fn a_raised_limit_wakes_and_a_lowered_one_does_not() {
    let (mut tree, [a, _]) = two_teams();
    let team = tree.level_of(a);
    let eight = demand(&tree, a, 8);
    tree.take(a, &eight, NOW);
    let refusal = refused(&mut tree, a, &eight);
    watch(&mut tree, a, &refusal);
    assert_eq!(tree.set_limits(team, &amounts([("cpu", 7)])), []);
    assert_eq!(tree.set_limits(team, &amounts([("cpu", 8)])), [a]);
}

#[test]
#[should_panic(expected = "its own level and those above")]
fn no_client_watches_a_level_that_does_not_bind_it() {
    let (mut tree, [a, b]) = two_teams();
    let elsewhere = tree.level_of(b);
    tree.watch(a, elsewhere, SLOTS_ID);
}

#[test]
fn a_smaller_request_wakes_the_clients_it_bound() {
    let mut tree = CapacityTree::new(&amounts([("cpu", 4)]));
    let [a, b] = [(); 2].map(|()| tree.add_client(ROOT));
    let [one, three, four] = [1, 3, 4].map(|cpu| demand(&tree, a, cpu));
    tree.take(b, &one, NOW);
    let refusal = refused(&mut tree, a, &four);
    tree.reserve(a, 1, &refusal);
    let refusal = refused(&mut tree, b, &one);
    watch(&mut tree, b, &refusal);
    tree.take(b, &one, NOW);
    let refusal = refused(&mut tree, a, &three);
    assert_eq!(tree.reserve(a, 1, &refusal), [b]);
    tree.check();
}

/// Adds clients at the root that are refused, reserve and watch there, in this order.
fn waiters<const N: usize>(tree: &mut CapacityTree, cpu: [u32; N]) -> [ClientId; N] {
    cpu.map(|cpu| {
        let client = tree.add_client(ROOT);
        let wanted = demand(tree, client, cpu);
        let refusal = refused(tree, client, &wanted);
        tree.reserve(client, 1, &refusal);
        for short in &refusal.shortages {
            tree.watch_with_timer(client, short.level, short.resource);
        }
        client
    })
}

#[test]
fn a_release_wakes_only_the_clients_it_may_serve() {
    let mut tree = CapacityTree::new(&amounts([("cpu", 4)]));
    let holder = tree.add_client(ROOT);
    let [one, two, four] = [1, 2, 4].map(|cpu| demand(&tree, holder, cpu));
    tree.try_take(holder, &four, Place::First, NOW).expect("everything is free");
    let [a, b, c] = waiters(&mut tree, [1, 2, 1]);
    assert_eq!(tree.give_back(holder, &one), [a]);
    assert_eq!(tree.give_back(holder, &one), [b], "two are free, one is reserved for a");
    tree.try_take(a, &one, Place::First, NOW).expect("it was reserved");
    assert_eq!(tree.serve(a), [], "no client has more room than before");
    assert_eq!(tree.give_back(holder, &two), [c]);
    tree.try_take(b, &two, Place::First, NOW).expect("it was reserved");
    assert_eq!(tree.serve(b), []);
    assert!(tree.can_take(c, &one, Place::First, NOW));
    tree.check();
}

#[test]
fn a_removed_client_wakes_the_next() {
    let mut tree = CapacityTree::new(&amounts([("cpu", 4)]));
    let holder = tree.add_client(ROOT);
    let [one, four] = [1, 4].map(|cpu| demand(&tree, holder, cpu));
    tree.try_take(holder, &four, Place::First, NOW).expect("everything is free");
    let [a, b, c] = waiters(&mut tree, [1, 1, 1]);
    assert_eq!(tree.give_back(holder, &one), [a]);
    assert_eq!(tree.remove_client(a), [b], "what was reserved for a is now for b");
    assert_eq!(tree.withdraw(c), []);
    tree.check();
}

#[test]
fn a_start_at_a_rate_wakes_only_clients_without_a_timer() {
    let mut tree = CapacityTree::new(&ResourceCost::new());
    let (amount, per) = (Amount::from(1), Duration::from_secs(1));
    let rate = Rate { amount, per, burst: Amount::from(2) };
    tree.set_rate(ROOT, "cpu", rate, NOW).expect("it makes sense");
    let holder = tree.add_client(ROOT);
    let [one, two] = [1, 2].map(|cpu| demand(&tree, holder, cpu));
    tree.try_take(holder, &two, Place::First, NOW).expect("it starts full");
    let [a, b, c] = waiters(&mut tree, [1, 1, 1]);
    let cpu = tree.resource("cpu").expect("declared");
    let when = |tree: &CapacityTree, client| {
        tree.when(client, ROOT, cpu, Amount::from(1), Place::First, NOW).expect("a matter of time")
    };
    let seconds = |n: u64| Timestamp::from_millis(n * 1000);
    let times = [a, b, c].map(|client| when(&tree, client));
    assert_eq!(times, [seconds(1), seconds(2), Timestamp::MAX]);

    tree.try_take(a, &one, Place::First, seconds(1)).expect("its time has come");
    assert_eq!(tree.serve(a), [c], "b's time is as before");
    assert_eq!([b, c].map(|client| when(&tree, client)), [seconds(2), seconds(3)]);
    assert_eq!(tree.withdraw(b), [], "c was notified and has not retried since");
    tree.check();
}

#[test]
fn a_resumed_attempt_is_not_bound_by_starts() {
    let mut tree = CapacityTree::new(&amounts([("cpu", 4), ("gpu", 4)]));
    let [a, b] = [(); 2].map(|()| tree.add_client(ROOT));
    let gpus = tree.demand(ROOT, &amounts([("gpu", 4)])).expect("it fits");
    let cpus = tree.demand(ROOT, &amounts([("cpu", 2)])).expect("it fits");
    let both = tree.demand(ROOT, &amounts([("cpu", 3), ("gpu", 4)])).expect("it fits");
    tree.try_take(b, &gpus, Place::First, NOW).expect("everything is free");
    tree.try_take(a, &cpus, Place::First, NOW).expect("everything is free");
    let refusal = refused(&mut tree, b, &both);
    tree.reserve(b, 1, &refusal);
    let refusal = tree.try_take(a, &gpus, Place::Resuming, NOW).unwrap_err();
    tree.reserve_to_resume(a, 1, &refusal);
    assert!(!tree.can_take(a, &cpus, Place::Later, NOW), "b reserves before what starts");
    assert!(tree.can_take(a, &cpus, Place::ResumingLater, NOW), "but not before what goes on");
    tree.give_back(b, &gpus);
    assert!(!tree.can_take(b, &gpus, Place::First, NOW), "a goes on first, though it came later");
    assert!(tree.can_take(a, &gpus, Place::Resuming, NOW));
    tree.check();
}

#[test]
fn attempts_resume_in_the_order_of_their_requests() {
    let mut tree = CapacityTree::new(&amounts([("cpu", 4)]));
    let [a, b, c] = [(); 3].map(|()| tree.add_client(ROOT));
    let [one, four] = [1, 4].map(|cpu| demand(&tree, a, cpu));
    tree.try_take(c, &four, Place::First, NOW).expect("everything is free");
    let refusal = tree.try_take(a, &four, Place::Resuming, NOW).unwrap_err();
    tree.reserve_to_resume(a, 1, &refusal);
    tree.give_back(c, &one);
    assert!(!tree.can_take(b, &one, Place::Resuming, NOW), "a wants all of it and came first");
    let refusal = tree.try_take(b, &one, Place::Resuming, NOW).unwrap_err();
    tree.reserve_to_resume(b, 1, &refusal);
    tree.withdraw(a);
    assert!(tree.can_take(b, &one, Place::Resuming, NOW));
    tree.check();
}

#[test]
fn a_resumed_attempt_takes_its_own_turn() {
    let mut tree = CapacityTree::new(&amounts([("cpu", 4)]));
    let [a, b] = [(); 2].map(|()| tree.add_client(ROOT));
    let [one, four] = [1, 4].map(|cpu| demand(&tree, a, cpu));
    tree.try_take(a, &four, Place::First, NOW).expect("everything is free");
    for client in [b, a] {
        let refusal = refused(&mut tree, client, &four);
        tree.reserve(client, 1, &refusal);
    }
    tree.give_back(a, &four);
    assert!(!tree.can_take(a, &one, Place::First, NOW), "b reserves before it");
    let refusal = refused(&mut tree, a, &one);
    tree.reserve_to_resume(a, 2, &refusal);
    assert!(!tree.can_take(b, &four, Place::First, NOW), "one of a goes on now");
    tree.check();
}
