//! Wake-ups between processes: a file descriptor that becomes readable when another process notifies it.
//!
//! On disk, a wake-up is a FIFO. A process that notifies one without a reader learns that from the
//! kernel and removes it, so the next notification cleans up after killed processes. A wake-up carries
//! no data and may be spurious: the reader looks at the store again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::io::Errno;

use crate::access::Access;
use crate::error::StoreError;
use crate::layout;

/// How long a FIFO without a reader may be about to get one.
const SETUP_TIME: Duration = Duration::from_secs(10);

/// What a wake-up is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// A waiter has reached the head of its queue.
    Turn,
    /// An event was emitted.
    Events,
    /// A request was sent.
    Requests,
    /// A worker has something to execute, or to end.
    Orders,
    /// A scheduler has something to take in: a report, a worker, or a submitted run.
    Reports,
    /// A submitted run has gone on.
    Progress,
}

impl Topic {
    const ALL: [Self; 6] =
        [Self::Turn, Self::Events, Self::Requests, Self::Orders, Self::Reports, Self::Progress];

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|topic| topic.word() == word)
    }

    pub(crate) fn word(&self) -> &'static str {
        match self {
            Topic::Turn => "turn",
            Topic::Events => "events",
            Topic::Requests => "requests",
            Topic::Orders => "orders",
            Topic::Reports => "reports",
            Topic::Progress => "progress",
        }
    }
}

/// A notification that a commit brings along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// To the wake-up of this name.
    One(Topic, String),
    /// To every wake-up of a topic.
    All(Topic),
}

/// A wake-up, registered until it is dropped.
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

    /// Returns the name by which other processes notify it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Drains pending notifications. A read of the store after this sees whatever was committed before
    /// they were sent.
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
            // Another process may have removed it already.
            let _ = fs::remove_file(path);
        }
    }
}

/// The wake-ups of a store on disk.
#[derive(Clone, Debug)]
pub(crate) struct WakeupDir {
    dir: PathBuf,
}

impl WakeupDir {
    pub(crate) fn new(store: &Path) -> Self {
        Self { dir: store.join(layout::WAKEUPS) }
    }

    pub(crate) fn register(&self, topic: &Topic) -> Result<Wakeup, StoreError> {
        let dir = self.dir.join(topic.word());
        let name = unique()?;
        let path = dir.join(&name);
        let at = |source| StoreError::Io { path: path.clone(), source };
        Access::create_dir(&dir).map_err(at)?;
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, &path, FileType::Fifo, mode, 0).map_err(|error| at(error.into()))?;
        // A FIFO without a writer is always readable, so this process is a writer, too.
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(nonblocking() | no_follow());
        let reader = match options.open(&path) {
            // The umask removed the owner's permissions.
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

    pub(crate) fn send(&self, notices: &[Notice]) {
        for notice in notices {
            match notice {
                Notice::One(topic, wakeup) => self.notify(topic, wakeup),
                Notice::All(topic) => self.notify_all(topic),
            }
        }
    }

    /// Notifies one wake-up. Its name was published after its reader had opened it, so without a reader
    /// it is abandoned.
    fn notify(&self, topic: &Topic, name: &str) {
        notify_fifo(&self.dir.join(topic.word()).join(name), |_| false);
    }

    /// Notifies all wake-ups of a topic, except those that may still be being set up.
    fn notify_all(&self, topic: &Topic) {
        let Ok(fifos) = fs::read_dir(self.dir.join(topic.word())) else { return };
        fifos.filter_map(Result::ok).for_each(|fifo| notify_fifo(&fifo.path(), is_new));
    }
}

/// Writes to the FIFO at `path`, or removes it if it has no reader and `keep` does not object. In the
/// directory of a group, another user may have put a link or a file there, which is left alone.
fn notify_fifo(path: &Path, keep: impl Fn(&Path) -> bool) {
    let mut options = OpenOptions::new();
    let opened = options.write(true).custom_flags(nonblocking() | no_follow()).open(path);
    match opened {
        // A full FIFO has notifications pending: a failed write loses nothing.
        Ok(mut fifo) if is_fifo(&fifo) => drop(fifo.write(&[1])),
        Ok(_) => {}
        Err(error) if has_no_reader(&error) && !keep(path) => drop(fs::remove_file(path)),
        Err(_) => {}
    }
}

fn has_no_reader(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NXIO.raw_os_error())
}

fn is_fifo(file: &File) -> bool {
    file.metadata().is_ok_and(|found| found.file_type().is_fifo())
}

fn is_new(path: &Path) -> bool {
    let made = fs::metadata(path).and_then(|metadata| metadata.modified());
    made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age < SETUP_TIME))
}

fn nonblocking() -> i32 {
    OFlags::NONBLOCK.bits().cast_signed()
}

fn no_follow() -> i32 {
    OFlags::NOFOLLOW.bits().cast_signed()
}

/// Returns a random UUID.
pub(crate) fn unique() -> Result<String, StoreError> {
    let path = "/proc/sys/kernel/random/uuid";
    let uuid = fs::read_to_string(path);
    let uuid = uuid.map_err(|source| StoreError::Io { path: path.into(), source })?;
    Ok(uuid.trim().to_owned())
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
    fn a_notification_is_pending_until_it_is_drained() {
        let dir = tempfile::tempdir().expect("a directory");
        let wakeups = WakeupDir::new(dir.path());
        let wakeup = wakeups.register(&Topic::Turn).expect("a wake-up");
        let other = wakeups.register(&Topic::Turn).expect("a wake-up");
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
    fn only_a_fifo_is_written_to() {
        let dir = tempfile::tempdir().expect("a directory");
        let (wakeups, topic) = (WakeupDir::new(dir.path()), dir.path().join("wakeups/events"));
        let _wakeup = wakeups.register(&Topic::Events).expect("a wake-up");
        let outside = dir.path().join("outside");
        fs::write(&outside, "text").expect("a file");
        std::os::unix::fs::symlink(&outside, topic.join("link")).expect("a link");
        fs::hard_link(&outside, topic.join("file")).expect("a second name");
        wakeups.notify_all(&Topic::Events);
        wakeups.notify(&Topic::Events, "link");
        assert_eq!(fs::read_to_string(&outside).expect("it is there"), "text");
    }

    #[test]
    fn an_abandoned_wakeup_is_removed_when_notified_and_a_full_one_is_no_error() {
        let dir = tempfile::tempdir().expect("a directory");
        let wakeups = WakeupDir::new(dir.path());
        let wakeup = wakeups.register(&Topic::Turn).expect("a wake-up");
        for _ in 0..100_000 {
            wakeups.notify(&Topic::Turn, wakeup.name());
        }
        let path = wakeup.path.clone().expect("it is on disk");
        drop(wakeup);
        assert!(!path.exists(), "a dropped wake-up removes its FIFO");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
        wakeups.notify_all(&Topic::Turn);
        assert!(path.exists(), "a process may be about to open a new one");
        let long_ago = std::time::SystemTime::now() - SETUP_TIME * 6;
        let file =
            OpenOptions::new().read(true).write(true).custom_flags(nonblocking()).open(&path);
        file.expect("it opens").set_modified(long_ago).expect("its time can be set");
        wakeups.notify_all(&Topic::Turn);
        assert!(!path.exists());
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
        let name = path.file_name().and_then(|name| name.to_str()).expect("a plain name");
        wakeups.notify(&Topic::Turn, name);
        assert!(!path.exists(), "one that was published had a reader");
        wakeups.notify(&Topic::Turn, "never/was");
    }
}
