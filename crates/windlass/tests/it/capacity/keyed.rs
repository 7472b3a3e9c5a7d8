//! A capacity for each key: limits of its own, and no trace of keys that are idle.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

use windlass::core::RateError;
use windlass::{KeyedCapacity, Quota, Rate, ResourceCapacity, ResourceCost};

use crate::support::{cpus, in_time, secs};

fn calls(n: u32) -> ResourceCost {
    ResourceCost::from([("calls", n)])
}

#[tokio::test]
async fn each_key_has_its_own_limit_and_all_share_the_one_above() {
    let all = ResourceCapacity::new(cpus(3));
    let keyed = KeyedCapacity::new(&all, cpus(2));
    let a = keyed.of("a").try_acquire(cpus(2)).expect("its own limit is 2");
    assert!(!keyed.of("a").can_acquire(cpus(1)), "the key has used up its limit");
    let b = keyed.of("b").try_acquire(cpus(1)).expect("another key has its own");
    assert!(!keyed.of("b").can_acquire(cpus(1)), "the capacity above is used up");
    drop((a, b));
    assert_eq!(all.available(), cpus(3));
}

#[tokio::test]
async fn idle_keys_are_forgotten_and_busy_ones_are_not() {
    let all = ResourceCapacity::new(cpus(1000));
    let keyed = KeyedCapacity::new(&all, cpus(2));
    let busy = keyed.of(0).try_acquire(cpus(2)).expect("it is free");
    let handle = keyed.of(1);
    for key in 2..10_000 {
        drop(keyed.of(key).try_acquire(cpus(1)).expect("it is free"));
    }
    assert!(keyed.len() < 100, "{} keys are known", keyed.len());
    assert!(!keyed.of(0).can_acquire(cpus(1)), "a permit keeps its key");
    handle.acquire_immediate(cpus(2)).expect("it is free");
    assert!(!keyed.of(1).can_acquire(cpus(1)), "a handle keeps its key");
    drop(busy);
}

#[tokio::test(start_paused = true)]
async fn a_key_is_not_forgotten_before_its_rate_and_quota_are_full_again() {
    let all = ResourceCapacity::new(cpus(1));
    let quota = Quota { amount: 1.into(), window: secs(3600) };
    let keyed = KeyedCapacity::new(&all, ResourceCost::new());
    let keyed = keyed.rate("calls", Rate::per_second(1)).expect("it makes sense");
    let keyed = keyed.quota("mails", quota).expect("it makes sense");
    let take = |key: u32, name: &str| keyed.of(key).try_acquire([(name, 1)]).map(drop);
    let forget_idle_keys = || (100..200).for_each(|key| drop(keyed.of(key)));

    take(0, "calls").expect("the bucket is full");
    take(1, "mails").expect("the window is new");
    forget_idle_keys();
    take(0, "calls").expect_err("the bucket is empty, also after keys were forgotten");
    take(1, "mails").expect_err("the quota is used up, also after keys were forgotten");
    tokio::time::advance(secs(1)).await;
    forget_idle_keys();
    take(0, "calls").expect("a second has passed");
    take(1, "mails").expect_err("the window is the same");
    tokio::time::advance(secs(3600)).await;
    take(1, "mails").expect("the window is new");
}

#[test]
fn an_invalid_rate_is_refused() {
    let all = ResourceCapacity::new(calls(1));
    let refused = KeyedCapacity::<&str>::new(&all, calls(1)).rate("calls", Rate::per_second(0));
    assert_eq!(refused.err(), Some(RateError::ZeroAmount));
}

#[tokio::test]
async fn clones_share_the_keys() {
    let all = ResourceCapacity::new(cpus(9));
    let keyed = KeyedCapacity::new(&all, cpus(2));
    let permit = keyed.clone().of("a").try_acquire(cpus(2)).expect("its own limit is 2");
    assert!(!keyed.of("a").can_acquire(cpus(1)), "the clone has taken everything of the key");
    assert_eq!(keyed.len(), 1);
    drop(permit);
}

/// A key whose destructor asks for its capacity.
struct CuriousKey(u32, Weak<KeyedCapacity<CuriousKey>>);

impl PartialEq for CuriousKey {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for CuriousKey {}

impl Hash for CuriousKey {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.0.hash(hasher);
    }
}

impl Drop for CuriousKey {
    fn drop(&mut self) {
        if let Some(keyed) = self.1.upgrade() {
            assert!(!keyed.is_empty(), "the key that was asked for is known");
        }
    }
}

#[test]
fn a_key_may_use_the_capacity_when_it_is_dropped() {
    in_time(|| async {
        let all = ResourceCapacity::new(cpus(1));
        let keyed = Arc::new(KeyedCapacity::new(&all, cpus(1)));
        for n in 0..100 {
            drop(keyed.of(CuriousKey(n, Arc::downgrade(&keyed))));
        }
        assert!(keyed.len() < 100, "keys were dropped");
    });
}
