//! The file lock that writers take, one after the other.
//!
//! SQLite's own lock is unfair: of many writers, one can starve. The kernel queues the waiters for a
//! lock on a file.
//!
//! The lock file holds the id of the store, so that a lost or replaced database is noticed. A writer
//! that finds anything else in it writes the id again. Behind the id, waiters leave *marks*, one byte
//! each, when no process can write for long: the next writer refreshes all leases, because their holders
//! could not send heartbeats, and removes the marks.

mod wait;

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

pub(super) use self::wait::{Awaited, Wait};
use crate::access::Access;
use crate::error::StoreError;
use crate::layout;
use crate::writer_wait::OnWait;

/// How long a writer waits before its caller hears of it.
pub(super) const UNTOLD: Duration = Duration::from_millis(250);
/// How many marks are enough. More would only tell a writer that was suspended a second time, after it had
/// seen marks, that there are new ones.
const ENOUGH: u64 = 1 << 16;

pub(super) struct WriterLock {
    file: File,
    /// The device and inode of the file.
    inode: (u64, u64),
    path: PathBuf,
    mode: Opened,
    /// The line with the store's id, once this process has seen that the database has it.
    line: Option<String>,
}

/// How the file is open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Opened {
    /// For writing: this process can take the lock.
    ToWrite,
    /// For reading only: this process may not write to the store.
    ToRead,
}

impl WriterLock {
    /// Opens the lock file of the store in `dir`, or creates it.
    pub(super) fn open(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join(layout::WRITER_LOCK);
        let file = Access::open(&path, File::options().read(true).write(true));
        Self::new(path, file, Opened::ToWrite)
    }

    /// Opens the lock file of the store in `dir`, for reading only if this process may do no more.
    pub(super) fn open_existing(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join(layout::WRITER_LOCK);
        match Access::open_existing(&path, File::options().read(true).write(true)) {
            Err(error) if is_denied(&error) => {
                let file = Access::open_existing(&path, File::options().read(true));
                Self::new(path, file, Opened::ToRead)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::open(dir),
            file => Self::new(path, file, Opened::ToWrite),
        }
    }

    fn new(path: PathBuf, file: io::Result<File>, mode: Opened) -> Result<Self, StoreError> {
        let opened = file.and_then(|file| Ok((inode(&file)?, file)));
        match opened {
            Ok((inode, file)) => Ok(Self { file, inode, path, mode, line: None }),
            Err(source) => Err(StoreError::Io { path, source }),
        }
    }

    /// Returns whether this process may only read the store.
    pub(super) fn is_read_only(&self) -> bool {
        self.mode == Opened::ToRead
    }

    /// Runs `act` while this process holds the lock. Calls `on_wait` while other processes hold it for
    /// long.
    pub(super) fn hold<T>(
        &mut self,
        on_wait: OnWait<'_>,
        act: impl FnOnce(&mut Self, OnWait<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if self.is_read_only() {
            return Err(StoreError::ReadOnly { path: self.path.clone() });
        }
        self.lock(on_wait)?;
        let result = self.check_file().and_then(|()| act(self, on_wait));
        self.file.unlock().map_err(|source| self.io(source))?;
        result
    }

    /// Returns the id of the store, if one was created. It may be cut off.
    pub(super) fn store_id(&mut self) -> Result<Option<String>, StoreError> {
        let mut id = String::new();
        let read = self.file.rewind().and_then(|()| self.file.read_to_string(&mut id));
        read.map_err(|source| self.io(source))?;
        Ok(Some(id.trim().to_owned()).filter(|id| !id.is_empty()))
    }

    /// Has the file hold the id of the database from now on.
    pub(super) fn keep_store_id(&mut self, id: &str) {
        self.line = Some(format!("{id}\n"));
    }

    /// Writes the id of the database into the file, which this process has locked.
    pub(super) fn write_store_id(&mut self, id: &str) -> Result<(), StoreError> {
        self.keep_store_id(id);
        self.write_line(&format!("{id}\n")).map_err(|source| self.io(source))
    }

    /// Leaves a mark for the next writer. Returns whether there is one.
    pub(super) fn mark(&self) -> bool {
        let Some(line) = &self.line else { return false };
        let end = line.len() as u64;
        let length = self.file.metadata().map_or(0, |found| found.len());
        if length > end + ENOUGH {
            return true;
        }
        // The id may have been cut off meanwhile.
        let whole = length >= end || self.file.write_all_at(line.as_bytes(), 0).is_ok();
        whole && self.file.write_all_at(b"\n", length.max(end)).is_ok()
    }

    /// Returns how many marks there are.
    pub(super) fn marks(&self) -> Result<u64, StoreError> {
        let Some(line) = &self.line else { return Ok(0) };
        let length = self.file.metadata().map_err(|source| self.io(source))?.len();
        Ok(length.saturating_sub(line.len() as u64))
    }

    /// Removes the marks if there are no more than so many: a later one is for the next writer.
    pub(super) fn remove_marks(&self, seen: u64) {
        if let Some(line) = self.line.as_ref().filter(|_| seen > 0)
            && self.marks().is_ok_and(|now| now == seen)
        {
            // Marks that stay have the next writer refresh the leases once more.
            let _ = self.file.set_len(line.len() as u64);
        }
    }

    fn lock(&mut self, on_wait: OnWait<'_>) -> Result<(), StoreError> {
        match self.file.try_lock() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => self.wait(on_wait).or_else(|given_up| {
                // The thread that waits may still get the lock, on the open file it waits with. The
                // next call needs another one.
                let file =
                    Access::open_existing(&self.path, File::options().read(true).write(true));
                let file = file.map_err(|source| self.io(source))?;
                self.inode = inode(&file).map_err(|source| self.io(source))?;
                self.file = file;
                Err(given_up)
            }),
            Err(TryLockError::Error(source)) => Err(self.io(source)),
        }
    }

    /// Waits in the kernel's queue until this process has the lock, or its caller gives up.
    fn wait(&self, on_wait: OnWait<'_>) -> Result<(), StoreError> {
        let locked = self.lock_on_a_thread()?;
        let mut wait = Wait::new(self, Awaited::Turn);
        let mut pause = UNTOLD;
        loop {
            match locked.recv_timeout(pause) {
                Ok(locked) => return locked.map_err(|source| self.io(source)),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.io(io::Error::other("the thread that waited has panicked")));
                }
                Err(RecvTimeoutError::Timeout) => pause = wait.go_on(on_wait)?,
            }
        }
    }

    /// Waits for the lock on a thread of its own, so that the caller can give up.
    fn lock_on_a_thread(&self) -> Result<Receiver<io::Result<()>>, StoreError> {
        let (sender, receiver) = mpsc::sync_channel(0);
        let file = self.file.try_clone().map_err(|source| self.io(source))?;
        let waiting = thread::Builder::new().spawn(move || {
            let locked = file.lock();
            // The caller has given up: release the lock at once.
            if sender.send(locked).is_err() {
                let _ = file.unlock();
            }
        });
        waiting.map_err(|source| self.io(source))?;
        Ok(receiver)
    }

    /// Fails if another file, or none, is at the path of the lock file by now. Writes the id of the store
    /// again if it is not there any more.
    fn check_file(&mut self) -> Result<(), StoreError> {
        let found = fs::metadata(&self.path).map_err(|_| StoreError::lost(&self.path))?;
        if (found.dev(), found.ino()) != self.inode {
            return Err(StoreError::lost(&self.path));
        }
        match self.line.clone() {
            Some(line) if found.len() != line.len() as u64 => self.check_line(&line),
            _ => Ok(()),
        }
    }

    fn check_line(&mut self, line: &str) -> Result<(), StoreError> {
        let mut bytes = Vec::new();
        let read = self.file.rewind().and_then(|()| self.file.read_to_end(&mut bytes));
        let whole = |()| match bytes.starts_with(line.as_bytes()) {
            true => Ok(()),
            false => self.write_line(line),
        };
        read.map(drop).and_then(whole).map_err(|source| self.io(source))
    }

    /// Writes the only line of the file, which is at no time empty.
    fn write_line(&self, line: &str) -> io::Result<()> {
        self.file.write_all_at(line.as_bytes(), 0)?;
        self.file.set_len(line.len() as u64)?;
        self.file.sync_data()
    }

    fn io(&self, source: io::Error) -> StoreError {
        StoreError::Io { path: self.path.clone(), source }
    }
}

fn inode(file: &File) -> io::Result<(u64, u64)> {
    let found = file.metadata()?;
    Ok((found.dev(), found.ino()))
}

/// Returns whether this process may not write to a file.
fn is_denied(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow::{Break, Continue};

    use super::*;
    use crate::writer_wait::WriterWait;

    fn open(dir: &Path) -> WriterLock {
        let mut lock = WriterLock::open(dir).expect("it opens");
        lock.keep_store_id("an id");
        lock
    }

    #[test]
    fn a_writer_can_give_up_waiting_and_take_the_lock_later() {
        let dir = tempfile::tempdir().expect("a directory");
        let (mut first, mut second) = (open(dir.path()), open(dir.path()));
        let give_up: OnWait<'_> = &mut |_| Break(StoreError::Interrupted);
        let never: OnWait<'_> = &mut |_| panic!("the lock is free");
        first
            .hold(never, |_, _| {
                let given_up = second.hold(give_up, |_, _| Ok(()));
                assert!(matches!(given_up, Err(StoreError::Interrupted)), "{given_up:?}");
                Ok(())
            })
            .expect("the lock is free");
        // The thread that waited releases the lock as soon as it has it.
        let again: OnWait<'_> = &mut |_| Continue(UNTOLD);
        second
            .hold(again, |_, _| {
                let given_up = open(dir.path()).hold(give_up, |_, _| Ok(()));
                assert!(matches!(given_up, Err(StoreError::Interrupted)), "{given_up:?}");
                Ok(())
            })
            .expect("the lock can still be taken");
    }

    #[test]
    fn a_lock_file_that_is_a_link_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let outside = dir.path().join("outside");
        fs::write(&outside, "").expect("a file");
        std::os::unix::fs::symlink(&outside, dir.path().join("gate")).expect("a link");
        assert!(WriterLock::open(dir.path()).is_err());
        assert!(WriterLock::open_existing(dir.path()).is_err());
    }

    #[test]
    fn a_waiter_knows_which_process_holds_the_lock() {
        let dir = tempfile::tempdir().expect("a directory");
        let held = open(dir.path()).hold(&mut |_| Break(StoreError::Interrupted), |lock, _| {
            Ok(Wait::new(lock, Awaited::Turn).blocker().pid)
        });
        assert_eq!(held.expect("the lock is free"), Some(std::process::id()));
    }

    #[test]
    fn a_lock_file_whose_content_was_changed_gets_the_id_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("gate");
        let mut lock = open(dir.path());
        for content in ["", "an", "something else", "an id\n\n\n"] {
            fs::write(&path, content).expect("it can be written");
            lock.hold(&mut |_| Break(StoreError::Interrupted), |_, _| Ok(()))
                .expect("the lock is free");
            let now = fs::read_to_string(&path).expect("it can be read");
            assert_eq!(now.trim_end(), "an id", "{content:?}");
            assert_eq!(lock.marks().expect("it is there") > 0, content.ends_with("\n\n"));
        }
    }

    #[test]
    fn only_the_marks_that_a_writer_has_seen_are_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut lock = open(dir.path());
        lock.write_store_id("an id").expect("it can be written");
        let marks = |lock: &WriterLock| lock.marks().expect("it is there");
        assert_eq!(marks(&lock), 0);
        assert!(lock.mark() && lock.mark());
        lock.remove_marks(1);
        assert_eq!(marks(&lock), 2, "the second came later");
        lock.remove_marks(2);
        assert_eq!(marks(&lock), 0);
        assert_eq!(lock.store_id().expect("it can be read").as_deref(), Some("an id"));
    }
}
