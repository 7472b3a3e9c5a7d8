//! What has been decided and is not in the store yet, and the write-ahead log that keeps it.
//!
//! A commit takes about a twentieth of the time of a small process. Where steps come so quickly that commits
//! would hold them up, the leader of a run without names writes facts and records to a log of the run
//! first, before it acts on them. The store takes them over within 50 ms, many in one commit.
//!
//! A record of the log survives a kill, and a loss of power once it is synced, like a commit. It says how
//! far the journal went before it, in facts and in time, so a reader continues where the journal ends: it
//! reads nothing twice, nothing behind a gap, and nothing of a past that a loss of power has undone. Readers
//! copy the log before they read the journal. The log is overwritten only after the store has synced what is
//! in it. If it cannot be written or synced, the store takes everything.
//!
//! Only the leader writes to it: the next leader first waits for the lock of the last one (`leader_file`).
//! The epoch, which the store checks with each commit, refuses a leader that has lost the lead at most 50 ms
//! later than without the log. The log belongs to one machine.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use windlass_core::Fact;
use windlass_store::{JournalPosition, Store, Wal, WalSnapshot};

use super::super::RunError;
use super::super::identity::RunIdentity;
use super::{Record, SyncScope};
use crate::spawn::begin_writing;

/// Two commits within this time come quickly.
const QUICKLY: Duration = Duration::from_millis(10);

/// When the log is used.
#[derive(Clone, Copy)]
pub(in crate::coordinator) struct Pace {
    /// How often in a row commits have to come quickly before a log is worth its file.
    pub(in crate::coordinator) streak: u32,
    /// How long something may be in the log before the store takes it over.
    pub(in crate::coordinator) hold: Duration,
}

impl Pace {
    const USUAL: Self = Self { streak: 8, hold: Duration::from_millis(50) };
    /// Keeps as much as possible in the log, for tests that kill the leader.
    const FAULTS: Self = Self { streak: 0, hold: Duration::from_millis(200) };
}

/// Facts and records on their way to the store.
pub(super) struct WriteAhead {
    log: Wal,
    pace: Pace,
    /// How far the journal in the store goes.
    stored: JournalPosition,
    /// What the store does not have.
    facts: Vec<Fact>,
    records: Vec<Record>,
    /// How much of that the log has.
    logged: Option<Logged>,
    unsynced: Option<Unsynced>,
    /// When the last commit was, and how many in a row came quickly.
    last_commit: Option<Instant>,
    streak: u32,
}

struct Logged {
    facts: usize,
    records: usize,
    since: Instant,
}

/// Something that a loss of power would undo.
struct Unsynced {
    since: Instant,
    /// The store has a part of it that the log does not have.
    in_store: bool,
}

impl WriteAhead {
    /// Begins for a run whose files are in `dir`, and whose journal goes as far as `stored`.
    pub(super) fn new(dir: &Path, stored: JournalPosition) -> Self {
        Self {
            log: Wal::new(&path(dir)),
            pace: if cfg!(windlass_faults) { Pace::FAULTS } else { Pace::USUAL },
            stored,
            facts: Vec::new(),
            records: Vec::new(),
            logged: None,
            unsynced: None,
            last_commit: None,
            streak: 0,
        }
    }

    #[cfg(test)]
    pub(super) fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    pub(super) fn note_commit(&mut self) {
        let now = Instant::now();
        let last = self.last_commit.replace(now);
        let quickly = last.is_some_and(|last| now.duration_since(last) < QUICKLY);
        self.streak = if quickly { self.streak.saturating_add(1) } else { 0 };
    }

    pub(super) fn add_record(&mut self, record: Record) {
        self.records.push(record);
    }

    pub(super) fn add_facts(&mut self, facts: Vec<Fact>) {
        match self.facts.is_empty() {
            true => self.facts = facts,
            false => self.facts.extend(facts),
        }
    }

    pub(super) fn facts(&self) -> &[Fact] {
        &self.facts
    }

    pub(super) fn records(&self) -> &[Record] {
        &self.records
    }

    pub(super) fn is_empty(&self) -> bool {
        self.facts.is_empty() && self.records.is_empty()
    }

    /// Returns whether the log may take what it does not have: commits come quickly, and no other
    /// process has to learn of this one.
    pub(super) fn accepts(&self) -> bool {
        let new = self.records.iter().skip(self.logged().1);
        self.streak >= self.pace.streak && new.into_iter().all(Record::is_plain)
    }

    /// Writes what the log does not have. Returns whether the log has everything now.
    pub(super) fn append(&mut self) -> bool {
        let (facts, records) = self.logged();
        let (before, new) = self.facts.split_at(facts);
        if new.is_empty() {
            return self.records.len() == records;
        }
        let attempts = self.records.iter().skip(records).filter_map(Record::attempt);
        let written = self.log.write(self.stored.with(before), new, attempts);
        if written {
            let since = self.logged.as_ref().map_or_else(Instant::now, |logged| logged.since);
            let (facts, records) = (self.facts.len(), self.records.len());
            self.logged = Some(Logged { facts, records, since });
            self.unsynced.get_or_insert(Unsynced { since, in_store: false });
        }
        written
    }

    /// Notes that the store has everything, and `more` facts that were never here.
    pub(super) fn note_stored(&mut self, more: &[Fact]) {
        if (self.facts.len() + more.len(), self.records.len()) != self.logged() {
            let since = Instant::now();
            self.unsynced.get_or_insert(Unsynced { since, in_store: true }).in_store = true;
        }
        self.stored = self.stored.with(&self.facts).with(more);
        self.facts.clear();
        self.records.clear();
        self.logged = None;
    }

    /// Returns how long until the store takes over what the log has; none if it has nothing.
    pub(super) fn until_stored(&self) -> Option<Duration> {
        self.logged.as_ref().map(|logged| self.pace.hold.saturating_sub(logged.since.elapsed()))
    }

    pub(super) fn unsynced_for(&self) -> Option<Duration> {
        self.unsynced.as_ref().map(|unsynced| unsynced.since.elapsed())
    }

    /// Has the disk begin to write what the next sync waits for.
    pub(super) fn begin_sync(&self, store: &mut Store) {
        let in_store = self.unsynced.as_ref().is_some_and(|unsynced| unsynced.in_store);
        let file = if in_store { store.file_to_sync() } else { self.log.file_to_sync() };
        file.into_iter().for_each(begin_writing);
    }

    /// Syncs the log, if that suffices for `scope`. Returns whether the store has to be synced.
    pub(super) fn sync_log(&mut self, scope: SyncScope) -> bool {
        let suffices = self.unsynced.as_ref().is_some_and(|unsynced| !unsynced.in_store);
        if scope == SyncScope::Committed && suffices && self.log.sync() {
            self.unsynced = None;
        }
        self.unsynced.is_some()
    }

    /// Notes that the store has everything and is synced, so that the log has room again.
    pub(super) fn note_synced(&mut self) {
        self.unsynced = None;
        self.log.clear();
    }

    /// Removes the log of a run that is over.
    pub(super) fn remove(&mut self) {
        self.log.remove();
    }

    fn logged(&self) -> (usize, usize) {
        self.logged.as_ref().map_or((0, 0), |logged| (logged.facts, logged.records))
    }
}

/// Returns the path of the log of a run whose files are in `dir`.
fn path(dir: &Path) -> PathBuf {
    // Version 8 of the store and older ones have it under this name.
    let former = dir.join("slate");
    if former.exists() { former } else { dir.join("write-ahead") }
}

/// Reads the log of a run whose files are in `dir`. To be read before the journal.
pub(crate) fn read_wal(dir: &Path) -> io::Result<WalSnapshot> {
    Wal::read(&path(dir))
}

/// Has the store take over what a dead leader has left in the log, and returns the whole journal.
pub(super) fn complete_journal(
    store: &mut Store,
    identity: &RunIdentity,
) -> Result<Vec<Fact>, RunError> {
    let run = identity.id();
    let what = "what the last leader of the run has left cannot be read";
    let log = read_wal(identity.logs()).map_err(|source| RunError::Io { what, source })?;
    let mut facts = store.facts(run)?;
    let left = log.after(&facts);
    if !left.is_empty() {
        store.transact(|transaction| {
            transaction.steps().put_attempts(run, &left.attempts.iter().collect::<Vec<_>>())?;
            transaction.facts().append(run, identity.epoch(), &left.facts)
        })?;
        facts.extend(left.facts);
    }
    Ok(facts)
}
