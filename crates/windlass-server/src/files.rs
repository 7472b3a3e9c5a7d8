//! The limit on open files: raises it for a run, and keeps the last descriptors free.
//!
//! A new file gets the lowest free descriptor. A file that is to stay open is refused if its descriptor is
//! among the last, so those stay free for files that are closed at once. Without them, `/proc` could not be
//! read while the limit is reached, and orphans would be overlooked. A step for which there is no descriptor
//! waits until another process of the run has ended.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The descriptors for files that are closed at once, or are opened late: wake-ups and heartbeats.
const RESERVED: u64 = 32;

/// Raises the limit for the pidfds and output pipes of this many processes. Children inherit the limit,
/// so it is left alone if it suffices.
pub(crate) fn allow(processes: usize) {
    // The store, wake-ups and logs are open as well, and a second pidfd of each process that has to end.
    let needed = (processes as u64).saturating_mul(3).saturating_add(128);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|current| current < needed) {
        let current = Some(maximum.map_or(needed, |maximum| maximum.min(needed)));
        // If it fails, a step for which there is no room waits or fails with that reason.
        let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum });
    }
}

/// Returns a file that is to stay open, unless its descriptor is reserved.
pub(crate) fn to_keep<F: AsRawFd>(file: F) -> rustix::io::Result<F> {
    let number = u64::from(file.as_raw_fd().unsigned_abs());
    let most = getrlimit(Resource::Nofile).current;
    match most.is_none_or(|most| number + RESERVED < most) {
        true => Ok(file),
        false => Err(Errno::MFILE),
    }
}

/// Returns whether a process could not be started because a limit on files, processes or memory is reached.
pub(crate) fn is_no_room(error: &io::Error) -> bool {
    let lacks = [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM];
    lacks.iter().any(|lack| error.raw_os_error() == Some(lack.raw_os_error()))
}

/// Fails if no other file can stay open. Tries it with a duplicate of `open`.
pub(crate) fn room(open: impl AsFd) -> rustix::io::Result<()> {
    to_keep(fcntl_dupfd_cloexec(open, 0)?).map(drop)
}
