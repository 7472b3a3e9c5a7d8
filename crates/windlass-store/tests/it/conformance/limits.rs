use windlass_core::Amount;
use windlass_store::{
    LimitError, LimitItems, LimitKind, LimitRoom, LimitShare, OnRefusal, StoreError, Topic,
    Transaction,
};

use super::queue::is_notified;
use super::*;

fn amount(text: &str) -> Amount {
    text.parse().expect("an amount")
}

fn set(on: &mut Fixture, name: &str, kind: &LimitKind) -> Result<Vec<HolderId>, StoreError> {
    on.store.transact(|transaction| transaction.limits().set(name, kind))
}

fn set_amount(on: &mut Fixture, name: &str, of: &str) {
    set(on, name, &LimitKind::Amount(amount(of))).expect("it can be set");
}

fn items(names: &[&str]) -> LimitKind {
    let names = names.iter().map(|&name| name.to_owned()).collect();
    LimitKind::Items(LimitItems { names, variable_name: "GPU".to_owned() })
}

fn need(name: &str, of: &str) -> Need {
    Need { name: Name::Limit(name.to_owned()), weight: amount(of).steps() }
}

fn claim(on: &mut Fixture, holder: &str, name: &str, of: &str) -> Result<Claimed, StoreError> {
    let (holder, needs) = (HolderId::new(holder), [need(name, of)]);
    let claim = Claim::new(&holder, &needs);
    on.store.transact(|transaction| transaction.leases().claim(&claim))
}

fn token(on: &mut Fixture, holder: &str, name: &str, of: &str) -> Token {
    held(claim(on, holder, name, of).expect("the store works"))[0].token
}

fn give_back(on: &mut Fixture, holder: &str, name: &str, token: Token) {
    let (name, holder) = (Name::Limit(name.to_owned()), HolderId::new(holder));
    let released = on.store.transact(|t| t.leases().release(&name, &holder, token));
    assert_eq!(released.expect("the store works"), Answer::Released);
}

fn items_of(on: &mut Fixture, name: &str, token: Token) -> Vec<String> {
    let items = on.store.read(|transaction| transaction.limits().items(name, token));
    items.expect("the store works").map(|items| items.names).unwrap_or_default()
}

fn error<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    result.expect_err("it is refused").to_string()
}

pub(super) fn a_limit_is_shared_by_weight_and_changes_while_it_is_in_use(on: &mut Fixture) {
    set_amount(on, "memory", "64");
    let a = token(on, "a", "memory", "40.5");
    let _ = refused(claim(on, "b", "memory", "30").expect("the store works"));
    set_amount(on, "memory", "80");
    let b = token(on, "b", "memory", "30");
    set_amount(on, "memory", "40");
    give_back(on, "b", "memory", b);
    let _ = refused(claim(on, "c", "memory", "1").expect("the store works"));
    give_back(on, "a", "memory", a);
    assert!(token(on, "c", "memory", "1") > b, "tokens grow");
}

pub(super) fn a_limit_that_is_not_set_or_too_small_is_refused(on: &mut Fixture) {
    let none = error(claim(on, "a", "gpu", "1"));
    assert!(none.contains("windlass limits set gpu=AMOUNT"), "{none}");
    set_amount(on, "gpu", "2");
    let above = error(claim(on, "a", "gpu", "3"));
    assert_eq!(above, "requires 3 of limit \"gpu\", but the limit is 2");
    for (name, kind) in [
        ("slots", LimitKind::Amount(Amount::ONE)),
        ("two words", LimitKind::Amount(Amount::ONE)),
        ("gpu", LimitKind::Amount(Amount::ZERO)),
        ("gpu", LimitKind::Amount(Amount::MAX)),
        ("gpu", items(&[])),
        ("gpu", items(&["0", "0"])),
        ("gpu", items(&["0,1"])),
    ] {
        assert!(matches!(set(on, name, &kind), Err(StoreError::Limit(_))), "{name}: {kind:?}");
    }
}

pub(super) fn no_two_holders_have_the_same_item(on: &mut Fixture) {
    set(on, "gpu", &items(&["x", "y", "z"])).expect("it can be set");
    let (a, b) = (token(on, "a", "gpu", "1"), token(on, "b", "gpu", "2"));
    assert_eq!(items_of(on, "gpu", a), ["x"]);
    assert_eq!(items_of(on, "gpu", b), ["y", "z"]);
    assert!(error(claim(on, "c", "gpu", "0.5")).contains("whole number"));
    give_back(on, "a", "gpu", a);
    set(on, "gpu", &items(&["z", "w", "v"])).expect("holders keep what they have");
    let c = token(on, "c", "gpu", "1");
    assert_eq!(items_of(on, "gpu", c), ["w"]);
    let kind = LimitKind::Amount(Amount::ONE);
    let changed = set(on, "gpu", &kind);
    assert!(matches!(changed, Err(StoreError::Limit(LimitError::KindInUse { .. }))), "{changed:?}");
}

pub(super) fn a_limit_in_use_is_not_removed_and_its_tokens_outlive_it(on: &mut Fixture) {
    let remove = |on: &mut Fixture| on.store.transact(|t| t.limits().remove("gpu"));
    set_amount(on, "gpu", "1");
    let a = token(on, "a", "gpu", "1");
    assert!(matches!(remove(on), Err(StoreError::Limit(LimitError::InUse { .. }))));
    give_back(on, "a", "gpu", a);
    remove(on).expect("it is free");
    assert!(matches!(remove(on), Err(StoreError::Limit(LimitError::Unknown { .. }))));
    assert!(error(claim(on, "a", "gpu", "1")).contains("no limit"));
    set_amount(on, "gpu", "1");
    assert!(token(on, "a", "gpu", "1") > a);
}

pub(super) fn a_lower_limit_wakes_the_waiters_that_need_more(on: &mut Fixture) {
    let wakeup = on.store.register(&Topic::Turn).expect("a wake-up");
    set_amount(on, "gpu", "2");
    let a = token(on, "a", "gpu", "1");
    let (holder, needs) = (HolderId::new("b"), [need("gpu", "2")]);
    let claim_b = Claim { wakeup: Some(wakeup.name()), ..Claim::new(&holder, &needs) };
    let claimed = on.store.transact(|transaction| transaction.leases().claim(&claim_b));
    let _ = refused(claimed.expect("the store works"));
    let kind = LimitKind::Amount(Amount::ONE);
    assert_eq!(set(on, "gpu", &kind).expect("it can be set"), [HolderId::new("b")]);
    assert!(is_notified(&wakeup));
    give_back(on, "a", "gpu", a);
    token(on, "c", "gpu", "1");
}

/// Returns what a participant may take at its place.
fn room(on: &mut Fixture, waiter: &str) -> LimitRoom {
    let names = ["gpu".to_owned()].into();
    let waiter = HolderId::new(waiter);
    let is_own = |holder: &HolderId| holder.as_str().starts_with(&format!("{waiter}/"));
    let share = LimitShare { place: &waiter, priority: 0, is_own: &is_own, ended: &[] };
    let rooms = on.store.transact(|transaction| transaction.limits().rooms(&names, &share));
    rooms.expect("the store works")["gpu"]
}

pub(super) fn a_participant_takes_what_those_before_its_place_leave(on: &mut Fixture) {
    set_amount(on, "gpu", "4");
    let free = |amount: &str| LimitRoom { limit: Amount::from(4), free: self::amount(amount) };
    assert_eq!(room(on, "run"), free("4"));
    let a = token(on, "a", "gpu", "3");
    assert_eq!(room(on, "run"), free("1"));
    let join = |on: &mut Fixture, holder: &str, of: &str| {
        let (holder, needs) = (HolderId::new(holder), [need("gpu", of)]);
        let claim = Claim::new(&holder, &needs);
        on.store.transact(|transaction| transaction.leases().refusal(&claim))
    };
    for (waiter, of) in [("run", "2"), ("other", "2")] {
        assert!(join(on, waiter, of).expect("the store works").is_some(), "{waiter} waits");
    }
    assert_eq!(
        (room(on, "run"), room(on, "other"), room(on, "new")),
        (free("1"), free("0"), free("0"))
    );
    give_back(on, "a", "gpu", a);
    assert_eq!(
        (room(on, "run"), room(on, "other"), room(on, "new")),
        (free("4"), free("2"), free("0"))
    );
    let run = HolderId::new("run");
    let mut step = |holder: &str, of: &str| {
        let (holder, needs) = (HolderId::new(holder), [need("gpu", of)]);
        let on_refusal = OnRefusal::GiveUp;
        let claim = Claim { in_place_of: Some(&run), on_refusal, ..Claim::new(&holder, &needs) };
        on.store.transact(|t: &Transaction<'_>| t.leases().claim(&claim)).expect("the store works")
    };
    assert!(matches!(step("run/1", "3"), Claimed::Held(_)), "at the place of its run");
    assert!(matches!(step("run/2", "2"), Claimed::Refused(_)));
    assert_eq!((room(on, "run"), room(on, "other")), (free("1"), free("0")));
    on.store.transact(|t| t.leases().leave_queue(&run)).expect("the store works");
    assert_eq!((room(on, "run"), room(on, "other")), (free("0"), free("1")));
    assert!(join(on, "new/1", "1").expect("the store works").is_some(), "a work of its own");
    let b = HolderId::new("other");
    on.store.transact(|t| t.leases().leave_queue(&b)).expect("the store works");
    assert_eq!((room(on, "new"), room(on, "next")), (free("1"), free("0")), "binds only others");
}
