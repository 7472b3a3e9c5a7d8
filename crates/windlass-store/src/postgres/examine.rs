//! Looks at the server: its settings, its load, its clock, and what is between it and this process.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::session::Session;
use super::target::Target;
use crate::error::StoreError;
use crate::examine::ExaminedDatabase;

/// The settings that decide what a commit survives.
const SETTINGS: &str = "'fsync', 'full_page_writes', 'synchronous_commit',
    'synchronous_standby_names', 'max_connections'";

/// Looks at the server of a store.
pub(super) fn examine(
    session: &Session,
    target: &Arc<Target>,
) -> Result<ExaminedDatabase, StoreError> {
    let text = |query: &str| -> Result<String, StoreError> {
        let found = session.one(query, &[], |row| row.value::<Option<String>>(0))?;
        Ok(found.flatten().unwrap_or_default())
    };
    let number = |query: &str| -> Result<u64, StoreError> {
        Ok(session.one(query, &[], |row| row.int(0))?.unwrap_or_default())
    };
    let settings =
        format!("SELECT name, setting FROM pg_settings WHERE name IN ({SETTINGS}) ORDER BY name");
    let settings: Vec<(String, String)> =
        session.all(&settings, &[], |row| Ok((row.value(0)?, row.value(1)?)))?;
    let standbys = "SELECT coalesce(sync_state, 'hidden') FROM pg_stat_replication ORDER BY 1";
    let oldest = "SELECT (extract(epoch FROM clock_timestamp() - min(xact_start)) * 1000)::bigint
        FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let oldest = session.one(oldest, &[], |row| row.int_or_none::<u64>(0))?.flatten();
    let rows = "SELECT coalesce(sum(n_dead_tup), 0)::bigint, coalesce(sum(n_live_tup), 0)::bigint
        FROM pg_stat_user_tables WHERE schemaname = $1";
    let schema = target.schema();
    let rows = session.one(rows, &[&schema], |row| Ok((row.int(0)?, row.int(1)?)))?;
    let encrypted = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    let is_encrypted = session.one(encrypted, &[], |row| row.value::<Option<bool>>(0))?.flatten();
    let most = settings.iter().find(|(name, _)| name == "max_connections");
    let most = most.and_then(|(_, most)| most.parse().ok()).unwrap_or_default();
    Ok(ExaminedDatabase {
        url: target.to_string(),
        account: text("SELECT current_user::text")?,
        version: text("SELECT split_part(current_setting('server_version'), ' ', 1)")?,
        standbys: session.all(standbys, &[], |row| row.value(0))?,
        oldest_transaction: oldest.map(Duration::from_millis),
        rows: rows.unwrap_or_default(),
        connections: (number("SELECT count(*) FROM pg_stat_activity")?, most),
        clock_ahead_ms: clock_ahead(session)?,
        is_pooled: is_pooled(session, target)?,
        is_encrypted: is_encrypted.filter(|_| !target.is_local()),
        tables: session.one("SELECT version FROM meta", &[], |row| row.value(0))?.unwrap_or(0),
        settings,
    })
}

/// Returns by how many milliseconds the server's clock is ahead, by the fastest of several questions, and how
/// long that took.
fn clock_ahead(session: &Session) -> Result<(i64, u64), StoreError> {
    let query = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    let mut best: Option<(i64, u64)> = None;
    for _ in 0..5 {
        let (asked, began) = (now_ms(), Instant::now());
        let theirs: i64 = session.one(query, &[], |row| row.value(0))?.unwrap_or_default();
        let took = began.elapsed();
        let half = i64::try_from(took.as_millis() / 2).unwrap_or(i64::MAX);
        let exact = u64::try_from(took.as_millis()).unwrap_or(u64::MAX) / 2 + 1;
        if best.is_none_or(|(_, best)| exact < best) {
            best = Some((theirs - asked - half, exact));
        }
    }
    Ok(best.unwrap_or_default())
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Returns whether a pooler gives the connection another process of the server while a transaction of another
/// connection has the one before. Then nothing that was set for a session is there any more.
pub(super) fn is_pooled(session: &Session, target: &Target) -> Result<bool, StoreError> {
    let pid = |session: &Session| {
        session.one("SELECT pg_backend_pid()::bigint", &[], |row| row.value::<i64>(0))
    };
    let before = pid(session)?;
    let other = Session::open(target, super::READ_PATIENCE, None)?;
    other.batch("BEGIN")?;
    let taken = pid(&other);
    let after = pid(session);
    other.batch("ROLLBACK")?;
    taken?;
    Ok(before != after?)
}
