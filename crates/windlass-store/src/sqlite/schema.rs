//! The tables of a database, and the migrations from older versions.
//!
//! Migrations only go forward. They run under the writers' lock, after a backup of the file.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior, named_params};

use crate::access::Access;
use crate::clock::{BootClock, Clock};
use crate::error::StoreError;
use crate::layout;
use crate::wakeup::unique;

/// "WNDL": marks SQLite files that belong to Windlass.
const APPLICATION_ID: i32 = 0x574e_444c;
/// The statements that lead from each version to the next, from version [`FIRST`] on.
const MIGRATIONS: [&str; 12] = [
    concat!(include_str!("migrate-3.sql"), include_str!("runs-3.sql")),
    include_str!("migrate-4.sql"),
    include_str!("service.sql"),
    include_str!("migrate-6.sql"),
    include_str!("migrate-7.sql"),
    include_str!("migrate-8.sql"),
    include_str!("migrate-9.sql"),
    include_str!("migrate-10.sql"),
    include_str!("migrate-11.sql"),
    include_str!("migrate-12.sql"),
    include_str!("migrate-13.sql"),
    include_str!("migrate-14.sql"),
];
/// The version of the tables that are created before all migrations.
const FIRST: i32 = 2;
/// The version of the tables.
pub(super) const VERSION: i32 = FIRST + MIGRATIONS.len() as i32;

/// Whether an empty database may become a new store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Creation {
    /// It may.
    Allowed,
    /// It may not: a store was created here before, so an empty file means that it was lost.
    Refused,
}

/// Returns the id of a store if its tables have the version of this program.
pub(super) fn current_id(connection: &Connection) -> Result<Option<String>, StoreError> {
    match marks(connection)? {
        (APPLICATION_ID, VERSION) => Ok(Some(id(connection)?)),
        _ => Ok(None),
    }
}

/// Fails if a newer version of this program has migrated the tables while this process used them.
pub(super) fn expect_version(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let mut version = connection.prepare_cached("PRAGMA user_version")?;
    match version.query_row([], |row| row.get(0))? {
        VERSION => Ok(()),
        found => Err(StoreError::NewerVersion { path: path.to_owned(), found, known: VERSION }),
    }
}

/// Creates the tables, if `creation` allows it, or migrates them. Returns the id of the store.
pub(super) fn prepare(
    connection: &mut Connection,
    path: &Path,
    creation: Creation,
) -> Result<String, StoreError> {
    let tables = "SELECT count(*) FROM sqlite_schema";
    match marks(connection)? {
        (APPLICATION_ID, VERSION) => {}
        (APPLICATION_ID, found) if found > VERSION => {
            return Err(StoreError::NewerVersion { path: path.to_owned(), found, known: VERSION });
        }
        (APPLICATION_ID, found) => {
            back_up(connection, path, found)?;
            change(connection, |transaction| migrate(found, transaction))?;
        }
        (0, 0) if connection.query_row(tables, [], |row| row.get::<_, i64>(0))? == 0 => {
            if creation == Creation::Refused {
                return Err(StoreError::Replaced { path: path.to_owned() });
            }
            change(connection, create)?;
        }
        _ => return Err(StoreError::NotWindlass { path: path.to_owned() }),
    }
    id(connection)
}

/// Returns the application id and the version of a database.
fn marks(connection: &Connection) -> Result<(i32, i32), StoreError> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get(0));
    Ok((pragma("application_id")?, pragma("user_version")?))
}

fn id(connection: &Connection) -> Result<String, StoreError> {
    Ok(connection.query_row("SELECT id FROM meta", [], |row| row.get(0))?)
}

fn change(
    connection: &mut Connection,
    act: impl FnOnce(&Transaction<'_>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    act(&transaction)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    Ok(transaction.commit()?)
}

fn create(transaction: &Transaction<'_>) -> Result<(), StoreError> {
    transaction.execute_batch(include_str!("runs.sql"))?;
    tables(transaction)?;
    migrate(FIRST, transaction)
}

/// Migrates the tables from an older version.
fn migrate(version: i32, transaction: &Transaction<'_>) -> Result<(), StoreError> {
    if version < FIRST {
        from_1(transaction)?;
    }
    let done = usize::try_from(version - FIRST).unwrap_or_default();
    MIGRATIONS[done..].iter().try_for_each(|statements| Ok(transaction.execute_batch(statements)?))
}

fn tables(transaction: &Transaction<'_>) -> Result<(), StoreError> {
    transaction.execute_batch(include_str!("schema-2.sql"))?;
    let insert = "INSERT INTO meta (one, id, boot, epoch, arrivals) VALUES (1, ?1, '', 0, 0)";
    transaction.execute(insert, [unique()?])?;
    Ok(())
}

fn from_1(transaction: &Transaction<'_>) -> Result<(), StoreError> {
    transaction.execute_batch(include_str!("migrate-2.sql"))?;
    tables(transaction)?;
    let now = i64::try_from(BootClock::start()?.now().at.as_nanos()).unwrap_or(i64::MAX);
    for statement in include_str!("fill-2.sql").split_inclusive(';') {
        if statement.contains(":now") {
            transaction.execute(statement, named_params! { ":now": now })?;
        } else {
            transaction.execute_batch(statement)?;
        }
    }
    Ok(())
}

/// Backs the database up, so that the user can go back to the older version of Windlass.
fn back_up(connection: &Connection, path: &Path, version: i32) -> Result<(), StoreError> {
    let copy = path.with_file_name(layout::backup(version));
    // A migration that was killed may have left a partial backup.
    let removed = fs::remove_file(&copy);
    if let Err(source) = removed.or_else(|e| if copy.exists() { Err(e) } else { Ok(()) }) {
        return Err(StoreError::Io { path: copy, source });
    }
    // SQLite accepts an empty file as target, and keeps its mode.
    Access::create_missing(&copy)
        .map_err(|source| StoreError::Io { path: copy.clone(), source })?;
    // The path may not be valid UTF-8: SQLite casts the bytes to text without checking them.
    connection.execute("VACUUM INTO CAST(?1 AS TEXT)", [copy.as_os_str().as_bytes()])?;
    Ok(())
}
