//! The pipe that the processes of an attempt print to, and the log file that it is written to.
//!
//! Standard output and standard error of an attempt are one pipe, so their order stays, and a process
//! may open them again (`echo E > /dev/stderr`): a regular file would be truncated by that, a socket cannot
//! be opened by its path, and an append-only file needs root. The leader
//! is the only reader of the pipe and the only writer of the log. A full pipe makes the attempt wait, so
//! nothing is lost while the leader is busy. Knows nothing of processes or steps.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::{Errno, ioctl_fionbio, ioctl_fionread, read};

use crate::files;
use crate::log_file::LogFile;

/// How much is read at once: as much as a pipe holds, unless it was made larger.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;
/// How often a pipe is read before the leader turns to something else.
const READS_PER_TURN: usize = 4;

/// A read of less than this means that the attempt prints line by line: programs that do not write at
/// least this much at once.
const LITTLE_BYTES: usize = 4 << 10;

/// What becomes of output that cannot be written to its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhenUnwritable {
    /// It is lost, which is an error of the run.
    FailRun,
    /// It waits for room, and so does the attempt once the pipe is full. If something else is wrong, it is
    /// lost, and only its attempt fails.
    FailAttempt,
}

impl WhenUnwritable {
    /// Returns whether output waits after this error.
    pub(crate) fn waits_after(self, error: &io::Error) -> bool {
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        let no_room = full.contains(&error.kind()) || files::is_no_room(error);
        self == WhenUnwritable::FailAttempt && no_room
    }
}

/// The reading end of the pipe that an attempt prints to, and the log that it is written to.
pub(crate) struct LogPipe {
    reader: PipeReader,
    log: LogFile,
    /// What was read, and waits for room on the disk.
    unwritten: Vec<u8>,
}

/// Makes a pipe whose reading end never blocks.
pub(crate) fn pipe() -> io::Result<(PipeReader, PipeWriter)> {
    let (reader, writer) = io::pipe()?;
    let reader = files::to_keep(reader)?;
    ioctl_fionbio(&reader, true)?;
    Ok((reader, writer))
}

/// What was found in a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drained {
    /// So much that there may be more already.
    Much,
    /// Little, and most likely nothing more at the moment.
    Little,
    Nothing,
    /// Something for which the disk has no room.
    Unwritten,
    /// Every process that could print to it has ended or closed it.
    Closed,
}

impl LogPipe {
    pub(crate) fn new(reader: PipeReader, log: LogFile) -> Self {
        Self { reader, log, unwritten: Vec::new() }
    }

    /// Writes what is in the pipe to the log, but no more than one turn's. After an error, what is
    /// printed from then on is discarded.
    pub(crate) fn drain(
        &mut self,
        buffer: &mut [u8],
        unwritable: WhenUnwritable,
    ) -> io::Result<Drained> {
        if !self.write_rest(unwritable)? {
            return Ok(Drained::Unwritten);
        }
        let mut found = Drained::Nothing;
        for _ in 0..READS_PER_TURN {
            let length = match read(&self.reader, &mut *buffer) {
                Ok(0) => return Ok(Drained::Closed),
                Ok(length) => length,
                Err(Errno::AGAIN) => return Ok(found),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            if !self.write(&buffer[..length], unwritable)? {
                return Ok(Drained::Unwritten);
            }
            if length < LITTLE_BYTES {
                return Ok(Drained::Little);
            }
            found = Drained::Much;
        }
        Ok(found)
    }

    /// Writes to the log what is in the pipe by now. A process outside the attempt that has got the pipe
    /// may print more, and is not waited for. Returns whether there was room for all of it.
    pub(crate) fn drain_rest(
        &mut self,
        buffer: &mut [u8],
        unwritable: WhenUnwritable,
    ) -> io::Result<bool> {
        if !self.write_rest(unwritable)? {
            return Ok(false);
        }
        let mut rest = usize::try_from(ioctl_fionread(&self.reader)?).unwrap_or(usize::MAX);
        while rest > 0 {
            let most = rest.min(buffer.len());
            match read(&self.reader, &mut buffer[..most]) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(length) if self.write(&buffer[..length], unwritable)? => rest -= length,
                Ok(_) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    pub(crate) fn into_log(self) -> LogFile {
        self.log
    }

    /// Writes what has waited for room. Returns whether there was enough.
    fn write_rest(&mut self, unwritable: WhenUnwritable) -> io::Result<bool> {
        let unwritten = std::mem::take(&mut self.unwritten);
        self.write(&unwritten, unwritable)
    }

    /// Writes to the log, and keeps what waits for room. Returns whether nothing does.
    fn write(&mut self, mut bytes: &[u8], unwritable: WhenUnwritable) -> io::Result<bool> {
        match self.log.append(&mut bytes) {
            Ok(()) => Ok(true),
            Err(error) if unwritable.waits_after(&error) => {
                self.unwritten = bytes.to_vec();
                Ok(false)
            }
            Err(error) => {
                let why = format!("{}: {error}", self.log.path().display());
                self.log.give_up(why.clone());
                Err(io::Error::new(error.kind(), why))
            }
        }
    }
}

impl AsFd for LogPipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}
