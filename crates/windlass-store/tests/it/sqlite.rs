//! The SQLite backend: damaged, replaced and foreign files, permissions, and migrations.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rusqlite::Connection;
use windlass_store::{
    Answer, Claim, Claimed, HolderId, Name, Need, Network, Store, StoreError, Token, Topic,
};

fn claim(store: &mut Store, holder: &str, name: &str) -> Result<Claimed, StoreError> {
    let (holder, needs) = (HolderId::new(holder), [Need::one(Name::Lock(name.to_owned()))]);
    store.transact(|transaction| transaction.leases().claim(&Claim::new(&holder, &needs)))
}

fn token(claimed: Result<Claimed, StoreError>) -> u64 {
    match claimed.expect("the store works") {
        Claimed::Held(holds) => holds[0].token.0,
        Claimed::Refused(refused) => panic!("{refused:?}"),
    }
}

/// Returns a directory with a store in which lock x is held.
fn made() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let mut store = Store::open(dir.path()).expect("it can be made");
    assert_eq!(token(claim(&mut store, "a", "x")), 1);
    dir
}

fn refused(dir: &Path) -> StoreError {
    Store::open(dir).map(|_| ()).expect_err("it cannot be used")
}

#[test]
fn the_file_to_sync_is_the_write_ahead_log() {
    let dir = made();
    let mut store = Store::open(dir.path()).expect("it is there");
    let log = store.file_to_sync().expect("it has one").try_clone_to_owned().expect("a file");
    let found = fs::File::from(log).metadata().expect("it is open");
    let named = fs::metadata(dir.path().join("store.db-wal")).expect("it is there");
    assert_eq!((found.dev(), found.ino()), (named.dev(), named.ino()));
    assert!(Store::in_memory().expect("it can be made").file_to_sync().is_none());
}

#[test]
fn files_of_other_programs_and_newer_versions_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let foreign = Connection::open(dir.path().join("store.db")).expect("a file");
    foreign.execute_batch("CREATE TABLE theirs (x)").expect("SQL");
    drop(foreign);
    assert!(matches!(refused(dir.path()), StoreError::NotWindlass { .. }));

    let dir = made();
    let store = Connection::open(dir.path().join("store.db")).expect("the file");
    store.pragma_update(None, "user_version", 99).expect("SQL");
    drop(store);
    assert!(matches!(refused(dir.path()), StoreError::NewerVersion { found: 99, .. }));
}

#[test]
fn a_file_of_random_bytes_is_reported_as_damaged() {
    let dir = tempfile::tempdir().expect("a directory");
    let bytes = "random bytes, long enough not to be taken for an empty file".repeat(100);
    fs::write(dir.path().join("store.db"), &bytes).expect("a file");
    assert!(matches!(refused(dir.path()), StoreError::Damaged { .. }));
    assert_eq!(fs::read_to_string(dir.path().join("store.db")).expect("it is there"), bytes);
}

#[test]
fn an_empty_missing_or_replaced_store_is_not_created_anew() {
    let remove_log = |dir: &Path| {
        for file in ["store.db-wal", "store.db-shm"] {
            let _ = fs::remove_file(dir.join(file));
        }
    };
    let dir = made();
    remove_log(dir.path());
    fs::write(dir.path().join("store.db"), "").expect("a file");
    assert!(matches!(refused(dir.path()), StoreError::Replaced { .. }), "empty");
    fs::remove_file(dir.path().join("store.db")).expect("it was there");
    assert!(matches!(refused(dir.path()), StoreError::Replaced { .. }), "gone");
    let other = made();
    let copy = "VACUUM INTO ?1";
    let target = dir.path().join("store.db");
    let source = Connection::open(other.path().join("store.db")).expect("the file");
    source.execute(copy, [target.to_str().expect("a plain path")]).expect("a copy");
    assert!(matches!(refused(dir.path()), StoreError::Replaced { .. }), "another one");
}

#[test]
fn a_store_that_is_replaced_while_open_is_noticed() {
    let dir = made();
    let mut store = Store::open(dir.path()).expect("it opens");
    fs::rename(dir.path().join("store.db"), dir.path().join("moved")).expect("it moves");
    let claimed = claim(&mut store, "b", "y");
    assert!(matches!(claimed, Err(StoreError::Replaced { .. })), "{claimed:?}");
    fs::rename(dir.path().join("moved"), dir.path().join("store.db")).expect("it moves back");
    assert_eq!(token(claim(&mut store, "b", "y")), 1);
    fs::remove_file(dir.path().join("gate")).expect("it was there");
    let claimed = claim(&mut store, "b", "z");
    assert!(matches!(claimed, Err(StoreError::Replaced { .. })), "{claimed:?}");
}

#[test]
fn a_truncated_store_is_an_error_and_never_a_panic() {
    let dir = made();
    let path = dir.path().join("store.db");
    let store = Connection::open(&path).expect("the file");
    store.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("SQL");
    drop(store);
    let whole = fs::read(&path).expect("it is there");
    for length in [1, 50, 100, 1000, 4096, 8192, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..length]).expect("a file");
        let _ = fs::remove_file(dir.path().join("store.db-wal"));
        let _ = fs::remove_file(dir.path().join("store.db-shm"));
        let used = Store::open(dir.path()).and_then(|mut store| {
            let _ = claim(&mut store, "b", "x")?;
            store.transact(|transaction| transaction.events().emit("e"))
        });
        let error = used.expect_err("it is truncated");
        let known = matches!(error, StoreError::Damaged { .. } | StoreError::Fatal { .. });
        let lost = matches!(error, StoreError::NotWindlass { .. } | StoreError::Replaced { .. });
        assert!(known || lost, "{length}: {error:?}");
    }
}

#[test]
fn a_store_without_write_permission_can_be_read_and_says_so() {
    // Permissions do not stop root.
    if rustix::process::geteuid().is_root() {
        return;
    }
    let dir = made();
    let mode = |mode| fs::Permissions::from_mode(mode);
    fs::set_permissions(dir.path().join("store.db"), mode(0o400)).expect("a mode");
    fs::set_permissions(dir.path(), mode(0o500)).expect("a mode");
    let opened = Store::open(dir.path());
    let written = opened.and_then(|mut store| claim(&mut store, "b", "y"));
    let error = written.expect_err("it must not be written");
    assert!(matches!(error, StoreError::ReadOnly { .. } | StoreError::Io { .. }), "{error}");
    let mut store = Store::open_existing(dir.path(), Network::Refuse).expect("it can be read");
    assert_eq!(store.overview().expect("it can be read").len(), 1);
    fs::set_permissions(dir.path(), mode(0o700)).expect("a mode");
}

#[test]
fn opening_an_existing_store_creates_none() {
    let dir = tempfile::tempdir().expect("a directory");
    for path in [dir.path().to_owned(), dir.path().join("typo")] {
        let opened = Store::open_existing(&path, Network::Refuse).map(drop);
        assert!(matches!(opened, Err(StoreError::NoStore { .. })), "{opened:?}");
    }
    assert_eq!(fs::read_dir(dir.path()).expect("it is there").count(), 0);
}

fn modes(dir: &Path) -> Vec<(String, u32)> {
    let mut modes: Vec<_> = fs::read_dir(dir)
        .expect("it is there")
        .map(|entry| {
            let entry = entry.expect("it can be listed");
            let name = entry.file_name().into_string().expect("plain");
            (name, entry.metadata().expect("it is there").mode() & 0o7777)
        })
        .collect();
    modes.sort();
    modes
}

#[test]
fn the_files_of_a_store_are_for_the_users_of_its_directory() {
    for (mode, file, wakeups) in [(0o755, 0o600, 0o700), (0o2770, 0o660, 0o2770)] {
        let dir = tempfile::tempdir().expect("a directory");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).expect("a mode");
        let mut store = Store::open(dir.path()).expect("it can be made");
        assert_eq!(token(claim(&mut store, "a", "x")), 1);
        let wakeup = store.register(&Topic::Turn).expect("a wake-up");
        let files = ["gate", "store.db", "store.db-shm", "store.db-wal"].map(|name| (name, file));
        let all: Vec<_> = files.into_iter().chain([("wakeups", wakeups)]).collect();
        let found = modes(dir.path());
        assert_eq!(
            found.iter().map(|(n, m)| (n.as_str(), *m)).collect::<Vec<_>>(),
            all,
            "{mode:o}"
        );
        let turn = dir.path().join("wakeups/turn");
        assert_eq!(modes(&turn), [(wakeup.name().to_owned(), file)], "{mode:o}");
    }
}

#[test]
fn the_files_of_an_older_version_are_closed_to_other_users() {
    let dir = made();
    let path = dir.path().join("store.db");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("a mode");
    drop(Store::open(dir.path()).expect("it opens"));
    assert_eq!(fs::metadata(&path).expect("it is there").mode() & 0o777, 0o600);
}

#[test]
fn a_store_that_is_shared_stays_what_it_was() {
    let dir = made();
    let gid = fs::metadata(dir.path()).expect("it is there").gid();
    let mut store = Store::share(dir.path(), Network::Refuse, gid).expect("it is ours");
    assert!(store.access().is_shared());
    assert_eq!(store.overview().expect("it can be read").len(), 1);
    let files = modes(dir.path()).into_iter().map(|(_, mode)| mode);
    assert!(files.clone().all(|mode| mode == 0o660), "{:?}", modes(dir.path()));
}

#[test]
fn a_store_with_the_backup_of_a_migration_can_be_shared() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/version-2.db");
    let dir = tempfile::tempdir().expect("a directory");
    fs::copy(fixture, dir.path().join("store.db")).expect("a copy");
    drop(Store::open(dir.path()).expect("it migrates"));
    let backup = dir.path().join("store.version-2.db");
    let gid = fs::metadata(&backup).expect("it is there").gid();
    Store::share(dir.path(), Network::Refuse, gid).expect("the backup belongs to the store");
    assert_eq!(fs::metadata(&backup).expect("it is there").mode() & 0o7777, 0o660);
}

/// Turns a store back into one of version 6.
fn sixth_version(dir: &Path) -> Connection {
    let store = Connection::open(dir.join("store.db")).expect("the file");
    store
        .execute_batch(
            "DROP TABLE limit_items; ALTER TABLE lease DROP COLUMN items;
             ALTER TABLE run DROP COLUMN priority;
             DROP INDEX queue; DROP INDEX lease_by_process;
             ALTER TABLE ticket_name DROP COLUMN rank; ALTER TABLE ticket_name DROP COLUMN arrival;
             ALTER TABLE meta ADD COLUMN arrivals INTEGER NOT NULL DEFAULT 0;
             UPDATE meta SET arrivals = (SELECT coalesce(max(arrivals), 0) FROM name);
             ALTER TABLE name DROP COLUMN arrivals;
             DROP TABLE journal_base;
             DROP TABLE added_step;
             DROP TABLE run_queue;
             DROP TABLE step_output;
             DROP TABLE run_worker; ALTER TABLE worker DROP COLUMN offer;
             ALTER TABLE worker DROP COLUMN about;
             DROP TABLE step_change;
             PRAGMA user_version = 6",
        )
        .expect("SQL");
    store
}

#[test]
fn the_sixth_version_migrates_and_its_waiters_keep_their_places() {
    let dir = made();
    let mut store = Store::open(dir.path()).expect("it opens");
    let join = |store: &mut Store, holder: &str, priority| {
        let (holder, needs) = (HolderId::new(holder), [Need::one(Name::Lock("x".to_owned()))]);
        let claim = Claim { priority, ..Claim::new(&holder, &needs) };
        let claimed = store.transact(|transaction| transaction.leases().claim(&claim));
        assert!(matches!(claimed, Ok(Claimed::Refused(_))), "{claimed:?}");
    };
    for (holder, priority) in [("first", 0), ("second", 0), ("last", i64::MIN), ("urgent", 7)] {
        join(&mut store, holder, priority);
    }
    drop(store);
    drop(sixth_version(dir.path()));
    let mut store = Store::open(dir.path()).expect("it migrates");
    join(&mut store, "third", 0);
    let mut held = ("a", 1);
    for next in ["urgent", "first", "second", "third", "last"] {
        let (name, holder) = (Name::Lock("x".to_owned()), HolderId::new(held.0));
        let old = Token(held.1);
        let released = store.transact(|t| t.leases().release(&name, &holder, old));
        assert_eq!(released.expect("the store works"), Answer::Released, "{held:?}");
        let queue = store.read(|t| t.leases().queue(&name)).expect("the store works");
        assert_eq!(queue[0].as_str(), next);
        held = (next, token(claim(&mut store, next, "x")));
    }
    assert!(dir.path().join("store.version-6.db").exists(), "a copy is kept");
}

#[test]
fn the_third_version_migrates_and_its_runs_have_no_user() {
    let dir = made();
    let store = sixth_version(dir.path());
    store
        .execute_batch(
            "DROP TABLE decision; DROP TABLE report; DROP TABLE work_order; DROP TABLE worker;
             ALTER TABLE run DROP COLUMN env;
             ALTER TABLE run DROP COLUMN uid; ALTER TABLE lease DROP COLUMN uid;
             INSERT INTO run (id, file, text, dir, created_ms) VALUES ('27a2', 'f', '', '/', 0);
             PRAGMA user_version = 3",
        )
        .expect("SQL");
    drop(store);
    let mut store = Store::open(dir.path()).expect("it migrates");
    assert_eq!(store.run("27a2").expect("it is there").uid, None);
    assert_eq!(store.overview().expect("it can be read")[0].leases[0].owner.uid, None);
    assert!(dir.path().join("store.version-3.db").exists(), "a copy is kept");
}

#[test]
fn a_store_becomes_smaller_once_most_of_it_was_deleted() {
    let dir = made();
    let mut store = Store::open(dir.path()).expect("it opens");
    let mut other = Store::open(dir.path()).expect("it opens");
    let name = "x".repeat(1000);
    let emit = |store: &mut Store| {
        let many = |transaction: &windlass_store::Transaction<'_>| {
            (0..2000).try_for_each(|_| transaction.events().emit(&name).map(drop))
        };
        store.transact(many).expect("there is room");
    };
    emit(&mut store);
    let size = || {
        let length = |name: &str| fs::metadata(dir.path().join(name)).expect("it is there").len();
        length("store.db") + length("store.db-wal")
    };
    let full = size();
    store.compact().expect("it works");
    assert!(size() >= full, "nothing was deleted");
    let delete = |store: &mut Store| {
        let all = |transaction: &windlass_store::Transaction<'_>| {
            transaction.events().delete_before(i64::MAX)
        };
        store.transact(all).expect("it works");
    };
    delete(&mut store);
    store.compact().expect("it works");
    assert!(size() * 10 < full, "{} of {full}", size());
    assert_eq!(token(claim(&mut other, "b", "y")), 1, "others go on with the smaller file");
    assert_eq!(store.last_event().expect("it works"), 2000, "numbers are not used again");
}

#[test]
fn readers_do_not_wait_for_writers() {
    let dir = made();
    let lock = fs::File::open(dir.path().join("gate")).expect("it is there");
    lock.lock().expect("no process holds it");
    let writer = Connection::open(dir.path().join("store.db")).expect("the file");
    writer.execute_batch("BEGIN IMMEDIATE; UPDATE meta SET epoch = 7").expect("SQL");
    let mut store = Store::open(dir.path()).expect("it opens");
    assert_eq!(store.overview().expect("it can be read").len(), 1);
    assert_eq!(store.try_clone().and_then(|mut other| other.last_event()).expect("it opens"), 0);
}

/// SQLite cleans up on close if no other connection has a lock on the file.
#[test]
fn a_second_connection_leaves_the_locks_of_the_first_alone() {
    let dir = made();
    let first = Store::open(dir.path()).expect("it opens");
    let inode = fs::metadata(dir.path().join("store.db")).expect("it is there").ino();
    let held = || {
        let locks = fs::read_to_string("/proc/locks").expect("this is Linux");
        let own = format!(" {} ", std::process::id());
        locks.lines().any(|lock| {
            lock.contains("POSIX") && lock.contains(&own) && lock.contains(&format!(":{inode} "))
        })
    };
    assert!(held(), "the connection has a lock");
    drop(first.try_clone().expect("it opens"));
    drop(Store::open(dir.path()).expect("it opens"));
    assert!(held(), "closing the others has not dropped it");
}

#[test]
fn the_second_version_migrates_and_its_runs_can_be_read() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/version-2.db");
    let dir = tempfile::tempdir().expect("a directory");
    fs::copy(fixture, dir.path().join("store.db")).expect("a copy");
    fs::write(dir.path().join("gate"), "").expect("a lock file without a store id");
    let mut store = Store::open(dir.path()).expect("it migrates");
    let run = store.run("27a2").expect("it is there");
    assert_eq!((run.workflow.as_str(), run.jobs), ("", None));
    assert!(run.params.is_empty() && run.steps.is_empty());
    assert_eq!(store.facts(&run.id).expect("they are there").len(), 6);
    let listed = store.read(|transaction| transaction.runs().latest(None, 9)).expect("it works");
    assert_eq!(listed.len(), 1);
    assert!(dir.path().join("store.version-2.db").exists(), "a copy is kept");
}

#[test]
fn the_first_version_migrates_and_a_copy_is_kept() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/version-1.db");
    let dir = tempfile::tempdir().expect("a directory");
    fs::copy(fixture, dir.path().join("store.db")).expect("a copy");
    fs::write(dir.path().join("gate"), "").expect("a lock file of that version");
    let mut store = Store::open(dir.path()).expect("it migrates");
    let run = store.run("05a2").expect("it is there");
    assert_eq!((run.file.as_str(), run.dir.as_path()), ("flow.toml", Path::new("/srv/flow")));
    assert_eq!(store.facts(&run.id).expect("they are there").len(), 5);
    let views = store.overview().expect("it can be read");
    let names: Vec<_> = views.iter().map(|view| view.name.to_string()).collect();
    assert_eq!(names, ["lock \"deploy\"", "run \"05a2f718\""]);
    assert_eq!(views[0].waiters.len(), 1, "a waiter is kept");
    assert!(token(claim(&mut store, "a", "deploy")) > 1, "the holder's boot is over");
    drop(store);
    let copy = Connection::open(dir.path().join("store.version-1.db")).expect("the copy");
    let version = copy.pragma_query_value(None, "user_version", |row| row.get::<_, i32>(0));
    assert_eq!(version.expect("it has one"), 1);
    Store::open(dir.path()).expect("it opens again without a migration");
}

#[test]
fn a_store_migrates_where_its_path_is_not_utf8() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/version-2.db");
    let parent = tempfile::tempdir().expect("a directory");
    let dir = parent.path().join(OsStr::from_bytes(b"caf\xe9"));
    fs::create_dir(&dir).expect("a directory");
    fs::copy(fixture, dir.join("store.db")).expect("a copy");
    fs::write(dir.join("gate"), "").expect("a lock file without a store id");
    let mut store = Store::open(&dir).expect("it migrates");
    assert_eq!(store.run("27a2").expect("it is there").id.len(), 8);
    assert!(dir.join("store.version-2.db").exists(), "a backup is beside it");
    let made = fs::read_dir(parent.path()).expect("it can be listed");
    assert_eq!(made.count(), 1, "nothing was created elsewhere");
}

#[test]
fn connections_of_several_threads_see_each_other() {
    let dir = made();
    let counts = std::thread::scope(|scope| {
        let work = || {
            let mut store = Store::open(dir.path()).expect("it opens");
            (0..25).map(|_| store.transact(|t| t.events().emit("e")).expect("it works")).max()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).max()
    });
    assert_eq!(counts, Some(Some(100)));
}
