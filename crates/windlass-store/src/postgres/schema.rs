//! The tables of a database, and the migrations from older versions.

use super::session::Session;
use super::target::Target;
use crate::error::StoreError;
use crate::wakeup::unique;

/// The statements that lead from each version to the next, from version 1 on.
const MIGRATIONS: [&str; 5] = [
    include_str!("schema-2.sql"),
    include_str!("schema-3.sql"),
    include_str!("schema-4.sql"),
    include_str!("schema-5.sql"),
    include_str!("schema-6.sql"),
];
/// The version of the tables.
pub(super) const VERSION: i32 = 1 + MIGRATIONS.len() as i32;
/// The key of the lock under which tables are created and changed.
const LOCK: i64 = 0x574e_444c;

/// Returns the id of the store. Tables of an older version are migrated first.
pub(super) fn check(session: &Session, target: &Target) -> Result<String, StoreError> {
    let found = version(session, target)?;
    match found {
        Some(VERSION) => {}
        Some(found) if found < VERSION => prepare(session, target)?,
        Some(found) => return Err(newer(target, found)),
        None => {
            let database = target.to_string();
            return Err(StoreError::NoDatabaseStore { database });
        }
    }
    let id = session.one("SELECT id FROM meta", &[], |row| row.value(0))?;
    Ok(id.expect("a store has one row of counters"))
}

/// Creates the tables, or migrates them. Programs of an older version that use the store wait meanwhile, and
/// are refused after that.
pub(super) fn prepare(session: &Session, target: &Target) -> Result<(), StoreError> {
    session.batch(&format!("BEGIN; SELECT pg_advisory_xact_lock({LOCK})"))?;
    let prepared = match version(session, target) {
        Ok(None) => create(session, target),
        Ok(Some(VERSION)) => Ok(()),
        Ok(Some(found)) if found < VERSION => migrate(session, found),
        Ok(Some(found)) => Err(newer(target, found)),
        Err(error) => Err(error),
    };
    session.batch(if prepared.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    prepared
}

fn create(session: &Session, target: &Target) -> Result<(), StoreError> {
    session.batch(&format!("CREATE SCHEMA IF NOT EXISTS \"{}\"", target.schema()))?;
    session.batch(include_str!("schema-1.sql"))?;
    MIGRATIONS.iter().try_for_each(|statements| session.batch(statements))?;
    let insert = "INSERT INTO meta (version, id) VALUES ($1, $2)";
    session.execute(insert, &[&VERSION, &unique()?])?;
    Ok(())
}

/// Migrates tables of an older version, between two writers.
fn migrate(session: &Session, found: i32) -> Result<(), StoreError> {
    let migrated = session.batch("SELECT FROM meta FOR UPDATE").and_then(|()| {
        let done = usize::try_from(found - 1).unwrap_or_default();
        MIGRATIONS[done..].iter().try_for_each(|statements| session.batch(statements))?;
        session.batch(&format!("UPDATE meta SET version = {VERSION}"))
    });
    migrated.map_err(|error| match error {
        StoreError::Database { database, why } => {
            StoreError::OlderVersion { database, found, known: VERSION, why }
        }
        error => error,
    })
}

/// Returns the version of the tables, if there are any.
fn version(session: &Session, target: &Target) -> Result<Option<i32>, StoreError> {
    let query = "SELECT to_regclass($1) IS NOT NULL";
    let table = format!("\"{}\".meta", target.schema());
    let exists = session.one(query, &[&table], |row| row.value(0))?;
    match exists {
        Some(true) => session.one("SELECT version FROM meta", &[], |row| row.value(0)),
        _ => Ok(None),
    }
}

/// Returns the error for a store that a newer version of this program has migrated.
pub(super) fn newer(target: &Target, found: i32) -> StoreError {
    StoreError::NewerVersion { path: target.to_string().into(), found, known: VERSION }
}
