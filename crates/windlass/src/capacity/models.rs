//! The queue of a capacity under every interleaving, within a bound: no waiter is forgotten or
//! overtaken, nothing is granted that is not free, and everything is free in the end.
//!
//! The wake-ups are Tokio's own and count as one step each; what is tried are all orders of those steps
//! and of everything that happens under the tree's lock.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use loom::future::block_on;
use loom::model::Builder;
use loom::thread;

use super::*;

fn cpus(n: u32) -> ResourceCost {
    ResourceCost::from([("cpu", n)])
}

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Waits for a cpu and gives it back.
fn wait_for_one(capacity: &ResourceCapacity) {
    drop(block_on(capacity.acquire(&cpus(1))).expect("it can be had"));
}

/// Waits for a cpu, but only for so many polls.
fn give_up_after(capacity: &ResourceCapacity, polls: usize) {
    let one = cpus(1);
    let mut waiting = pin!(capacity.acquire(&one));
    for _ in 0..polls {
        let polled = waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(permit) = polled {
            return drop(permit);
        }
        thread::yield_now();
    }
}

fn expect_whole(capacity: &ResourceCapacity, limit: u32) {
    assert_eq!(capacity.available(), cpus(limit));
    let metrics = capacity.metrics();
    assert_eq!((metrics.waiting, metrics.in_flight), (0, 0));
}

/// A holder releases the only unit while another caller begins to wait for it.
fn wait_while_it_is_given_back(capacity: &ResourceCapacity) {
    let held = capacity.try_acquire(&cpus(1)).expect("everything is free");
    let giver = thread::spawn(move || drop(held));
    wait_for_one(capacity);
    giver.join().expect("no panic");
    expect_whole(capacity, 1);
}

#[test]
fn a_release_is_never_missed_by_one_who_begins_to_wait() {
    check(|| wait_while_it_is_given_back(&ResourceCapacity::new(cpus(1))));
}

#[test]
fn two_who_wait_are_both_served() {
    check(|| {
        let capacity = ResourceCapacity::new(cpus(1));
        let held = capacity.try_acquire(&cpus(1)).expect("everything is free");
        let other = capacity.clone();
        let waiter = thread::spawn(move || wait_for_one(&other));
        drop(held);
        wait_for_one(&capacity);
        waiter.join().expect("no panic");
        expect_whole(&capacity, 1);
    });
}

#[test]
fn what_was_set_aside_for_one_who_gives_up_goes_to_the_next() {
    for polls in 1..=2 {
        check(move || {
            let capacity = ResourceCapacity::new(cpus(1));
            let held = capacity.try_acquire(&cpus(1)).expect("everything is free");
            let other = capacity.clone();
            let fickle = thread::spawn(move || give_up_after(&other, polls));
            let giver = thread::spawn(move || drop(held));
            wait_for_one(&capacity);
            fickle.join().expect("no panic");
            giver.join().expect("no panic");
            expect_whole(&capacity, 1);
        });
    }
}

#[test]
fn a_raised_limit_is_never_missed_by_one_who_begins_to_wait() {
    check(|| {
        let capacity = ResourceCapacity::new(cpus(1));
        let held = capacity.try_acquire(&cpus(1)).expect("everything is free");
        let other = capacity.clone();
        let raises = thread::spawn(move || other.set_limits(&cpus(2)));
        wait_for_one(&capacity);
        raises.join().expect("no panic");
        drop(held);
        expect_whole(&capacity, 2);
    });
}
