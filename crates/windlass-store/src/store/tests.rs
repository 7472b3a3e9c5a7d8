use tempfile::TempDir;
use windlass_core::{Happening, HolderId, Timestamp, Token, WorkId};

use super::*;
use crate::process::Process;
use crate::transaction::{Claim, Claimed, Name};

fn store() -> (TempDir, Store) {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path()).expect("a new store");
    (dir, store)
}

fn claim(store: &mut Store, holder: &str, names: &[&str]) -> Claimed {
    claim_as(store, holder, names, &Process::current().expect("this is Linux"))
}

fn claim_as(store: &mut Store, holder: &str, names: &[&str], process: &Process) -> Claimed {
    let names: Vec<_> = names.iter().map(|name| Name::Lock((*name).to_owned())).collect();
    let holder = HolderId::new(holder);
    let claim = Claim { holder: &holder, process, names: &names };
    store.transact(|transaction| transaction.claim(&claim)).expect("the store works")
}

fn release(store: &mut Store, holder: &str, name: &str, token: u64) -> bool {
    let name = Name::Lock(name.to_owned());
    let released = store
        .transact(|transaction| transaction.release(&name, &HolderId::new(holder), Token(token)));
    released.expect("the store works")
}

fn refused_by(claimed: &Claimed) -> &str {
    match claimed {
        Claimed::Refused(refused) => refused.by.as_str(),
        Claimed::Held(_) => panic!("it was not refused"),
    }
}

fn held(tokens: &[u64]) -> Claimed {
    Claimed::Held(tokens.iter().map(|&token| Token(token)).collect())
}

fn fact(number: u64) -> Fact {
    let work = WorkId::new(number).expect("not zero");
    Fact { at: Timestamp::from_nanos(number), what: Happening::Submitted { work } }
}

#[test]
fn several_names_are_taken_together_or_not_at_all() {
    let (_dir, mut store) = store();
    assert_eq!(claim(&mut store, "a", &["x"]), held(&[1]));
    assert_eq!(refused_by(&claim(&mut store, "b", &["y", "x"])), "a");
    assert_eq!(claim(&mut store, "c", &["y"]), held(&[1]), "y was not taken by b");
}

#[test]
fn who_was_refused_first_is_served_first() {
    let (_dir, mut store) = store();
    claim(&mut store, "a", &["x"]);
    claim(&mut store, "b", &["x"]);
    claim(&mut store, "c", &["x"]);
    assert!(release(&mut store, "a", "x", 1));
    assert_eq!(refused_by(&claim(&mut store, "c", &["x"])), "b", "b stands before c");
    assert_eq!(refused_by(&claim(&mut store, "d", &["x"])), "b", "and before a newcomer");
    assert_eq!(claim(&mut store, "b", &["x"]), held(&[2]));
    assert!(release(&mut store, "b", "x", 2));
    assert_eq!(claim(&mut store, "c", &["x"]), held(&[3]));
}

#[test]
fn a_place_in_line_holds_only_what_refused_it() {
    let (_dir, mut store) = store();
    claim(&mut store, "a", &["x"]);
    claim(&mut store, "b", &["x", "y"]);
    assert_eq!(claim(&mut store, "c", &["y"]), held(&[1]), "y did not refuse b");
}

fn gone() -> Process {
    let mut process = Process::current().expect("this is Linux");
    process.started += 1;
    process
}

#[test]
fn what_a_gone_process_held_is_free() {
    let (_dir, mut store) = store();
    assert_eq!(claim_as(&mut store, "dead", &["x"], &gone()), held(&[1]));
    assert_eq!(claim(&mut store, "b", &["x"]), held(&[2]), "with a larger token");
    assert!(!release(&mut store, "dead", "x", 1), "an old token is nobody's");
}

#[test]
fn the_place_in_line_of_a_gone_process_is_dropped() {
    let (_dir, mut store) = store();
    claim(&mut store, "a", &["x"]);
    claim_as(&mut store, "dead", &["x"], &gone());
    assert!(release(&mut store, "a", "x", 1));
    assert_eq!(claim(&mut store, "b", &["x"]), held(&[2]));
}

#[test]
fn facts_come_back_as_they_were_written() {
    let (dir, mut store) = store();
    let run = RunRecord {
        id: "abc".to_owned(),
        file: "f".to_owned(),
        text: "t".to_owned(),
        dir: "/".into(),
    };
    let holder = HolderId::new("leader");
    let process = Process::current().expect("this is Linux");
    let name = Name::Run(run.id.clone());
    let claim = Claim { holder: &holder, process: &process, names: std::slice::from_ref(&name) };
    store
        .transact(|transaction| {
            transaction.insert_run(&run)?;
            transaction.claim(&claim)?;
            transaction.append("abc", Token(1), &[fact(1), fact(2)])?;
            transaction.append("abc", Token(1), &[fact(3)])
        })
        .expect("the store works");
    let stale = store.transact(|transaction| transaction.append("abc", Token(0), &[fact(4)]));
    assert!(matches!(stale, Err(StoreError::StaleEpoch { .. })), "{stale:?}");
    drop(store);
    let store = Store::open(dir.path()).expect("the same store");
    assert_eq!(store.facts("abc").expect("it was written"), [fact(1), fact(2), fact(3)]);
    assert_eq!(store.run("ab").expect("by prefix"), run);
    assert!(matches!(store.run("zz"), Err(StoreError::UnknownRun { .. })));
}

#[test]
fn a_failed_transaction_leaves_nothing() {
    let (_dir, mut store) = store();
    let result = store.transact(|transaction| {
        let process = Process::current().expect("this is Linux");
        let names = [Name::Lock("x".to_owned())];
        let holder = HolderId::new("a");
        transaction.claim(&Claim { holder: &holder, process: &process, names: &names })?;
        Err::<(), _>(StoreError::UnknownRun { run: String::new() })
    });
    result.expect_err("it failed");
    assert_eq!(claim(&mut store, "b", &["x"]), held(&[1]));
}

#[test]
fn files_of_others_and_of_the_future_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("store.db");
    let foreign = Connection::open(&path).expect("a file");
    foreign.execute_batch("CREATE TABLE theirs (x)").expect("SQL");
    drop(foreign);
    assert!(matches!(Store::open(dir.path()), Err(StoreError::Foreign { .. })));
    fs::write(&path, "random bytes, long enough not to be taken for an empty file")
        .expect("a file");
    assert!(matches!(Store::open(dir.path()), Err(StoreError::Sqlite(_))));

    let (dir, store) = store();
    store.connection.pragma_update(None, "user_version", VERSION + 1).expect("SQL");
    drop(store);
    assert!(matches!(Store::open(dir.path()), Err(StoreError::Newer { found: 2, .. })));
}
