//! The store file: opening it, passing the gate, reading runs.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use thiserror::Error;
use windlass_core::Fact;

use crate::encoding::{DecodeError, decode};
use crate::transaction::Transaction;

/// "WNDL": tells our files from other SQLite files.
const APPLICATION_ID: i32 = 0x574e_444c;
const VERSION: i32 = 1;
/// Older ones can corrupt a write-ahead log that two connections write.
const OLDEST_SQLITE: i32 = 3_051_003;

/// Why the store cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The directory or the gate cannot be used.
    #[error("cannot use {path}: {source}", path = path.display())]
    Io {
        /// What cannot be used.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// SQLite says no.
    #[error("the store cannot be used: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// A newer version of windlass has written the file.
    #[error("{path} has version {found}, and this windlass knows only {VERSION}: use a newer one", path = path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i32,
    },
    /// The file belongs to some other program.
    #[error("{path} is not a store of windlass", path = path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The SQLite that this program was built with is too old to be trusted.
    #[error("SQLite {found} can corrupt a store that several processes use")]
    OldSqlite {
        /// Its version.
        found: &'static str,
    },
    /// The journal holds something that is not a fact.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// Another process has taken over this run since.
    #[error("run {run} is led by another process now")]
    StaleEpoch {
        /// The run.
        run: String,
    },
    /// There is no such run.
    #[error("no run is called {run:?}")]
    UnknownRun {
        /// What was asked for.
        run: String,
    },
}

/// A run as it was submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRecord {
    /// Its id.
    pub id: String,
    /// The file it came from, for display.
    pub file: String,
    /// The text of the workflow.
    pub text: String,
    /// The directory in which its steps run.
    pub dir: PathBuf,
}

/// One connection to the store of this machine's user.
pub struct Store {
    connection: Connection,
    gate: File,
    dir: PathBuf,
}

impl Store {
    /// Opens the store in `dir`, or makes it.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        if rusqlite::version_number() < OLDEST_SQLITE {
            return Err(StoreError::OldSqlite { found: rusqlite::version() });
        }
        let at = |path: PathBuf| move |source| StoreError::Io { path, source };
        fs::create_dir_all(dir).map_err(at(dir.to_owned()))?;
        let gate_path = dir.join("gate");
        let gate = File::create(&gate_path).map_err(at(gate_path))?;
        let path = dir.join("store.db");
        let connection = Connection::open(&path)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        let mut store = Self { connection, gate, dir: dir.to_owned() };
        store.through_the_gate(|connection| prepare(connection, &path))?;
        Ok(store)
    }

    /// The directory in which the store lies.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Does several things in one commit: all of them, or none if `act` fails.
    pub fn transact<T>(
        &mut self,
        act: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.through_the_gate(|connection| {
            let immediate = TransactionBehavior::Immediate;
            let transaction = Transaction::new(connection.transaction_with_behavior(immediate)?);
            let result = act(&transaction)?;
            transaction.commit()?;
            Ok(result)
        })
    }

    /// The run whose id begins with `prefix`.
    pub fn run(&self, prefix: &str) -> Result<RunRecord, StoreError> {
        let query = "SELECT id, file, text, dir FROM run WHERE substr(id, 1, length(?1)) = ?1";
        let mut statement = self.connection.prepare_cached(query)?;
        let record = statement.query_row([prefix], |row| {
            let dir: String = row.get(3)?;
            Ok(RunRecord {
                id: row.get(0)?,
                file: row.get(1)?,
                text: row.get(2)?,
                dir: PathBuf::from(dir),
            })
        });
        record.optional()?.ok_or_else(|| StoreError::UnknownRun { run: prefix.to_owned() })
    }

    /// The journal of a run.
    pub fn facts(&self, run: &str) -> Result<Vec<Fact>, StoreError> {
        let query = "SELECT fact FROM fact WHERE run = ?1 ORDER BY seq";
        let mut statement = self.connection.prepare_cached(query)?;
        let texts = statement.query_map([run], |row| row.get::<_, String>(0))?;
        texts.map(|text| Ok(decode(&text?)?)).collect()
    }

    /// Writers come one at a time, in the order in which the kernel lets them: SQLite's own waiting
    /// is unfair and can starve one of many.
    fn through_the_gate<T>(
        &mut self,
        act: impl FnOnce(&mut Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let at = |source| StoreError::Io { path: self.dir.join("gate"), source };
        self.gate.lock().map_err(at)?;
        let result = act(&mut self.connection);
        self.gate.unlock().map_err(at)?;
        result
    }
}

fn prepare(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "journal_size_limit", 4 << 20)?;
    let pragma = |name: &str| -> Result<i32, StoreError> {
        Ok(connection.pragma_query_value(None, name, |row| row.get(0))?)
    };
    let tables: i32 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    match (pragma("application_id")?, pragma("user_version")?) {
        (0, 0) if tables == 0 => create(connection),
        (APPLICATION_ID, VERSION) => Ok(()),
        (APPLICATION_ID, found) => Err(StoreError::Newer { path: path.to_owned(), found }),
        _ => Err(StoreError::Foreign { path: path.to_owned() }),
    }
}

fn create(connection: &mut Connection) -> Result<(), StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(include_str!("schema.sql"))?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    Ok(transaction.commit()?)
}

/// Wall-clock milliseconds, for display.
pub(crate) fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
