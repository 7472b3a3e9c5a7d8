//! Why the store cannot do what was asked.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use windlass_core::{ClaimError, DeclareError};

use crate::encoding::DecodeError;
use crate::name::NameError;

/// What is wrong with a disk.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DiskFault {
    /// There is no room on it.
    #[error("the disk is full")]
    Full,
    /// It does not keep what it is given.
    #[error("{0}")]
    Failing(String),
}

/// Why the store cannot be used, or cannot do what was asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A file or directory cannot be used.
    #[error("cannot use {path}: {source}", path = path.display())]
    Io {
        /// What cannot be used.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A directory that is to become a group's store holds something else.
    #[error("{dir} holds files that are no store; name a new or empty directory", dir = dir.display())]
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
    /// The system does not tell what the store has to know about time and processes.
    #[error("the system does not tell {what}: {source}")]
    Unknown {
        /// What.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// SQLite says no.
    #[error("the store cannot be used: {0}")]
    Sqlite(rusqlite::Error),
    /// The file is damaged, or was never a store.
    #[error(
        "{path} is damaged or not a store: {source}; put a copy in its place, or move its directory away to begin anew",
        path = path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
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
    /// The disk is full or does not keep what it is given. Nothing is written by this process any
    /// more: what was acknowledged is there, and what failed is not.
    #[error("{path} cannot be written any more: {reason}; make room or look at the disk, then start again", path = path.display())]
    Fatal {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        reason: DiskFault,
    },
    /// The file, or its directory, must not be written to.
    #[error("{path} cannot be written to: it is read-only", path = path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// There is no store in the directory, and the caller wanted none to be made.
    #[error("there is no store in {dir}", dir = dir.display())]
    NoStore {
        /// The directory.
        dir: PathBuf,
    },
    /// Another process has been writing for too long.
    #[error("{path} is in use for too long by {by}; if that process is stopped, continue or end it", path = path.display())]
    Busy {
        /// The gate.
        path: PathBuf,
        /// Who is inside.
        by: String,
    },
    /// A signal came while waiting to write.
    #[error("interrupted while waiting for the store")]
    Interrupted,
    /// The directory lies on a network file system.
    #[error(
        "{path} lies on a network file system ({kind}), where a store can be corrupted; choose another directory with --state, or set WINDLASS_NETWORK_STATE=allow if only one machine uses it",
        path = path.display()
    )]
    Network {
        /// The directory.
        path: PathBuf,
        /// What kind of file system.
        kind: &'static str,
    },
    /// A newer version of windlass has written the file.
    #[error("{path} has version {found}, and this windlass knows only {known}: use a newer one", path = path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i32,
        /// The newest version that is known here.
        known: i32,
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
    /// The store holds something that cannot be read.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A name that cannot be one.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A claim that makes no sense.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// A semaphore that cannot be declared so.
    #[error(transparent)]
    Declare(#[from] DeclareError),
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
    /// Several runs begin like this.
    #[error("several runs begin with {run:?}; give more of the id")]
    AmbiguousRun {
        /// What was asked for.
        run: String,
    },
    /// The directory of a run has a name that cannot be stored.
    #[error("no run can be kept whose directory is {dir}: its name is not text in UTF-8", dir = dir.display())]
    NoText {
        /// The directory.
        dir: PathBuf,
    },
    /// The boot counter has run out.
    #[error("the store has seen more boots than tokens can tell apart")]
    TooManyBoots,
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

    /// Whether all that is missing is room on the disk.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, StoreError::Fatal { reason: DiskFault::Full, .. })
    }

    /// Whether the fault lies in what was asked for, not in the store.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            StoreError::Name(_)
                | StoreError::Claim(_)
                | StoreError::Declare(_)
                | StoreError::UnknownRun { .. }
                | StoreError::AmbiguousRun { .. }
                | StoreError::NoText { .. }
        )
    }
}
