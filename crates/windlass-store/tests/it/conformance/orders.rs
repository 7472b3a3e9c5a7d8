//! Orders and their reports.

use windlass_core::Token;
use windlass_store::{
    Life, NewOrder, RunRecord, StoreError, StoredWorker, Transaction, WorkerState,
};

use super::*;

const LIFE: u64 = 7;

fn life() -> Life {
    Life { worker: "w".to_owned(), token: Token(LIFE) }
}

/// Writes orders of these keys for the run `abc`, and returns their tokens.
fn write(on: &mut Fixture, keys: &[&str]) -> Vec<u64> {
    let order =
        |key: &&str| NewOrder { key: (*key).to_owned(), life: life(), text: format!("do {key}") };
    let orders: Vec<_> = keys.iter().map(order).collect();
    let written = on.store.transact(|transaction| transaction.orders().write("abc", &orders));
    written.expect("the store works")
}

/// Reports the ends of orders whose worker is over, which needs no lease.
fn report(on: &mut Fixture, reports: &[(u64, &str)]) {
    let reports: Vec<_> =
        reports.iter().map(|(token, text)| (*token, (*text).to_owned())).collect();
    let put = on.store.transact(|transaction| transaction.orders().bury(&reports));
    put.expect("the store works");
}

fn read<T>(on: &mut Fixture, look: impl Fn(&Transaction<'_>) -> Result<T, StoreError>) -> T {
    on.store.read(|transaction| look(transaction)).expect("the store works")
}

/// Returns the keys and reports that are taken.
fn take(on: &mut Fixture) -> Vec<(u64, String, String)> {
    let taken = on.store.transact(|transaction| transaction.orders().take());
    let taken = taken.expect("the store works").into_iter();
    taken.map(|report| (report.token, report.key, report.text)).collect()
}

pub(super) fn an_order_is_there_until_its_report_is_taken(on: &mut Fixture) {
    let tokens = write(on, &["a", "b", "c"]);
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    let [a, b, c] = tokens[..] else { panic!("{tokens:?}") };
    let orders = read(on, |transaction| transaction.orders().of_life(&life(), a));
    let found: Vec<_> = orders.iter().map(|order| (order.token, order.text.as_str())).collect();
    assert_eq!(found, [(b, "do b"), (c, "do c")]);
    assert!(!read(on, |transaction| transaction.orders().has_reports()));
    report(on, &[(c, "third"), (a, "first")]);
    assert!(read(on, |transaction| transaction.orders().has_reports()));
    let end = |token, key: &str, text: &str| (token, key.to_owned(), text.to_owned());
    assert_eq!(take(on), [end(a, "a", "first"), end(c, "c", "third")]);
    assert_eq!(take(on), []);
    let left = read(on, |transaction| transaction.orders().of_run("abc"));
    assert_eq!(left.into_iter().map(|order| order.token).collect::<Vec<_>>(), [b]);
    let later = write(on, &["a"]);
    assert!(later[0] > c, "the number of an order is never used again");
}

pub(super) fn the_first_report_of_an_order_counts(on: &mut Fixture) {
    let tokens = write(on, &["a", "b"]);
    report(on, &[(tokens[0], "first"), (tokens[1] + 1, "of no order")]);
    report(on, &[(tokens[0], "again"), (tokens[1], "other")]);
    let texts: Vec<_> = take(on).into_iter().map(|(_, _, text)| text).collect();
    assert_eq!(texts, ["first", "other"]);
    // The reporter may not have learned that it was taken.
    report(on, &[(tokens[0], "once more")]);
    assert_eq!(take(on), []);
}

pub(super) fn orders_and_reports_are_deleted_with_their_run(on: &mut Fixture) {
    let run = RunRecord { id: "abc".to_owned(), dir: "/".into(), ..RunRecord::default() };
    on.store.transact(|transaction| transaction.runs().insert(&run)).expect("the store works");
    let tokens = write(on, &["a"]);
    report(on, &[(tokens[0], "ended")]);
    on.store.transact(|transaction| transaction.runs().delete("abc")).expect("the store works");
    assert!(!read(on, |transaction| transaction.orders().has_reports()));
    assert_eq!(take(on), []);
}

pub(super) fn workers_and_their_names_in_runs_are_kept(on: &mut Fixture) {
    let run = RunRecord { id: "placed".to_owned(), ..RunRecord::default() };
    let worker = |offer: &str| StoredWorker {
        life: life(),
        slots: 3,
        offer: offer.to_owned(),
        state: WorkerState::Up,
        since_ms: 7,
        about: r#"{"pid":7}"#.to_owned(),
    };
    let write = on.store.transact(|transaction| {
        transaction.runs().insert(&run)?;
        transaction.orders().put_worker(&worker("nothing"))?;
        transaction.orders().put_worker(&worker("a \"text\""))?;
        transaction.orders().name_worker("placed", 0, "w")?;
        transaction.orders().name_worker("placed", 1, "ä b")
    });
    write.expect("the store works");
    assert_eq!(read(on, |tx| tx.orders().leased_workers()), [(worker("a \"text\""), None)]);
    assert_eq!(read(on, |tx| tx.orders().worker_names("placed")), ["w", "ä b"]);
    assert!(read(on, |tx| tx.orders().worker_names("other")).is_empty());
    let delete = on.store.transact(|transaction| {
        transaction.orders().delete_worker(&life())?;
        transaction.runs().delete("placed")
    });
    delete.expect("the store works");
    assert!(read(on, |tx| tx.orders().worker_names("placed")).is_empty());
    assert!(read(on, |tx| tx.orders().leased_workers()).is_empty());
}

pub(super) fn the_workers_whose_leases_last_are_found_with_their_processes(on: &mut Fixture) {
    let process = here();
    let worker = |name: &str, token| StoredWorker {
        life: Life { worker: name.to_owned(), token },
        slots: 1,
        offer: String::new(),
        about: String::new(),
        state: WorkerState::Up,
        since_ms: 0,
    };
    let claim = |on: &mut Fixture, name: Name| {
        let (holder, needs) = (HolderId::new(name.to_string()), [Need::one(name)]);
        let terms = LeaseTerms { heartbeat_timeout: TIMEOUT, max_hold: None };
        let claim = Claim { terms, process: Some(&process), ..Claim::new(&holder, &needs) };
        held(on.store.transact(|t| t.leases().claim(&claim)).expect("the store works"))[0].token
    };
    let live = claim(on, Name::Worker("live".to_owned()));
    let later = claim(on, Name::Worker("later".to_owned()));
    claim(on, Name::Lock("live".to_owned()));
    let all = [
        worker("gone", live),
        // A life that another one has followed.
        worker("later", Token(later.0 + 1)),
        worker("live", live),
    ];
    let put = on.store.transact(|transaction| {
        all.iter().try_for_each(|worker| transaction.orders().put_worker(worker))
    });
    put.expect("the store works");
    let leased = read(on, |transaction| transaction.orders().leased_workers());
    let found: Vec<_> = leased.iter().map(|(worker, lease)| (worker, lease.is_some())).collect();
    assert_eq!(found, [(&all[0], false), (&all[1], false), (&all[2], true)]);
    let found = read(on, |transaction| transaction.orders().live_workers());
    assert_eq!(found, [(all[2].clone(), process.clone())]);
    on.clock.advance(TIMEOUT * 2);
    assert_eq!(read(on, |transaction| transaction.orders().live_workers()), []);
    assert!(read(on, |transaction| transaction.orders().leased_workers())[2].1.is_some());
}
