//! The logs of a run that is shown while it runs: files of this machine, or else what its store keeps of them.
//!
//! A file of this machine is never behind what the store has of it. Where logs end that only the store has is
//! asked for all of them at once, and only what is new is read. A server that does not answer delays the
//! display for a moment, and the log is read at its next look.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use windlass_store::{LogPosition, Store, StoreError};

use super::LogCursor;
use super::logs::{file_name, read_file, read_stored};
use crate::logs::{Tail, tail};

/// How long one look waits for a server.
const PATIENCE: Duration = Duration::from_secs(2);

/// The logs of a run that is shown while it runs.
pub struct ShownLogs {
    /// A store that keeps those of other machines.
    stored: Option<StoredLogs>,
}

struct StoredLogs {
    store: Store,
    run: String,
    /// Where the logs ended at the last look, by name.
    ends: BTreeMap<String, LogPosition>,
}

impl ShownLogs {
    /// Finds logs in files of this machine only.
    #[must_use]
    pub fn on_this_machine() -> Self {
        Self { stored: None }
    }

    /// Finds the logs of a submitted run also in its store, if that keeps logs.
    pub fn of_submitted(store: &mut Store, run: &str) -> Result<Self, StoreError> {
        if store.logs().is_none() {
            return Ok(Self::on_this_machine());
        }
        let store = store.opener_within(PATIENCE).open()?;
        let (run, ends) = (run.to_owned(), BTreeMap::new());
        Ok(Self { stored: Some(StoredLogs { store, run, ends }) })
    }

    /// Returns whether logs may be on other machines, so that each look asks a server.
    #[must_use]
    pub fn may_be_elsewhere(&self) -> bool {
        self.stored.is_some()
    }

    /// Returns whether a log is in the file of this machine at `path`, unless nothing was printed.
    #[must_use]
    pub fn is_here(&self, path: &Path) -> bool {
        self.stored.is_none() || path.exists()
    }

    /// Returns whether a log may have something, as far as the last look has told.
    #[must_use]
    pub fn has(&self, path: &Path) -> bool {
        let in_store = |stored: &StoredLogs| stored.end(path) != LogPosition::default();
        self.stored.as_ref().is_none_or(in_store) || path.exists()
    }

    /// Looks where these logs end now, which is what the other functions go by.
    pub fn look_at<'a>(&mut self, paths: impl IntoIterator<Item = &'a Path>) -> io::Result<()> {
        let Some(StoredLogs { store, run, ends }) = &mut self.stored else { return Ok(()) };
        let elsewhere = paths.into_iter().filter(|path| !path.exists());
        let files: Vec<_> = elsewhere.filter_map(file_name).collect();
        if let Some(logs) = store.logs().filter(|_| !files.is_empty()) {
            *ends = logs.ends(run, &files).map_err(io::Error::other)?.into_iter().collect();
        }
        Ok(())
    }

    /// Returns the position behind everything that a log has.
    pub fn end(&self, path: &Path) -> io::Result<LogCursor> {
        match fs::metadata(path) {
            Ok(file) => Ok(LogCursor { of_file: file.len(), ..LogCursor::default() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let of_store = self.stored.as_ref().map(|stored| stored.end(path));
                Ok(LogCursor { of_store: of_store.unwrap_or_default(), ..LogCursor::default() })
            }
            Err(error) => Err(error),
        }
    }

    /// Appends what a log has behind `cursor` to `bytes`, and moves it: about `most` bytes, and none if there is
    /// no more now.
    pub fn read_on(
        &mut self,
        path: &Path,
        cursor: &mut LogCursor,
        most: u64,
        bytes: &mut Vec<u8>,
    ) -> io::Result<usize> {
        let has_begun_in_store = cursor.of_store != LogPosition::default();
        if !has_begun_in_store && let Some(read) = read_file(path, cursor, most, bytes)? {
            return Ok(read);
        }
        let Some(stored) = self.stored.as_mut().filter(|_| cursor.of_file == 0) else {
            return Ok(0);
        };
        let Some(file) = file_name(path).filter(|_| cursor.of_store < stored.end(path)) else {
            return Ok(0);
        };
        let read = read_stored(&mut stored.store, &stored.run, file, cursor, most, bytes);
        read.map(|read| read.bytes).map_err(io::Error::other)
    }

    /// Returns the last lines of a log that fit into `most` bytes, as [`tail`] does.
    pub fn tail(&mut self, path: &Path, most: u64) -> io::Result<Tail> {
        let Some(StoredLogs { store, run, .. }) = self.stored.as_mut().filter(|_| !path.exists())
        else {
            return tail(path, most);
        };
        let (Some(logs), Some(file)) = (store.logs(), file_name(path)) else {
            return Ok(Tail::default());
        };
        let last = logs.tail(run, file, most).map_err(io::Error::other)?;
        Ok(last.map(|last| Tail::of_whole_lines(last.bytes, last.at)).unwrap_or_default())
    }
}

impl StoredLogs {
    fn end(&self, path: &Path) -> LogPosition {
        file_name(path).and_then(|file| self.ends.get(file)).copied().unwrap_or_default()
    }
}
