//! The balancer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures::FutureExt;
use tokio::time::{advance, sleep, timeout};
use windlass::{
    BalancedCapacity, BalancerOptions, BalancerSetupError, HierarchicalBalancer, ResourceCapacity,
};

use crate::support::{cpus, poll_once};

/// A cluster of 16 with two teams that may have 4 to 15 each, 12 at first.
fn two_teams() -> (ResourceCapacity, [ResourceCapacity; 2], HierarchicalBalancer) {
    let cluster = ResourceCapacity::new(cpus(16));
    let teams = [(); 2].map(|()| cluster.child(cpus(12)));
    let balanced = |team: &ResourceCapacity| BalancedCapacity {
        capacity: team.clone(),
        min: cpus(4),
        max: cpus(15),
    };
    let children = teams.iter().map(balanced).collect();
    let balancer = HierarchicalBalancer::new(children, BalancerOptions::default());
    (cluster, teams, balancer.expect("it makes sense"))
}

#[test]
fn the_defaults_are_those_of_the_original_design() {
    let (_, _, balancer) = two_teams();
    let BalancerOptions { check_interval, idle_time_threshold, busy_time_threshold, .. } =
        balancer.options().clone();
    let times = [check_interval, idle_time_threshold, busy_time_threshold];
    assert_eq!(times.map(|time| time.as_millis()), [1000, 5000, 5000]);
    let thresholds = [balancer.options().idle_threshold, balancer.options().busy_threshold];
    assert_eq!(thresholds.map(f64::to_bits), [0.3f64, 0.85].map(f64::to_bits));
}

#[tokio::test(start_paused = true)]
async fn a_started_balancer_shrinks_what_is_idle_and_grows_what_is_busy() {
    let (_cluster, [a, b], balancer) = two_teams();
    let _busy = a.try_acquire(cpus(12)).expect("everything is free");
    balancer.start();
    assert!(balancer.is_running());
    sleep(Duration::from_millis(6500)).await;
    assert_eq!((a.limits(), b.limits()), (cpus(13), cpus(11)), "after five seconds of it");
    sleep(Duration::from_secs(5)).await;
    assert_eq!(b.limits(), cpus(10), "each step takes another five");
    sleep(Duration::from_secs(120)).await;
    assert_eq!(b.limits(), cpus(4), "never below its floor");
}

fn paused_runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().expect("a runtime can be made")
}

#[test]
fn a_balancer_can_be_started_again_after_its_runtime_has_gone() {
    let (_cluster, [a, _b], balancer) = two_teams();
    let _busy = a.try_acquire(cpus(12)).expect("everything is free");
    paused_runtime().block_on(async { balancer.start() });
    assert!(!balancer.is_running());
    paused_runtime().block_on(async {
        balancer.start();
        sleep(Duration::from_millis(6500)).await;
    });
    assert_eq!(a.limits(), cpus(13));
}

#[test]
fn a_balancer_that_was_started_outside_a_runtime_does_not_run() {
    let (_cluster, _teams, balancer) = two_teams();
    catch_unwind(AssertUnwindSafe(|| balancer.start())).expect_err("there is no runtime");
    assert!(!balancer.is_running());
    paused_runtime().block_on(async {
        balancer.start();
        assert!(balancer.is_running());
    });
}

#[tokio::test(start_paused = true)]
async fn start_and_stop_may_be_called_again_and_again() {
    let (_cluster, [a, b], balancer) = two_teams();
    let _busy = a.try_acquire(cpus(12)).expect("everything is free");
    for _ in 0..3 {
        balancer.start();
    }
    sleep(Duration::from_millis(6500)).await;
    for _ in 0..3 {
        balancer.stop();
    }
    assert!(!balancer.is_running());
    let limits = (a.limits(), b.limits());
    assert_eq!(limits, (cpus(13), cpus(11)), "one loop, not three");
    sleep(Duration::from_secs(60)).await;
    assert_eq!((a.limits(), b.limits()), limits, "nothing moves once it is stopped");
    balancer.start();
    sleep(Duration::from_secs(10)).await;
    assert_ne!(b.limits(), limits.1, "and it goes on when started again");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_balancer_checks_no_more() {
    let (_cluster, [_, b], balancer) = two_teams();
    balancer.start();
    drop(balancer);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(b.limits(), cpus(12));
}

#[tokio::test(start_paused = true)]
async fn a_share_that_is_refused_above_is_starved_and_not_shrunk() {
    let (cluster, [_, b], balancer) = two_teams();
    let _all = cluster.try_acquire(cpus(16)).expect("everything is free");
    let two = cpus(2);
    let mut starved = Box::pin(b.acquire(&two));
    assert!(poll_once(&mut starved).is_pending());
    for _ in 0..10 {
        balancer.check();
        advance(Duration::from_secs(1)).await;
    }
    assert_eq!(b.limits(), cpus(12));
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_0_grows_again() {
    let cluster = ResourceCapacity::new(cpus(4));
    let team = cluster.child(cpus(1));
    let child = BalancedCapacity { capacity: team.clone(), min: cpus(0), max: cpus(4) };
    let balancer = HierarchicalBalancer::new(vec![child], BalancerOptions::default());
    let balancer = balancer.expect("it makes sense");
    let held = team.try_acquire(cpus(1)).expect("everything is free");
    let one = cpus(1);
    let mut waits = Box::pin(team.acquire(&one));
    assert!(poll_once(&mut waits).is_pending());
    team.set_limits(cpus(0));
    drop(held);
    balancer.start();
    let permit = waits.await.expect("it can be had, and the balancer makes room for it");
    assert_eq!(team.limits(), cpus(1));
    drop(permit);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(team.limits(), cpus(0), "it is idle");
}

#[tokio::test(start_paused = true)]
async fn a_limit_grows_for_clients_that_request_more_than_it() {
    let acquires: [fn(&ResourceCapacity) -> bool; 3] = [
        |team| team.try_acquire(cpus(2)).is_ok(),
        |team| team.acquire_immediate(cpus(2)).is_ok(),
        |team| team.acquire(&cpus(2)).now_or_never().is_some_and(|had| had.is_ok()),
    ];
    for acquires in acquires {
        let team = ResourceCapacity::new(cpus(4)).child(cpus(0));
        let child = BalancedCapacity { capacity: team.clone(), min: cpus(0), max: cpus(4) };
        let balancer = HierarchicalBalancer::new(vec![child], BalancerOptions::default());
        let balancer = balancer.expect("it makes sense");
        balancer.start();
        let asks = async {
            while !acquires(&team) {
                sleep(Duration::from_secs(1)).await;
            }
        };
        timeout(Duration::from_secs(60), asks).await.expect("there is room in the end");
    }
}

#[test]
fn invalid_options_are_refused() {
    let (_cluster, [a, _], _) = two_teams();
    let new = |children, options| HierarchicalBalancer::new(children, options).map(drop);
    let child = |capacity: &ResourceCapacity, min, max| BalancedCapacity {
        capacity: capacity.clone(),
        min: cpus(min),
        max: cpus(max),
    };
    let options = BalancerOptions::default;
    let error = new(vec![child(&a, 5, 4)], options()).expect_err("the floor is above");
    assert_eq!(error.to_string(), "the minimum of \"cpu\" is 5, above its maximum of 4");
    let error = new(vec![child(&a, 1, 4), child(&a, 1, 4)], options()).expect_err("twice");
    assert_eq!(error.to_string(), "duplicate level among the children");
    let stranger = ResourceCapacity::new(cpus(4));
    let error = new(vec![child(&a, 1, 4), child(&stranger, 1, 4)], options());
    assert_eq!(error, Err(BalancerSetupError::AnotherTree { place: 1 }));
    let crossed = BalancerOptions { idle_threshold: 0.9, ..options() };
    assert!(new(vec![child(&a, 1, 4)], crossed).is_err());
}
