use std::thread;

use windlass_store::{StoreError, Topic};

use super::queue::{is_notified, is_quiet};
use super::*;

fn emit(on: &mut Fixture, name: &str) -> u64 {
    on.store.transact(|transaction| transaction.events().emit(name)).expect("the store works")
}

pub(super) fn events_are_numbered_in_the_order_of_commits(on: &mut Fixture) {
    assert_eq!(on.store.last_event().expect("it can be read"), 0);
    let mut other = on.store.try_clone().expect("a second connection");
    assert_eq!(emit(on, "a"), 1);
    assert_eq!(other.transact(|t| t.events().emit("b")).expect("the store works"), 2);
    assert_eq!(emit(on, "c"), 3);
    let names = |after, limit, store: &mut Store| {
        let events = store.read(|t| t.events().after(after, limit)).expect("it can be read");
        events.into_iter().map(|event| (event.number, event.name)).collect::<Vec<_>>()
    };
    let (a, b, c) = ((1, "a".to_owned()), (2, "b".to_owned()), (3, "c".to_owned()));
    assert_eq!(names(0, 10, &mut other), [a, b.clone(), c.clone()]);
    assert_eq!(names(1, 1, &mut other), [b]);
    assert_eq!(names(2, 10, &mut other), [c]);
    assert!(names(3, 10, &mut other).is_empty());
    assert!(names(u64::MAX, 10, &mut other).is_empty());
}

pub(super) fn a_failed_emit_uses_up_no_number(on: &mut Fixture) {
    let failed = on.store.transact(|transaction| {
        transaction.events().emit("never")?;
        Err::<(), _>(StoreError::UnknownRun { run: String::new() })
    });
    failed.expect_err("it failed");
    assert_eq!(emit(on, "first"), 1);
}

pub(super) fn old_events_are_deleted_and_their_numbers_not_reused(on: &mut Fixture) {
    for (at, name) in [(10, "a"), (20, "b"), (30, "c")] {
        on.clock.set_wall(at);
        emit(on, name);
    }
    let mut forget =
        |before| on.store.transact(|t| t.events().delete_before(before)).expect("it works");
    assert_eq!((forget(20), forget(20)), (1, 0));
    let left = on.store.read(|t| t.events().after(0, 10)).expect("it can be read");
    assert_eq!(left.iter().map(|event| event.number).collect::<Vec<_>>(), [2, 3]);
    on.store.transact(|t| t.events().delete_before(i64::MAX)).expect("it works");
    assert_eq!(on.store.last_event().expect("it can be read"), 3);
    assert_eq!(emit(on, "d"), 4);
}

pub(super) fn every_wakeup_of_a_topic_is_notified(on: &mut Fixture) {
    let register = |topic| on.store.register(&topic).expect("a wake-up");
    let (one, two, turn) =
        (register(Topic::Events), register(Topic::Events), register(Topic::Turn));
    emit(on, "a");
    assert!(is_notified(&one) && is_notified(&two) && is_quiet(&turn));
    one.drain();
    assert!(is_quiet(&one));
    emit(on, "b");
    assert!(is_notified(&one));
}

pub(super) fn requests_are_taken_once(on: &mut Fixture) {
    let wakeup = on.store.register(&Topic::Requests).expect("a wake-up");
    for text in ["approve", "reject"] {
        on.store.transact(|t| t.requests().send("run/step", text)).expect("the store works");
    }
    assert!(is_notified(&wakeup));
    let requests = on.store.read(|t| t.requests().pending("run/step")).expect("it can be read");
    let texts: Vec<_> = requests.iter().map(|request| request.text.as_str()).collect();
    assert_eq!(texts, ["approve", "reject"]);
    assert!(
        on.store.read(|t| t.requests().pending("run/other")).expect("it can be read").is_empty()
    );
    let number = requests[0].number;
    let mut take = || on.store.transact(|t| t.requests().take(number)).expect("the store works");
    assert!(take() && !take());
    assert_eq!(
        on.store.read(|t| t.requests().pending("run/step")).expect("it can be read").len(),
        1
    );
}

pub(super) fn concurrent_writers_lose_nothing(on: &mut Fixture) {
    thread::scope(|scope| {
        for number in 0..8 {
            let mut store = on.store.try_clone().expect("a connection of its own");
            scope.spawn(move || {
                for round in 0..20 {
                    let emitted =
                        store.transact(|t| t.events().emit(&format!("thread:{number}:{round}")));
                    emitted.expect("the store works");
                    let failed = store.transact(|transaction| {
                        transaction.events().emit("never")?;
                        Err::<(), _>(StoreError::UnknownRun { run: String::new() })
                    });
                    assert!(matches!(failed, Err(StoreError::UnknownRun { .. })), "{failed:?}");
                }
            });
        }
    });
    let events = on.store.read(|t| t.events().after(0, usize::MAX)).expect("it can be read");
    assert_eq!(events.len(), 160);
    assert!(events.iter().all(|event| event.name != "never"));
    assert!(events.iter().map(|event| event.number).eq(1..=160), "without gaps");
}
