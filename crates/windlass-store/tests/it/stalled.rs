//! A process that keeps all writers out of a store.

use std::fs::{self, File};
use std::ops::ControlFlow::{Break, Continue};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;
use windlass_store::{
    Claim, Claimed, Durability, HolderId, LeaseTerms, ManualClock, Name, Need, Network, Process,
    ProcessTree, Sqlite, Store, StoreError, Token, WriterWait,
};

const TERMS: LeaseTerms = LeaseTerms { heartbeat_timeout: Duration::from_secs(10), max_hold: None };
const PAUSE: Duration = Duration::from_millis(10);

/// A store whose clock a test moves.
struct Stage {
    dir: TempDir,
    clock: ManualClock,
}

impl Stage {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a directory"), clock: ManualClock::default() }
    }

    fn open(&self) -> Store {
        let backend = Sqlite::open(self.dir.path(), Network::Refuse).expect("it opens");
        Store::new(Box::new(backend), Arc::new(self.clock.clone()), self.dir.path())
    }

    /// Locks the writers' lock, as another process would.
    fn block(&self) -> File {
        let lock = File::open(self.dir.path().join("gate")).expect("it is there");
        lock.lock().expect("no process holds it");
        lock
    }

    /// Has a holder wait until the leases are kept, and then give up.
    fn keep_leases(&self) {
        let mut on_wait = |wait: &dyn WriterWait| match wait.keep_leases() {
            true => Break(StoreError::Interrupted),
            false => Continue(PAUSE),
        };
        let beat = self.open().transact_while(Durability::Process, &mut on_wait, |_| Ok(()));
        assert!(matches!(beat, Err(StoreError::Interrupted)), "{beat:?}");
    }
}

fn claim(store: &mut Store, holder: &str, ended: &[(Name, Token)]) -> Claimed {
    let (holder, needs) = (HolderId::new(holder), [Need::one(name())]);
    let process = Process::current().expect("this is Linux");
    let tree = ProcessTree { tag: "tag".to_owned(), group: None };
    let (process, tree, terms) = (Some(&process), Some(&tree), TERMS);
    let claim = Claim { terms, process, tree, ended, ..Claim::new(&holder, &needs) };
    store.transact(|transaction| transaction.leases().claim(&claim)).expect("the store works")
}

fn name() -> Name {
    Name::Lock("x".to_owned())
}

/// Returns whether the claim is refused because of a lease that has expired.
fn is_expired(claimed: &Claimed) -> bool {
    matches!(claimed, Claimed::Refused(refused) if !refused.leftovers.is_empty())
}

#[test]
fn no_lease_expires_while_nobody_can_write() {
    let stage = Stage::new();
    let mut store = stage.open();
    assert!(matches!(claim(&mut store, "a", &[]), Claimed::Held(_)));
    let block = stage.block();
    stage.clock.advance(TERMS.heartbeat_timeout / 2);
    stage.keep_leases();
    stage.clock.advance(TERMS.heartbeat_timeout * 3);
    block.unlock().expect("it was locked");
    let refused = claim(&mut store, "b", &[]);
    assert!(matches!(refused, Claimed::Refused(_)) && !is_expired(&refused), "{refused:?}");
    stage.clock.advance(TERMS.heartbeat_timeout + PAUSE);
    assert!(is_expired(&claim(&mut store, "b", &[])), "it was refreshed once");
}

#[test]
fn a_lease_that_was_found_stale_before_stays_stale() {
    let stage = Stage::new();
    let mut store = stage.open();
    let Claimed::Held(holds) = claim(&mut store, "a", &[]) else { panic!("it is free") };
    stage.clock.advance(TERMS.heartbeat_timeout + PAUSE);
    assert!(is_expired(&claim(&mut store, "b", &[])));
    let block = stage.block();
    stage.keep_leases();
    block.unlock().expect("it was locked");
    let taken = claim(&mut store, "b", &[(name(), holds[0].token)]);
    assert!(matches!(taken, Claimed::Held(_)), "{taken:?}");
}

#[test]
fn leases_are_not_kept_while_others_can_write() {
    let stage = Stage::new();
    let mut store = stage.open();
    let block = stage.block();
    let log = stage.dir.path().join("store.db-wal");
    let mut looks = 0;
    let mut on_wait = |wait: &dyn WriterWait| {
        assert!(looks == 0 || !wait.keep_leases(), "there was a commit a moment ago");
        append_nothing(&log, looks);
        looks += 1;
        if looks == 50 { Break(StoreError::Interrupted) } else { Continue(PAUSE) }
    };
    store.transact_while(Durability::Process, &mut on_wait, |_| Ok(())).expect_err("it gave up");
    drop(block);
}

/// Changes the write-ahead log as a commit does: its length, or the time of its last change.
fn append_nothing(log: &Path, number: u64) {
    let length = fs::metadata(log).expect("it is there").len();
    let file = File::options().write(true).open(log).expect("it can be written");
    file.set_len(length + number % 2 + 1).expect("there is room");
}

#[test]
fn a_writer_waits_for_another_program_that_writes_to_the_database() {
    let stage = Stage::new();
    let mut store = stage.open();
    let path = stage.dir.path().join("store.db");
    let other = Connection::open(&path).expect("it opens");
    other.execute_batch("BEGIN IMMEDIATE").expect("no process writes");
    let mut blockers = Vec::new();
    let mut on_wait = |wait: &dyn WriterWait| {
        blockers.push(wait.blocker());
        other.execute_batch("COMMIT").expect("it was begun");
        Continue(PAUSE)
    };
    let emit = store.transact_while(Durability::Process, &mut on_wait, |transaction| {
        transaction.events().emit("later")
    });
    assert_eq!(emit.expect("the store works"), 1);
    let [blocker] = &blockers[..] else { panic!("{blockers:?}") };
    assert_eq!((&blocker.path, blocker.pid), (&path, Some(std::process::id())));
}

#[test]
fn a_lock_file_that_was_truncated_is_written_again() {
    for length in [0, 10] {
        for reopen in [false, true] {
            let stage = Stage::new();
            let mut store = stage.open();
            let gate = stage.dir.path().join("gate");
            let whole = fs::read(&gate).expect("it is there");
            File::options()
                .write(true)
                .open(&gate)
                .expect("it opens")
                .set_len(length)
                .expect("room");
            if reopen {
                store = stage.open();
            }
            store.transact(|transaction| transaction.events().emit("e")).expect("it works");
            assert_eq!(fs::read(&gate).expect("it is there"), whole, "{length} {reopen}");
        }
    }
}

#[test]
fn an_index_that_is_removed_or_truncated_is_noticed_before_it_is_used() {
    let lose: [fn(&Path); 3] = [
        |index| fs::remove_file(index).expect("it is there"),
        |index| fs::write(index, "").expect("it can be written"),
        |index| {
            let copy = index.with_extension("copy");
            fs::copy(index, &copy).expect("there is room");
            fs::rename(copy, index).expect("it can be replaced");
        },
    ];
    // The first process that opens a store creates the index anew.
    for (lose, is_new) in lose.into_iter().flat_map(|lose| [(lose, true), (lose, false)]) {
        let stage = Stage::new();
        let index = stage.dir.path().join("store.db-shm");
        let mut store = stage.open();
        store.transact(|transaction| transaction.events().emit("e")).expect("it works");
        if !is_new {
            drop(store);
            fs::remove_file(&index).expect("it is there");
            store = stage.open();
        }
        lose(&index);
        for _ in 0..2 {
            let lost = store.transact(|transaction| transaction.events().emit("e"));
            assert!(matches!(lost, Err(StoreError::IndexLost { .. })), "{lost:?}");
            let lost = store.last_event();
            assert!(matches!(lost, Err(StoreError::IndexLost { .. })), "{lost:?}");
        }
        drop(store);
        assert_eq!(stage.open().last_event().expect("it works"), 1, "nothing is lost");
    }
}
