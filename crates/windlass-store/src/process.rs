//! Who a process is, so that another one can tell whether it is gone.
//!
//! A pid alone is used again; with the time at which the process started, the boot, and the pid
//! namespace it stands for one life of one process.

use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::clock::boot_id;

/// There is no such file, and no such process, in Linux's numbers.
const ENOENT: i32 = 2;
const ESRCH: i32 = 3;

/// What can be said of a process that was looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It lives.
    Alive,
    /// It is certain that it has ended.
    Gone,
    /// It cannot be seen from here: it lives in another pid namespace, or `/proc` does not show it.
    Unknown,
}

/// One life of one process on this machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it started, in the kernel's clock ticks since boot.
    pub started: u64,
    /// The boot during which it lives.
    pub boot: String,
    /// The pid namespace in which its number counts.
    pub namespace: String,
}

impl Process {
    /// The calling process.
    pub fn current() -> io::Result<Self> {
        Self::of(std::process::id())
    }

    /// A process that is seen from here.
    pub fn of(pid: u32) -> io::Result<Self> {
        let unknown =
            || io::Error::new(io::ErrorKind::NotFound, format!("there is no process {pid}"));
        Ok(Self {
            pid,
            started: start_time(pid)?.ok_or_else(unknown)?,
            boot: boot_id()?,
            namespace: pid_namespace()?,
        })
    }

    /// Whether the calling process could see this one, if it lives.
    #[must_use]
    pub fn is_visible(&self) -> bool {
        boot_id().is_ok_and(|boot| boot == self.boot)
            && pid_namespace().is_ok_and(|here| here == self.namespace)
    }

    /// Returns whether it is certain that this process has ended. One that cannot be seen may live.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.liveness() == Liveness::Gone
    }

    /// Returns what can be said of this process from here.
    #[must_use]
    pub fn liveness(&self) -> Liveness {
        if is_over(&self.boot) {
            return Liveness::Gone;
        }
        if !pid_namespace().is_ok_and(|here| here == self.namespace) {
            return Liveness::Unknown;
        }
        match start_time(self.pid) {
            Ok(Some(started)) if started == self.started => Liveness::Alive,
            Ok(_) => Liveness::Gone,
            Err(_) => Liveness::Unknown,
        }
    }
}

/// Whether it is certain that nobody is left of what began during `boot`, for that process if there was
/// one. Nothing survives a boot.
pub(crate) fn has_ended(boot: &str, process: Option<&Process>) -> bool {
    process.map_or_else(|| is_over(boot), Process::is_gone)
}

fn is_over(boot: &str) -> bool {
    boot_id().is_ok_and(|now| now != boot)
}

fn pid_namespace() -> io::Result<String> {
    Ok(fs::read_link("/proc/self/ns/pid")?.to_string_lossy().into_owned())
}

/// Returns when a process started; none if there is no such process, or only its exit status is left. An
/// error if that cannot be known: there is no room for another open file, or `/proc` hides the process
/// (`hidepid`).
fn start_time(pid: u32) -> io::Result<Option<u64>> {
    life(fs::read(format!("/proc/{pid}/stat")), || exists(pid))
}

/// What became of reading the state of a process; `exists` says whether there is one of this number.
fn life(
    read: io::Result<Vec<u8>>,
    exists: impl FnOnce() -> io::Result<bool>,
) -> io::Result<Option<u64>> {
    match read {
        Ok(stat) => Ok(started(&String::from_utf8_lossy(&stat))),
        // It may also end between the two halves of reading.
        Err(error) if matches!(error.raw_os_error(), Some(ENOENT | ESRCH)) => match exists()? {
            true => Err(error),
            false => Ok(None),
        },
        Err(error) => Err(error),
    }
}

/// Returns whether there is a process of this number, also one that `/proc` does not show.
fn exists(pid: u32) -> io::Result<bool> {
    let Some(pid) = pid.try_into().ok().and_then(Pid::from_raw) else { return Ok(false) };
    match test_kill_process(pid) {
        Ok(()) | Err(Errno::PERM) => Ok(true),
        Err(Errno::SRCH) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn started(stat: &str) -> Option<u64> {
    // The name in the second field may contain anything, also blanks and parentheses.
    let after_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = after_name.split_ascii_whitespace();
    let state = fields.next()?;
    let started = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(started)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_was_reaped_is_gone() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep runs");
        let mut process = Process::current().expect("this is Linux");
        assert!(!process.is_gone(), "we live");
        process.pid = child.id();
        process.started = start_time(child.id()).expect("it can be seen").expect("it sleeps");
        assert!(!process.is_gone(), "it lives");
        child.kill().expect("it can be killed");
        child.wait().expect("it was killed");
        assert!(process.is_gone());
    }

    #[test]
    fn only_a_process_that_was_looked_for_is_missing() {
        let of = |code, exists| life(Err(io::Error::from_raw_os_error(code)), || Ok(exists));
        for missing in [ENOENT, ESRCH] {
            assert_eq!(of(missing, false).expect("that is an answer"), None);
            assert!(of(missing, true).is_err(), "it is hidden");
        }
        let (too_many_files, no_memory, not_permitted) = (24, 12, 1);
        for code in [too_many_files, no_memory, not_permitted] {
            assert!(of(code, false).is_err(), "{code}: nobody knows");
        }
        let odd = b"7 (a) Z ) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 0".to_vec();
        assert_eq!(life(Ok(odd), || Ok(true)).expect("that is an answer"), Some(4711));
    }

    #[test]
    fn a_process_exists_until_it_was_reaped() {
        let mut child = std::process::Command::new("true").spawn().expect("it runs");
        assert!(exists(child.id()).expect("it can be asked"));
        child.wait().expect("it ends");
        assert!(!exists(child.id()).expect("it can be asked"));
        assert!(exists(1).expect("it can be asked"), "also another user's");
    }

    #[test]
    fn another_life_of_the_same_number_is_another_process() {
        let mut process = Process::current().expect("this is Linux");
        process.started += 1;
        assert!(process.is_gone());
    }

    #[test]
    fn what_cannot_be_seen_is_not_certain() {
        let mut process = Process::current().expect("this is Linux");
        process.namespace = "pid:[1]".to_owned();
        process.started += 1;
        assert!(!process.is_gone());
        process.boot = "another".to_owned();
        assert!(process.is_gone(), "nothing survives a boot");
    }
}
