use std::time::Duration;

use tokio::time::advance;
use windlass_core::{Demand, Place};

use super::*;

fn cpus(n: u32) -> ResourceCost {
    ResourceCost::from([("cpu", n)])
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
    waiter.wakeup.notified().await;
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
        assert_eq!(client.capacity.limits(), cpus(1), "it stays as long as it has a client");
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
