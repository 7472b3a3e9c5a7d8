//! Starts processes that do not outlive the one that starts them.
//!
//! The only file with unsafe code: what happens between the fork and the new program. Descendants
//! of the new process are found by the mark that they carry; see `tree`.
#![allow(unsafe_code)]

use std::io::{self, stdin};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use rustix::process::{Signal, getpgrp, getpid, getppid, set_parent_process_death_signal};
use rustix::termios::{isatty, tcgetpgrp};

/// Which process group a new process belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupChoice {
    /// One of its own, so that the whole group can be signalled.
    Own,
    /// Ours, because ours has the terminal.
    Shared,
}

impl GroupChoice {
    /// A group of its own, unless it would lose the terminal by that.
    pub(crate) fn for_terminal() -> Self {
        let foreground =
            isatty(stdin()) && tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp());
        if foreground { GroupChoice::Shared } else { GroupChoice::Own }
    }
}

/// Starts a process that is killed when the calling *thread* ends: call it from one that lives as
/// long as the process should.
pub(crate) fn spawn(command: &mut Command, group: GroupChoice) -> io::Result<Child> {
    if group == GroupChoice::Own {
        command.process_group(0);
    }
    let parent = getpid();
    // SAFETY: between fork and exec only what is safe to call in a signal handler may be called:
    // these are two plain system calls, without allocation or locks.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // It may have ended before that took effect.
            if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::NotConnected.into()) }
        });
    }
    command.spawn()
}
