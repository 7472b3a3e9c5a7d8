use std::time::Duration;

use super::*;

const TERMS: LeaseTerms =
    LeaseTerms { heartbeat_timeout: Duration::from_millis(10), max_hold: None };

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn id(name: &str) -> HolderId {
    HolderId::new(name)
}

fn ask(slots: &mut Semaphore, name: &str, weight: u64, millis: u64) -> SemaphoreAcquire {
    slots.acquire(&id(name), weight, TERMS, at(millis)).expect("a weight that can be had")
}

fn acquired(token: u64) -> SemaphoreAcquire {
    SemaphoreAcquire::Acquired { token: Token(token) }
}

#[test]
fn slots_are_acquired_all_or_none() {
    let mut slots = Semaphore::new(4);
    assert_eq!(ask(&mut slots, "a", 3, 0), acquired(1));
    assert_eq!(ask(&mut slots, "b", 2, 0), SemaphoreAcquire::Full { available: 1 });
    assert_eq!(ask(&mut slots, "c", 1, 0), acquired(2), "b took nothing");
}

#[test]
fn a_holder_has_one_entry_and_is_refreshed_when_it_asks_for_no_more() {
    let mut slots = Semaphore::new(4);
    assert_eq!(ask(&mut slots, "a", 2, 0), acquired(1));
    for weight in [1, 2] {
        let again = ask(&mut slots, "a", weight, 9);
        assert_eq!(again, SemaphoreAcquire::AlreadyHeld { token: Token(1) });
    }
    assert_eq!(slots.available(at(19)), 2, "it was refreshed and takes no more");
}

#[test]
fn an_upgrade_is_all_or_nothing_and_keeps_the_token() {
    let mut slots = Semaphore::new(4);
    assert_eq!(ask(&mut slots, "a", 1, 0), acquired(1));
    assert_eq!(ask(&mut slots, "b", 2, 0), acquired(2));
    assert_eq!(ask(&mut slots, "a", 3, 0), SemaphoreAcquire::Full { available: 1 });
    assert_eq!(slots.lease(&id("a")).map(|lease| lease.weight), Some(1), "the old hold stays");
    assert_eq!(ask(&mut slots, "a", 2, 0), SemaphoreAcquire::Upgraded { token: Token(1) });
    assert_eq!(slots.available(at(0)), 0);
}

#[test]
fn impossible_weights_are_errors_and_change_nothing() {
    let mut slots = Semaphore::new(4);
    let before = slots.clone();
    assert_eq!(slots.acquire(&id("a"), 0, TERMS, at(0)), Err(WeightError::Zero));
    for weight in [5, u64::MAX] {
        let error = slots.acquire(&id("a"), weight, TERMS, at(0));
        assert_eq!(error, Err(WeightError::AboveCapacity { weight, capacity: 4 }));
    }
    assert_eq!(slots, before);
}

#[test]
fn sums_never_wrap() {
    let most = u64::MAX;
    let leases = ["a", "b", "c"].map(|name| {
        let mut lease = Lease::new(id(name), Token(1), TERMS, at(0));
        lease.weight = most;
        lease
    });
    let slots = Semaphore::restore(most, Token(1), leases);
    assert_eq!(slots.available(at(0)), 0);
}

#[test]
fn what_is_stale_is_reclaimed_first() {
    let mut slots = Semaphore::new(2);
    assert_eq!(ask(&mut slots, "a", 2, 0), acquired(1));
    assert_eq!(ask(&mut slots, "b", 1, 10), SemaphoreAcquire::Full { available: 0 });
    assert_eq!(ask(&mut slots, "b", 1, 11), acquired(2));
    assert_eq!(slots.release(&id("a"), Token(1)), Answer::NotHolder);
}

#[test]
fn every_stale_holder_is_freed_and_returned() {
    let mut slots = Semaphore::new(9);
    for name in ["a", "b", "c"] {
        let _ = ask(&mut slots, name, 3, 0);
    }
    assert_eq!(slots.heartbeat(&id("b"), Token(2), at(5)), Answer::Refreshed);
    let stale: Vec<_> = slots.reclaim_stale(at(11)).into_iter().map(|lease| lease.holder).collect();
    assert_eq!(stale, [id("a"), id("c")]);
    assert_eq!(slots.available(at(11)), 6);
}

#[test]
fn an_old_token_is_refused() {
    let mut slots = Semaphore::new(2);
    let _ = ask(&mut slots, "a", 1, 0);
    assert_eq!(slots.release(&id("a"), Token(9)), Answer::NotHolder);
    assert_eq!(slots.release(&id("b"), Token(1)), Answer::NotHolder);
    assert_eq!(slots.heartbeat(&id("a"), Token(9), at(0)), Answer::NotHolder);
    assert_eq!(slots.heartbeat(&id("a"), Token(1), at(11)), Answer::NotHolder, "late");
    assert_eq!(slots.release(&id("a"), Token(1)), Answer::Released);
    assert_eq!(slots.release(&id("a"), Token(1)), Answer::NotHolder, "twice");
}

#[test]
fn a_check_tells_a_present_hold_from_an_old_one() {
    let mut slots = Semaphore::new(2);
    assert_eq!(slots.check(Token(1), at(0)), Answer::AlreadyFree);
    let _ = ask(&mut slots, "a", 1, 0);
    assert_eq!(slots.check(Token(1), at(10)), Answer::Valid);
    assert_eq!(slots.check(Token(1), at(11)), Answer::NotHolder, "stale");
    assert_eq!(slots.check(Token(7), at(0)), Answer::NotHolder);
}
