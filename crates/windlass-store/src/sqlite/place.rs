//! Notices files that were removed, replaced or truncated while a connection has them open.
//!
//! SQLite goes on with the files that it has open, so whatever it commits after that is lost as soon as
//! the last process closes them. The check costs one `stat` per file; only a file that has become
//! shorter is compared with what SQLite knows about it.
//!
//! The index of the write-ahead log is mapped into memory. A process that reads a part of it that was cut
//! off dies of SIGBUS, so the index is looked at before SQLite is asked for anything. One that is cut off
//! in between still ends the process, which loses nothing: the next process builds the index anew.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::error::StoreError;

/// The header of a write-ahead log, and that of each of its frames, in bytes.
const LOG_HEADER: u64 = 32;
const FRAME_HEADER: u64 = 24;

/// Device and number of a file.
pub(super) type Inode = (u64, u64);

/// The files of an open connection: the database, and if there are any, its write-ahead log and the
/// index of that.
pub(super) struct Place {
    database: Seen,
    log: Option<Seen>,
    index: Option<Seen>,
}

impl Place {
    /// Notes the files of a connection that was opened just now.
    pub(super) fn of(database: &Path) -> Result<Self, StoreError> {
        let beside = |suffix: &str| {
            let mut path = database.as_os_str().to_owned();
            path.push(suffix);
            Seen::new(Path::new(&path)).ok()
        };
        Ok(Self { database: Seen::new(database)?, log: beside("-wal"), index: beside("-shm") })
    }

    /// Returns which file the database is.
    pub(super) fn inode(&self) -> Inode {
        self.database.inode
    }

    /// Fails if one of the files is not at its path any more, or has lost a part of its content.
    pub(super) fn check(&mut self, connection: &Connection) -> Result<(), StoreError> {
        let Self { database, log, index } = self;
        let database_now = database.find()?;
        let log_now = log.as_ref().map_or(Ok(0), Seen::find)?;
        if let Some(index) = index {
            // It never becomes shorter while a connection is open.
            match index.find() {
                Ok(length) if length >= index.length => index.length = length,
                _ => return Err(StoreError::IndexLost { path: index.path.clone() }),
            }
        }
        database.note(database_now, || database_length(connection))?;
        log.as_mut().map_or(Ok(()), |log| log.note(log_now, || log_length(connection)))
    }
}

/// A file as it was when it was last looked at.
struct Seen {
    path: PathBuf,
    inode: Inode,
    length: u64,
}

impl Seen {
    fn new(path: &Path) -> Result<Self, StoreError> {
        let (inode, length) = look(path)?;
        Ok(Self { path: path.to_owned(), inode, length })
    }

    /// Returns how long the file is. Fails if it is not at its path any more.
    fn find(&self) -> Result<u64, StoreError> {
        let (inode, length) = look(&self.path)?;
        if inode == self.inode { Ok(length) } else { Err(StoreError::lost(&self.path)) }
    }

    /// Notes how long the file is now. One that has become shorter must have at least as many bytes as
    /// SQLite has in it; where that cannot be found out, it has lost some.
    fn note(
        &mut self,
        length: u64,
        used: impl FnOnce() -> rusqlite::Result<u64>,
    ) -> Result<(), StoreError> {
        if length < self.length && used().map_or(true, |used| length < used) {
            return Err(StoreError::Truncated { path: self.path.clone() });
        }
        self.length = length;
        Ok(())
    }
}

/// Returns which file is at `path`, and how long it is.
fn look(path: &Path) -> Result<(Inode, u64), StoreError> {
    let found = fs::metadata(path).map_err(|_| StoreError::lost(path))?;
    Ok(((found.dev(), found.ino()), found.len()))
}

/// Returns which file is at `path`.
pub(super) fn inode(path: &Path) -> Result<Inode, StoreError> {
    look(path).map(|(inode, _)| inode)
}

fn database_length(connection: &Connection) -> rusqlite::Result<u64> {
    Ok(pragma(connection, "page_count")? * pragma(connection, "page_size")?)
}

/// Returns how many bytes of the log are in use. The pragma counts frames and changes nothing.
fn log_length(connection: &Connection) -> rusqlite::Result<u64> {
    let frames: i64 = connection.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| row.get(1))?;
    let page_size = pragma(connection, "page_size")?;
    Ok(match frames {
        1.. => LOG_HEADER + frames.unsigned_abs() * (FRAME_HEADER + page_size),
        _ => 0,
    })
}

fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<u64> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}
