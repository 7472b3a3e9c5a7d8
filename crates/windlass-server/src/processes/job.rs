//! A job: a command that is to be executed, and what applies to the processes it starts.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::attempt::Ready;
use crate::command::CommandSpec;
use crate::log_file::LogFile;

/// Identifies a job, by a number that no other job of this process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Job(pub(crate) u64);

/// How the processes of a job are found, and where its results go.
#[derive(Clone, Debug)]
pub(crate) struct JobSettings {
    /// The tag that its processes carry.
    pub(crate) tag: String,
    /// The file to which it may write its outputs.
    pub(crate) output: Option<PathBuf>,
    pub(crate) leftovers: LeftoverPolicy,
}

/// How long the processes may live that a job leaves running when its own process has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeftoverPolicy {
    /// How long they may take to end before they get SIGTERM.
    pub(crate) linger: Duration,
    /// How long they may take to end after SIGTERM.
    pub(crate) grace: Duration,
}

/// A job whose process can be started at once.
pub(crate) struct Prepared {
    pub(super) job: Job,
    pub(super) ready: Ready,
    pub(super) settings: JobSettings,
    pub(super) log: LogFile,
}

impl Prepared {
    /// Prepares everything for the process of a job, so that only its start is left to do.
    pub(crate) fn new(job: Job, command: CommandSpec, settings: JobSettings, log: LogFile) -> Self {
        Self { job, ready: Ready::new(command, &settings.tag), settings, log }
    }

    pub(crate) fn job(&self) -> Job {
        self.job
    }

    pub(crate) fn order(&self) -> &CommandSpec {
        &self.ready.order
    }

    /// Returns the file for its output.
    pub(crate) fn log(&self) -> &Path {
        self.log.path()
    }
}

/// A job whose process could not be started.
pub(crate) struct NotStarted {
    pub(crate) prepared: Prepared,
    pub(crate) error: io::Error,
}
