//! The log that commits are written to first, and how it gets to the disk.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use crate::error::{DiskFault, StoreError};

/// The write-ahead log of a store that is open here. It is the same file as long as it is.
pub(super) struct WalFile {
    store: PathBuf,
    path: PathBuf,
    file: Option<File>,
}

impl WalFile {
    /// The log of the store in the file `store`.
    pub(super) fn of(store: &Path) -> Self {
        let mut path = store.as_os_str().to_owned();
        path.push("-wal");
        Self { store: store.to_owned(), path: path.into(), file: None }
    }

    /// Commits are in the log, or in the file if they have been moved there, which syncs both.
    pub(super) fn sync(&mut self) -> Result<(), StoreError> {
        let synced = match self.open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            file => file.and_then(File::sync_data),
        };
        synced.map_err(|error| {
            let reason = format!("what was written cannot be synced: {error}");
            StoreError::Fatal { path: self.store.clone(), reason: DiskFault::Failing(reason) }
        })
    }

    /// The file, if there is one.
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
