//! The file lock that writers take, one after the other.
//!
//! SQLite's own lock is unfair: of many writers, one can starve. The kernel queues the waiters for a
//! lock on a file. The lock file also holds the id of the store, so that a lost or replaced database
//! is noticed.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::access::Access;
use crate::error::StoreError;
use crate::layout;

/// How long one process may hold the lock before the waiters give up. The time that a waiter spends
/// behind other waiters does not count.
const HOLD_TIMEOUT: Duration = Duration::from_secs(15);
/// How often a waiter checks whether it should stop.
const STOP_CHECK: Duration = Duration::from_millis(250);
/// How often a waiter checks which process holds the lock.
const HOLDER_CHECK: Duration = Duration::from_secs(3);

pub(super) struct WriterLock {
    file: File,
    /// The device and inode of the file.
    inode: (u64, u64),
    path: PathBuf,
    mode: Opened,
    stop: Box<dyn Fn() -> bool + Send>,
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
            Ok((inode, file)) => Ok(Self { file, inode, path, mode, stop: Box::new(|| false) }),
            Err(source) => Err(StoreError::Io { path, source }),
        }
    }

    /// Returns whether this process may only read the store.
    pub(super) fn is_read_only(&self) -> bool {
        self.mode == Opened::ToRead
    }

    pub(super) fn interrupt_when(&mut self, stop: Box<dyn Fn() -> bool + Send>) {
        self.stop = stop;
    }

    /// Runs `act` while this process holds the lock.
    pub(super) fn hold<T>(
        &mut self,
        act: impl FnOnce(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if self.is_read_only() {
            return Err(StoreError::ReadOnly { path: self.path.clone() });
        }
        self.lock()?;
        let result = self.check_place().and_then(|()| act(self));
        self.file.unlock().map_err(|source| self.io(source))?;
        result
    }

    /// Returns the id of the store, if one was created.
    pub(super) fn store_id(&mut self) -> Result<Option<String>, StoreError> {
        let mut id = String::new();
        let read = self.file.rewind().and_then(|()| self.file.read_to_string(&mut id));
        read.map_err(|source| self.io(source))?;
        Ok(Some(id.trim().to_owned()).filter(|id| !id.is_empty()))
    }

    /// Records the id of a store that was just created.
    pub(super) fn set_store_id(&mut self, id: &str) -> Result<(), StoreError> {
        let written = self.file.rewind().and_then(|()| writeln!(self.file, "{id}"));
        written.and_then(|()| self.file.sync_data()).map_err(|source| self.io(source))
    }

    fn lock(&mut self) -> Result<(), StoreError> {
        match self.file.try_lock() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => self.wait().or_else(|given_up| {
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

    /// Waits in the kernel's queue until this process has the lock, is told to stop, or one other
    /// process has held the lock for too long.
    fn wait(&self) -> Result<(), StoreError> {
        let locked = self.lock_on_a_thread()?;
        let mut checked = Instant::now();
        let (mut holder, mut since) = (None, checked);
        loop {
            if checked.elapsed() > HOLDER_CHECK {
                checked = Instant::now();
                let now_holder = Some(self.holder());
                if holder != now_holder {
                    (holder, since) = (now_holder, checked);
                }
            }
            match locked.recv_timeout(STOP_CHECK) {
                Ok(locked) => return locked.map_err(|source| self.io(source)),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.io(io::Error::other("the thread that waited has panicked")));
                }
                Err(RecvTimeoutError::Timeout) if (self.stop)() => {
                    return Err(StoreError::Interrupted);
                }
                Err(RecvTimeoutError::Timeout) if since.elapsed() > HOLD_TIMEOUT => {
                    return Err(StoreError::Busy { path: self.path.clone(), by: self.holder() });
                }
                Err(RecvTimeoutError::Timeout) => {}
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

    /// Fails if another file, or none, is at the path of the lock file by now.
    fn check_place(&self) -> Result<(), StoreError> {
        match fs::metadata(&self.path) {
            Ok(found) if (found.dev(), found.ino()) == self.inode => Ok(()),
            _ => Err(StoreError::lost(&self.path)),
        }
    }

    /// Returns the process that holds the lock, according to the kernel.
    fn holder(&self) -> String {
        let (_, inode) = self.inode;
        let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
        let held = |line: &&str| line.contains(&format!(":{inode} ")) && !line.contains("->");
        let pid = locks.lines().find(held).and_then(|line| line.split_whitespace().nth(4));
        pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
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
    use super::*;

    #[test]
    fn a_writer_can_give_up_waiting_and_take_the_lock_later() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut first = WriterLock::open(dir.path()).expect("it opens");
        let mut second = WriterLock::open(dir.path()).expect("it opens");
        second.interrupt_when(Box::new(|| true));
        first
            .hold(|_| {
                let given_up = second.hold(|_| Ok(()));
                assert!(matches!(given_up, Err(StoreError::Interrupted)), "{given_up:?}");
                Ok(())
            })
            .expect("the lock is free");
        second.interrupt_when(Box::new(|| false));
        second
            .hold(|_| {
                let mut third = WriterLock::open(dir.path())?;
                third.interrupt_when(Box::new(|| true));
                let given_up = third.hold(|_| Ok(()));
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
        let mut lock = WriterLock::open(dir.path()).expect("it opens");
        let holder = lock.hold(|lock| Ok(lock.holder())).expect("the lock is free");
        assert_eq!(holder, format!("process {}", std::process::id()));
    }
}
