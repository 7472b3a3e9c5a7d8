//! The write-ahead log of a run: facts that are not in the store yet.
//!
//! A commit of the store takes a good part of the time that a small process takes. So the leader of a
//! run of many small steps writes what happens to a log of its own first, and the store takes over
//! many records in one commit, a little later. Records survive the leader, and once synced, a loss of
//! power. The next leader, and every reader of the run, reads them after the journal.
//!
//! Each record carries the position of the journal that it follows. So no fact gets into the journal
//! twice, behind a gap, or after a journal that a loss of power has cut; and records that the store has
//! need not be erased.

mod record;

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use windlass_core::Fact;

use self::record::WalRecord;
use crate::access::Access;
use crate::step::AttemptRecord;

/// The size of the log; once it is full, the store has to take over and sync its records.
const SIZE: usize = 128 * 1024;

/// The length of a journal, with the time of its last fact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalPosition {
    facts: usize,
    /// The time of the last fact, in nanoseconds. Another journal of the same length has another one.
    last: u64,
}

impl JournalPosition {
    /// Returns the position after `facts` are appended.
    #[must_use]
    pub fn with(self, facts: &[Fact]) -> Self {
        let last = facts.last().map_or(self.last, |last| last.at.as_nanos());
        Self { facts: self.facts + facts.len(), last }
    }
}

/// The write-ahead log of a run, for its leader.
///
/// A log that cannot be written or synced is not used any more; the leader commits to the store instead.
#[derive(Debug)]
pub struct Wal {
    path: PathBuf,
    /// Created with the first record.
    file: Option<File>,
    /// The offset of the next record.
    at: usize,
    /// Whether the file has its full size: syncing overwritten blocks is faster than syncing new ones.
    filled: bool,
    /// Whether every sync so far has succeeded.
    usable: bool,
}

/// The contents of a log, read at one time.
#[derive(Clone, Debug, Default)]
pub struct WalSnapshot(Vec<u8>);

/// The records of a log that follow a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalTail {
    /// The facts that the journal does not have.
    pub facts: Vec<Fact>,
    /// The attempts that were recorded with them.
    pub attempts: Vec<AttemptRecord>,
}

impl Wal {
    /// Creates an empty log in the file at `path`. The store must have all records of an existing file.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), file: None, at: 0, filled: false, usable: true }
    }

    /// Reads the log at `path`. To be called before the journal is read: a record that the store takes
    /// over in between is then seen twice, which is harmless, and not missed.
    pub fn read(path: &Path) -> io::Result<WalSnapshot> {
        match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(WalSnapshot(Vec::new())),
            bytes => bytes.map(WalSnapshot),
        }
    }

    /// Writes a record of at least one fact, which follows the journal at `after`. Returns whether it
    /// was written, so that it survives this process; false if there is no room or the write failed.
    pub fn write<'a>(
        &mut self,
        after: JournalPosition,
        facts: &[Fact],
        attempts: impl Iterator<Item = &'a AttemptRecord>,
    ) -> bool {
        let record = WalRecord::new(after, facts, attempts).framed();
        let room = self.usable && SIZE - self.at >= record.len();
        let written =
            room && self.file().is_ok_and(|(file, at)| file.write_all_at(&record, at).is_ok());
        if written {
            self.at += record.len();
        }
        written
    }

    /// Syncs the log. Returns whether all records survive a loss of power now; after a failure it never
    /// tries again, and the store has to take them over.
    pub fn sync(&mut self) -> bool {
        let synced = self.fill().and_then(|()| self.file.as_ref().map_or(Ok(()), File::sync_data));
        self.usable &= synced.is_ok();
        self.usable
    }

    /// Returns the file, so that the caller can have the kernel start writing it out before
    /// [`Wal::sync`].
    #[must_use]
    pub fn file_to_sync(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(File::as_fd)
    }

    /// Starts again at the beginning of the file. The store must have all records, and be synced.
    pub fn clear(&mut self) {
        self.at = 0;
    }

    /// Removes the file of a run that has ended. One that is left behind does no harm.
    pub fn remove(&mut self) {
        self.file = None;
        let _ = fs::remove_file(&self.path);
    }

    fn file(&mut self) -> io::Result<(&File, u64)> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(Access::open(&self.path, File::options().write(true))?),
        };
        Ok((file, self.at as u64))
    }

    /// Gives the file its full size before the first sync, and syncs the directories that may have been
    /// created with it: that of the run, that of all runs, and that of the store.
    fn fill(&mut self) -> io::Result<()> {
        if let Some(file) = self.file.as_ref().filter(|_| !self.filled) {
            file.write_all_at(&vec![0; SIZE - self.at], self.at as u64)?;
            let mut dirs = self.path.ancestors().skip(1).take(3);
            dirs.try_for_each(|dir| File::open(dir)?.sync_all())?;
            self.filled = true;
        }
        Ok(())
    }
}

impl WalSnapshot {
    /// Returns the records that follow `journal`.
    #[must_use]
    pub fn after(&self, journal: &[Fact]) -> WalTail {
        let mut tail = WalTail::default();
        let stored = JournalPosition::default().with(journal);
        let mut rest = self.0.as_slice();
        while let Some((record, behind)) = WalRecord::first_of(rest) {
            rest = behind;
            let reached = stored.with(&tail.facts);
            if record.after == reached {
                record.append_to(&mut tail);
            } else if record.after.facts >= reached.facts {
                break;
            }
            // Else the journal has it.
        }
        tail
    }
}

impl WalTail {
    /// Returns whether there are no facts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.facts.is_empty()
    }
}

#[cfg(test)]
mod tests;
