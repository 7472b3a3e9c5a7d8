//! How a process ended, and what it took.

use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How a process ended.
///
/// ```
/// use windlass_server::Exit;
///
/// assert_eq!(Exit::Signal(9).code(), 137);
/// assert_eq!(Exit::Signal(9).to_string(), "ended by signal 9");
/// assert!(Exit::Code(0).is_success());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl Exit {
    /// Returns the code that a shell would report: 128 more than the signal, if one ended the process.
    #[must_use]
    pub fn code(self) -> i32 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal(signal) => 128 + signal,
        }
    }

    /// Whether it ended by itself, and well.
    #[must_use]
    pub fn is_success(self) -> bool {
        self == Exit::Code(0)
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match status.code() {
            Some(code) => Exit::Code(code),
            None => Exit::Signal(status.signal().unwrap_or_default()),
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exit code {code}"),
            Exit::Signal(signal) => write!(f, "ended by signal {signal}"),
        }
    }
}

/// What a process took, together with those of its descendants that were waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Usage {
    /// Time on processors.
    pub cpu: Duration,
    /// The peak memory of its largest process, in bytes; none if it was not more than that of this
    /// process. The kernel includes the memory that a process shares with its parent before it executes
    /// its program, so smaller values cannot be measured.
    pub peak_memory: Option<u64>,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Ended {
    /// How its process ended; the code that a shell would report if it could not be started.
    pub exit: Exit,
    /// What it took.
    pub usage: Usage,
    /// What is wrong besides: why it could not be started, or what it has left behind.
    pub flaw: Option<String>,
    /// The processes that it left running and that had to be ended, each as `name (pid)`.
    pub left: Vec<String>,
    /// The processes that it has started and that could not be ended.
    #[serde(default)]
    pub unended: Vec<u32>,
    /// The values that it hands on to later steps, if it has written some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<BTreeMap<String, String>>,
}

/// How many of the processes that an attempt left running are named.
const NAMED: usize = 5;
const LEFT: &str = "ended what it left running";

impl Ended {
    /// Whether its process ended well, and nothing else is wrong.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.exit.is_success() && self.flaw.is_none()
    }

    /// What is wrong; nothing if it is a success.
    #[must_use]
    pub fn why(&self) -> Option<String> {
        let exit = (!self.exit.is_success()).then(|| self.exit.to_string());
        self.flaw.clone().or(exit)
    }

    /// Which processes it left running that had to be ended, as a phrase.
    ///
    /// ```
    /// use windlass_server::{Ended, Exit};
    ///
    /// let mut ended = Ended::from(Exit::Code(0));
    /// assert_eq!(ended.note(), None);
    /// ended.left.push("sleep (4711)".to_owned());
    /// assert_eq!(ended.note().as_deref(), Some("ended what it left running: sleep (4711)"));
    /// ```
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let named = self.left.get(..NAMED).unwrap_or(&self.left).join(", ");
        match self.left.len() {
            0 => None,
            all if all > NAMED => Some(format!("{LEFT}: {named} and {} more", all - NAMED)),
            _ => Some(format!("{LEFT}: {named}")),
        }
    }
}

impl From<Exit> for Ended {
    /// Returns an end without usage.
    fn from(exit: Exit) -> Self {
        Self {
            exit,
            usage: Usage::default(),
            flaw: None,
            left: Vec::new(),
            unended: Vec::new(),
            outputs: None,
        }
    }
}
