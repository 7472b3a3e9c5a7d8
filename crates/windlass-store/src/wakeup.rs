//! Doorbells between processes: a file descriptor that becomes readable when somebody rings.
//!
//! A wakeup on disk is a fifo. Whoever rings one that nobody listens to any more finds that out from
//! the kernel, and removes it; so what killed processes leave behind is cleared up by the next who
//! passes. A ring says only "look again"; it carries nothing, and may come for nothing.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::io::Errno;

use crate::access::Access;
use crate::error::StoreError;

/// What a wakeup is rung for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// A place in line has come up.
    Turn,
    /// An event was emitted.
    Events,
    /// A request was made.
    Requests,
}

impl Topic {
    fn directory(&self) -> &'static str {
        match self {
            Topic::Turn => "turn",
            Topic::Events => "events",
            Topic::Requests => "requests",
        }
    }
}

/// A wakeup that hangs until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct Wakeup {
    name: String,
    reader: File,
    path: Option<PathBuf>,
}

impl Wakeup {
    pub(crate) fn new(name: String, reader: OwnedFd) -> Self {
        Self { name, reader: File::from(reader), path: None }
    }

    /// By which others ring it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Forgets that it was rung. Whatever happened before is seen by whoever looks after this.
    pub fn drain(&self) {
        let mut sink = [0; 512];
        while (&self.reader).read(&mut sink).is_ok_and(|read| read == sink.len()) {}
    }
}

impl AsFd for Wakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}

impl Drop for Wakeup {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // Somebody may have taken it for an abandoned one.
            let _ = fs::remove_file(path);
        }
    }
}

/// The wakeups of a store on disk.
#[derive(Clone, Debug)]
pub(crate) struct WakeupDir {
    dir: PathBuf,
}

impl WakeupDir {
    pub(crate) fn new(store: &Path) -> Self {
        Self { dir: store.join("bells") }
    }

    pub(crate) fn register(&self, topic: &Topic) -> Result<Wakeup, StoreError> {
        let dir = self.dir.join(topic.directory());
        let name = unique()?;
        let path = dir.join(&name);
        let at = |source| StoreError::Io { path: path.clone(), source };
        Access::create_dir(&dir).map_err(at)?;
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, &path, FileType::Fifo, mode, 0).map_err(|error| at(error.into()))?;
        // Open for both, it is readable only when rung, also while nobody has it open to write.
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(nonblocking() | no_link());
        let reader = match options.open(&path) {
            // The umask took everything.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(at)?;
                options.open(&path)
            }
            reader => reader,
        };
        let reader = reader.map_err(at)?;
        Access::of(&dir).and_then(|access| access.apply(&reader)).map_err(at)?;
        Ok(Wakeup { name, reader, path: Some(path) })
    }

    pub(crate) fn notify(&self, topic: &Topic, name: &str) {
        // Whoever knows its name knows it from its owner, who listens before it tells.
        notify_fifo(&self.dir.join(topic.directory()).join(name), |_| false);
    }

    pub(crate) fn notify_all(&self, topic: &Topic) {
        let Ok(wakeups) = fs::read_dir(self.dir.join(topic.directory())) else { return };
        // One that was made a reading ago may not be listened to yet.
        wakeups.filter_map(Result::ok).for_each(|wakeup| notify_fifo(&wakeup.path(), is_young));
    }
}

/// Rings the wakeup at `path`, or takes it down if nobody listens, unless `spared`.
fn notify_fifo(path: &Path, spared: impl Fn(&Path) -> bool) {
    let mut options = OpenOptions::new();
    let opened = options.write(true).custom_flags(nonblocking()).open(path);
    match opened {
        // A full one has been rung often enough.
        Ok(mut wakeup) => drop(wakeup.write(&[1])),
        Err(error) if is_abandoned(&error) && !spared(path) => drop(fs::remove_file(path)),
        Err(_) => {}
    }
}

fn is_abandoned(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NXIO.raw_os_error())
}

fn is_young(path: &Path) -> bool {
    let made = fs::metadata(path).and_then(|metadata| metadata.modified());
    made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age.as_secs() < 10))
}

fn nonblocking() -> i32 {
    OFlags::NONBLOCK.bits().cast_signed()
}

fn no_link() -> i32 {
    OFlags::NOFOLLOW.bits().cast_signed()
}

/// A word that nobody else uses.
pub(crate) fn unique() -> Result<String, StoreError> {
    let path = "/proc/sys/kernel/random/uuid";
    let word = fs::read_to_string(path);
    let word = word.map_err(|source| StoreError::Io { path: path.into(), source })?;
    Ok(word.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    fn is_notified(wakeup: &Wakeup) -> bool {
        let mut fds = [PollFd::new(wakeup, PollFlags::IN)];
        poll(&mut fds, Some(&rustix::time::Timespec::default())).expect("it can be polled") > 0
    }

    #[test]
    fn a_ring_is_heard_until_it_is_hushed() {
        let dir = tempfile::tempdir().expect("a directory");
        let wakeups = WakeupDir::new(dir.path());
        let wakeup = wakeups.register(&Topic::Turn).expect("it hangs");
        let other = wakeups.register(&Topic::Turn).expect("it hangs");
        assert!(!is_notified(&wakeup));
        wakeups.notify(&Topic::Turn, wakeup.name());
        wakeups.notify(&Topic::Turn, wakeup.name());
        assert!(is_notified(&wakeup) && !is_notified(&other));
        wakeup.drain();
        assert!(!is_notified(&wakeup));
        wakeups.notify_all(&Topic::Events);
        assert!(!is_notified(&wakeup), "another topic");
        wakeups.notify_all(&Topic::Turn);
        assert!(is_notified(&wakeup) && is_notified(&other));
    }

    #[test]
    fn an_abandoned_bell_is_removed_by_whoever_rings_it_and_a_full_one_is_no_error() {
        let dir = tempfile::tempdir().expect("a directory");
        let wakeups = WakeupDir::new(dir.path());
        let wakeup = wakeups.register(&Topic::Turn).expect("it hangs");
        for _ in 0..100_000 {
            wakeups.notify(&Topic::Turn, wakeup.name());
        }
        let path = wakeup.path.clone().expect("it is on disk");
        drop(wakeup);
        assert!(!path.exists(), "one that is taken down leaves nothing");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a fifo");
        wakeups.notify_all(&Topic::Turn);
        assert!(path.exists(), "somebody may be about to listen to it");
        let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
        let file =
            OpenOptions::new().read(true).write(true).custom_flags(nonblocking()).open(&path);
        file.expect("it opens").set_modified(long_ago).expect("it can be aged");
        wakeups.notify_all(&Topic::Turn);
        assert!(!path.exists());
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a fifo");
        let name = path.file_name().and_then(|name| name.to_str()).expect("a plain name");
        wakeups.notify(&Topic::Turn, name);
        assert!(!path.exists(), "whose name is known was listened to");
        wakeups.notify(&Topic::Turn, "never/was");
    }
}
