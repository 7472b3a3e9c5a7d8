//! The gate that writers pass one at a time.
//!
//! SQLite's own waiting is unfair and can starve one of many; the kernel's queue for a lock on a
//! file does not. The gate also remembers which store was made behind it.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::access::Access;
use crate::error::StoreError;

/// How long the same one may be inside before the others give up. How many others stand before
/// us does not matter.
const PATIENCE: Duration = Duration::from_secs(15);
/// How often one who waits looks whether it should go on.
const LOOK: Duration = Duration::from_millis(250);
/// How often it looks who is inside.
const COUNT: Duration = Duration::from_secs(3);

pub(super) struct Gate {
    file: File,
    /// Which file that is.
    inode: (u64, u64),
    path: PathBuf,
    mode: Opened,
    stop: Box<dyn Fn() -> bool + Send>,
}

/// How the file is open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Opened {
    /// To pass it.
    ToWrite,
    /// To look what is behind it: this process may do no more.
    ToRead,
}

impl Gate {
    /// Opens the gate of the store in `dir`, or makes it.
    pub(super) fn open(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join("gate");
        let file = Access::open(&path, File::options().read(true).write(true));
        Self::of(path, file, Opened::ToWrite)
    }

    /// Opens the gate of the store in `dir`, if only to read.
    pub(super) fn open_existing(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join("gate");
        match File::options().read(true).write(true).open(&path) {
            Err(error) if is_refused(&error) => {
                let file = File::open(&path);
                Self::of(path, file, Opened::ToRead)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::open(dir),
            file => Self::of(path, file, Opened::ToWrite),
        }
    }

    fn of(path: PathBuf, file: io::Result<File>, mode: Opened) -> Result<Self, StoreError> {
        let opened = file.and_then(|file| Ok((inode(&file)?, file)));
        match opened {
            Ok((inode, file)) => Ok(Self { file, inode, path, mode, stop: Box::new(|| false) }),
            Err(source) => Err(StoreError::Io { path, source }),
        }
    }

    /// Returns whether this process may only look at what is behind the gate.
    pub(super) fn is_read_only(&self) -> bool {
        self.mode == Opened::ToRead
    }

    pub(super) fn interrupt_when(&mut self, stop: Box<dyn Fn() -> bool + Send>) {
        self.stop = stop;
    }

    /// Does something while nobody else is inside.
    pub(super) fn pass<T>(
        &mut self,
        act: impl FnOnce(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if self.is_read_only() {
            return Err(StoreError::ReadOnly { path: self.path.clone() });
        }
        self.enter()?;
        let result = self.check_place().and_then(|()| act(self));
        self.file.unlock().map_err(|source| self.io(source))?;
        result
    }

    /// The id of the store that was made behind this gate.
    pub(super) fn store_id(&mut self) -> Result<Option<String>, StoreError> {
        let mut id = String::new();
        let read = self.file.rewind().and_then(|()| self.file.read_to_string(&mut id));
        read.map_err(|source| self.io(source))?;
        Ok(Some(id.trim().to_owned()).filter(|id| !id.is_empty()))
    }

    /// Remembers that a store was made, after it was.
    pub(super) fn remember_store(&mut self, id: &str) -> Result<(), StoreError> {
        let written = self.file.rewind().and_then(|()| writeln!(self.file, "{id}"));
        written.and_then(|()| self.file.sync_data()).map_err(|source| self.io(source))
    }

    fn enter(&mut self) -> Result<(), StoreError> {
        match self.file.try_lock() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => self.queue().or_else(|given_up| {
                // The lock may still come, to the file that it was asked for; this is another one.
                let file = File::options().read(true).write(true).open(&self.path);
                let file = file.map_err(|source| self.io(source))?;
                self.inode = inode(&file).map_err(|source| self.io(source))?;
                self.file = file;
                Err(given_up)
            }),
            Err(TryLockError::Error(source)) => Err(self.io(source)),
        }
    }

    /// Waits in the kernel's queue, on a thread of its own so that the wait can be given up.
    fn queue(&self) -> Result<(), StoreError> {
        let (tell, heard) = mpsc::sync_channel(0);
        let file = self.file.try_clone().map_err(|source| self.io(source))?;
        let waiting = thread::Builder::new().spawn(move || {
            let locked = file.lock();
            // A lock that nobody waits for any more goes back at once.
            if tell.send(locked).is_err() {
                let _ = file.unlock();
            }
        });
        waiting.map_err(|source| self.io(source))?;
        let mut looked = Instant::now();
        let (mut inside, mut since) = (None, looked);
        loop {
            if looked.elapsed() > COUNT {
                looked = Instant::now();
                let now_inside = Some(self.inside());
                if inside != now_inside {
                    (inside, since) = (now_inside, looked);
                }
            }
            match heard.recv_timeout(LOOK) {
                Ok(locked) => return locked.map_err(|source| self.io(source)),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.io(io::Error::other("panic")));
                }
                Err(RecvTimeoutError::Timeout) if (self.stop)() => {
                    return Err(StoreError::Interrupted);
                }
                Err(RecvTimeoutError::Timeout) if since.elapsed() > PATIENCE => {
                    return Err(StoreError::Busy { path: self.path.clone(), by: self.inside() });
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Whether the gate is still the one that everybody else uses.
    fn check_place(&self) -> Result<(), StoreError> {
        match fs::metadata(&self.path) {
            Ok(there) if (there.dev(), there.ino()) == self.inode => Ok(()),
            _ => Err(StoreError::lost(&self.path)),
        }
    }

    /// Who is inside, as the kernel tells it.
    fn inside(&self) -> String {
        let (_, inode) = self.inode;
        let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
        let ours = |line: &&str| line.contains(&format!(":{inode} ")) && !line.contains("->");
        let pid = locks.lines().find(ours).and_then(|line| line.split_whitespace().nth(4));
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

/// Returns whether a file could not be opened because it must not be written to.
fn is_refused(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_can_be_given_up_and_does_no_harm_later() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut first = Gate::open(dir.path()).expect("it opens");
        let mut second = Gate::open(dir.path()).expect("it opens");
        second.interrupt_when(Box::new(|| true));
        first
            .pass(|_| {
                let given_up = second.pass(|_| Ok(()));
                assert!(matches!(given_up, Err(StoreError::Interrupted)), "{given_up:?}");
                Ok(())
            })
            .expect("nobody else is inside");
        second.interrupt_when(Box::new(|| false));
        second
            .pass(|_| {
                let mut third = Gate::open(dir.path())?;
                third.interrupt_when(Box::new(|| true));
                let given_up = third.pass(|_| Ok(()));
                assert!(matches!(given_up, Err(StoreError::Interrupted)), "{given_up:?}");
                Ok(())
            })
            .expect("it can still be passed");
    }

    #[test]
    fn whoever_waits_can_say_for_whom() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut gate = Gate::open(dir.path()).expect("it opens");
        let inside = gate.pass(|gate| Ok(gate.inside())).expect("nobody else is inside");
        assert_eq!(inside, format!("process {}", std::process::id()));
    }
}
