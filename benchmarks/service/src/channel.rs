//! A FIFO by which steps and this program tell each other that they are there.

use windlass_bench_service::PATIENCE;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// A FIFO that this program has opened at both ends, so no step waits until it can open it.
pub(crate) struct Channel(File);

impl Channel {
    pub(crate) fn new(path: &Path) -> Self {
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
        let file = File::options().read(true).write(true).open(path);
        Self(file.expect("it can be opened"))
    }

    /// Returns when a step has written its line.
    pub(crate) fn heard(&mut self) -> Instant {
        assert!(self.has_any(PATIENCE.as_secs()), "no step has written a line");
        let now = Instant::now();
        let mut byte = [0];
        self.0.read_exact(&mut byte).expect("there is a byte");
        assert_eq!(byte, [b'\n'], "a step writes an empty line");
        now
    }

    /// Checks that no step has written another line.
    pub(crate) fn assert_silent(&self) {
        assert!(!self.has_any(0), "a step has run once too often");
    }

    /// Has a step go on that reads a line.
    pub(crate) fn tell(&mut self) {
        self.0.write_all(b"\n").expect("there is room");
    }

    fn has_any(&self, seconds: u64) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::IN)];
        let time = Timespec { tv_sec: seconds.cast_signed(), tv_nsec: 0 };
        poll(&mut fds, Some(&time)).expect("it can be polled") > 0
    }
}
