//! Starts processes, and reaps them.
//!
//! Only this file, `launch` and `limit_tag` contain unsafe code. Here it is what happens between the fork
//! and the new program, the one way to learn what a process took, and the one to have the disk begin
//! before a start that waits for it. Descendants of a process are found elsewhere; see `tree`.
#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::io::{self, stdin};
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, getpgrp, getpid, getppid, set_parent_process_death_signal};
use rustix::termios::{isatty, tcgetpgrp};

use crate::ended::{Ended, Exit, Usage};
use crate::limit_tag::NewTag;

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

/// A process that was started here, and is waited for by whoever has this.
pub(crate) struct Spawned(Child);

/// The numbers of all of them, so that nobody takes them for orphans.
static SPAWNED: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Whether somebody in this process waits for that process. Once it is a child of ours that can be
/// seen, the answer is right.
pub(crate) fn is_spawned(pid: u32) -> bool {
    spawned().contains(&pid)
}

pub(crate) fn spawned() -> MutexGuard<'static, BTreeSet<u32>> {
    // A number is added or taken away as a whole.
    SPAWNED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a process that works for `word` and is killed when the calling *thread* ends: call it from one
/// that lives as long as the process should.
pub(crate) fn spawn(command: &mut Command, group: GroupChoice, word: &str) -> io::Result<Spawned> {
    if group == GroupChoice::Own {
        command.process_group(0);
    }
    let (parent, tag) = (getpid(), NewTag::for_child(word));
    // SAFETY: between fork and exec only what is safe to call in a signal handler may be called:
    // these are three plain system calls, without allocation or locks.
    unsafe {
        command.pre_exec(move || {
            tag.iter().for_each(NewTag::set);
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // It may have ended before that took effect.
            if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::NotConnected.into()) }
        });
    }
    spawn_lasting(command)
}

/// Starts a process that goes on if this one is killed. With nothing to do between the fork and the
/// new program, no memory has to be copied for it.
pub(crate) fn spawn_lasting(command: &mut Command) -> io::Result<Spawned> {
    keep_ends();
    // Nobody asks before its number is there.
    let mut spawned = spawned();
    let child = command.spawn()?;
    spawned.insert(child.id());
    Ok(Spawned(child))
}

impl Drop for Spawned {
    fn drop(&mut self) {
        spawned().remove(&self.0.id());
    }
}

impl Deref for Spawned {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Spawned {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

/// Has the ends of children kept until they are asked for, though whoever started this process may
/// have had them ignored.
pub(crate) fn keep_ends() {
    let mut now = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the pointer is to a place of its type that outlives the call; nothing is changed.
    let asked = unsafe { libc::sigaction(libc::SIGCHLD, std::ptr::null(), now.as_mut_ptr()) };
    // SAFETY: it consists of numbers, for which zero is a value, whether or not the call has filled
    // it in.
    let now = unsafe { now.assume_init() };
    let ignored = now.sa_sigaction == libc::SIG_IGN || now.sa_flags & libc::SA_NOCLDWAIT != 0;
    if asked == 0 && ignored {
        // SAFETY: no handler is installed, and none is replaced: what was ignored is left to the
        // system.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    }
}

/// Has this thread, and those that it starts, hear of these signals, though whoever started this process
/// may have blocked them for its own threads.
pub(crate) fn hear(signals: &[libc::c_int]) {
    let mut heard = MaybeUninit::uninit();
    // SAFETY: both calls are given a place of their type that outlives them; the first one fills it in.
    unsafe {
        libc::sigemptyset(heard.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(heard.as_mut_ptr(), *signal);
        }
        libc::pthread_sigmask(libc::SIG_UNBLOCK, heard.as_ptr(), std::ptr::null_mut());
    }
}

/// Has the disk begin with what was written to a file, without waiting for it.
pub(crate) fn begin_writing(file: BorrowedFd<'_>) {
    // SAFETY: the file is open as long as it is borrowed, and no memory of ours is involved. What
    // goes wrong is told by the sync that has to follow.
    unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
}

/// Reaps a child of this process that has ended; none if it still runs.
pub(crate) fn reap(child: Pid) -> io::Result<Option<Ended>> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    let number = child.as_raw_nonzero().get();
    // SAFETY: both pointers are to places of their types that outlive the call.
    let reaped = unsafe { libc::wait4(number, &raw mut status, libc::WNOHANG, usage.as_mut_ptr()) };
    match reaped {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        _ => {
            // SAFETY: it consists of numbers, for which zero is a value, whether or not the call
            // has filled it in.
            let usage = unsafe { usage.assume_init() };
            let exit = ExitStatus::from_raw(status);
            Ok(Some(Ended { usage: usage_of(&usage), ..Ended::from(Exit::from(exit)) }))
        }
    }
}

fn usage_of(usage: &libc::rusage) -> Usage {
    let span = |time: libc::timeval| {
        let seconds = Duration::from_secs(time.tv_sec.unsigned_abs());
        seconds + Duration::from_micros(time.tv_usec.unsigned_abs())
    };
    let peak_kib = usage.ru_maxrss.unsigned_abs();
    let peak_memory = (peak_kib > own_peak_kib()).then(|| peak_kib.saturating_mul(1024));
    Usage { cpu: span(usage.ru_utime) + span(usage.ru_stime), peak_memory }
}

/// The most memory that this process had at a time, which is the least that the kernel tells of its
/// children.
fn own_peak_kib() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a place of its type that outlives the call. It consists of numbers, for
    // which zero is a value, whether or not the call has filled it in.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.ru_maxrss.unsigned_abs()
}
