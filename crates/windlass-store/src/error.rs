//! The errors of the store.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use windlass_core::{ClaimError, DeclareError};

use crate::encoding::DecodeError;
use crate::name::NameError;
use crate::transaction::LimitError;
use crate::writer_wait::Blocker;

/// A failure of the disk.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DiskFault {
    /// The disk has no space left.
    #[error("the disk is full")]
    Full,
    /// A write or a sync failed.
    #[error("{0}")]
    Failing(String),
}

/// Why an operation on the store failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// An operation on a file or directory failed.
    #[error("cannot use {path}: {source}", path = path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A directory that should become a group's store contains other files.
    #[error(
        "{dir} contains files that do not belong to a store; choose a new or empty directory",
        dir = dir.display()
    )]
    NotAStore {
        /// The directory.
        dir: PathBuf,
    },
    /// Every user may write to the directory, and so replace files of the store.
    #[error(
        "{dir} is writable for every user, who could replace files of the store; run: chmod o-w {dir}, or choose another directory with --state",
        dir = dir.display()
    )]
    WorldWritable {
        /// The directory.
        dir: PathBuf,
    },
    /// The directory is for the files of all users, like `/tmp`, and contains no store of this user.
    #[error(
        "{dir} is for the files of all users; use a directory below it, such as --state {below}",
        dir = dir.display(), below = dir.join("windlass").display()
    )]
    PublicDir {
        /// The directory.
        dir: PathBuf,
    },
    /// The directory belongs to another user, and is not shared with a group.
    #[error(
        "{dir} belongs to another user (uid {uid}), who could replace files of the store; that user can share it with: windlass store init --state {dir} --group NAME, or choose another directory with --state",
        dir = dir.display()
    )]
    ForeignDir {
        /// The directory.
        dir: PathBuf,
        /// The user.
        uid: u32,
    },
    /// The system did not provide information about time or processes.
    #[error("cannot determine {what}: {source}")]
    SystemQuery {
        /// The information.
        what: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// SQLite failed in a way that has no variant of its own.
    #[error("the store failed: {0}")]
    Sqlite(rusqlite::Error),
    /// The file is damaged, or is not a database.
    #[error(
        "{path} is damaged or not a store: {source}; restore a backup, or move its directory away to start with an empty store",
        path = path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The error of SQLite.
        source: rusqlite::Error,
    },
    /// A file of the store, or its directory, was removed, or another one is in its place.
    #[error(
        "{path} was removed or replaced by another program; restore the store from a backup, or move what is left of its directory away to start with an empty one",
        path = path.display()
    )]
    Replaced {
        /// The file or directory.
        path: PathBuf,
    },
    /// A file of the store has lost a part of its content.
    #[error(
        "{path} was truncated by another program; restore the store from a backup, or move its directory away to start with an empty one",
        path = path.display()
    )]
    Truncated {
        /// The file.
        path: PathBuf,
    },
    /// The index of SQLite's write-ahead log was removed, replaced or truncated. It contains nothing that
    /// the other files do not, and SQLite builds it anew when no process uses the old one any more.
    #[error(
        "{path} was removed, replaced or truncated by another program; what was stored is not lost: end all windlass processes that use this store, then start again",
        path = path.display()
    )]
    IndexLost {
        /// The file.
        path: PathBuf,
    },
    /// A write failed. This connection writes nothing any more: every acknowledged commit is stored, and
    /// the failed one is not.
    #[error(
        "cannot write {path} any more: {reason}; free some space or check the disk, then start again",
        path = path.display()
    )]
    Fatal {
        /// The file.
        path: PathBuf,
        /// What failed.
        reason: DiskFault,
    },
    /// The answer to a commit was lost: whether the store has it is unknown.
    #[error("the store did not answer a commit, so it is unknown whether it has it: {why}")]
    Unanswered {
        /// What has happened to the connection.
        why: String,
    },
    /// This process has no permission to write the file, or its file system is read-only.
    #[error("cannot write {path}: it is read-only", path = path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// The directory has no store, and the caller did not want to create one.
    #[error("there is no store in {dir}", dir = dir.display())]
    NoStore {
        /// The directory.
        dir: PathBuf,
    },
    /// Another process kept writers out for longer than the caller was ready to wait.
    #[error("timed out waiting for the store: {0}")]
    Busy(Blocker),
    /// The caller was told to stop while it waited for another writer.
    #[error("interrupted while waiting for the store")]
    Interrupted,
    /// The URL of a database is invalid.
    #[error("invalid URL of a database {url:?}: {why}")]
    DatabaseUrl {
        /// The URL, without a password.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The database has refused something.
    #[error("database {database}: {why}")]
    Database {
        /// The URL of the database, without a password.
        database: String,
        /// What it said.
        why: String,
    },
    /// The server asks for a password, and there is none.
    #[error(
        "database {database} asks for a password, and there is none for it in ~/.pgpass, the file that PGPASSFILE names, PGPASSWORD or WINDLASS_STATE"
    )]
    NoPassword {
        /// The URL of the database.
        database: String,
    },
    /// The database cannot be reached.
    #[error("cannot reach database {database}: {why}")]
    DatabaseAway {
        /// The URL of the database, without a password.
        database: String,
        /// What has happened to the connection.
        why: String,
    },
    /// The database has no room for a write: on its disk, in its memory, or within one of its settings.
    #[error("database {database} has no room: {why}")]
    DatabaseFull {
        /// The URL of the database, without a password.
        database: String,
        /// What it said.
        why: String,
    },
    /// A pooler is between this process and the database, and gives each transaction another session of the server.
    #[error(
        "database {database} is behind a pooler that gives each transaction another session of the server, so wake-ups, time limits and prepared statements are lost or reach others; connect to the server itself, or set pool_mode = session"
    )]
    Pooled {
        /// The URL of the database, without a password.
        database: String,
    },
    /// The database has no store, and the caller did not want to create one.
    #[error(
        "there is no store in database {database}; create it with: windlass store init --state '{database}'"
    )]
    NoDatabaseStore {
        /// The URL of the database, without a password.
        database: String,
    },
    /// The directory is on a network file system.
    #[error(
        "{path} is on a network file system ({kind}), which can corrupt a store; choose another directory with --state, or set WINDLASS_NETWORK_STATE=allow if only one machine uses it",
        path = path.display()
    )]
    NetworkFileSystem {
        /// The directory.
        path: PathBuf,
        /// The type of the file system.
        kind: &'static str,
    },
    /// A newer version of Windlass has written the file.
    #[error(
        "{path} has version {found}, but this version of windlass supports at most {known}; use a newer windlass",
        path = path.display()
    )]
    NewerVersion {
        /// The file.
        path: PathBuf,
        /// The version of its tables.
        found: i32,
        /// The newest version that this program supports.
        known: i32,
    },
    /// The tables of a database have an older version, and cannot be migrated.
    #[error(
        "the store in database {database} has version {found}, and this version of windlass needs {known}; its tables cannot be changed by this account ({why}), so have their owner run: windlass store init"
    )]
    OlderVersion {
        /// The URL of the database, without a password.
        database: String,
        /// The version of its tables.
        found: i32,
        /// The version that this program needs.
        known: i32,
        /// What the database said.
        why: String,
    },
    /// The file belongs to another program.
    #[error("{path} is a database of another program, not a store of windlass", path = path.display())]
    NotWindlass {
        /// The file.
        path: PathBuf,
    },
    /// The SQLite that this program was built with has a bug that can corrupt a store.
    #[error(
        "SQLite {found} can corrupt a store that several processes use; build windlass with a newer one"
    )]
    OldSqlite {
        /// The version of SQLite.
        found: &'static str,
    },
    /// A stored fact cannot be read.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A name is invalid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A claim is invalid.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// A limit cannot be set, removed or used.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// A semaphore cannot be declared with this capacity.
    #[error(transparent)]
    Declare(#[from] DeclareError),
    /// Another process has taken over the run.
    #[error("run {run} is led by another process now")]
    StaleEpoch {
        /// The id of the run.
        run: String,
    },
    /// No run has this id.
    #[error("no run has the id {run:?}")]
    UnknownRun {
        /// The id or prefix that the caller gave.
        run: String,
    },
    /// The ids of several runs begin with this prefix.
    #[error("the ids of several runs begin with {run:?}; give more digits")]
    AmbiguousRun {
        /// The prefix that the caller gave.
        run: String,
    },
    /// The path of a run's directory cannot be stored.
    #[error("cannot store a run in {dir}: the path is not valid UTF-8", dir = dir.display())]
    PathNotUtf8 {
        /// The directory.
        dir: PathBuf,
    },
    /// The number of boots or fail-overs no longer fits into a token.
    #[error(
        "the store was used in more boots than its tokens can count; start with an empty store"
    )]
    TooManyEras,
}

impl StoreError {
    /// Names the file at `path` as lost, or its directory if that is gone as a whole.
    pub(crate) fn lost(path: &Path) -> Self {
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty() && !dir.exists());
        StoreError::Replaced { path: dir.unwrap_or(path).to_owned() }
    }

    /// Returns whether files of the store are missing or damaged, so that nothing can be resumed.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(
            self,
            StoreError::Replaced { .. } | StoreError::Truncated { .. } | StoreError::Damaged { .. }
        )
    }

    /// Returns whether a process that uses the store has to end, because trying again cannot help.
    #[must_use]
    pub fn is_final(&self) -> bool {
        let is_other =
            matches!(self, StoreError::IndexLost { .. } | StoreError::NewerVersion { .. });
        is_other || self.is_lost()
    }

    /// Returns whether the store is a database that could not be used at that moment, so that trying again may
    /// help.
    #[must_use]
    pub fn is_away(&self) -> bool {
        matches!(
            self,
            StoreError::DatabaseAway { .. }
                | StoreError::DatabaseFull { .. }
                | StoreError::Unanswered { .. }
        )
    }

    /// Returns whether the disk is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, StoreError::Fatal { reason: DiskFault::Full, .. })
    }

    /// Returns whether the arguments of the caller are at fault, not the store.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            StoreError::Name(_)
                | StoreError::Claim(_)
                | StoreError::Limit(_)
                | StoreError::Declare(_)
                | StoreError::UnknownRun { .. }
                | StoreError::AmbiguousRun { .. }
                | StoreError::PathNotUtf8 { .. }
                | StoreError::DatabaseUrl { .. }
        )
    }
}
