//! The pipes of all attempts of a run, read in turn by the leader.
//!
//! A pipe is read a bounded amount at a time, so an attempt that prints without end delays nothing
//! else. A pipe in which little was found rests for a moment before it is read again, because an
//! attempt that prints line by line would wake the leader for each line.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};

use crate::log_file::LogFile;
use crate::log_pipe::{CHUNK_BYTES, Drained, LogPipe};

/// How long a pipe rests.
const REST: Duration = Duration::from_millis(1);
/// The bit that distinguishes the key of an output pipe from that of a process; the rest of the key is
/// the pid.
const OUTPUT: u64 = 1 << 32;
/// Each event is reported once, until the pipe is read and watched again.
const ONCE: EventFlags = EventFlags::IN.union(EventFlags::ONESHOT);

/// The pipes of all attempts, by the pids of their processes.
pub(crate) struct LogPipes {
    pipes: BTreeMap<u32, LogPipe>,
    /// The pipes that rest, and until when.
    resting: VecDeque<(Instant, u32)>,
    buffer: Box<[u8]>,
    /// Why a log cannot be written.
    error: Option<io::Error>,
}

impl LogPipes {
    pub(crate) fn new() -> Self {
        let buffer = vec![0; CHUNK_BYTES].into();
        Self { pipes: BTreeMap::new(), resting: VecDeque::new(), buffer, error: None }
    }

    /// Adds the pipe of a process, which is watched already.
    pub(crate) fn add(&mut self, process: u32, pipe: LogPipe) {
        self.pipes.insert(process, pipe);
    }

    /// Returns the pid of the process whose output has this key.
    pub(crate) fn named(name: u64) -> Option<u32> {
        name.checked_sub(OUTPUT).and_then(|number| u32::try_from(number).ok())
    }

    /// Returns how long until a pipe has rested.
    pub(crate) fn until_rested(&self) -> Option<Duration> {
        self.resting.front().map(|(due, _)| due.saturating_duration_since(Instant::now()))
    }

    /// Reads the pipes that have rested.
    pub(crate) fn drain_rested(&mut self, epoll: impl AsFd) -> io::Result<()> {
        let now = Instant::now();
        while let Some((_, process)) = self.resting.pop_front_if(|(due, _)| *due <= now) {
            self.drain(process, &epoll)?;
        }
        Ok(())
    }

    /// Reads some of what a process has printed, and watches for more.
    pub(crate) fn drain(&mut self, process: u32, epoll: impl AsFd) -> io::Result<()> {
        let Some(pipe) = self.pipes.get_mut(&process) else { return Ok(()) };
        match pipe.drain(&mut self.buffer) {
            // The pipe would be reported as readable for ever.
            Ok(Drained::Closed) => return Ok(()),
            Ok(Drained::Little) => {
                self.resting.push_back((Instant::now() + REST, process));
                return Ok(());
            }
            Ok(Drained::Much | Drained::Nothing) => {}
            Err(error) => drop(self.error.get_or_insert(error)),
        }
        Ok(epoll::modify(epoll, pipe, name(process), ONCE)?)
    }

    /// Writes the last of what a process has printed to its log.
    pub(crate) fn finish(&mut self, process: u32) -> Option<LogFile> {
        let pipe = self.pipes.remove(&process)?;
        let (log, written) = pipe.finish(&mut self.buffer);
        self.error = self.error.take().or(written.err());
        Some(log)
    }

    /// Notes why a log cannot be written.
    pub(crate) fn note(&mut self, result: io::Result<()>) {
        self.error = self.error.take().or(result.err());
    }

    /// Returns why a log cannot be written, once.
    pub(crate) fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }
}

/// Watches the output of a process.
pub(crate) fn watch(process: u32, output: impl AsFd, epoll: impl AsFd) -> io::Result<()> {
    Ok(epoll::add(epoll, output, name(process), ONCE)?)
}

fn name(process: u32) -> EventData {
    EventData::new_u64(OUTPUT | u64::from(process))
}
