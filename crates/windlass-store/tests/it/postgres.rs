//! What is special about a store in PostgreSQL: the server and the connections to it may go.

use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use windlass_core::WorkId;
use windlass_sim::postgres::{SOCKET, Server};
use windlass_store::{
    Backend, Claim, Claimed, HolderId, LeaseTerms, LogBatch, LogChunk, LogPosition, LogStore,
    LogStream, ManualClock, Name, Need, Postgres, RunRecord, Store, StoreError,
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

/// What the next commit loses, with its connection.
#[derive(Clone, Copy, Debug)]
enum Lost {
    /// The server never hears of it.
    Commit,
    /// The client never hears the answer.
    Answer,
}

/// Passes on what clients and a server tell each other.
struct Proxy {
    dir: TempDir,
    lose: Arc<Mutex<Option<Lost>>>,
}

impl Proxy {
    fn start(server: &Server) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let listener = UnixListener::bind(dir.path().join(SOCKET)).expect("a socket");
        let (socket, lose) = (server.socket(), Arc::<Mutex<Option<Lost>>>::default());
        let shared = Arc::clone(&lose);
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.expect("a client connects");
                let server = UnixStream::connect(&socket).expect("the server listens");
                let (from, to) = (server.try_clone(), client.try_clone());
                let (mut from, mut to) = (from.expect("a handle"), to.expect("a handle"));
                thread::spawn(move || io::copy(&mut from, &mut to));
                let lose = Arc::clone(&shared);
                thread::spawn(move || pass_on(client, server, &lose));
            }
        });
        Self { dir, lose }
    }

    /// Returns the URL of a store by way of this proxy.
    fn url(&self, server: &Server, url: &str) -> String {
        let direct = server.socket().parent().expect("a directory").display().to_string();
        url.replace(&direct, &self.dir.path().display().to_string())
    }
}

/// Passes on what a client says, until a commit is to be lost.
fn pass_on(mut client: UnixStream, mut server: UnixStream, lose: &Mutex<Option<Lost>>) {
    let mut buffer = [0; 8192];
    while let Ok(read @ 1..) = client.read(&mut buffer) {
        let said = &buffer[..read];
        let is_commit = said.windows(6).any(|word| word == b"COMMIT");
        let lost = is_commit.then(|| lose.lock().expect("no test panics here").take()).flatten();
        if matches!(lost, Some(Lost::Answer)) {
            client.shutdown(Shutdown::Both).expect("it is connected");
        }
        if matches!(lost, Some(Lost::Commit)) || server.write_all(said).is_err() {
            break;
        }
        if lost.is_some() {
            // A server that cannot answer what came before the commit does not come to that.
            server.shutdown(Shutdown::Write).expect("it is connected");
            let _ = io::copy(&mut server, &mut io::sink());
        }
    }
    let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
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
fn a_commit_whose_answer_is_lost_is_looked_up() {
    for (lost, calls_expected) in [(Lost::Answer, 1), (Lost::Commit, 2)] {
        let Some(server) = Server::shared() else { return };
        let url = server.new_store();
        let proxy = Proxy::start(server);
        let backend = Postgres::create(&proxy.url(server, &url)).expect("it can be made");
        let dir = std::env::temp_dir();
        let mut store = Store::new(Box::new(backend), Arc::new(ManualClock::default()), &dir);
        let mut calls = 0;
        *proxy.lose.lock().expect("no test panics here") = Some(lost);
        let committed = store.transact(|tx| {
            calls += 1;
            tx.events().emit("a")
        });
        committed.expect("the server knows what has become of it");
        assert_eq!((calls, emitted(&mut store)), (calls_expected, 1), "{lost:?}");
    }
}

#[test]
fn what_a_body_that_panics_has_written_is_never_committed() {
    let Some(server) = Server::shared() else { return };
    let backend = Postgres::create(&server.new_store()).expect("it can be made");
    let dir = std::env::temp_dir();
    let mut store = Store::new(Box::new(backend), Arc::new(ManualClock::default()), &dir);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        store.transact::<()>(|tx| {
            tx.events().emit("lost")?;
            panic!("as a test wants it");
        })
    }));
    assert!(panicked.is_err());
    store.transact(|tx| tx.events().emit("kept")).expect("the store works");
    assert_eq!(emitted(&mut store), 1);
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
    // The first writer after a start of the server notes it, and the next ones write nothing by themselves.
    let noted =
        first.transact(durability, &mut |_| panic!("it does not wait"), &mut |_| Ok(Vec::new()));
    noted.expect("the store works");
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
            tables.append_event("a", 0).map(|_| Vec::new())
        })
        .expect("the store works");
    assert_eq!(asked, 1);
}

/// Makes the tables what they were in version 1, of which this version has used nothing else.
const FIRST: &str = "DROP TABLE step_output, run_worker, log_chunk, log_stream, step_change;
    ALTER TABLE worker DROP COLUMN offer, DROP COLUMN about; ALTER TABLE run_queue DROP COLUMN changed;
    ALTER TABLE meta RENAME COLUMN era TO boot; ALTER TABLE meta RENAME COLUMN eras TO epoch;
    ALTER TABLE meta DROP COLUMN clock_us, DROP COLUMN ahead_us, ADD COLUMN machine TEXT;
    ALTER TABLE lease DROP COLUMN frame, DROP COLUMN host, DROP COLUMN doubted;
    ALTER TABLE waiter DROP COLUMN frame, DROP COLUMN host;
    ALTER TABLE run DROP COLUMN machine, DROP COLUMN host;
    UPDATE meta SET version = 1";

/// Runs statements in the schema of a store, by a connection of its own.
fn by_hand(url: &str, sql: &str) {
    let (_, schema) = url.split_once("&schema=").expect("it names one");
    windlass_sim::postgres::sql(url, &format!("SET search_path = {schema}; {sql}"));
}

#[test]
fn an_older_store_is_migrated_by_the_first_that_opens_it_and_nothing_is_lost() {
    let Some(server) = Server::shared() else { return };
    let url = server.new_store();
    let open = |url: &str| {
        let backend = Postgres::open(url).expect("it is migrated");
        Store::new(Box::new(backend), Arc::new(ManualClock::default()), &std::env::temp_dir())
    };
    drop(Postgres::create(&url).expect("it can be made"));
    open(&url).transact(|tx| tx.events().emit("a")).expect("the store works");
    by_hand(&url, FIRST);
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let url = url.clone();
            thread::spawn(move || open(&url).transact(|tx| tx.events().emit("b")))
        })
        .collect();
    for thread in threads {
        thread.join().expect("it ends").expect("the store works");
    }
    let mut store = open(&url);
    assert_eq!(emitted(&mut store), 5);
    let outputs = store.read(|tx| tx.steps().outputs("abc"));
    assert!(outputs.expect("there is a table").is_empty());
}

#[test]
fn a_program_that_is_older_than_the_store_is_refused_also_in_the_middle_of_its_work() {
    let Some(server) = Server::shared() else { return };
    let url = server.new_store();
    let backend = Postgres::create(&url).expect("it can be made");
    let dir = std::env::temp_dir();
    let mut store = Store::new(Box::new(backend), Arc::new(ManualClock::default()), &dir);
    store.transact(|tx| tx.events().emit("a")).expect("the store works");
    by_hand(&url, "UPDATE meta SET version = 99; ALTER TABLE event RENAME TO happening");
    let expected = "has version 99, but this version of windlass supports at most ";
    let check = |refused: StoreError| {
        assert!(refused.is_final(), "{refused}");
        let text = refused.to_string();
        assert!(text.contains(expected) && text.ends_with("use a newer windlass"), "{text}");
    };
    check(store.transact(|tx| tx.events().emit("b")).expect_err("it is too old"));
    check(store.read(|tx| tx.events().after(0, 9)).expect_err("it is too old"));
    check(Postgres::open(&url).map(drop).expect_err("it is too old"));
    check(Postgres::create(&url).map(drop).expect_err("it is too old"));
}

fn stream(token: u64, run: &str, file: &str) -> LogStream {
    let (run, file, worker) = (run.to_owned(), file.to_owned(), "one".to_owned());
    LogStream { token, run, work: WorkId::new(token), file, worker }
}

fn chunk(token: u64, at: u64, text: &str) -> LogChunk {
    LogChunk { token, at, bytes: text.as_bytes().to_vec() }
}

/// Returns a store that keeps logs and has runs of these ids.
fn with_runs(ids: &[&str]) -> Option<Store> {
    let url = Server::shared()?.new_store();
    let backend = Postgres::create(&url).expect("it can be made");
    let dir = std::env::temp_dir();
    let mut store = Store::new(Box::new(backend), Arc::new(ManualClock::default()), &dir);
    for id in ids {
        let run = RunRecord { id: (*id).to_owned(), ..RunRecord::default() };
        store.transact(|tx| tx.runs().insert(&run)).expect("the store works");
    }
    Some(store)
}

/// Returns the text of a log, with a mark where something was left out.
fn text_of(store: &mut Store, run: &str, file: &str, most: u64) -> String {
    let (mut text, mut position) = (String::new(), LogPosition::default());
    loop {
        let next = logs(store).after(run, file, position, most).expect("the store works");
        if next.is_empty() {
            return text;
        }
        for (LogChunk { token, at, bytes }, _) in next {
            let expected = if token == position.token { position.at } else { 0 };
            text += if at == expected { "" } else { "~" };
            text += std::str::from_utf8(&bytes).expect("it was text");
            position = LogPosition { token, at: at + bytes.len() as u64 };
        }
    }
}

fn logs(store: &mut Store) -> &mut dyn LogStore {
    store.logs().expect("it keeps logs")
}

#[test]
fn a_log_is_what_orders_have_printed_one_after_the_other() {
    let Some(mut store) = with_runs(&["abc"]) else { return };
    let put = |store: &mut Store, chunks: &[LogChunk]| {
        let streams = vec![stream(7, "abc", "a"), stream(9, "abc", "a"), stream(8, "abc", "b")];
        let batch = LogBatch { streams, chunks: chunks.to_vec(), left_out: Vec::new() };
        logs(store).put(&batch).expect("the store works");
    };
    put(&mut store, &[chunk(9, 0, "later"), chunk(7, 0, "ab"), chunk(8, 3, "other")]);
    // The last chunk has grown, and the answer to that was lost.
    put(&mut store, &[chunk(7, 0, "abcd")]);
    put(&mut store, &[chunk(7, 0, "abcd"), chunk(7, 4, "ef")]);
    for most in [1, 3, 100] {
        assert_eq!(text_of(&mut store, "abc", "a", most), "abcdeflater");
        assert_eq!(text_of(&mut store, "abc", "b", most), "~other");
    }
    let known = logs(&mut store).of_run("abc").expect("the store works");
    let known: Vec<_> = known.iter().map(|l| (&*l.file, l.length, l.end.token, l.end.at)).collect();
    assert_eq!(known, [("a", 11, 9, 5), ("b", 5, 8, 8)]);
    assert_eq!(logs(&mut store).stored_of(7).expect("the store works"), 6);
    assert_eq!(logs(&mut store).stored_of(99).expect("the store works"), 0);
    let within = LogPosition { token: 7, at: 3 };
    let rest = logs(&mut store).after("abc", "a", within, 1).expect("the store works");
    assert_eq!(rest[0].0, chunk(7, 3, "d"), "the chunk has grown since it was read");
}

#[test]
fn the_end_of_a_log_is_found_without_reading_it() {
    let Some(mut store) = with_runs(&["abc"]) else { return };
    let streams = vec![stream(7, "abc", "a"), stream(9, "abc", "a"), stream(8, "abc", "b")];
    let chunks =
        vec![chunk(7, 0, "earlier"), chunk(9, 0, "ab"), chunk(9, 4, "ef"), chunk(9, 6, "gh")];
    let batch = LogBatch { streams, chunks, left_out: Vec::new() };
    logs(&mut store).put(&batch).expect("the store works");
    let ends = logs(&mut store).ends("abc", &["a", "b", "c"]).expect("the store works");
    assert_eq!(ends, [("a".to_owned(), LogPosition { token: 9, at: 8 })]);
    let mut tail = |file, most| logs(&mut store).tail("abc", file, most).expect("the store works");
    assert_eq!(tail("a", 1), Some(chunk(9, 7, "h")));
    assert_eq!(tail("a", 3), Some(chunk(9, 5, "fgh")));
    assert_eq!(tail("a", 100), Some(chunk(9, 4, "efgh")), "what is before was left out");
    assert_eq!((tail("b", 100), tail("c", 100)), (None, None));
}

#[test]
fn logs_of_runs_and_steps_are_deleted_bit_by_bit() {
    let Some(mut store) = with_runs(&["abc", "xyz"]) else { return };
    let batch = |run: &str, first: u64, many: u64| LogBatch {
        streams: vec![stream(first, run, "a"), stream(first + 1, run, "b")],
        chunks: (0..many)
            .flat_map(|at| [chunk(first, at, "x"), chunk(first + 1, at, "y")])
            .collect(),
        left_out: vec![(first, 1, 3)],
    };
    logs(&mut store).put(&batch("abc", 1, 600)).expect("the store works");
    logs(&mut store).put(&batch("xyz", 11, 3)).expect("the store works");
    logs(&mut store).put(&batch("none", 21, 3)).expect("those of no run are dropped");
    let all = |store: &mut Store, run: &str| {
        let known = logs(store).of_run(run).expect("the store works");
        known.into_iter().map(|log| (log.file, log.length)).collect::<Vec<_>>()
    };
    let named = |file: &str, length| (file.to_owned(), length);
    assert_eq!(all(&mut store, "abc"), [named("a", 598), named("b", 600)]);
    assert!(all(&mut store, "none").is_empty());
    let works = logs(&mut store).works("abc").expect("the store works");
    assert_eq!(works.iter().map(|work| work.get()).collect::<Vec<_>>(), [1, 2]);
    let mut rounds = 0;
    while logs(&mut store).delete_some("abc", WorkId::new(2)).expect("the store works") {
        rounds += 1;
    }
    assert_eq!((rounds, all(&mut store, "abc")), (1, vec![named("a", 598)]));
    store.transact(|tx| tx.runs().delete("abc")).expect("the store works");
    let orphans = logs(&mut store).of_no_run().expect("the store works");
    assert_eq!(orphans, [("abc".to_owned(), 598)]);
    while logs(&mut store).delete_some("abc", None).expect("the store works") {}
    assert!(logs(&mut store).of_no_run().expect("the store works").is_empty());
    assert_eq!(all(&mut store, "xyz"), [named("a", 1), named("b", 3)]);
}

#[test]
fn logs_are_stored_while_another_writer_has_the_turn() {
    let Some(mut store) = with_runs(&["abc"]) else { return };
    let mut other = store.try_clone().expect("another connection");
    let batch = LogBatch {
        streams: vec![stream(1, "abc", "a")],
        chunks: vec![chunk(1, 0, "x")],
        left_out: Vec::new(),
    };
    let put = store.transact(|tx| {
        tx.events().emit("a")?;
        logs(&mut other).put(&batch)
    });
    put.expect("it does not wait");
}
