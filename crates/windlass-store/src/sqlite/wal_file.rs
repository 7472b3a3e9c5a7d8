//! SQLite's write-ahead log, and how it is synced.
//!
//! It has nothing to do with the write-ahead log of a run ([`Wal`](crate::Wal)).

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use crate::error::{DiskFault, StoreError};

/// The write-ahead log of an open database. SQLite does not replace the file while it is open.
pub(super) struct WalFile {
    store: PathBuf,
    path: PathBuf,
    file: Option<File>,
}

impl WalFile {
    /// Returns the log of the database at `store`.
    pub(super) fn of(store: &Path) -> Self {
        let mut path = store.as_os_str().to_owned();
        path.push("-wal");
        Self { store: store.to_owned(), path: path.into(), file: None }
    }

    /// Syncs the log. Commits that SQLite has copied into the database are synced by that.
    pub(super) fn sync(&mut self) -> Result<(), StoreError> {
        let synced = match self.open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            file => file.and_then(File::sync_data),
        };
        synced.map_err(|error| {
            let reason = format!("cannot sync the write-ahead log: {error}");
            StoreError::Fatal { path: self.store.clone(), reason: DiskFault::Failing(reason) }
        })
    }

    /// Returns the file, if it exists.
    pub(super) fn file(&mut self) -> Option<BorrowedFd<'_>> {
        self.open().ok().map(File::as_fd)
    }

    fn open(&mut self) -> io::Result<&File> {
        match &mut self.file {
            Some(file) => Ok(file),
            none => Ok(none.insert(File::open(&self.path)?)),
        }
    }
}
