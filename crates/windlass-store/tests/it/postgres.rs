//! What is special about a store in PostgreSQL: the server and the connections to it may go.

use std::sync::Arc;
use std::time::Duration;

use windlass_sim::postgres::Server;
use windlass_store::{
    Backend, Claim, Claimed, HolderId, LeaseTerms, ManualClock, Name, Need, Postgres, Store,
    StoreError,
};

const TIMEOUT: Duration = Duration::from_secs(10);

/// A server of its own with a store, if PostgreSQL is installed.
struct Bench {
    server: Server,
    url: String,
    clock: ManualClock,
}

impl Bench {
    fn new() -> Option<Self> {
        let server = Server::own()?;
        let url = server.new_store();
        Some(Self { server, url, clock: ManualClock::default() })
    }

    fn open(&self) -> Store {
        let backend = Postgres::create(&self.url).expect("it can be made");
        let dir = std::env::temp_dir();
        Store::new(Box::new(backend), Arc::new(self.clock.clone()), &dir)
    }
}

fn claim(store: &mut Store, holder: &str) -> Claimed {
    let (holder, needs) = (HolderId::new(holder), [Need::one(Name::Lock("x".to_owned()))]);
    let terms = LeaseTerms { heartbeat_timeout: TIMEOUT, max_hold: None };
    let claim = Claim { terms, ..Claim::new(&holder, &needs) };
    store.transact(|tx| tx.leases().claim(&claim)).expect("the store works")
}

fn emitted(store: &mut Store) -> u64 {
    store.last_event().expect("the store works")
}

#[test]
fn a_transaction_whose_server_crashes_is_repeated_and_committed_once() {
    let Some(bench) = Bench::new() else { return };
    let mut store = bench.open();
    let mut calls = 0;
    let committed = store.transact(|tx| {
        calls += 1;
        tx.events().emit("a")?;
        if calls == 1 {
            bench.server.crash();
        }
        tx.events().emit("b")
    });
    committed.expect("the second call succeeds");
    assert_eq!((calls, emitted(&mut store)), (2, 2));
}

#[test]
fn a_connection_that_is_lost_between_transactions_is_not_noticed() {
    let Some(bench) = Bench::new() else { return };
    let mut store = bench.open();
    store.transact(|tx| tx.events().emit("a")).expect("the store works");
    bench.server.crash();
    assert_eq!(emitted(&mut store), 1, "a commit survives the crash");
    bench.server.crash();
    store.transact(|tx| tx.events().emit("b")).expect("it connects again");
    assert_eq!(emitted(&mut store), 2);
}

#[test]
fn holders_that_could_not_reach_a_crashed_server_keep_their_leases() {
    let Some(bench) = Bench::new() else { return };
    let mut store = bench.open();
    assert!(matches!(claim(&mut store, "a"), Claimed::Held(_)));
    bench.server.crash();
    bench.clock.advance(2 * TIMEOUT);
    assert!(matches!(claim(&mut store, "b"), Claimed::Refused(_)), "a could not send heartbeats");
    bench.clock.advance(2 * TIMEOUT);
    assert!(matches!(claim(&mut store, "b"), Claimed::Held(_)), "a could, and did not");
}

#[test]
fn notifications_go_on_after_a_crash() {
    let Some(bench) = Bench::new() else { return };
    let (mut store, waiting) = (bench.open(), bench.open());
    let wakeup = waiting.register(&windlass_store::Topic::Events).expect("a wake-up");
    bench.server.crash();
    assert!(crate::conformance::is_notified(&wakeup), "it may have missed something");
    wakeup.drain();
    store.transact(|tx| tx.events().emit("a")).expect("the store works");
    assert!(crate::conformance::is_notified(&wakeup));
}

#[test]
fn a_database_without_a_store_is_named_with_what_to_do() {
    let Some(server) = Server::shared() else { return };
    let url = server.new_store();
    let refused = Postgres::open(&url).map(|_| ()).expect_err("there is none").to_string();
    let advice = format!("create it with: windlass store init --state '{url}'");
    assert!(refused.ends_with(&advice), "{refused}");
    Postgres::create(&url).expect("it can be made");
    Postgres::create(&url).expect("it may be made again");
    Postgres::open(&url).expect("now there is one");
}

#[test]
fn a_server_that_cannot_be_reached_is_named_without_the_password() {
    let url = "postgres://me:secret@127.0.0.1:1/x?sslmode=disable";
    let refused = Postgres::open(url).map(|_| ()).expect_err("nothing listens there");
    assert!(matches!(refused, StoreError::DatabaseAway { .. }), "{refused}");
    let text = refused.to_string();
    assert!(text.contains("postgres://me@127.0.0.1:1/x") && !text.contains("secret"), "{text}");
}

#[test]
fn a_writer_that_waits_for_another_one_is_asked_whether_to_go_on() {
    let Some(server) = Server::shared() else { return };
    let url = server.new_store();
    let mut first = Postgres::create(&url).expect("it can be made");
    let mut second = Postgres::open(&url).expect("there is one");
    let (mut asked, durability) = (0, windlass_store::Durability::Full);
    first
        .transact(durability, &mut |_| panic!("it does not wait"), &mut |tables| {
            let waited = second.transact(
                durability,
                &mut |wait| {
                    asked += 1;
                    std::ops::ControlFlow::Break(StoreError::Busy(wait.blocker()))
                },
                &mut |_| panic!("it has no turn"),
            );
            assert!(matches!(waited, Err(StoreError::Busy(_))));
            tables.append_event("a", 0).map(drop)
        })
        .expect("the store works");
    assert_eq!(asked, 1);
}
