//! Runs the hook of a guard that `windlass guard` checks, within its time limit.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use windlass_workflow::format_duration;

/// How long a hook may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(10);

/// Runs a hook, and returns why it failed, if it did.
pub(super) fn run(command: &mut Command, limit: Duration) -> Option<String> {
    let ended = command.spawn().and_then(|child| end_within(child, limit));
    match ended {
        Ok(why) => why,
        Err(error) => Some(format!("cannot be run: {error}")),
    }
}

fn end_within(mut child: Child, limit: Duration) -> io::Result<Option<String>> {
    let pid = Pid::from_child(&child);
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    let late = !ends_within(&handle, limit)?;
    if late {
        // The hook may have just ended.
        let _ = pidfd_send_signal(&handle, Signal::TERM);
        if !ends_within(&handle, GRACE)? {
            child.kill()?;
        }
    }
    let status = child.wait()?;
    Ok(match (late, status.success()) {
        (true, _) => Some(format!("timed out after {}", format_duration(limit))),
        (false, true) => None,
        (false, false) => Some(status.to_string()),
    })
}

/// Waits for the end of a process for `time` at most. Returns whether it has ended.
fn ends_within(process: &OwnedFd, time: Duration) -> io::Result<bool> {
    let began = Instant::now();
    loop {
        let left = Timespec::try_from(time.saturating_sub(began.elapsed())).ok();
        match poll(&mut [PollFd::new(process, PollFlags::IN)], left.as_ref()) {
            // A signal interrupted the wait.
            Err(Errno::INTR) => {}
            ready => return Ok(ready? > 0),
        }
    }
}
