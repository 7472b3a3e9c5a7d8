//! The identity of a process, by which other processes can tell whether it has ended.
//!
//! The kernel reuses pids. A pid with its start time, its boot and its pid namespace identifies one
//! process.

use std::fs;
use std::io;
use std::str::SplitAsciiWhitespace;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::clock::{Frame, boot_id};

/// Linux's error numbers for a missing file and a missing process.
const ENOENT: i32 = 2;
const ESRCH: i32 = 3;

/// What this process can tell about another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It is running.
    Alive,
    /// It has ended.
    Gone,
    /// It is not visible: it is of another machine, boot or pid namespace, or `/proc` hides it.
    Unknown,
}

/// A process of a machine, past or present.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// The pid.
    pub pid: u32,
    /// When it started, in clock ticks of the kernel since the boot.
    pub started: u64,
    /// The boot during which it started.
    pub boot: String,
    /// The pid namespace of the pid.
    pub namespace: String,
}

impl Process {
    /// Returns the calling process.
    pub fn current() -> io::Result<Self> {
        Self::of(std::process::id())
    }

    /// Returns the running process with this pid.
    pub fn of(pid: u32) -> io::Result<Self> {
        let unknown =
            || io::Error::new(io::ErrorKind::NotFound, format!("no process has the pid {pid}"));
        Ok(Self {
            pid,
            started: start_time(pid)?.ok_or_else(unknown)?,
            boot: boot_id()?,
            namespace: pid_namespace()?,
        })
    }

    /// Returns a text that no other process of any machine has.
    #[must_use]
    pub fn id(&self) -> String {
        let boot: String = self.boot.chars().take(8).collect();
        let namespace: String = self.namespace.chars().filter(char::is_ascii_digit).collect();
        format!("{}.{}.{boot}.{namespace}", self.pid, self.started)
    }

    /// Returns whether the caller would see this process if it is running.
    #[must_use]
    pub fn is_visible(&self) -> bool {
        boot_id().is_ok_and(|boot| boot == self.boot)
            && pid_namespace().is_ok_and(|here| here == self.namespace)
    }

    /// Returns whether this process has certainly ended. One that is not visible may be running.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.liveness() == Liveness::Gone
    }

    /// Returns what the caller can tell about this process. Nothing of one of another boot, which may be that
    /// of another machine.
    #[must_use]
    pub fn liveness(&self) -> Liveness {
        if !self.is_visible() {
            return Liveness::Unknown;
        }
        match start_time(self.pid) {
            Ok(Some(started)) if started == self.started => Liveness::Alive,
            Ok(_) => Liveness::Gone,
            Err(_) => Liveness::Unknown,
        }
    }
}

/// Returns whether `process`, if there is one, has certainly ended, or the frame of its lease, which none
/// survives.
pub(crate) fn has_ended(frame: &str, process: Option<&Process>) -> bool {
    Frame::is_over(frame) || process.is_some_and(Process::is_gone)
}

/// Returns what tells this machine apart from others, also after a reboot.
#[must_use]
pub fn machine_id() -> String {
    let id = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    // A container may have none.
    if id.trim().is_empty() { host_name() } else { id.trim().to_owned() }
}

/// Returns the name of this machine.
#[must_use]
pub fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

fn pid_namespace() -> io::Result<String> {
    Ok(fs::read_link("/proc/self/ns/pid")?.to_string_lossy().into_owned())
}

/// Returns when a process started; none if it has ended, even if its parent has not reaped it. Fails if
/// that cannot be known, because too many files are open or `/proc` hides the process (`hidepid`).
fn start_time(pid: u32) -> io::Result<Option<u64>> {
    parse_start(fs::read(format!("/proc/{pid}/stat")), || exists(pid))
}

/// Interprets the result of reading `/proc/PID/stat`; `exists` tells whether a process has the pid.
fn parse_start(
    read: io::Result<Vec<u8>>,
    exists: impl FnOnce() -> io::Result<bool>,
) -> io::Result<Option<u64>> {
    match read {
        Ok(stat) => Ok(started(&String::from_utf8_lossy(&stat))),
        // ESRCH: it ended between open and read.
        Err(error) if matches!(error.raw_os_error(), Some(ENOENT | ESRCH)) => match exists()? {
            true => Err(error),
            false => Ok(None),
        },
        Err(error) => Err(error),
    }
}

/// Returns whether a process has this pid, even if `/proc` hides it.
fn exists(pid: u32) -> io::Result<bool> {
    let Some(pid) = pid.try_into().ok().and_then(Pid::from_raw) else { return Ok(false) };
    match test_kill_process(pid) {
        Ok(()) | Err(Errno::PERM) => Ok(true),
        Err(Errno::SRCH) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn started(stat: &str) -> Option<u64> {
    let mut fields = after_name(stat)?;
    let is_first_thread_over = matches!(fields.next()?, "Z" | "X");
    let threads: u32 = fields.nth(16)?.parse().ok()?;
    let started = fields.nth(1)?.parse().ok()?;
    (!is_first_thread_over || threads > 1).then_some(started)
}

/// Returns the fields that follow the name of a process, which may contain blanks and parentheses.
fn after_name(stat: &str) -> Option<SplitAsciiWhitespace<'_>> {
    Some(stat[stat.rfind(')')? + 1..].split_ascii_whitespace())
}

/// Returns whether a process is stopped, by a signal or by a debugger.
pub(crate) fn is_stopped(pid: u32) -> bool {
    let stat = fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    let stat = String::from_utf8_lossy(&stat);
    let state = after_name(&stat).and_then(|mut fields| fields.next());
    matches!(state, Some("T" | "t"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_was_reaped_is_gone() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep runs");
        let mut process = Process::current().expect("this is Linux");
        assert!(!process.is_gone(), "this process is running");
        process.pid = child.id();
        process.started = start_time(child.id()).expect("it can be seen").expect("it sleeps");
        assert!(!process.is_gone(), "it is running");
        child.kill().expect("it can be killed");
        child.wait().expect("it was killed");
        assert!(process.is_gone());
    }

    #[test]
    fn only_a_missing_file_of_a_missing_process_means_that_it_has_ended() {
        let of = |code, exists| parse_start(Err(io::Error::from_raw_os_error(code)), || Ok(exists));
        for missing in [ENOENT, ESRCH] {
            assert_eq!(of(missing, false).expect("that is an answer"), None);
            assert!(of(missing, true).is_err(), "it is hidden");
        }
        let (too_many_files, no_memory, not_permitted) = (24, 12, 1);
        for code in [too_many_files, no_memory, not_permitted] {
            assert!(of(code, false).is_err(), "{code}: the process may be running");
        }
        let odd = b"7 (a) Z ) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 0".to_vec();
        assert_eq!(parse_start(Ok(odd), || Ok(true)).expect("that is an answer"), Some(4711));
    }

    #[test]
    fn a_process_has_ended_when_its_last_thread_has() {
        let stat =
            |threads| format!("7 (a) Z 1 7 7 0 -1 4 1 0 0 0 0 0 0 0 20 0 {threads} 0 4711 0");
        assert_eq!(started(&stat(2)), Some(4711));
        assert_eq!(started(&stat(1)), None);
    }

    #[test]
    fn a_process_exists_until_it_is_reaped() {
        let mut child = std::process::Command::new("true").spawn().expect("it runs");
        assert!(exists(child.id()).expect("it can be asked"));
        child.wait().expect("it ends");
        assert!(!exists(child.id()).expect("it can be asked"));
        assert!(exists(1).expect("it can be asked"), "also another user's");
    }

    #[test]
    fn a_reused_pid_is_another_process() {
        let mut process = Process::current().expect("this is Linux");
        process.started += 1;
        assert!(process.is_gone());
    }

    #[test]
    fn a_process_that_is_not_visible_has_not_certainly_ended() {
        let mut process = Process::current().expect("this is Linux");
        process.namespace = "pid:[1]".to_owned();
        process.started += 1;
        assert!(!process.is_gone());
        process.boot = "another".to_owned();
        assert!(!process.is_gone(), "it may be of another machine");
        assert!(has_ended("another", Some(&process)), "no process survives the boot of its lease");
        assert!(!has_ended("database 7", Some(&process)), "machines come and go");
    }
}
