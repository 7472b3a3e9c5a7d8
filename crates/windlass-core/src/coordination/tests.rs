use std::time::Duration;

use super::*;
use crate::lease::LeaseTerms;
use crate::wait_queue::{CLAIM_GRACE, Need};

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn lock(name: &str) -> Name {
    Name::Lock(name.to_owned())
}

fn slots(name: &str) -> Name {
    Name::Semaphore(name.to_owned())
}

fn claim(holder: &str, needs: &[(Name, u64)]) -> Claim {
    let need = |(name, weight): &(Name, u64)| Need { name: name.clone(), weight: *weight };
    Claim::new(HolderId::new(holder), needs.iter().map(need).collect())
}

/// Claims at time 0. Returns the tokens, or the holders and waiters that refused it.
fn ask(state: &mut CoordinationState, claim: &Claim) -> Result<Vec<u64>, Vec<String>> {
    ask_at(state, claim, 0)
}

fn ask_at(
    state: &mut CoordinationState,
    claim: &Claim,
    millis: u64,
) -> Result<Vec<u64>, Vec<String>> {
    match state.claim(claim, at(millis)).expect("it makes sense") {
        Claimed::Held(holds) => Ok(holds.iter().map(|hold| hold.token.0).collect()),
        Claimed::Refused(refusals) => {
            let all =
                refusals.iter().flat_map(|refusal| refusal.holders.iter().chain(&refusal.ahead));
            Err(all.map(ToString::to_string).collect())
        }
    }
}

fn refused(by: &[&str]) -> Result<Vec<u64>, Vec<String>> {
    Err(by.iter().map(|&by| by.to_owned()).collect())
}

fn release(state: &mut CoordinationState, name: &Name, holder: &str, token: u64) {
    let answer = state.release(name, &HolderId::new(holder), Token(token), at(0));
    assert_eq!(answer, Answer::Released);
}

fn notified(state: &mut CoordinationState) -> Vec<String> {
    state.take_notified().iter().map(ToString::to_string).collect()
}

#[test]
fn several_names_are_taken_together_or_not_at_all() {
    let mut state = CoordinationState::default();
    let (x, y) = (lock("x"), lock("y"));
    assert_eq!(ask(&mut state, &claim("a", &[(x.clone(), 1)])), Ok(vec![1]));
    assert_eq!(ask(&mut state, &claim("b", &[(y.clone(), 1), (x, 1)])), refused(&["a"]));
    assert_eq!(ask(&mut state, &claim("c", &[(y, 1)])), Ok(vec![1]), "b took nothing of it");
}

#[test]
fn the_first_waiter_is_served_first_and_notified_alone() {
    let mut state = CoordinationState::default();
    let x = [(lock("x"), 1)];
    assert_eq!(ask(&mut state, &claim("a", &x)), Ok(vec![1]));
    assert_eq!(ask(&mut state, &claim("b", &x)), refused(&["a"]));
    assert_eq!(ask(&mut state, &claim("c", &x)), refused(&["a"]));
    assert!(notified(&mut state).is_empty());
    release(&mut state, &x[0].0, "a", 1);
    assert_eq!(notified(&mut state), ["b"]);
    assert_eq!(ask(&mut state, &claim("c", &x)), refused(&["b"]), "b is queued before c");
    assert_eq!(ask(&mut state, &claim("d", &x)), refused(&["b", "c"]), "and before a newcomer");
    assert!(notified(&mut state).is_empty(), "b was notified already");
    assert_eq!(ask(&mut state, &claim("b", &x)), Ok(vec![2]));
    release(&mut state, &x[0].0, "b", 2);
    assert_eq!(notified(&mut state), ["c"]);
}

#[test]
fn an_urgent_waiter_is_queued_before_earlier_ones() {
    let mut state = CoordinationState::default();
    let x = [(lock("x"), 1)];
    assert_eq!(ask(&mut state, &claim("a", &x)), Ok(vec![1]));
    assert_eq!(ask(&mut state, &claim("b", &x)), refused(&["a"]));
    let mut urgent = claim("c", &x);
    urgent.priority = 1;
    assert_eq!(ask(&mut state, &urgent), refused(&["a"]));
    release(&mut state, &x[0].0, "a", 1);
    assert_eq!(notified(&mut state), ["c"]);
    assert_eq!(ask(&mut state, &claim("b", &x)), refused(&["c"]));
    assert_eq!(ask(&mut state, &urgent), Ok(vec![2]));
}

#[test]
fn a_waiter_reserves_only_the_names_that_refused_it() {
    let mut state = CoordinationState::default();
    let (x, y) = (lock("x"), lock("y"));
    assert_eq!(ask(&mut state, &claim("a", &[(x.clone(), 1)])), Ok(vec![1]));
    let both = claim("b", &[(x.clone(), 1), (y.clone(), 1)]);
    assert_eq!(ask(&mut state, &both), refused(&["a"]));
    assert_eq!(ask(&mut state, &claim("c", &[(y.clone(), 1)])), Ok(vec![1]), "y was open");
    release(&mut state, &x, "a", 1);
    assert_eq!(ask(&mut state, &both), refused(&["c"]), "held up once by y");
    assert_eq!(ask(&mut state, &claim("d", &[(x, 1)])), refused(&["b"]), "x stays reserved");
    release(&mut state, &y, "c", 1);
    assert_eq!(ask(&mut state, &claim("e", &[(y, 1)])), refused(&["b"]), "and y is now");
    assert_eq!(ask(&mut state, &both), Ok(vec![2, 2]));
}

#[test]
fn a_heavy_waiter_is_not_overtaken_for_ever() {
    let mut state = CoordinationState::default();
    let s = slots("s");
    state.declare("s", 4, at(0)).expect("it is new");
    assert_eq!(ask(&mut state, &claim("a", &[(s.clone(), 2)])), Ok(vec![1]));
    assert_eq!(ask(&mut state, &claim("heavy", &[(s.clone(), 4)])), refused(&["a"]));
    let light = claim("light", &[(s.clone(), 1)]);
    assert_eq!(ask(&mut state, &light), refused(&["heavy"]), "though two slots are free");
    release(&mut state, &s, "a", 1);
    assert_eq!(notified(&mut state), ["heavy"]);
    assert_eq!(ask(&mut state, &light), refused(&["heavy"]));
    assert_eq!(ask(&mut state, &claim("heavy", &[(s.clone(), 4)])), Ok(vec![2]));
    release(&mut state, &s, "heavy", 2);
    assert_eq!(notified(&mut state), ["light"]);
}

#[test]
fn as_many_waiters_are_notified_as_fit() {
    let mut state = CoordinationState::default();
    let s = slots("s");
    state.declare("s", 3, at(0)).expect("it is new");
    assert_eq!(ask(&mut state, &claim("a", &[(s.clone(), 3)])), Ok(vec![1]));
    for (holder, weight) in [("b", 1), ("c", 2), ("d", 1)] {
        assert_eq!(ask(&mut state, &claim(holder, &[(s.clone(), weight)])), refused(&["a"]));
    }
    release(&mut state, &s, "a", 1);
    assert_eq!(notified(&mut state), ["b", "c"]);
}

#[test]
fn a_notified_waiter_that_does_not_claim_is_passed_over_and_keeps_its_place() {
    let mut state = CoordinationState::default();
    let x = [(lock("x"), 1)];
    assert_eq!(ask(&mut state, &claim("a", &x)), Ok(vec![1]));
    assert_eq!(ask(&mut state, &claim("b", &x)), refused(&["a"]));
    release(&mut state, &x[0].0, "a", 1);
    let patience = u64::try_from(CLAIM_GRACE.as_millis()).expect("a second");
    assert_eq!(ask_at(&mut state, &claim("c", &x), patience), refused(&["b"]));
    assert_eq!(ask_at(&mut state, &claim("c", &x), patience + 1), Ok(vec![2]));
    assert_eq!(ask_at(&mut state, &claim("b", &x), patience + 2), refused(&["c"]));
    assert_eq!(ask_at(&mut state, &claim("d", &x), patience + 2), refused(&["c"]));
    let answer = state.release(&x[0].0, &HolderId::new("c"), Token(2), at(patience + 3));
    assert_eq!(answer, Answer::Released);
    assert_eq!(notified(&mut state), ["b", "b"], "notified at first, and again, before d");
}

#[test]
fn leaving_the_queue_notifies_the_next_waiter() {
    let mut state = CoordinationState::default();
    let x = [(lock("x"), 1)];
    assert_eq!(ask(&mut state, &claim("a", &x)), Ok(vec![1]));
    assert_eq!(ask(&mut state, &claim("b", &x)), refused(&["a"]));
    assert_eq!(ask(&mut state, &claim("c", &x)), refused(&["a"]));
    release(&mut state, &x[0].0, "a", 1);
    assert_eq!(notified(&mut state), ["b"]);
    state.leave(&HolderId::new("b"), at(0));
    assert_eq!(notified(&mut state), ["c"]);
    state.leave(&HolderId::new("nobody"), at(0));
    assert!(notified(&mut state).is_empty());
}

#[test]
fn what_a_dead_holder_left_is_ended_before_its_lease_is_given_away() {
    let mut state = CoordinationState::default();
    let x = lock("x");
    let mut first = claim("a", &[(x.clone(), 1)]);
    first.remains = Remains::Possible;
    assert_eq!(ask(&mut state, &first), Ok(vec![1]));
    state.abandon(&x, Token(1));
    let second = claim("b", &[(x.clone(), 1)]);
    assert_eq!(ask(&mut state, &second), refused(&["a"]));
    state.clear_remains(&x, Token(1));
    let claimed = state.claim(&second, at(0)).expect("it makes sense");
    let taken = Taken::Reclaimed { from: HolderId::new("a") };
    assert_eq!(claimed, Claimed::Held(vec![Hold { name: x, token: Token(2), taken }]));
}

#[test]
fn a_lock_needs_no_declaration_and_a_semaphore_does() {
    let mut state = CoordinationState::default();
    let undeclared = state.claim(&claim("a", &[(slots("s"), 1)]), at(0));
    assert_eq!(undeclared, Err(ClaimError::Undeclared { name: "s".to_owned() }));
    assert_eq!(state.declare("s", 0, at(0)), Err(DeclareError::NoSlots { name: "s".to_owned() }));
    assert!(state.export().names.is_empty(), "nothing was made");
}

#[test]
fn a_capacity_changes_only_without_holders_and_waiters() {
    let mut state = CoordinationState::default();
    let s = slots("s");
    let in_use = |asked| DeclareError::InUse { name: "s".to_owned(), stored: 2, asked };
    state.declare("s", 2, at(0)).expect("it is new");
    assert_eq!(ask(&mut state, &claim("a", &[(s.clone(), 2)])), Ok(vec![1]));
    assert_eq!(state.declare("s", 3, at(0)), Err(in_use(3)), "held");
    assert_eq!(state.declare("s", 2, at(0)), Ok(()), "the same again is fine");
    assert_eq!(ask(&mut state, &claim("b", &[(s.clone(), 1)])), refused(&["a"]));
    release(&mut state, &s, "a", 1);
    assert_eq!(state.declare("s", 3, at(0)), Err(in_use(3)), "waited for");
    state.leave(&HolderId::new("b"), at(0));
    assert_eq!(state.declare("s", 3, at(0)), Ok(()));
    assert_eq!(ask(&mut state, &claim("c", &[(s, 3)])), Ok(vec![2]), "and its tokens still grow");
}

#[test]
fn claims_that_make_no_sense_change_nothing() {
    let mut state = CoordinationState::default();
    state.declare("s", 2, at(0)).expect("it is new");
    let before = state.export();
    let (x, s) = (lock("x"), slots("s"));
    let weight = |source| ClaimError::Weight { name: slots("s"), source };
    let above = crate::WeightError::AboveCapacity { weight: u64::MAX, capacity: 2 };
    for (needs, error) in [
        (vec![], ClaimError::Nothing),
        (vec![(x.clone(), 1), (x.clone(), 1)], ClaimError::Twice { name: x.clone() }),
        (vec![(x.clone(), 2)], ClaimError::LockWeight { name: x.clone() }),
        (vec![(x.clone(), 1), (s.clone(), 0)], weight(crate::WeightError::Zero)),
        (vec![(x, 1), (s, u64::MAX)], weight(above)),
    ] {
        assert_eq!(state.claim(&claim("a", &needs), at(0)), Err(error));
    }
    assert_eq!(state.export(), before);
}

#[test]
fn stale_leases_are_reported_once_and_everything_is_counted() {
    let mut state = CoordinationState::default();
    let x = lock("x");
    let mut first = claim("a", &[(x.clone(), 1)]);
    first.terms = LeaseTerms { heartbeat_timeout: Duration::from_millis(10), max_hold: None };
    first.remains = Remains::Possible;
    assert_eq!(ask(&mut state, &first), Ok(vec![1]));
    let second = claim("b", &[(x.clone(), 1)]);
    assert_eq!(ask_at(&mut state, &second, 11), refused(&["a"]));
    assert_eq!(ask_at(&mut state, &second, 12), refused(&["a"]));
    state.abandon(&x, Token(1));
    state.clear_remains(&x, Token(1));
    assert_eq!(ask_at(&mut state, &second, 13), Ok(vec![2]));
    release(&mut state, &x, "b", 2);
    let stats = state.export().names[&x].stats;
    let expected =
        CoordinationStats { acquired: 2, released: 1, denied: 1, reclaimed: 1, stale: 1 };
    assert_eq!(stats, expected);
    assert_eq!(state.take_events().len(), 6);
    assert!(state.take_events().is_empty());
}

#[test]
fn a_floor_raises_the_tokens_of_every_name() {
    let mut state = CoordinationState::default();
    let x = lock("x");
    assert_eq!(ask(&mut state, &claim("a", &[(x.clone(), 1)])), Ok(vec![1]));
    release(&mut state, &x, "a", 1);
    let mut state =
        CoordinationState::restore(CoordinationRecord { floor: Token(100), ..state.export() });
    assert_eq!(ask(&mut state, &claim("a", &[(x, 1), (lock("y"), 1)])), Ok(vec![101, 101]));
}

#[test]
fn an_upgrade_is_not_bound_by_waiters_for_the_holder() {
    let mut state = CoordinationState::default();
    let s = slots("s");
    state.declare("s", 3, at(0)).expect("it is new");
    assert_eq!(ask(&mut state, &claim("a", &[(s.clone(), 1)])), Ok(vec![1]));
    assert_eq!(ask(&mut state, &claim("b", &[(s.clone(), 3)])), refused(&["a"]));
    assert_eq!(ask(&mut state, &claim("a", &[(s.clone(), 2)])), Ok(vec![1]));
    assert_eq!(state.leases(&s).map(|lease| lease.weight).collect::<Vec<_>>(), [2]);
}

#[test]
fn a_lent_place_counts_in_the_queues_of_limits_alone() {
    let mut state = CoordinationState::default();
    let (x, part) = (lock("x"), Name::Limit("part".to_owned()));
    state.set_limit("part", Amount::from_steps(2), at(0));
    assert_eq!(ask(&mut state, &claim("a", &[(part.clone(), 2)])), Ok(vec![1]));
    assert_eq!(ask(&mut state, &claim("run", &[(part.clone(), 1)])), refused(&["a"]));
    assert_eq!(ask(&mut state, &claim("b", &[(part.clone(), 2)])), refused(&["a"]));
    assert_eq!(ask(&mut state, &claim("c", &[(x.clone(), 1)])), Ok(vec![1]));
    assert_eq!(ask(&mut state, &claim("d", &[(x.clone(), 1)])), refused(&["c"]));
    release(&mut state, &part, "a", 1);
    release(&mut state, &x, "c", 1);
    let mut step = claim("run/step", &[(x.clone(), 1), (part.clone(), 1)]);
    step.in_place_of = Some(HolderId::new("run"));
    assert_eq!(ask(&mut state, &step), refused(&["d"]), "it waits for the lock like all others");
    let mut step = claim("run/other", &[(part.clone(), 1)]);
    assert_eq!(ask(&mut state, &step), refused(&["run", "b"]), "without the place");
    step.in_place_of = Some(HolderId::new("run"));
    assert_eq!(ask(&mut state, &step), Ok(vec![2]));
    assert!(
        state.waiters(&part).any(|waiter| waiter.holder.as_str() == "run"),
        "it keeps the place"
    );
}
