//! A wait for another process that keeps writers out of a store.
//!
//! Writers take turns of less than a millisecond. One that is suspended during its turn keeps out all
//! others: nothing can be written then, no lease be taken over, and no heartbeat sent.

use std::fmt;
use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::StoreError;
use crate::process;

/// How many letters of a command line are told.
const COMMAND: usize = 100;
/// How long users do not hear of a wait in which no writer commits anything.
const LONG: Duration = Duration::from_secs(3);

/// A wait for other writers that takes longer than usual.
pub trait WriterWait {
    /// Returns for how long this wait has seen no writer commit anything.
    fn stalled_for(&self) -> Duration;

    /// Returns whether no writer has committed anything for so long that users have to know.
    fn is_long(&self) -> bool {
        self.stalled_for() >= LONG
    }

    /// Returns the process that keeps writers out.
    fn blocker(&self) -> Blocker;

    /// Has the next writer refresh all leases before it decides anything, because holders cannot send
    /// heartbeats. Returns whether it will: then a lease that is valid now stays valid for its heartbeat
    /// timeout from now on. Returns false while others can write.
    fn keep_leases(&self) -> bool;
}

/// Called again and again during a wait for other writers. Returns how long to wait until the next call,
/// or the error with which the transaction fails.
pub type OnWait<'a> = &'a mut dyn FnMut(&dyn WriterWait) -> ControlFlow<StoreError, Duration>;

/// A process that keeps writers out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Blocker {
    /// The file that the process has locked.
    pub path: PathBuf,
    /// The pid of the process; none if it cannot be seen from here.
    pub pid: Option<u32>,
    /// The command line of the process, if it can be seen.
    pub command: Option<String>,
    /// Whether the process is stopped, as by SIGSTOP or Ctrl-Z.
    pub suspended: bool,
    /// Why the store cannot be reached at all.
    pub away: Option<String>,
}

impl Blocker {
    /// Describes the process `pid`, which has locked the file at `path`.
    #[must_use]
    pub fn new(path: PathBuf, pid: Option<u32>) -> Self {
        let command = pid.and_then(command_line);
        let suspended = pid.is_some_and(process::is_stopped);
        Self { path, pid, command, suspended, away: None }
    }

    /// Describes a store that cannot be reached.
    #[must_use]
    pub fn away(why: String) -> Self {
        Self { away: Some(why), ..Self::new(PathBuf::new(), None) }
    }
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, pid, command, suspended, away } = self;
        if let Some(why) = away {
            return f.write_str(why);
        }
        write!(f, "{} is locked by ", path.display())?;
        let Some(pid) = pid else {
            return f.write_str(
                "a process that cannot be seen from here; if it is suspended, resume or kill it",
            );
        };
        write!(f, "process {pid}")?;
        if let Some(command) = command {
            write!(f, " ({command})")?;
        }
        match suspended {
            true => write!(
                f,
                ", which is suspended; resume it with: kill -CONT {pid}, or end it with: kill -KILL {pid}"
            ),
            false => f.write_str("; if that process is suspended or hangs, resume or kill it"),
        }
    }
}

/// Returns the beginning of a process's command line.
fn command_line(pid: u32) -> Option<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    let line: String = words.join(" ").trim().chars().take(COMMAND).collect();
    Some(line).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(blocker: &Blocker, expected: &str) {
        assert_eq!(blocker.to_string(), expected);
    }

    #[test]
    fn a_blocker_is_named_with_what_to_do() {
        let unknown = Blocker::new("/s/gate".into(), None);
        check(
            &unknown,
            "/s/gate is locked by a process that cannot be seen from here; if it is suspended, resume or kill it",
        );
        let known = Blocker { pid: Some(7), command: Some("windlass emit x".into()), ..unknown };
        check(
            &known,
            "/s/gate is locked by process 7 (windlass emit x); if that process is suspended or hangs, resume or kill it",
        );
        let suspended = Blocker { command: None, suspended: true, ..known };
        check(
            &suspended,
            "/s/gate is locked by process 7, which is suspended; resume it with: kill -CONT 7, or end it with: kill -KILL 7",
        );
    }

    #[test]
    fn this_process_is_described_by_its_command_line() {
        let this = Blocker::new("/s/gate".into(), Some(std::process::id()));
        let program = std::env::args().next().expect("it has a name");
        assert!(this.command.is_some_and(|line| line.starts_with(&program)) && !this.suspended);
    }
}
