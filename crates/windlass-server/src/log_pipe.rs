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

/// The reading end of the pipe that an attempt prints to, and the log that it is written to.
pub(crate) struct LogPipe {
    reader: PipeReader,
    log: LogFile,
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
    /// Every process that could print to it has ended or closed it.
    Closed,
}

impl LogPipe {
    pub(crate) fn new(reader: PipeReader, log: LogFile) -> Self {
        Self { reader, log }
    }

    /// Writes what is in the pipe to the log, but no more than one turn's. After an error, what is
    /// printed from then on is discarded.
    pub(crate) fn drain(&mut self, buffer: &mut [u8]) -> io::Result<Drained> {
        let mut found = Drained::Nothing;
        for _ in 0..READS_PER_TURN {
            let length = match read(&self.reader, &mut *buffer) {
                Ok(0) => return Ok(Drained::Closed),
                Ok(length) => length,
                Err(Errno::AGAIN) => return Ok(found),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            self.log.append(&buffer[..length])?;
            if length < LITTLE_BYTES {
                return Ok(Drained::Little);
            }
            found = Drained::Much;
        }
        Ok(found)
    }

    /// Writes to the log what is in the pipe by now. A process outside the attempt that has got the pipe
    /// may print more, and is not waited for.
    pub(crate) fn finish(mut self, buffer: &mut [u8]) -> (LogFile, io::Result<()>) {
        let written = self.drain_rest(buffer);
        (self.log, written)
    }

    fn drain_rest(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let mut rest = usize::try_from(ioctl_fionread(&self.reader)?).unwrap_or(usize::MAX);
        while rest > 0 {
            let most = rest.min(buffer.len());
            match read(&self.reader, &mut buffer[..most]) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(length) => {
                    self.log.append(&buffer[..length])?;
                    rest -= length;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl AsFd for LogPipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}
