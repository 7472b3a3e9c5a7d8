//! The embedded backend: one SQLite file that all processes of a user, or of a group's members, share.
//!
//! Writers pass a gate one at a time; readers see the last commit and wait for nobody. An error of
//! the disk is never retried on the same connection: it stops writing for good, and whoever opens
//! the store again finds everything that was acknowledged.

mod file;
mod gate;
mod log;
mod place;
mod records;
mod rows;
mod runs;
mod schema;

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use self::file::InUse;
pub use self::file::Network;
use self::gate::Gate;
use self::log::Log;
use self::place::Place;
use self::records::SqliteRecords;
use self::schema::Beginning;
use crate::access::Access;
use crate::backend::{Act, Backend, Durability, Opener};
use crate::bell::{Belfry, Bell, Topic};
use crate::error::{DiskFault, StoreError};

/// Older ones can corrupt a write-ahead log that two connections write.
const OLDEST_SQLITE: i32 = 3_051_003;
/// The second line behind the gate.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// After how many pages the log is copied into the file. A new process reads what is in the log.
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

/// One connection to the file.
pub struct Sqlite {
    gate: Gate,
    belfry: Belfry,
    dir: PathBuf,
    path: PathBuf,
    log: Log,
    opened: Opened,
    durability: Durability,
    /// Why nothing is written any more.
    broken: Option<DiskFault>,
}

impl Sqlite {
    /// Opens the store in `dir`, or makes it.
    pub fn open(dir: &Path, network: Network) -> Result<Self, StoreError> {
        let at = |source| StoreError::Io { path: dir.to_owned(), source };
        Access::create_private_dir(dir).map_err(at)?;
        Self::open_behind(dir, network, Gate::open)
    }

    /// Opens the store in `dir`, and creates none. A store that this process must not write to can
    /// still be looked at.
    pub fn open_existing(dir: &Path, network: Network) -> Result<Self, StoreError> {
        let at = |source| StoreError::Io { path: dir.to_owned(), source };
        for file in ["gate", "store.db"] {
            if dir.join(file).try_exists().map_err(at)? {
                return Self::open_behind(dir, network, Gate::open_existing);
            }
        }
        Err(StoreError::NoStore { dir: dir.to_owned() })
    }

    fn open_behind(
        dir: &Path,
        network: Network,
        gate: fn(&Path) -> Result<Gate, StoreError>,
    ) -> Result<Self, StoreError> {
        if rusqlite::version_number() < OLDEST_SQLITE {
            return Err(StoreError::OldSqlite { found: rusqlite::version() });
        }
        file::refuse_unsafe(dir)?;
        if network == Network::Refuse {
            file::refuse_network(dir)?;
        }
        let mut gate = gate(dir)?;
        let path = dir.join("store.db");
        restrict(dir, &path);
        let opened = match as_it_is(&path, gate.store_id()?) {
            Ok(Some(opened)) => opened,
            Err(error) if gate.is_read_only() => return Err(classify(error, &path)),
            Ok(None) if gate.is_read_only() => return Err(StoreError::ReadOnly { path }),
            _ => {
                gate.pass(|gate| made_ready(&path, gate)).map_err(|error| classify(error, &path))?
            }
        };
        let (belfry, dir) = (Belfry::new(dir), dir.to_owned());
        let (durability, log) = (Durability::Full, Log::of(&path));
        Ok(Self { opened, gate, belfry, dir, path, log, durability, broken: None })
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

    /// Notes an error after which nothing may be written any more.
    fn judge(&mut self, error: StoreError) -> StoreError {
        let error = classify(error, &self.path);
        if let StoreError::Fatal { reason, .. } = &error {
            self.broken = Some(reason.clone());
        }
        error
    }
}

impl Backend for Sqlite {
    fn transact(&mut self, durability: Durability, act: Act<'_>) -> Result<(), StoreError> {
        self.prepare_for(durability)?;
        let Self { opened, gate, .. } = self;
        let result = gate.pass(|_| {
            let connection = opened.checked()?;
            let open = Open::begin(connection)?;
            act(&SqliteRecords::new(connection))?;
            open.commit()
        });
        result.map_err(|error| self.judge(error))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.log.sync().map_err(|error| self.judge(error))
    }

    fn log(&mut self) -> Option<BorrowedFd<'_>> {
        self.log.file()
    }

    fn look(&mut self, act: Act<'_>) -> Result<(), StoreError> {
        let looked = (|| {
            // A file that was removed would be read for ever, and never change.
            let connection = self.opened.checked()?;
            let behavior = TransactionBehavior::Deferred;
            let transaction = connection.transaction_with_behavior(behavior)?;
            act(&SqliteRecords::new(&transaction))
        })();
        looked.map_err(|error| classify(error, &self.path))
    }

    fn opener(&self) -> Opener {
        let dir = self.dir.clone();
        Box::new(move || Ok(Box::new(Self::open_existing(&dir, Network::Allow)?)))
    }

    fn hang(&self, topic: &Topic) -> Result<Bell, StoreError> {
        self.belfry.hang(topic)
    }

    fn ring(&self, topic: &Topic, bell: &str) {
        self.belfry.ring(topic, bell);
    }

    fn ring_all(&self, topic: &Topic) {
        self.belfry.ring_all(topic);
    }

    fn interrupt_when(&mut self, stop: Box<dyn Fn() -> bool + Send>) {
        self.gate.interrupt_when(stop);
    }
}

/// A transaction that may write. What is not committed is undone.
struct Open<'a>(&'a Connection);

impl<'a> Open<'a> {
    /// The words are kept ready like all others; made anew each time, they would cost as much as a
    /// small change.
    fn begin(connection: &'a Connection) -> Result<Self, StoreError> {
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        Ok(Self(connection))
    }

    fn commit(self) -> Result<(), StoreError> {
        self.0.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if !self.0.is_autocommit() {
            // What cannot be undone here is undone by whoever opens the store again.
            let _ = self.0.execute_batch("ROLLBACK");
        }
    }
}

/// A store that is what its gate says, and needs nothing: whoever only looks waits for no writer.
/// Whatever else it may be is found out behind the gate.
fn as_it_is(path: &Path, made: Option<String>) -> Result<Option<Opened>, StoreError> {
    let Some(made) = made else { return Ok(None) };
    let opened = begin_use(path, Beginning::Over)?;
    let id = schema::current(&opened.connection)?;
    Ok((id == Some(made)).then_some(opened))
}

/// Takes from other users what the files of an older version allow them, if it did. Where that fails,
/// the file is another user's.
fn restrict(dir: &Path, path: &Path) {
    let Ok(access) = Access::of(dir) else { return };
    for end in ["", "-wal", "-shm"] {
        let mut file = path.as_os_str().to_owned();
        file.push(end);
        let _ = access.restrict(Path::new(&file));
    }
}

/// The store behind the gate, made or brought up to date if it has to be.
fn made_ready(path: &Path, gate: &mut Gate) -> Result<Opened, StoreError> {
    let made = gate.store_id()?;
    let beginning = if made.is_some() { Beginning::Over } else { Beginning::Possible };
    let mut opened = begin_use(path, beginning)?;
    let id = schema::prepare(&mut opened.connection, path, beginning)?;
    match made {
        None => gate.remember_store(&id)?,
        Some(made) if made != id => return Err(StoreError::lost(path)),
        Some(_) => {}
    }
    Ok(opened)
}

/// Closing a file ends every lock that this process has on it, also SQLite's, so nobody but SQLite
/// opens one that is in use here.
fn begin_use(path: &Path, beginning: Beginning) -> Result<Opened, StoreError> {
    let _alone = file::alone();
    if beginning == Beginning::Over && !InUse::already(path) {
        file::refuse_truncated(path)?;
    }
    if beginning == Beginning::Possible {
        // SQLite gives its other files the mode and the owner of this one.
        let at = |source| StoreError::Io { path: path.to_owned(), source };
        Access::create_missing(path).map_err(at)?;
    }
    let connection = connect(path)?;
    let place = Place::of(path)?;
    let _in_use = InUse::from_now(place.inode());
    Ok(Opened { connection, place, _in_use })
}

fn connect(path: &Path) -> Result<Connection, StoreError> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // The last one to leave must not pay for everybody; the log is bounded by its checkpoints.
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

/// What an error of SQLite means for the store.
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
