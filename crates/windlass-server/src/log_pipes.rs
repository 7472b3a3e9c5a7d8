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
/// What the table calls the output of a process, besides the number of the process.
const OUTPUT: u64 = 1 << 32;
/// The table tells once that something can be read.
const ONCE: EventFlags = EventFlags::IN.union(EventFlags::ONESHOT);

/// The pipes of all attempts, by the numbers of their processes.
pub(crate) struct LogPipes {
    pipes: BTreeMap<u32, LogPipe>,
    /// Which pipes rest, and until when.
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

    /// Reads what a process prints, whose pipe is watched, from now on.
    pub(crate) fn add(&mut self, process: u32, pipe: LogPipe) {
        self.pipes.insert(process, pipe);
    }

    /// The process whose output the table calls by this name.
    pub(crate) fn named(name: u64) -> Option<u32> {
        name.checked_sub(OUTPUT).and_then(|number| u32::try_from(number).ok())
    }

    /// Returns how long until a pipe has rested.
    pub(crate) fn until_rested(&self) -> Option<Duration> {
        self.resting.front().map(|(due, _)| due.saturating_duration_since(Instant::now()))
    }

    /// Reads the pipes that have rested.
    pub(crate) fn drain_rested(&mut self, table: impl AsFd) -> io::Result<()> {
        let now = Instant::now();
        while let Some((_, process)) = self.resting.pop_front_if(|(due, _)| *due <= now) {
            self.drain(process, &table)?;
        }
        Ok(())
    }

    /// Reads some of what a process has printed, and has the table tell of more.
    pub(crate) fn drain(&mut self, process: u32, table: impl AsFd) -> io::Result<()> {
        let Some(pipe) = self.pipes.get_mut(&process) else { return Ok(()) };
        match pipe.drain(&mut self.buffer) {
            // It would be reported as readable for ever.
            Ok(Drained::Closed) => return Ok(()),
            Ok(Drained::Little) => {
                self.resting.push_back((Instant::now() + REST, process));
                return Ok(());
            }
            Ok(Drained::Much | Drained::Nothing) => {}
            Err(error) => drop(self.error.get_or_insert(error)),
        }
        Ok(epoll::modify(table, pipe, name(process), ONCE)?)
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

/// Has the table tell that a process has printed something.
pub(crate) fn watch(process: u32, output: impl AsFd, table: impl AsFd) -> io::Result<()> {
    Ok(epoll::add(table, output, name(process), ONCE)?)
}

fn name(process: u32) -> EventData {
    EventData::new_u64(OUTPUT | u64::from(process))
}
