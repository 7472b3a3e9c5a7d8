//! What is done between the end of a job's processes and the report of its end.
//!
//! The log is completed and the outputs are read and synced, so that both are there when the end is
//! reported. What waits for the disk is done on a thread of its own.

use std::io;
use std::path::PathBuf;

use crate::ended::Ended;
use crate::log_file::LogFile;
use crate::outputs;

/// The rest of the work for a job whose processes have ended.
#[derive(Clone)]
pub(super) struct Closing {
    pub(super) ended: Ended,
    pub(super) log: LogFile,
    /// The file with the outputs that it has written.
    pub(super) output: Option<PathBuf>,
}

impl Closing {
    /// Returns whether files have to be synced or copied.
    pub(super) fn takes_time(&self) -> bool {
        self.output.is_some() || self.log.has_tail()
    }

    /// Completes the log and reads the outputs. Returns how the job ended, and whether its log is complete.
    pub(super) fn close(self) -> (Ended, io::Result<()>) {
        let Self { mut ended, log, output } = self;
        let logged = if log.has_tail() { log.complete() } else { Ok(()) };
        match output.map(|output| outputs::read(&output)) {
            Some(Ok(values)) => ended.outputs = Some(values),
            Some(Err(error)) => ended.flaw = Some(format!("invalid $WINDLASS_OUTPUT: {error}")),
            None => {}
        }
        if let Some(flaw) = &ended.flaw {
            outputs::complain(log.path(), flaw);
        }
        (ended, logged)
    }
}
