//! Who a process is, so that another one can tell whether it is gone.
//!
//! A pid alone is used again; with the time at which the process started, the boot, and the pid
//! namespace it stands for one life of one process.

use std::fs;
use std::io;

use crate::moment::boot_id;

/// There is no such file, and no such process, in Linux's numbers.
const ENOENT: i32 = 2;
const ESRCH: i32 = 3;

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
    pub fn is_in_sight(&self) -> bool {
        boot_id().is_ok_and(|boot| boot == self.boot)
            && pid_namespace().is_ok_and(|here| here == self.namespace)
    }

    /// Whether it is certain that this process has ended. One of another pid namespace cannot be
    /// seen from here, and so is never certain.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        let ended = || {
            pid_namespace().is_ok_and(|here| here == self.namespace)
                && start_time(self.pid).is_ok_and(|started| started != Some(self.started))
        };
        is_over(&self.boot) || ended()
    }
}

/// Whether it is certain that nobody is left of what began during `boot`, for that process if there was
/// one. Nothing survives a boot.
pub(crate) fn nobody_is_left(boot: &str, process: Option<&Process>) -> bool {
    process.map_or_else(|| is_over(boot), Process::is_gone)
}

fn is_over(boot: &str) -> bool {
    boot_id().is_ok_and(|now| now != boot)
}

fn pid_namespace() -> io::Result<String> {
    Ok(fs::read_link("/proc/self/ns/pid")?.to_string_lossy().into_owned())
}

/// When a process started; none if there is none, or it has ended and only waits to be reaped. An
/// error if that cannot be known, because there is no room for another open file, say.
fn start_time(pid: u32) -> io::Result<Option<u64>> {
    life(fs::read(format!("/proc/{pid}/stat")))
}

fn life(read: io::Result<Vec<u8>>) -> io::Result<Option<u64>> {
    match read {
        Ok(stat) => Ok(started(&String::from_utf8_lossy(&stat))),
        // It may also end between the two halves of reading.
        Err(error) if matches!(error.raw_os_error(), Some(ENOENT | ESRCH)) => Ok(None),
        Err(error) => Err(error),
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
        let of = |code| life(Err(io::Error::from_raw_os_error(code)));
        assert_eq!(of(ENOENT).expect("that is an answer"), None);
        assert_eq!(of(ESRCH).expect("that is an answer"), None);
        let (too_many_files, no_memory, not_permitted) = (24, 12, 1);
        for code in [too_many_files, no_memory, not_permitted] {
            assert!(of(code).is_err(), "{code}: nobody knows");
        }
        let odd = b"7 (a) Z ) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 0".to_vec();
        assert_eq!(life(Ok(odd)).expect("that is an answer"), Some(4711));
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
