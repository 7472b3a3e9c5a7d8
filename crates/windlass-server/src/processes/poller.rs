//! The one `epoll` instance in which the leader of a run waits for everything.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;

use crate::log_pipes::LogPipes;
use crate::poll::timespec;

/// The number of events that one wait returns.
const BATCH: usize = 256;
/// The keys of the sources that are not a process: its key is its pid. `log_pipes` has keys of its own.
const NEWS: u64 = 0;
const MESSAGES: u64 = u64::MAX;
const WAKEUP: u64 = u64::MAX - 1;

/// Waits for news, messages, wake-ups, the ends of processes, and output.
pub(super) struct Poller {
    epoll: OwnedFd,
}

/// What one wait has found.
#[derive(Default)]
pub(super) struct Events {
    /// There is news for the caller of the run.
    pub(super) news: bool,
    /// A thread of this process has sent a message.
    pub(super) messages: bool,
    pub(super) wakeup: bool,
    /// The pids of processes that have ended.
    pub(super) exited: Vec<u32>,
    /// The pids of processes that have printed something.
    pub(super) printed: Vec<u32>,
}

impl Poller {
    pub(super) fn new(news: &impl AsFd, messages: &impl AsFd) -> io::Result<Self> {
        let poller = Self { epoll: epoll::create(CreateFlags::CLOEXEC)? };
        poller.add(news, NEWS, EventFlags::IN)?;
        poller.add(messages, MESSAGES, EventFlags::IN)?;
        Ok(poller)
    }

    /// Adds a wake-up to wait for.
    pub(super) fn add_wakeup(&self, wakeup: &impl AsFd) -> io::Result<()> {
        self.add(wakeup, WAKEUP, EventFlags::IN)
    }

    /// Adds a process whose end to wait for.
    pub(super) fn add_process(&self, process: &impl AsFd, pid: u32) -> io::Result<()> {
        self.add(process, pid.into(), EventFlags::IN | EventFlags::ONESHOT)
    }

    fn add(&self, source: &impl AsFd, key: u64, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, source, EventData::new_u64(key), flags)?)
    }

    /// Waits until something happens, or `timeout` has passed.
    pub(super) fn wait(&self, timeout: Option<Duration>) -> io::Result<Events> {
        let mut buffer = [MaybeUninit::uninit(); BATCH];
        let timeout = timeout.map(timespec);
        let found = match epoll::wait(&self.epoll, &mut buffer, timeout.as_ref()) {
            Ok((found, _)) => found,
            Err(Errno::INTR) => &mut [],
            Err(error) => return Err(error.into()),
        };
        let mut events = Events::default();
        for key in found.iter().map(|event| event.data.u64()) {
            events.note(key);
        }
        Ok(events)
    }
}

impl Events {
    fn note(&mut self, key: u64) {
        match key {
            NEWS => self.news = true,
            MESSAGES => self.messages = true,
            WAKEUP => self.wakeup = true,
            key => match LogPipes::named(key) {
                Some(pid) => self.printed.push(pid),
                None => self.exited.extend(u32::try_from(key)),
            },
        }
    }
}

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
