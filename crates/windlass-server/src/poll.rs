//! Waiting for several things at once, without using the processor.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::time::Timespec;

/// Waits until one of `sources` can be read, or `patience` is over, or for nothing at all. Which of
/// them can be read.
pub(crate) fn poll(sources: &[&dyn AsFd], patience: Option<Duration>) -> io::Result<Vec<bool>> {
    let mut fds: Vec<_> = sources
        .iter()
        .map(|source| PollFd::from_borrowed_fd(source.as_fd(), PollFlags::IN))
        .collect();
    let timeout = patience.map(timespec);
    match rustix::event::poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(fds.iter().map(|fd| !fd.revents().is_empty()).collect())
}

/// Returns the time, or the longest that the kernel can wait.
pub(crate) fn timespec(span: Duration) -> Timespec {
    let seconds = i64::try_from(span.as_secs()).unwrap_or(i64::MAX).min(1 << 31);
    Timespec { tv_sec: seconds, tv_nsec: span.subsec_nanos().into() }
}
