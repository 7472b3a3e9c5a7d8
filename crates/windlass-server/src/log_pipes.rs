//! The pipes of all attempts of a run, read in turn by the leader.
//!
//! A pipe is read a bounded amount at a time, so an attempt that prints without end delays nothing
//! else. A pipe in which little was found rests for a moment before it is read again, because an
//! attempt that prints line by line would wake the leader for each line. So does a pipe whose output waits
//! for room on the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};

use crate::log_file::LogFile;
use crate::log_pipe::{CHUNK_BYTES, Drained, LogPipe, WhenUnwritable};

/// How long a pipe rests.
const REST: Duration = Duration::from_millis(1);
/// How long a pipe rests whose output waits for room.
const REST_FULL: Duration = Duration::from_millis(250);
/// The bit that distinguishes the key of an output pipe from that of a process; the rest of the key is
/// the pid.
const OUTPUT: u64 = 1 << 32;
/// Each event is reported once, until the pipe is read and watched again.
const ONCE: EventFlags = EventFlags::IN.union(EventFlags::ONESHOT);

/// The pipes of all attempts, by the pids of their processes.
pub(crate) struct LogPipes {
    pipes: BTreeMap<u32, LogPipe>,
    /// The pipes that rest, and until when.
    resting: BTreeSet<(Instant, u32)>,
    buffer: Box<[u8]>,
    when_unwritable: WhenUnwritable,
    waiting: Waiting,
    /// Why a log cannot be written.
    error: Option<io::Error>,
}

impl LogPipes {
    pub(crate) fn new() -> Self {
        let buffer = vec![0; CHUNK_BYTES].into();
        Self {
            pipes: BTreeMap::new(),
            resting: BTreeSet::new(),
            buffer,
            when_unwritable: WhenUnwritable::FailRun,
            waiting: Waiting::default(),
            error: None,
        }
    }

    /// Sets what becomes of output that cannot be written.
    pub(crate) fn set_when_unwritable(&mut self, when_unwritable: WhenUnwritable) {
        self.when_unwritable = when_unwritable;
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
        self.resting.first().map(|(due, _)| due.saturating_duration_since(Instant::now()))
    }

    /// Reads the pipes that have rested.
    pub(crate) fn drain_rested(&mut self, epoll: impl AsFd) -> io::Result<()> {
        let now = Instant::now();
        while let Some(&(due, process)) = self.resting.first()
            && due <= now
        {
            self.resting.pop_first();
            self.drain(process, &epoll)?;
        }
        Ok(())
    }

    /// Reads some of what a process has printed, and watches for more.
    pub(crate) fn drain(&mut self, process: u32, epoll: impl AsFd) -> io::Result<()> {
        let Some(pipe) = self.pipes.get_mut(&process) else { return Ok(()) };
        let drained = pipe.drain(&mut self.buffer, self.when_unwritable);
        self.waiting.note(process, matches!(drained, Ok(Drained::Unwritten)));
        match drained {
            // The pipe would be reported as readable for ever.
            Ok(Drained::Closed) => return Ok(()),
            Ok(found @ (Drained::Little | Drained::Unwritten)) => {
                let rest = if found == Drained::Little { REST } else { REST_FULL };
                self.resting.insert((Instant::now() + rest, process));
                return Ok(());
            }
            Ok(Drained::Much | Drained::Nothing) => {}
            Err(error) => self.note(Err(error)),
        }
        Ok(epoll::modify(epoll, &self.pipes[&process], name(process), ONCE)?)
    }

    /// Writes the last of what a process has printed to its log. Returns false if that waits for room.
    pub(crate) fn complete(&mut self, process: u32) -> bool {
        let Some(pipe) = self.pipes.get_mut(&process) else { return true };
        let written = pipe.drain_rest(&mut self.buffer, self.when_unwritable);
        let waits = matches!(written, Ok(false));
        self.waiting.note(process, waits);
        self.note(written.map(drop));
        !waits
    }

    /// Forgets the pipe of a process, and returns its log.
    pub(crate) fn remove(&mut self, process: u32) -> Option<LogFile> {
        self.waiting.note(process, false);
        self.pipes.remove(&process).map(LogPipe::into_log)
    }

    /// Notes why a log cannot be written, where that is an error of the run. Elsewhere the attempt fails if
    /// output was lost. The log can do without the file of a silent attempt, and without parts that can be
    /// read where they are.
    pub(crate) fn note(&mut self, result: io::Result<()>) {
        self.error = self.error.take().or(self.or_ignore(result).err());
    }

    /// Returns an error of a log, where that is one of the run.
    pub(crate) fn or_ignore(&self, result: io::Result<()>) -> io::Result<()> {
        match self.when_unwritable {
            WhenUnwritable::FailRun => result,
            WhenUnwritable::FailAttempt => Ok(()),
        }
    }

    /// Returns whether output waits for room, once for as long as some does.
    pub(crate) fn take_full(&mut self) -> bool {
        std::mem::take(&mut self.waiting.untold)
    }

    /// Returns why a log cannot be written, once.
    pub(crate) fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }
}

/// The processes whose output waits for room on the disk.
#[derive(Default)]
struct Waiting {
    processes: BTreeSet<u32>,
    /// Whether the first of them is news to the caller.
    untold: bool,
}

impl Waiting {
    fn note(&mut self, process: u32, waits: bool) {
        if waits {
            self.untold |= self.processes.is_empty();
            self.processes.insert(process);
        } else {
            self.processes.remove(&process);
        }
    }
}

/// Watches the output of a process.
pub(crate) fn watch(process: u32, output: impl AsFd, epoll: impl AsFd) -> io::Result<()> {
    Ok(epoll::add(epoll, output, name(process), ONCE)?)
}

fn name(process: u32) -> EventData {
    EventData::new_u64(OUTPUT | u64::from(process))
}
