use std::time::Duration;

use futures::FutureExt;
use tokio::time::advance;
use windlass_core::{Demand, Place};

use super::*;

fn cpus(n: u32) -> ResourceCost {
    ResourceCost::of([("cpu", n)]).expect("a name")
}

/// What `client` is refused, watched from now on.
fn refused(client: &Client, demand: &Demand) -> windlass_core::Refusal {
    let (mut tree, now) = (client.capacity.lock(), Timestamp::ZERO);
    let refusal = tree.try_take(client.id, demand, Place::First, now).expect_err("it is taken");
    for short in &refusal.shortages {
        tree.watch(client.id, short.level, short.resource);
    }
    refusal
}

#[tokio::test]
async fn a_client_that_goes_rings_those_who_watch_what_it_held() {
    let capacity = ResourceCapacity::new(cpus(2));
    let [holder, waiter] = [(); 2].map(|()| capacity.join(&cpus(2)));
    let demand = capacity.lock().demand(holder.level, &cpus(2)).expect("it fits");
    capacity.lock().take(holder.id, &demand, Timestamp::ZERO);
    refused(&waiter, &demand);

    drop(holder);
    waiter.bell.notified().await;
    assert_eq!(capacity.available(), cpus(2));
}

#[test]
fn clients_and_children_that_come_and_go_leave_no_levels_behind() {
    let capacity = ResourceCapacity::new(cpus(2));
    let level = capacity.join(&cpus(1)).level;
    for _ in 0..10 {
        let child = capacity.child(cpus(1));
        let client = child.join(&cpus(1));
        drop(child);
        assert_eq!(client.capacity.limits(), cpus(1), "it stays as long as someone takes there");
    }
    assert_eq!(capacity.join(&cpus(1)).level, level, "the first number is free again");
    capacity.lock().check();
}

#[tokio::test(start_paused = true)]
async fn the_clock_starts_at_the_first_look_and_never_goes_back() {
    let capacity = ResourceCapacity::new(cpus(2));
    assert_eq!(capacity.now(), Timestamp::ZERO);
    advance(Duration::from_secs(3)).await;
    assert_eq!(capacity.now(), Timestamp::from_millis(3000));
    let outside = capacity.clone();
    let there = std::thread::spawn(move || outside.now());
    assert!(there.join().expect("it only looks at the clock") >= Timestamp::from_millis(3000));
    let due = capacity.instant(Timestamp::from_millis(4000)).expect("it is near");
    assert_eq!(due, Instant::now() + Duration::from_secs(1));
}

#[test]
fn a_capacity_goes_where_it_is_needed() {
    fn is_shared<T: Clone + Send + Sync + 'static>() {}
    is_shared::<ResourceCapacity>();
}

/// Takes and gives back often enough for what takes the same again to need no lock.
fn get_used_to(capacity: &ResourceCapacity, cost: &ResourceCost) {
    (0..4).for_each(|_| drop(capacity.try_acquire(cost).expect("there is room")));
}

fn is_open(capacity: &ResourceCapacity) -> bool {
    capacity.level.shared.lane.is_open()
}

#[test]
fn what_is_taken_past_the_lock_is_counted_and_bound_like_all_else() {
    let cluster = ResourceCapacity::new(cpus(3));
    let team = cluster.child(cpus(2));
    get_used_to(&team, &cpus(1));
    assert!(is_open(&team));
    let both = [(); 2].map(|()| team.try_acquire(&cpus(1)).expect("there is room"));
    assert!(is_open(&team), "neither needed the lock");
    assert_eq!((team.available(), cluster.available()), (cpus(0), cpus(1)));
    assert!(!is_open(&team), "whoever looks closes it");
    team.try_acquire(&cpus(1)).expect_err("nothing is left");
    let metrics = cluster.metrics();
    assert_eq!(
        (metrics.accepted, metrics.in_flight, metrics.utilization["cpu"] > 0.6),
        (6, 2, true)
    );
    drop(both);
    assert_eq!((team.available(), cluster.available()), (cpus(2), cpus(3)));
    cluster.lock().check();
}

#[test]
fn a_capacity_of_one_is_taken_and_given_back_past_the_lock() {
    let capacity = ResourceCapacity::new(cpus(1));
    get_used_to(&capacity, &cpus(1));
    let held = capacity.try_acquire(&cpus(1)).expect("it is free");
    capacity.try_acquire(&cpus(1)).expect_err("it is not");
    drop(held);
    assert_eq!(capacity.available(), cpus(1));
    let metrics = capacity.metrics();
    assert_eq!((metrics.accepted, metrics.refused.limit, metrics.in_flight), (5, 1, 0));
}

#[tokio::test]
async fn nobody_overtakes_one_who_waits_past_the_lock() {
    let capacity = ResourceCapacity::new(cpus(2));
    get_used_to(&capacity, &cpus(1));
    let held = capacity.try_acquire(&cpus(1)).expect("there is room");
    let both = cpus(2);
    let mut waits = Box::pin(capacity.acquire(&both));
    assert!(waits.as_mut().now_or_never().is_none());
    for _ in 0..4 {
        capacity.try_acquire(&cpus(1)).expect_err("it is set aside");
    }
    drop(held);
    let permit = waits.await.expect("it can be had");
    capacity.try_acquire(&cpus(1)).expect_err("both are taken");
    drop(permit);
    assert_eq!(capacity.available(), cpus(2));
}

#[tokio::test]
async fn one_who_is_to_be_told_is_told_of_what_would_go_past_the_lock() {
    let capacity = ResourceCapacity::new(cpus(2));
    get_used_to(&capacity, &cpus(1));
    let held = capacity.try_acquire(&cpus(1)).expect("there is room");
    let mut changes = capacity.subscribe();
    get_used_to(&capacity, &cpus(1));
    drop(held);
    assert_eq!(changes.changed().await, cpus(2));
}

#[tokio::test(start_paused = true)]
async fn what_comes_with_time_never_goes_past_the_lock() {
    let capacity = ResourceCapacity::new(cpus(2));
    get_used_to(&capacity, &cpus(1));
    let rate =
        windlass_core::Rate { amount: 1.into(), per: Duration::from_secs(1), burst: 4.into() };
    capacity.set_rate("cpu", rate).expect("it makes sense");
    get_used_to(&capacity, &cpus(1));
    assert!(!is_open(&capacity));
    capacity.try_acquire(&cpus(1)).expect_err("all four are used up");
    advance(Duration::from_secs(1)).await;
    drop(capacity.try_acquire(&cpus(1)).expect("one has come"));
}

#[test]
fn limits_that_change_bind_what_would_go_past_the_lock() {
    let capacity = ResourceCapacity::new(cpus(4));
    get_used_to(&capacity, &cpus(2));
    capacity.set_limits(&cpus(1));
    let refusal = capacity.try_acquire(&cpus(2)).expect_err("more than the limit");
    assert!(matches!(refusal, Refusal::Impossible(_)), "{refusal}");
    capacity.set_limits(&cpus(4));
    get_used_to(&capacity, &cpus(2));
    let mut permit = capacity.try_acquire(&cpus(2)).expect("there is room");
    permit.reconcile(&cpus(3)).expect("it is declared");
    assert_eq!((permit.cost(), capacity.available()), (cpus(3), cpus(1)));
    drop(permit);
    assert_eq!(capacity.available(), cpus(4));
}

#[test]
fn costs_that_take_turns_leave_the_lock_as_it_is() {
    let capacity = ResourceCapacity::new(cpus(4));
    for n in (1..=2).cycle().take(40) {
        drop(capacity.try_acquire(&cpus(n)).expect("there is room"));
        assert!(!is_open(&capacity), "it would only be opened to be closed");
    }
}

#[test]
fn levels_that_go_take_their_plans_along() {
    let capacity = ResourceCapacity::new(cpus(4));
    for _ in 0..100 {
        let child = capacity.child(cpus(4));
        (0..5).for_each(|_| get_used_to(&child, &cpus(1)));
        assert!(is_open(&child));
    }
    assert_eq!(capacity.lock().0.plan_numbers(), 1, "the first number is free again");
    assert_eq!(capacity.metrics().accepted, 2000);
}
