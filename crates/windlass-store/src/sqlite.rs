//! The embedded backend: one SQLite file that all processes of a user, or of a group's members, share.
//!
//! Writers take a file lock one after the other; readers see the last commit and never wait. After a
//! disk error a connection writes nothing any more: a process that opens the store again finds every
//! commit that was acknowledged.

mod compact;
mod file;
mod orders;
mod place;
mod queues;
mod rows;
mod runs;
mod schema;
mod tables;
mod wal_file;
mod writer_lock;

use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use self::file::InUse;
pub use self::file::Network;
use self::place::Place;
use self::schema::Creation;
use self::tables::SqliteTables;
use self::wal_file::WalFile;
use self::writer_lock::{Awaited, UNTOLD, Wait, WriterLock};
use crate::access::Access;
use crate::backend::{Backend, Durability, Opener, ReadBody, TransactionBody};
use crate::error::{DiskFault, StoreError};
use crate::examine::{Examined, ExaminedFile};
use crate::layout;
use crate::wakeup::{Topic, Wakeup, WakeupDir};
use crate::writer_wait::{OnWait, WriterWait};

/// Older versions can corrupt a write-ahead log that two connections write.
const OLDEST_SQLITE: i32 = 3_051_003;
/// How long a reader waits for SQLite's own lock, which another process has only while it repairs the
/// index of the log.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait for other writers where a store has to be created or migrated.
const OPEN_TIMEOUT: Duration = Duration::from_secs(15);
/// After how many pages SQLite copies its log into the database. Every new connection reads the log.
const CHECKPOINT_PAGES: i64 = 256;

/// An open database, and where its files have to be.
struct Opened {
    connection: Connection,
    place: Place,
    _in_use: InUse,
}

impl Opened {
    /// Returns the connection, unless its files are not at their places any more.
    fn checked(&mut self) -> Result<&mut Connection, StoreError> {
        self.place.check(&self.connection)?;
        Ok(&mut self.connection)
    }
}

/// A connection to a store in a SQLite file.
pub struct Sqlite {
    writer_lock: WriterLock,
    wakeups: WakeupDir,
    dir: PathBuf,
    path: PathBuf,
    wal: WalFile,
    opened: Opened,
    durability: Durability,
    /// The disk error after which this connection writes nothing any more.
    broken: Option<DiskFault>,
}

impl Sqlite {
    /// Opens the store in `dir`, or creates it.
    pub fn open(dir: &Path, network: Network) -> Result<Self, StoreError> {
        let at = |source| StoreError::Io { path: dir.to_owned(), source };
        Access::create_private_dir(dir).map_err(at)?;
        Self::open_locked(dir, network, WriterLock::open)
    }

    /// Opens the store in `dir`, and fails if there is none. A store that this process has no
    /// permission to write can be read.
    pub fn open_existing(dir: &Path, network: Network) -> Result<Self, StoreError> {
        let at = |source| StoreError::Io { path: dir.to_owned(), source };
        for file in [layout::WRITER_LOCK, layout::DATABASE] {
            if dir.join(file).try_exists().map_err(at)? {
                return Self::open_locked(dir, network, WriterLock::open_existing);
            }
        }
        Err(StoreError::NoStore { dir: dir.to_owned() })
    }

    fn open_locked(
        dir: &Path,
        network: Network,
        open_lock: fn(&Path) -> Result<WriterLock, StoreError>,
    ) -> Result<Self, StoreError> {
        if rusqlite::version_number() < OLDEST_SQLITE {
            return Err(StoreError::OldSqlite { found: rusqlite::version() });
        }
        file::refuse_unsafe(dir)?;
        if network == Network::Refuse {
            file::refuse_network(dir)?;
        }
        let mut writer_lock = open_lock(dir)?;
        let path = dir.join(layout::DATABASE);
        restrict(dir, &path);
        let may_write = !writer_lock.is_read_only();
        let opened = match open_current(&path, &mut writer_lock) {
            Ok(Some(opened)) => opened,
            Err(error) if !may_write => return Err(classify(error, &path)),
            Ok(None) if !may_write => return Err(StoreError::ReadOnly { path }),
            _ => {
                let opened = hold_to_open(&mut writer_lock, |lock| open_prepared(&path, lock));
                opened.map_err(|error| classify(error, &path))?
            }
        };
        Ok(Self {
            opened,
            writer_lock,
            wakeups: WakeupDir::new(dir),
            dir: dir.to_owned(),
            wal: WalFile::of(&path),
            path,
            durability: Durability::Full,
            broken: None,
        })
    }

    fn prepare_for(&mut self, durability: Durability) -> Result<(), StoreError> {
        if let Some(reason) = &self.broken {
            let (path, reason) = (self.path.clone(), reason.clone());
            return Err(StoreError::Fatal { path, reason });
        }
        if self.durability != durability {
            let level = match durability {
                Durability::Full => "FULL",
                Durability::Process => "NORMAL",
            };
            self.opened.connection.pragma_update(None, "synchronous", level)?;
            self.durability = durability;
        }
        Ok(())
    }

    /// Classifies an error, and remembers one after which nothing may be written any more.
    fn note_failure(&mut self, error: StoreError) -> StoreError {
        let error = classify(error, &self.path);
        if let StoreError::Fatal { reason, .. } = &error {
            self.broken = Some(reason.clone());
        }
        error
    }
}

impl Backend for Sqlite {
    fn transact(
        &mut self,
        durability: Durability,
        on_wait: OnWait<'_>,
        body: TransactionBody<'_>,
    ) -> Result<(), StoreError> {
        self.prepare_for(durability)?;
        let Self { opened, writer_lock, path, .. } = self;
        let result = writer_lock.hold(on_wait, |lock, on_wait| {
            let connection = opened.checked()?;
            let write = WriteTransaction::begin(connection, lock, on_wait)?;
            schema::expect_version(connection, path)?;
            let tables = SqliteTables::for_writer(connection, lock);
            let notices = body(&tables)?;
            write.commit()?;
            lock.remove_marks(tables.marks());
            Ok(notices)
        });
        let notices = result.map_err(|error| self.note_failure(error))?;
        self.wakeups.send(&notices);
        Ok(())
    }

    fn compact(&mut self, on_wait: OnWait<'_>) -> Result<(), StoreError> {
        self.prepare_for(Durability::Full)?;
        let Self { opened, writer_lock, dir, .. } = self;
        let result = writer_lock.hold(on_wait, |_, _| compact::compact(opened.checked()?, dir));
        result.map_err(|error| self.note_failure(error))
    }

    fn keep_leases(&self) -> bool {
        self.writer_lock.mark()
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.wal.sync().map_err(|error| self.note_failure(error))
    }

    fn file_to_sync(&mut self) -> Option<BorrowedFd<'_>> {
        self.wal.file()
    }

    fn read(&mut self, body: ReadBody<'_>) -> Result<(), StoreError> {
        let result = (|| {
            // A file that was replaced gets no more commits, so its reader would wait for ever.
            let connection = self.opened.checked()?;
            let behavior = TransactionBehavior::Deferred;
            let transaction = connection.transaction_with_behavior(behavior)?;
            schema::expect_version(&transaction, &self.path)?;
            body(&SqliteTables::new(&transaction))
        })();
        result.map_err(|error| classify(error, &self.path))
    }

    fn examine(&mut self) -> Result<Examined, StoreError> {
        let length = |path: &Path| path.metadata().map_or(0, |file| file.len());
        let mut wal = self.path.clone().into_os_string();
        wal.push("-wal");
        Ok(Examined::File(ExaminedFile {
            bytes: length(&self.path),
            wal_bytes: length(Path::new(&wal)),
            network: file::network_of(&self.dir),
            version: rusqlite::version(),
            path: self.path.clone(),
        }))
    }

    fn opener(&self) -> Opener {
        let dir = self.dir.clone();
        Box::new(move || Ok(Box::new(Self::open_existing(&dir, Network::Allow)?)))
    }

    fn register(&self, topic: &Topic) -> Result<Wakeup, StoreError> {
        self.wakeups.register(topic)
    }
}

/// A transaction that may write. It is rolled back unless it is committed.
struct WriteTransaction<'a>(&'a Connection);

impl<'a> WriteTransaction<'a> {
    /// Begins once no other program writes. The statement is cached, because preparing it anew would
    /// cost as much as a small change.
    fn begin(
        connection: &'a Connection,
        lock: &WriterLock,
        on_wait: OnWait<'_>,
    ) -> Result<Self, StoreError> {
        let mut wait = None;
        connection.busy_timeout(UNTOLD)?;
        loop {
            match connection.prepare_cached("BEGIN IMMEDIATE")?.execute([]) {
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                    wait.get_or_insert_with(|| Wait::new(lock, Awaited::Sqlite)).go_on(on_wait)?;
                }
                begun => break begun.map(drop)?,
            }
        }
        connection.busy_timeout(BUSY_TIMEOUT)?;
        Ok(Self(connection))
    }

    fn commit(self) -> Result<(), StoreError> {
        self.0.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }
}

impl Drop for WriteTransaction<'_> {
    fn drop(&mut self) {
        if !self.0.is_autocommit() {
            // If this fails, the next process that opens the store rolls it back.
            let _ = self.0.execute_batch("ROLLBACK");
        }
    }
}

/// Runs `act` while this process holds the writers' lock, before the store has a caller who could be
/// asked how long to wait.
fn hold_to_open<T>(
    lock: &mut WriterLock,
    act: impl FnOnce(&mut WriterLock) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let mut on_wait = |wait: &dyn WriterWait| match wait.stalled_for() >= OPEN_TIMEOUT {
        true => ControlFlow::Break(StoreError::Busy(wait.blocker())),
        false => ControlFlow::Continue(UNTOLD),
    };
    lock.hold(&mut on_wait, |lock, _| act(lock))
}

/// Opens a store that has the id in its lock file and the tables of this version, without the writers'
/// lock, so that readers do not wait for writers. Returns none if the store needs more than that.
fn open_current(path: &Path, lock: &mut WriterLock) -> Result<Option<Opened>, StoreError> {
    let Some(created) = lock.store_id()? else { return Ok(None) };
    let opened = begin_use(path, Creation::Refused)?;
    let id = schema::current_id(&opened.connection)?;
    let is_it = id.is_some_and(|id| id == created);
    if is_it {
        lock.keep_store_id(&created);
    }
    Ok(is_it.then_some(opened))
}

/// Closes the files of an older version to other users. That fails for the files of another user.
fn restrict(dir: &Path, path: &Path) {
    let Ok(access) = Access::of(dir) else { return };
    for suffix in ["", "-wal", "-shm"] {
        let mut file = path.as_os_str().to_owned();
        file.push(suffix);
        let _ = access.restrict(Path::new(&file));
    }
}

/// Opens a store under the writers' lock, and creates or migrates it if necessary.
fn open_prepared(path: &Path, lock: &mut WriterLock) -> Result<Opened, StoreError> {
    let created = lock.store_id()?;
    let creation = if created.is_some() { Creation::Refused } else { Creation::Allowed };
    let mut opened = begin_use(path, creation)?;
    let id = schema::prepare(&mut opened.connection, path, creation)?;
    // A database has no log before its first transaction.
    opened.place = Place::of(path)?;
    match created {
        Some(created) if created == id => lock.keep_store_id(&id),
        // A lock file that was truncated has lost a part of the id.
        Some(created) if !id.starts_with(&created) => return Err(StoreError::lost(path)),
        _ => lock.write_store_id(&id)?,
    }
    Ok(opened)
}

/// Connects to the database. Closing a file drops all POSIX locks that this process has on it, also
/// SQLite's, so this code itself opens only files that no connection of this process uses.
fn begin_use(path: &Path, creation: Creation) -> Result<Opened, StoreError> {
    let _guard = file::begin_alone();
    if creation == Creation::Refused && !InUse::already(path) {
        file::refuse_truncated(path)?;
    }
    if creation == Creation::Allowed {
        // SQLite gives its other files the mode and the owner of this one.
        let at = |source| StoreError::Io { path: path.to_owned(), source };
        Access::create_missing(path).map_err(at)?;
    }
    let connection = connect(path)?;
    let place = Place::of(path)?;
    let _in_use = InUse::count(place.inode());
    Ok(Opened { connection, place, _in_use })
}

fn connect(path: &Path) -> Result<Connection, StoreError> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // The last connection to close must not copy the whole log; automatic checkpoints bound it.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "mmap_size", 0)?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", 4 << 20)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// Returns what an error of SQLite means for the store.
fn classify(error: StoreError, path: &Path) -> StoreError {
    let StoreError::Sqlite(source) = error else { return error };
    let path = path.to_owned();
    match source.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Fatal { path, reason: DiskFault::Full },
        Some(ErrorCode::SystemIoFailure) => {
            StoreError::Fatal { path, reason: DiskFault::Failing(source.to_string()) }
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Damaged { path, source }
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => StoreError::ReadOnly { path },
        _ => StoreError::Sqlite(source),
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        StoreError::Sqlite(error)
    }
}
