//! Futures and permits dropped at any point leave everything whole.

use std::future::poll_fn;

use super::*;

/// Drops a waiting `acquire` after `polls` polls, with a release before each; the next waiter
/// receives what it would have taken.
async fn check_dropped_after(polls: usize) {
    let capacity = ResourceCapacity::new(cost([("cpu", 1), ("gpu", 1)]));
    let mut held = vec![
        capacity.acquire(&cpus(1)).await.expect("it can be had"),
        capacity.acquire(&cost([("gpu", 1)])).await.expect("it can be had"),
    ];
    let both = cost([("cpu", 1), ("gpu", 1)]);
    let mut dropped = Box::pin(capacity.acquire(&both));
    for poll in 0..polls {
        if poll > 0 {
            held.pop();
        }
        let polled = poll_fn(|cx| std::task::Poll::Ready(dropped.poll_unpin(cx))).await;
        assert_eq!(polled.is_ready(), poll == 2, "after both are given back");
        if polled.is_ready() {
            break;
        }
    }
    let next = tokio::spawn({
        let capacity = capacity.clone();
        async move { capacity.acquire(&cost([("cpu", 1), ("gpu", 1)])).await.map(drop) }
    });
    settle().await;
    drop(dropped);
    held.clear();
    next.await.expect("no panic").expect("it can be had");
    assert_eq!(capacity.available(), both, "all of it is there");
    assert_eq!((capacity.metrics().waiting, capacity.metrics().in_flight), (0, 0));
}

#[tokio::test]
async fn an_acquire_dropped_at_any_poll_leaves_nothing_behind() {
    for polls in 0..=3 {
        check_dropped_after(polls).await;
    }
}

#[tokio::test]
async fn the_reservation_of_a_dropped_waiter_passes_to_the_next() {
    let capacity = ResourceCapacity::new(cpus(1));
    let held = capacity.acquire(&cpus(1)).await.expect("it can be had");
    let one = cpus(1);
    let mut first = Box::pin(capacity.acquire(&one));
    let mut second = tokio::spawn({
        let capacity = capacity.clone();
        async move { capacity.acquire(&cpus(1)).await.map(drop) }
    });
    assert!(poll_once(&mut first).is_pending());
    settle().await;
    drop(held);
    settle().await;
    assert!(poll_once(&mut second).is_pending(), "it was the first one's turn");
    drop(first);
    second.await.expect("no panic").expect("it can be had");
}

#[tokio::test]
async fn a_task_that_panics_gives_back_what_it_holds() {
    let capacity = ResourceCapacity::new(cpus(1));
    let panics = tokio::spawn({
        let capacity = capacity.clone();
        async move {
            let _permit = capacity.acquire(&cpus(1)).await;
            panic!("on purpose");
        }
    });
    assert!(panics.await.is_err());
    assert_eq!(capacity.available(), cpus(1));
}

#[tokio::test(start_paused = true)]
async fn an_acquire_that_times_out_leaves_the_queue() {
    let capacity = ResourceCapacity::new(cpus(2));
    let _held = capacity.acquire(&cpus(1)).await.expect("it can be had");
    let two = cpus(2);
    let waited = tokio::time::timeout(Duration::from_secs(1), capacity.acquire(&two)).await;
    assert!(waited.is_err());
    assert!(capacity.can_acquire(cpus(1)), "nothing is set aside any more");
}
