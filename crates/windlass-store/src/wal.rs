//! The slate of a run: what has happened and is not in the store yet.
//!
//! A commit takes as long as a part of a small process. Whoever leads a run of many small steps jots
//! down in a file of its own what happens, and has the store take it over a reading later,
//! many things in one commit. What stands there survives the leader, and, once synced, a loss of
//! power; whoever leads the run next, or looks at it, reads it after the journal.
//!
//! Each jotting says how far the journal went before it. So nothing gets into the journal twice,
//! nothing behind a gap, and nothing of a past that a loss of power has undone; and what is wiped off
//! need not be erased.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use windlass_core::{Fact, WorkId};

use crate::access::Access;
use crate::encoding::StoredFact;
use crate::run::{AttemptEnd, AttemptRecord};

/// How much there is room for; once it is full, the store has to be synced.
const SIZE: usize = 128 * 1024;
/// Before each jotting: how long it is, and its checksum.
const HEADER: usize = 8;

/// How far a journal goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalPosition {
    facts: usize,
    /// When the last of them was, in nanoseconds: another past has another one in its place.
    last: u64,
}

impl JournalPosition {
    /// How far it goes with `facts` behind what was there.
    #[must_use]
    pub fn with(self, facts: &[Fact]) -> Self {
        let last = facts.last().map_or(self.last, |last| last.at.as_nanos());
        Self { facts: self.facts + facts.len(), last }
    }
}

/// What happened at once, or since.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalTail {
    /// What happened to the works of the run.
    pub facts: Vec<Fact>,
    /// How attempts went.
    pub attempts: Vec<AttemptRecord>,
}

/// The slate of the run that is led here.
#[derive(Debug)]
pub struct Wal {
    path: PathBuf,
    /// Made with the first jotting.
    file: Option<File>,
    /// Where the next one goes.
    at: usize,
    /// Whether it is as long as it gets: overwriting what is there is sooner on the disk than more.
    filled: bool,
    /// Whether it has not failed so far.
    usable: bool,
}

/// A copy of what stands on a slate.
#[derive(Clone, Debug, Default)]
pub struct WalSnapshot(Vec<u8>);

impl Wal {
    /// A clean slate in the file at `path`. What stands there from before has to be in the store.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), file: None, at: 0, filled: false, usable: true }
    }

    /// What stands on the slate at `path`. To be read before the journal: what gets from here to there
    /// in between is known twice, which does no harm, and not never.
    pub fn read(path: &Path) -> io::Result<WalSnapshot> {
        match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(WalSnapshot(Vec::new())),
            text => text.map(WalSnapshot),
        }
    }

    /// Jots down what happened once the journal went that far: at least one fact. It survives this
    /// process from now on; not if there is no room, or it cannot be written.
    pub fn write<'a>(
        &mut self,
        after: JournalPosition,
        facts: &[Fact],
        attempts: impl Iterator<Item = &'a AttemptRecord>,
    ) -> bool {
        let facts = facts.iter().map(StoredFact::from).collect();
        let entry =
            WalRecord { after, facts, attempts: attempts.map(StoredAttempt::from).collect() };
        let entry = entry.framed();
        let room = self.usable && SIZE - self.at >= entry.len();
        let written =
            room && self.file().is_ok_and(|(file, at)| file.write_all_at(&entry, at).is_ok());
        if written {
            self.at += entry.len();
        }
        written
    }

    /// What stands here survives a loss of power, once this has returned; not if it cannot be synced,
    /// which is not tried again. Then the store has to have it.
    pub fn sync(&mut self) -> bool {
        let synced = self.fill().and_then(|()| self.file.as_ref().map_or(Ok(()), File::sync_data));
        self.usable &= synced.is_ok();
        self.usable
    }

    /// The file, for those who have the disk begin before they sync.
    #[must_use]
    pub fn file_to_sync(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(File::as_fd)
    }

    /// Everything that stands here is in the store, and synced there: there is room again.
    pub fn clear(&mut self) {
        self.at = 0;
    }

    /// The run is over. Harmless if it is left.
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

    /// Makes it as long as it gets, before it is synced for the first time, and the directories as sure
    /// as it that were made with it: that of the run, that of all runs, and the store's.
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
    /// What comes after `journal`.
    #[must_use]
    pub fn after(&self, journal: &[Fact]) -> WalTail {
        let mut all = WalTail::default();
        let stored = JournalPosition::default().with(journal);
        let mut rest = self.0.as_slice();
        while let Some((entry, behind)) = WalRecord::first_of(rest) {
            rest = behind;
            let reached = stored.with(&all.facts);
            if entry.after == reached {
                all.extend(entry);
            } else if entry.after.facts >= reached.facts {
                break;
            }
            // Else it is in the journal.
        }
        all
    }
}

impl WalTail {
    /// Whether nothing happened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.facts.is_empty()
    }

    fn extend(&mut self, entry: WalRecord) {
        self.facts.extend(entry.facts.into_iter().map_while(StoredFact::fact));
        self.attempts.extend(entry.attempts.into_iter().filter_map(StoredAttempt::record));
    }
}

/// A jotting as it stands there.
#[derive(Serialize, Deserialize)]
struct WalRecord {
    after: JournalPosition,
    facts: Vec<StoredFact>,
    attempts: Vec<StoredAttempt>,
}

impl WalRecord {
    fn framed(&self) -> Vec<u8> {
        let mut framed = vec![0; HEADER];
        serde_json::to_writer(&mut framed, self).expect("numbers and texts are always JSON");
        let (header, body) = framed.split_at_mut(HEADER);
        let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
        header[..4].copy_from_slice(&length.to_le_bytes());
        header[4..].copy_from_slice(&crc32fast::hash(body).to_le_bytes());
        framed
    }

    /// The first one in `text`, and what is behind it; none if what is there is not whole.
    fn first_of(text: &[u8]) -> Option<(Self, &[u8])> {
        let (length, text) = text.split_first_chunk()?;
        let (checksum, text) = text.split_first_chunk()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (body, behind) = text.split_at_checked(length)?;
        let whole = crc32fast::hash(body) == u32::from_le_bytes(*checksum);
        let entry = whole.then(|| serde_json::from_slice(body).ok())??;
        Some((entry, behind))
    }
}

/// How an attempt went, as it stands there.
#[derive(Serialize, Deserialize)]
struct StoredAttempt {
    work: u64,
    attempt: u32,
    step: String,
    started_ms: i64,
    ended_ms: i64,
    end: String,
    code: Option<i32>,
    signal: Option<i32>,
    why: Option<String>,
    peak_kib: Option<u64>,
    cpu_ms: Option<u64>,
}

impl From<&AttemptRecord> for StoredAttempt {
    fn from(record: &AttemptRecord) -> Self {
        Self {
            work: record.work.get(),
            attempt: record.attempt,
            step: record.step.clone(),
            started_ms: record.started_ms,
            ended_ms: record.ended_ms,
            end: record.end.word().to_owned(),
            code: record.code,
            signal: record.signal,
            why: record.why.clone(),
            peak_kib: record.peak_kib,
            cpu_ms: record.cpu_ms,
        }
    }
}

impl StoredAttempt {
    /// The record, unless it is of a kind that nobody writes.
    fn record(self) -> Option<AttemptRecord> {
        Some(AttemptRecord {
            work: WorkId::new(self.work)?,
            attempt: self.attempt,
            step: self.step,
            started_ms: self.started_ms,
            ended_ms: self.ended_ms,
            end: AttemptEnd::of_word(&self.end)?,
            code: self.code,
            signal: self.signal,
            why: self.why,
            peak_kib: self.peak_kib,
            cpu_ms: self.cpu_ms,
        })
    }
}

#[cfg(test)]
mod tests;
