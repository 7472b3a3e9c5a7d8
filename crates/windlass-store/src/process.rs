//! Who a process is, so that another one can tell whether it is gone.
//!
//! A pid alone is used again; with the time at which the process started, the boot, and the pid
//! namespace it stands for one life of one process.

use std::fs;
use std::io;

use crate::moment::boot_id;

/// One life of one process on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
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
            started: start_time(pid).ok_or_else(unknown)?,
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
        let Ok(boot) = boot_id() else { return false };
        if boot != self.boot {
            return true;
        }
        pid_namespace().is_ok_and(|here| here == self.namespace)
            && start_time(self.pid) != Some(self.started)
    }
}

fn pid_namespace() -> io::Result<String> {
    Ok(fs::read_link("/proc/self/ns/pid")?.to_string_lossy().into_owned())
}

/// When a process started; none if there is none, or it has ended and only waits to be reaped.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
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
        process.started = start_time(child.id()).expect("it sleeps");
        assert!(!process.is_gone(), "it lives");
        child.kill().expect("it can be killed");
        child.wait().expect("it was killed");
        assert!(process.is_gone());
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
