//! The queue: which request waits, which may pass, and which is served when there is room.

use super::*;

#[tokio::test]
async fn waiters_are_served_in_order() {
    let capacity = ResourceCapacity::new(cpus(1));
    let held = capacity.acquire(&cpus(1)).await.expect("it can be had");
    let (sender, mut served) = tokio::sync::mpsc::unbounded_channel();
    let waiters: Vec<_> = (0..10)
        .map(|place| {
            let (capacity, sender) = (capacity.clone(), sender.clone());
            async move {
                let _permit = capacity.acquire(&cpus(1)).await.expect("it can be had");
                sender.send(place).expect("the receiver is kept");
            }
        })
        .collect();
    let all = futures::future::join_all(waiters);
    tokio::join!(all, async { drop(held) });
    let mut order = Vec::new();
    served.recv_many(&mut order, 20).await;
    assert_eq!(order, (0..10).collect::<Vec<_>>());
    assert_eq!(capacity.available(), cpus(1));
}

#[tokio::test]
async fn a_heavy_waiter_is_not_overtaken_by_light_ones() {
    let capacity = ResourceCapacity::new(cpus(4));
    let mut held = vec![capacity.acquire(&cpus(1)).await.expect("it can be had")];
    let four = cpus(4);
    let mut heavy = Box::pin(capacity.acquire(&four));
    assert!(poll_once(&mut heavy).is_pending());
    assert!(!capacity.can_acquire(cpus(1)), "three are free and set aside");
    let refusal = capacity.try_acquire(cpus(1)).expect_err("it is behind the heavy one");
    let text = "requires 1 of \"cpu\", but this level has 3 free, \
                and 4 is reserved for earlier waiters";
    assert_eq!(refusal.to_string(), text);
    assert_eq!(capacity.metrics().refused.reserved, 1);
    held.clear();
    let _four = heavy.await.expect("it can be had");
    assert_eq!(capacity.available(), cpus(0));
}

#[tokio::test]
async fn a_waiter_for_another_resource_may_be_passed() {
    let capacity = ResourceCapacity::new(cost([("cpu", 4), ("gpu", 1)]));
    let gpu = capacity.acquire(&cost([("gpu", 1)])).await.expect("it can be had");
    let both = cost([("cpu", 2), ("gpu", 1)]);
    let mut first = Box::pin(capacity.acquire(&both));
    assert!(poll_once(&mut first).is_pending());
    let passing = capacity.try_acquire(cpus(4)).expect("cpus have not refused the first");
    drop(gpu);
    assert!(poll_once(&mut first).is_pending(), "now they have");
    drop(passing);
    assert!(capacity.try_acquire(cpus(3)).is_err(), "held up once, not twice");
    assert!(first.await.is_ok());
}

#[tokio::test]
async fn a_release_anywhere_in_the_tree_wakes_the_waiters_that_may_fit() {
    let (cluster, [a, b]) = two_teams();
    let held = a.acquire(&cpus(8)).await.expect("it can be had");
    let waiting = tokio::spawn({
        let b = b.clone();
        async move { b.acquire(&cpus(5)).await.map(drop) }
    });
    settle().await;
    assert_eq!((cluster.metrics().waiting, b.metrics().waiting), (1, 1));
    drop(held);
    waiting.await.expect("no panic").expect("it can be had");
    assert_eq!(cluster.available(), cpus(10));
}

#[tokio::test]
async fn a_raised_limit_serves_the_waiters() {
    let (cluster, [a, _]) = two_teams();
    let _held = a.acquire(&cpus(8)).await.expect("it can be had");
    let two = cpus(2);
    let mut waiting = Box::pin(a.acquire(&two));
    assert!(poll_once(&mut waiting).is_pending());
    a.set_limits(cpus(10));
    let _two = waiting.await.expect("it can be had");
    assert_eq!(cluster.available(), cpus(0));
}

#[tokio::test]
async fn a_reconciled_permit_serves_the_waiters() {
    let capacity = ResourceCapacity::new(cpus(4));
    let mut held = capacity.acquire(&cpus(4)).await.expect("it can be had");
    let three = cpus(3);
    let mut waiting = Box::pin(capacity.acquire(&three));
    assert!(poll_once(&mut waiting).is_pending());
    held.reconcile(cpus(1)).expect("cpu is declared");
    assert!(waiting.await.is_ok());
}

#[tokio::test]
async fn a_waiter_stays_queued_while_a_limit_is_too_low() {
    let capacity = ResourceCapacity::new(cpus(4));
    let held = capacity.acquire(&cpus(2)).await.expect("it can be had");
    let four = cpus(4);
    let mut waiting = Box::pin(capacity.acquire(&four));
    assert!(poll_once(&mut waiting).is_pending());
    capacity.set_limits(cpus(3));
    drop(held);
    assert!(poll_once(&mut waiting).is_pending());
    capacity.set_limits(cpus(4));
    assert!(waiting.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn waiters_for_a_rate_are_served_as_it_refills() {
    let capacity = ResourceCapacity::new(ResourceCost::new());
    let rate = Rate { burst: Amount::from(2), ..per_second(10) };
    capacity.set_rate("cpu", rate).expect("it makes sense");
    let began = Instant::now();
    let served = futures::future::join_all((0..8).map(|_| async {
        drop(capacity.acquire(&cpus(1)).await.expect("it can be had"));
        began.elapsed().as_millis()
    }));
    assert_eq!(served.await, [0, 0, 100, 200, 300, 400, 500, 600]);
}

#[tokio::test(start_paused = true)]
async fn waiters_behind_a_dropped_waiter_for_a_rate_are_served_earlier() {
    let capacity = ResourceCapacity::new(ResourceCost::new());
    let rate = Rate { burst: Amount::from(5), ..per_second(1) };
    capacity.set_rate("cpu", rate).expect("it makes sense");
    drop(capacity.acquire(&cpus(5)).await.expect("it starts full"));
    let (four, one) = (cpus(4), cpus(1));
    let mut first = Box::pin(capacity.acquire(&four));
    assert!(poll_once(&mut first).is_pending());
    let began = Instant::now();
    let leave = async {
        tokio::time::sleep(Duration::from_millis(2500)).await;
        drop(first);
    };
    let (second, ()) = tokio::join!(capacity.acquire(&one), leave);
    drop(second.expect("it can be had"));
    assert_eq!(began.elapsed(), Duration::from_millis(2500), "by then there are two");
}

#[tokio::test(start_paused = true)]
async fn a_raised_rate_serves_its_waiters_earlier() {
    let capacity = ResourceCapacity::new(ResourceCost::new());
    capacity.set_rate("cpu", per_second(1)).expect("it makes sense");
    drop(capacity.acquire(&cpus(1)).await.expect("it starts full"));
    let began = Instant::now();
    let one = cpus(1);
    let raise = async {
        let faster = Rate { amount: Amount::from(10), ..per_second(1) };
        capacity.set_rate("cpu", faster).expect("it makes sense");
    };
    let (permit, ()) = tokio::join!(capacity.acquire(&one), raise);
    drop(permit.expect("it can be had"));
    assert_eq!(began.elapsed(), Duration::from_millis(100));
}

#[tokio::test]
async fn ten_thousand_waiters_cost_no_more_than_ten_thousand_checks() {
    let capacity = ResourceCapacity::new(cpus(1));
    let held = capacity.acquire(&cpus(1)).await.expect("it can be had");
    let one = cpus(1);
    let waiters = (0..10_000)
        .map(|_| capacity.acquire(&one).map(|permit| drop(permit.expect("it can be had"))));
    let all = futures::future::join_all(waiters);
    tokio::join!(all, async { drop(held) });
    let refusals = capacity.metrics().refused.total();
    assert!(refusals <= 20_000, "{refusals} looks in vain");
    assert_eq!(capacity.available(), cpus(1));
}
