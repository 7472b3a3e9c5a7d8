use super::*;

const TERMS: LeaseTerms =
    LeaseTerms { heartbeat_timeout: Duration::from_millis(10), max_hold: None };

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn names() -> (HolderId, HolderId) {
    (HolderId::new("a"), HolderId::new("b"))
}

fn held(holder: &HolderId) -> Lock {
    let mut lock = Lock::default();
    let acquired = lock.acquire(holder, TERMS, at(0));
    assert_eq!(acquired, LockAcquire::Acquired { token: Token(1) });
    lock
}

#[test]
fn a_refusal_names_the_holder_the_start_of_its_hold_and_the_age_of_its_heartbeat() {
    let (a, b) = names();
    let mut lock = held(&a);
    assert_eq!(lock.heartbeat(&a, Token(1), at(3)), Answer::Refreshed);
    let age = Duration::from_millis(2);
    let busy = lock.acquire(&b, TERMS, at(5));
    assert_eq!(busy, LockAcquire::Busy { holder: a, since: at(0), age });
}

#[test]
fn the_same_holder_keeps_its_token_and_is_refreshed() {
    let (a, _) = names();
    let mut lock = held(&a);
    assert_eq!(lock.acquire(&a, TERMS, at(9)), LockAcquire::Extended { token: Token(1) });
    assert_eq!(lock.heartbeat(&a, Token(1), at(19)), Answer::Refreshed);
}

#[test]
fn a_stale_lock_is_reclaimed_with_a_larger_token() {
    let (a, b) = names();
    let mut lock = held(&a);
    assert!(matches!(lock.acquire(&b, TERMS, at(10)), LockAcquire::Busy { .. }), "not yet");
    let reclaimed = lock.acquire(&b, TERMS, at(11));
    assert_eq!(reclaimed, LockAcquire::Reclaimed { token: Token(2), from: a.clone() });
    assert_eq!(lock.heartbeat(&a, Token(1), at(11)), Answer::NotOwner);
    assert_eq!(lock.release(&a, Token(1)), Answer::NotOwner);
    assert_eq!(lock.check(Token(1), at(11)), Answer::NotOwner);
    assert_eq!(lock.check(Token(2), at(11)), Answer::Valid, "nothing else changed");
}

#[test]
fn a_stale_lease_cannot_be_revived_by_its_own_holder() {
    let (a, _) = names();
    let mut lock = held(&a);
    assert_eq!(lock.heartbeat(&a, Token(1), at(11)), Answer::Expired);
    assert_eq!(lock.check(Token(1), at(11)), Answer::NotOwner);
    let again = lock.acquire(&a, TERMS, at(11));
    assert_eq!(again, LockAcquire::Reclaimed { token: Token(2), from: a });
}

#[test]
fn past_the_longest_hold_heartbeats_are_refused_and_extending_does_not_restart_it() {
    let (a, b) = names();
    let terms = LeaseTerms { max_hold: Some(Duration::from_millis(15)), ..TERMS };
    let mut lock = Lock::default();
    assert_eq!(lock.acquire(&a, terms, at(0)), LockAcquire::Acquired { token: Token(1) });
    assert_eq!(lock.acquire(&a, terms, at(8)), LockAcquire::Extended { token: Token(1) });
    assert_eq!(lock.heartbeat(&a, Token(1), at(15)), Answer::Refreshed);
    assert_eq!(lock.heartbeat(&a, Token(1), at(16)), Answer::Expired);
    assert!(matches!(lock.acquire(&b, terms, at(16)), LockAcquire::Reclaimed { .. }));
}

#[test]
fn an_old_token_is_refused_from_every_holder() {
    let (a, b) = names();
    let mut lock = held(&a);
    assert_eq!(lock.release(&a, Token(1)), Answer::Released);
    assert_eq!(lock.release(&a, Token(1)), Answer::AlreadyFree);
    assert_eq!(lock.check(Token(1), at(0)), Answer::AlreadyFree);
    assert_eq!(lock.acquire(&a, TERMS, at(1)), LockAcquire::Acquired { token: Token(2) });
    assert_eq!(lock.release(&a, Token(1)), Answer::NotOwner, "its own old token");
    assert_eq!(lock.heartbeat(&a, Token(1), at(1)), Answer::NotOwner);
    assert_eq!(lock.release(&b, Token(2)), Answer::NotOwner, "another's token");
    assert_eq!(lock.heartbeat(&b, Token(2), at(1)), Answer::NotOwner);
    assert_eq!(lock.release(&a, Token(2)), Answer::Released);
}

#[test]
fn an_older_heartbeat_changes_nothing() {
    let (a, b) = names();
    let mut lock = held(&a);
    assert_eq!(lock.heartbeat(&a, Token(1), at(8)), Answer::Refreshed);
    assert_eq!(lock.heartbeat(&a, Token(1), at(2)), Answer::Refreshed);
    assert!(matches!(lock.acquire(&b, TERMS, at(18)), LockAcquire::Busy { .. }));
}

#[test]
fn tokens_grow_across_a_restore_and_above_a_floor() {
    let (a, b) = names();
    let mut lock = held(&a);
    assert_eq!(lock.release(&a, Token(1)), Answer::Released);
    let mut lock = Lock::restore(lock.token(), lock.lease().cloned());
    assert_eq!(lock.acquire(&b, TERMS, at(0)), LockAcquire::Acquired { token: Token(2) });
    assert_eq!(lock.release(&b, Token(2)), Answer::Released);
    let above = lock.acquire_above(Token(1 << 40), &b, TERMS, at(0));
    assert_eq!(above, LockAcquire::Acquired { token: Token((1 << 40) + 1) });
}

#[test]
fn restoring_refreshes_no_lease() {
    let (a, b) = names();
    let lock = held(&a);
    let mut lock = Lock::restore(lock.token(), lock.lease().cloned());
    assert!(matches!(lock.acquire(&b, TERMS, at(11)), LockAcquire::Reclaimed { .. }));
}
