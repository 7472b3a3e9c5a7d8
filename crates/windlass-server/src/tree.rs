//! Kills the processes that work for an attempt, a check or the holder of a lock.
//!
//! A process belongs to a tree if it carries the tree's tag in its environment (`process_tag`) or as a number
//! in a resource limit (`limit_tag`), if it is in the command's process group, or if it descends from such a
//! process. A process that has cleared its environment, changed that limit, left the group and lost its
//! parents is found only by the leader of the run, whose child it has become (`orphans`).
//!
//! A process that forks and ends all the time is killed at sight, or forks once more before that. Then the
//! next search finds the new process. A tree has ended when a complete search finds nothing. Control groups
//! would add a kill that no process can outrun, but users may seldom create them where they run commands, so
//! everything would have to work without them anyway.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::slice;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use windlass_store::ProcessTree;

use crate::attempt::pid;
use crate::poll::poll;
use crate::proc_fs::{self, Process};
use crate::search::{self, Members, Sight, Wanted};

/// How long killed processes may take to end.
pub(crate) const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// Kills every process of a tree except the calling one, and waits until they have ended. Fails with
/// [`io::ErrorKind::PermissionDenied`] if all that are left belong to other users.
pub(crate) fn kill(tree: &ProcessTree) -> io::Result<()> {
    kill_all(slice::from_ref(tree))
}

/// Does the same for several trees.
pub(crate) fn kill_all(trees: &[ProcessTree]) -> io::Result<()> {
    let wanted: Vec<_> = trees.iter().map(|tree| Wanted { tree, roots: &[] }).collect();
    let began = Instant::now();
    loop {
        let Members { of_trees, sight } =
            search::members(&wanted, |_, process| kill_at_sight(process))?;
        let left = of_trees.concat();
        if left.is_empty() && sight == Sight::Complete {
            return Ok(());
        }
        let pids = proc_fs::pids_of(&left);
        if began.elapsed() > KILL_TIMEOUT {
            let message = match left.is_empty() {
                false => format!("processes {pids:?} were killed, but have not ended after 10 s"),
                true => "processes start and end faster than they can be searched".to_owned(),
            };
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        let dying: Vec<_> = left.iter().map(|process| signal(process, &[Signal::KILL])).collect();
        let is_out = |reached: &rustix::io::Result<Reach>| matches!(reached, Ok(Reach::Out(_)));
        if !dying.is_empty() && dying.iter().all(is_out) {
            let message = format!("processes {pids:?} belong to other users");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        for reached in dying {
            if let Ok(Reach::In(process)) = reached {
                poll(&[&process], Some(KILL_TIMEOUT.saturating_sub(began.elapsed())))?;
            }
        }
    }
}

/// Stops every process of a tree. One that is stopped starts no other, so a search that finds no new one has
/// found all.
pub(crate) fn stop(tree: &ProcessTree, roots: &[Process]) -> io::Result<()> {
    let wanted = [Wanted { tree, roots }];
    let began = Instant::now();
    let mut stopped = BTreeSet::new();
    loop {
        let Members { of_trees, sight } = search::members(&wanted, |_, _| ())?;
        let new: Vec<_> =
            of_trees.concat().into_iter().filter(|found| stopped.insert(*found)).collect();
        if new.is_empty() && sight == Sight::Complete || began.elapsed() > KILL_TIMEOUT {
            return Ok(());
        }
        for process in &new {
            // One that has ended, or belongs to another user, is left alone.
            let _ = signal(process, &[Signal::STOP]);
        }
    }
}

/// Lets every process of a tree continue that was stopped.
pub(crate) fn resume(tree: &ProcessTree, roots: &[Process]) -> io::Result<()> {
    let wanted = [Wanted { tree, roots }];
    for process in search::members(&wanted, |_, _| ())?.of_trees.concat() {
        let _ = signal(&process, &[Signal::CONT]);
    }
    Ok(())
}

/// Kills a process that may start another and end at any moment. What cannot be killed is found again.
pub(crate) fn kill_at_sight(process: &Process) {
    let _ = signal(process, &[Signal::KILL]);
}

/// A handle that becomes readable when a process ends, and whether the process could be signalled.
pub(crate) enum Reach {
    In(OwnedFd),
    /// The process belongs to another user.
    Out(OwnedFd),
}

/// Sends signals to one process, unless its pid is used by another process by now.
pub(crate) fn signal(process: &Process, signals: &[Signal]) -> rustix::io::Result<Reach> {
    let handle = pidfd_open(pid(process.pid).ok_or(Errno::SRCH)?, PidfdFlags::empty())?;
    // Its parent may have been killed and reaped it, so only the start time tells it from a later process.
    if !proc_fs::is_alive(process) {
        return Err(Errno::SRCH);
    }
    for signal in signals {
        match pidfd_send_signal(&handle, *signal) {
            Err(Errno::PERM) => return Ok(Reach::Out(handle)),
            sent => sent?,
        }
    }
    Ok(Reach::In(handle))
}

#[cfg(test)]
mod tests;
