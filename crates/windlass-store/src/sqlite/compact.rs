//! Makes a database smaller whose records were deleted.
//!
//! SQLite keeps the room of deleted records for new ones. Once more than half of the file is that, the rest
//! is written anew. This is for the rare occasions on which much is deleted: an `auto_vacuum` would make
//! every commit do more.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};
use rustix::fs::statvfs;

use crate::error::StoreError;

/// How long to wait for readers, while other writers wait for this process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(1);
/// How often the rest is written before the file is smaller: to a temporary file, and to the log.
const COPIES: u64 = 2;

/// Makes the database smaller if more than half of it is free and there is room for the copies.
pub(super) fn compact(connection: &Connection, dir: &Path) -> Result<(), StoreError> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, u64>(0));
    let (pages, free) = (pragma("page_count")?, pragma("freelist_count")?);
    let rest = (pages - free.min(pages)) * pragma("page_size")?;
    if free * 2 <= pages || room(dir).is_some_and(|room| room < rest * COPIES) {
        return Ok(());
    }
    connection.busy_timeout(BUSY_TIMEOUT)?;
    let compacted = connection.execute_batch("VACUUM").and_then(|()| {
        // The file becomes smaller now, or with a later checkpoint if a reader is in the way.
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
    });
    connection.busy_timeout(super::BUSY_TIMEOUT)?;
    match compacted {
        // The temporary file may lie elsewhere, or another program write. Nothing has changed.
        Err(error)
            if matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy)
            ) =>
        {
            Ok(())
        }
        compacted => Ok(compacted?),
    }
}

/// Returns how many bytes may be written to the file system of `dir`, if that is known.
fn room(dir: &Path) -> Option<u64> {
    let found = statvfs(dir).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}
