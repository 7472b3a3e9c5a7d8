//! A wait for the writers' lock or for SQLite's own, as the process sees it that waits.
//!
//! The write-ahead log tells whether others go on: every commit changes it.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::WriterLock;
use crate::error::StoreError;
use crate::layout;
use crate::writer_wait::{Blocker, OnWait, WriterWait};

/// Without a commit for so long, writers do not just take turns.
const STALL: Duration = Duration::from_millis(200);
/// The byte of the index that SQLite locks for a writer.
const SQLITE_WRITE_LOCK: &str = "120 120";

/// The lock that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sqlite) enum Awaited {
    /// That of the writers.
    Turn,
    /// SQLite's own, which another program holds.
    Sqlite,
}

pub(in crate::sqlite) struct Wait<'a> {
    lock: &'a WriterLock,
    awaited: Awaited,
    log: PathBuf,
    /// The state of the log, and since when it is this.
    seen: Option<(i64, i64, u64)>,
    since: Instant,
}

impl<'a> Wait<'a> {
    pub(in crate::sqlite) fn new(lock: &'a WriterLock, awaited: Awaited) -> Self {
        let log = lock.path.with_file_name(format!("{}-wal", layout::DATABASE));
        Self { lock, awaited, seen: state(&log), log, since: Instant::now() }
    }

    /// Has the caller hear of the wait. Returns how long to wait until the next call, or fails if the
    /// caller gives up.
    pub(in crate::sqlite) fn go_on(&mut self, on_wait: OnWait<'_>) -> Result<Duration, StoreError> {
        let now = state(&self.log);
        if self.seen != now {
            (self.seen, self.since) = (now, Instant::now());
        }
        match on_wait(self) {
            ControlFlow::Continue(pause) => Ok(pause),
            ControlFlow::Break(error) => Err(error),
        }
    }
}

impl WriterWait for Wait<'_> {
    fn stalled_for(&self) -> Duration {
        self.since.elapsed()
    }

    fn blocker(&self) -> Blocker {
        match self.awaited {
            Awaited::Turn => {
                Blocker::new(self.lock.path.clone(), holder(&self.lock.path, "FLOCK", "0 EOF"))
            }
            Awaited::Sqlite => {
                let index = self.lock.path.with_file_name(format!("{}-shm", layout::DATABASE));
                let pid = holder(&index, "POSIX", SQLITE_WRITE_LOCK);
                Blocker::new(self.lock.path.with_file_name(layout::DATABASE), pid)
            }
        }
    }

    fn keep_leases(&self) -> bool {
        self.stalled_for() >= STALL && self.lock.mark()
    }
}

/// Returns what changes with every commit: the time of the last one, and the length of the log.
fn state(log: &Path) -> Option<(i64, i64, u64)> {
    let found = fs::metadata(log).ok()?;
    Some((found.mtime(), found.mtime_nsec(), found.len()))
}

/// Returns the process that holds a lock on these bytes of a file, according to the kernel.
fn holder(path: &Path, kind: &str, bytes: &str) -> Option<u32> {
    let inode = format!(":{} {bytes}", fs::metadata(path).ok()?.ino());
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let is_held = |line: &&str| {
        line.contains(kind) && line.trim_end().ends_with(&inode) && !line.contains("->")
    };
    locks.lines().find(is_held)?.split_whitespace().nth(4)?.parse().ok()
}
