use rustix::event::{PollFd, PollFlags, poll};
use windlass_core::CLAIM_GRACE;
use windlass_store::{Topic, Wakeup};

use super::*;

/// Returns whether a notification comes. One from another connection takes its time.
pub(crate) fn is_notified(wakeup: &Wakeup) -> bool {
    is_readable(wakeup, 5)
}

/// Returns whether no notification has come. Asked after one that was sent later has come, because
/// notifications come in order.
pub(super) fn is_quiet(wakeup: &Wakeup) -> bool {
    !is_readable(wakeup, 0)
}

fn is_readable(wakeup: &Wakeup, tv_sec: i64) -> bool {
    let mut fds = [PollFd::new(wakeup, PollFlags::IN)];
    let patience = rustix::time::Timespec { tv_sec, tv_nsec: 0 };
    poll(&mut fds, Some(&patience)).expect("it can be polled") > 0
}

fn register(on: &Fixture) -> Wakeup {
    on.store.register(&Topic::Turn).expect("a wake-up")
}

pub(super) fn waiters_are_served_first_in_first_out(on: &mut Fixture) {
    assert_eq!(on.tokens("a", "x"), [1]);
    assert_eq!(refused(on.claim("b", "x")).ahead, 0);
    assert_eq!(refused(on.claim("c", "x")).ahead, 1);
    assert_eq!(on.release("a", "x", 1), Answer::Released);
    assert_eq!(refused_by(on.claim("c", "x")), "b", "b is ahead of c");
    assert_eq!(refused_by(on.claim("d", "x")), "b", "and before a claimant");
    assert_eq!(on.tokens("b", "x"), [2]);
    assert_eq!(on.release("b", "x", 2), Answer::Released);
    assert_eq!(on.tokens("c", "x"), [3]);
}

pub(super) fn a_waiter_reserves_only_the_names_that_refused_it(on: &mut Fixture) {
    assert_eq!(on.tokens("a", "x"), [1]);
    assert_eq!(refused_by(on.claim("b", "x y")), "a");
    assert_eq!(on.tokens("c", "y"), [1], "y did not refuse b");
    assert_eq!(on.release("a", "x", 1), Answer::Released);
    assert_eq!(refused_by(on.claim("b", "x y")), "c", "held up once");
    assert_eq!(refused_by(on.claim("d", "x")), "b", "x stays reserved");
    assert_eq!(on.release("c", "y", 1), Answer::Released);
    assert_eq!(refused_by(on.claim("e", "y")), "b", "and y is reserved now");
    assert_eq!(on.tokens("b", "x y"), [2, 2]);
}

pub(super) fn a_claim_for_another_name_leaves_the_queue_of_the_one_before(on: &mut Fixture) {
    assert_eq!(on.tokens("a", "x y"), [1, 1]);
    assert_eq!(refused_by(on.claim("b", "x")), "a");
    assert_eq!(refused_by(on.claim("b", "y")), "a");
    assert_eq!(on.release("a", "x", 1), Answer::Released);
    assert_eq!(on.tokens("c", "x"), [2], "it has no waiters");
    let overview = on.store.overview().expect("the store works");
    let waits = overview.iter().filter(|seen| !seen.waiters.is_empty());
    assert_eq!(waits.map(|seen| seen.name.text()).collect::<Vec<_>>(), ["y"]);
}

pub(super) fn a_waiter_whose_process_has_ended_leaves_the_queue(on: &mut Fixture) {
    let gone = gone();
    assert_eq!(on.tokens("a", "x"), [1]);
    let _ = refused(on.claim_with("dead", "x", |claim| claim.process = Some(&gone)));
    assert_eq!(on.release("a", "x", 1), Answer::Released);
    assert_eq!(on.tokens("b", "x"), [2]);
}

pub(super) fn a_waiter_leaves_the_queue_with_the_process_that_waits(on: &mut Fixture) {
    let (gone, here) = (gone(), here());
    assert_eq!(on.tokens("a", "x"), [1]);
    let _ = refused(on.claim_with("b", "x", |claim| {
        (claim.process, claim.waiter) = (Some(&here), Some(&gone));
    }));
    assert_eq!(on.release("a", "x", 1), Answer::Released);
    assert_eq!(on.tokens("c", "x"), [2], "b has left the queue");
}

pub(super) fn leaving_the_queue_notifies_the_next_waiter(on: &mut Fixture) {
    let wakeup = register(on);
    assert_eq!(on.tokens("a", "x"), [1]);
    let _ = refused(on.claim("b", "x"));
    let _ = refused(on.claim_with("c", "x", |claim| claim.wakeup = Some(wakeup.name())));
    assert_eq!(on.release("a", "x", 1), Answer::Released);
    assert!(is_quiet(&wakeup), "it is b's turn");
    on.store.transact(|t| t.leases().leave_queue(&HolderId::new("b"))).expect("the store works");
    assert!(is_notified(&wakeup));
    on.store
        .transact(|t| t.leases().leave_queue(&HolderId::new("no waiter")))
        .expect("the store works");
}

pub(super) fn a_refusal_can_be_asked_for_without_acquiring_anything(on: &mut Fixture) {
    let refusal = |on: &mut Fixture, holder: &str, names: &str| {
        let (holder, needs) = (&HolderId::new(holder), &needs(names));
        let refusal = on.store.transact(|t| t.leases().refusal(&Claim::new(holder, needs)));
        let refusal = refusal.expect("the store works");
        refusal.map(|refused| refused.first().1.to_string())
    };
    for names in ["x", "x y"] {
        let token = on.tokens("a", "x")[0];
        let _ = refused(on.claim("b", names));
        let _ = refused(on.claim("c", "x"));
        assert_eq!(refusal(on, "b", names).as_deref(), Some("a"));
        assert_eq!(on.release("a", "x", token), Answer::Released);
        assert_eq!(refusal(on, "b", names), None, "it may have it");
        assert_eq!(refusal(on, "b", names), None, "and has not taken it");
        assert_eq!(refusal(on, "c", "x").as_deref(), Some("b"), "its place is kept");
        for holder in ["b", "c"] {
            on.store
                .transact(|t| t.leases().leave_queue(&HolderId::new(holder)))
                .expect("the store works");
        }
    }
}

pub(super) fn a_waiter_is_notified_when_its_turn_has_come(on: &mut Fixture) {
    let (first, second, gone) = (register(on), register(on), gone());
    assert_eq!(on.tokens("a", "x"), [1]);
    let _ = refused(on.claim_with("dead", "x", |claim| claim.process = Some(&gone)));
    let _ = refused(on.claim_with("b", "x", |claim| claim.wakeup = Some(first.name())));
    let _ = refused(on.claim_with("c", "x", |claim| claim.wakeup = Some(second.name())));
    assert!(is_quiet(&first) && is_quiet(&second));
    assert_eq!(on.release("a", "x", 1), Answer::Released);
    assert!(
        is_notified(&first) && is_quiet(&second),
        "the waiter that has ended has lost its turn"
    );
    assert_eq!(on.tokens("b", "x"), [2]);
    assert_eq!(on.release("b", "x", 2), Answer::Released);
    assert!(is_notified(&second));
}

pub(super) fn a_waiter_that_claims_again_is_woken_as_it_asked_last(on: &mut Fixture) {
    let (wakeup, gone, here) = (register(on), gone(), here());
    assert_eq!(on.tokens("a", "x"), [1]);
    let _ = refused(on.claim_with("b", "x", |claim| claim.process = Some(&gone)));
    let _ = refused(on.claim("c", "x"));
    let _ = refused(on.claim_with("b", "x", |claim| {
        (claim.process, claim.wakeup) = (Some(&here), Some(wakeup.name()));
    }));
    assert_eq!(on.release("a", "x", 1), Answer::Released);
    assert!(is_notified(&wakeup));
    assert_eq!(refused_by(on.claim("c", "x")), "b", "b has kept its place");
    assert_eq!(on.tokens("b", "x"), [2]);
}

pub(super) fn a_waiter_that_does_not_claim_in_time_is_passed_over(on: &mut Fixture) {
    assert_eq!(on.tokens("a", "x"), [1]);
    let _ = refused(on.claim("b", "x"));
    assert_eq!(on.release("a", "x", 1), Answer::Released);
    on.clock.advance(CLAIM_GRACE);
    assert_eq!(refused_by(on.claim("c", "x")), "b");
    on.clock.advance(Duration::from_nanos(1));
    assert_eq!(on.tokens("c", "x"), [2]);
    assert_eq!(refused_by(on.claim("d", "x")), "c");
    assert_eq!(refused_by(on.claim("b", "x")), "c", "it claims at last");
    assert_eq!(on.release("c", "x", 2), Answer::Released);
    assert_eq!(refused_by(on.claim("d", "x")), "b", "it has kept its place");
}

pub(super) fn many_waiters_are_served_in_order(on: &mut Fixture) {
    const WAITERS: u64 = 200;
    let names: Vec<_> = (1..=WAITERS).map(|number| format!("{number:04}")).collect();
    assert_eq!(on.tokens("first", "x"), [1]);
    // In one commit, so that this tests the queue and not the disk.
    let want = needs("x");
    on.store
        .transact(|transaction| {
            for name in &names {
                let _ = transaction
                    .leases()
                    .claim(&Claim::new(&HolderId::new(name.as_str()), &want))?;
            }
            let name = &want[0].name;
            transaction.leases().release(name, &HolderId::new("first"), Token(1))?;
            for (holder, token) in names.iter().take(20).zip(2..) {
                let holder = HolderId::new(holder.as_str());
                let claimed = transaction.leases().claim(&Claim::new(&holder, &want))?;
                assert_eq!(held(claimed)[0].token, Token(token));
                assert_eq!(
                    transaction.leases().release(name, &holder, Token(token))?,
                    Answer::Released
                );
            }
            Ok(())
        })
        .expect("the store works");
}

pub(super) fn a_heavy_waiter_is_served_in_its_turn(on: &mut Fixture) {
    on.declare("s", 4);
    assert_eq!(on.tokens("a", "s:1"), [1]);
    assert_eq!(refused_by(on.claim("heavy", "s:4")), "a");
    assert_eq!(refused_by(on.claim("light", "s:1")), "heavy", "though three are free");
    assert_eq!(on.release("a", "s:1", 1), Answer::Released);
    assert_eq!(refused_by(on.claim("light", "s:1")), "heavy");
    assert_eq!(on.tokens("heavy", "s:4"), [2]);
}
