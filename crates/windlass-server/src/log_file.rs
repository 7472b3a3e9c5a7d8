//! The log file of an attempt.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

/// A log file, which exists once something was printed.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    /// An error was reported, so nothing more is written.
    failed: bool,
}

impl LogFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, failed: false }
    }

    /// Creates the file, though nothing was printed.
    pub(crate) fn create(&self) -> io::Result<()> {
        self.open().map(drop)
    }

    /// Adds what was printed. Does nothing after an error, which was returned once.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.failed {
            return Ok(());
        }
        let written = self.open().and_then(|mut file| file.write_all(bytes));
        self.failed = written.is_err();
        written
    }

    /// The file is opened anew each time, so it takes no room among the open files, and a user may
    /// remove it meanwhile.
    fn open(&self) -> io::Result<File> {
        File::options().create(true).append(true).open(&self.path)
    }
}
