//! The logs that the output of a process of a run ends up in.
//!
//! A process of a run finds them in a variable: its own log first, then those of the steps above it, where
//! one of them has called `windlass run`, which shows what its own steps print. The variable holds
//! whatever the process does with its standard output, such as handing it to a pipe.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The variable that names the logs, one on each line.
pub(crate) const LOG_VARIABLE: &str = "WINDLASS_LOG";

/// Returns the value of [`LOG_VARIABLE`] for a process that prints to `log`.
pub(crate) fn with(log: &Path) -> String {
    let log = log.display().to_string();
    match env::var(LOG_VARIABLE) {
        Ok(above) if !above.is_empty() => format!("{log}\n{above}"),
        _ => log,
    }
}

/// The logs that the output of this process ends up in.
///
/// ```
/// use std::path::Path;
/// use windlass_server::OwnLogs;
///
/// // This process belongs to no run.
/// assert!(!OwnLogs::of_this_process().contains(Path::new("/state/runs/3fa9c2d1/1-build.1.log")));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnLogs(Vec<PathBuf>);

impl OwnLogs {
    /// Reads them from the environment; none outside of runs.
    #[must_use]
    pub fn of_this_process() -> Self {
        let logs = env::var(LOG_VARIABLE).unwrap_or_default();
        Self(logs.lines().map(|log| plain(Path::new(log))).collect())
    }

    /// Whether `log` is one of them.
    #[must_use]
    pub fn contains(&self, log: &Path) -> bool {
        !self.0.is_empty() && self.0.contains(&plain(log))
    }

    /// Whether one of them is in `dir`.
    #[must_use]
    pub fn is_any_in(&self, dir: &Path) -> bool {
        self.0.iter().any(|log| log.parent() == plain(&dir.join("log")).parent())
    }
}

/// Returns the path without links in its directory; the log itself may not exist yet.
fn plain(log: &Path) -> PathBuf {
    let (dir, name) = (log.parent().unwrap_or(Path::new("")), log.file_name().unwrap_or_default());
    fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned()).join(name)
}
