use windlass_core::{Fact, Happening, Timestamp, WorkId};
use windlass_store::{RunRecord, StoreError};

use super::*;

fn fact(number: u64) -> Fact {
    let work = WorkId::new(number).expect("not zero");
    Fact { at: Timestamp::from_nanos(number), what: Happening::Submitted { work } }
}

fn insert(on: &mut Fixture, id: &str) -> RunRecord {
    let (id, file, text) = (id.to_owned(), "f".to_owned(), "t".to_owned());
    let run = RunRecord { id, file, text, dir: "/".into() };
    on.store.transact(|transaction| transaction.insert_run(&run)).expect("the store works");
    run
}

pub(super) fn facts_come_back_as_they_were_written(on: &mut Fixture) {
    insert(on, "abc");
    assert_eq!(on.tokens("leader", "run/abc"), [1]);
    on.store
        .transact(|transaction| {
            transaction.append("abc", Token(1), &[fact(1), fact(2)])?;
            transaction.append("abc", Token(1), &[fact(3)])
        })
        .expect("the store works");
    assert_eq!(on.store.facts("abc").expect("it was written"), [fact(1), fact(2), fact(3)]);
    assert!(on.store.facts("xyz").expect("it can be read").is_empty());
}

pub(super) fn a_stale_epoch_is_refused(on: &mut Fixture) {
    insert(on, "abc");
    let append = |on: &mut Fixture, epoch| {
        on.store.transact(|transaction| transaction.append("abc", Token(epoch), &[fact(1)]))
    };
    assert!(matches!(append(on, 1), Err(StoreError::StaleEpoch { .. })), "nobody leads it");
    assert_eq!(on.tokens("one", "run/abc"), [1]);
    append(on, 1).expect("it leads");
    on.clock.advance(TIMEOUT * 2);
    append(on, 1).expect("nobody has taken over");
    assert_eq!(on.tokens("two", "run/abc"), [2]);
    assert!(matches!(append(on, 1), Err(StoreError::StaleEpoch { .. })));
    append(on, 2).expect("it leads");
    assert_eq!(on.store.facts("abc").expect("it was written").len(), 3);
}

pub(super) fn runs_are_found_by_the_beginning_of_their_id(on: &mut Fixture) {
    let run = insert(on, "abc");
    insert(on, "axy");
    assert_eq!(on.store.run("ab").expect("it is the only one"), run);
    assert!(matches!(on.store.run("a"), Err(StoreError::AmbiguousRun { .. })));
    assert!(matches!(on.store.run("zz"), Err(StoreError::UnknownRun { .. })));
    let fresh = on.store.transact(|transaction| transaction.run(&transaction.new_run_id()?));
    assert!(matches!(fresh, Err(StoreError::UnknownRun { .. })));
}
