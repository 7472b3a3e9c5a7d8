//! How many files may be open here, and which of them for long.
//!
//! A new file gets the lowest number that is free. Whoever keeps one open gives it back if its number
//! is among the last, so those are free for a look at a process: nobody is overlooked because as many
//! files are open as may be.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How many numbers are for what is closed again at once, or comes late: bells, and who beats.
const PASSING: u64 = 32;

/// Makes room for a handle on each of so many processes and for what it prints. Those that are started inherit the limit, so
/// it is left alone where it suffices.
pub(crate) fn allow(processes: usize) {
    // The store, bells and logs are open besides, and a second handle on whoever has to end.
    let needed = (processes as u64).saturating_mul(3).saturating_add(128);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|current| current < needed) {
        let current = Some(maximum.map_or(needed, |maximum| maximum.min(needed)));
        // Without it, those that find no room cannot be started, and say so.
        let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum });
    }
}

/// A file that is to stay open, if there is room for one.
pub(crate) fn to_keep<F: AsRawFd>(file: F) -> rustix::io::Result<F> {
    let number = u64::from(file.as_raw_fd().unsigned_abs());
    let most = getrlimit(Resource::Nofile).current;
    match most.is_none_or(|most| number + PASSING < most) {
        true => Ok(file),
        false => Err(Errno::MFILE),
    }
}

/// Whether a process could not be started because as many files are open, or as many processes run, as
/// may be.
pub(crate) fn is_no_room(error: &io::Error) -> bool {
    let lacks = [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM];
    lacks.iter().any(|lack| error.raw_os_error() == Some(lack.raw_os_error()))
}

/// Whether there is room for another file that is to stay open, seen by opening one once more.
pub(crate) fn room(open: impl AsFd) -> rustix::io::Result<()> {
    to_keep(fcntl_dupfd_cloexec(open, 0)?).map(drop)
}
