//! Starts checks and wrapped commands, reaps children, and makes a few system calls that no crate offers.
//!
//! Only this file, `launch/child` and `limit_tag` contain unsafe code. Here it is the code between fork and
//! exec, `wait4` for the resources that a process used, signal masks, and `sync_file_range`. `tree` finds the
//! descendants of a process.
#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::io::{self, stdin};
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, getpgrp, getpid, getppid, set_parent_process_death_signal};
use rustix::termios::{isatty, tcgetpgrp};

use crate::ended::{Ended, Exit, Usage};
use crate::fence;
use crate::limit_tag::NewTag;
use crate::proc_fs;

/// How much more than its peak the kernel may have taken for that of this process when it started a child:
/// the kernel counts pages in batches for each processor, and reads the sum without them.
const PEAK_ERROR_KIB: u64 = 1 << 10;

/// Which process group a new process belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupChoice {
    /// One of its own, so that the whole group can be signalled.
    Own,
    /// The group of this process, because it has the terminal.
    Shared,
}

impl GroupChoice {
    /// Returns a group of its own, unless the process would lose the terminal.
    pub(crate) fn for_terminal() -> Self {
        let foreground =
            isatty(stdin()) && tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp());
        if foreground { GroupChoice::Shared } else { GroupChoice::Own }
    }
}

/// A child of this process. The owner of this value waits for it.
pub(crate) struct Spawned(Child);

/// The pids of all children that were started here, which are no orphans.
static SPAWNED: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Returns whether a thread of this process has started that process and waits for it. The answer is right
/// as soon as the process is listed as a child.
pub(crate) fn is_spawned(pid: u32) -> bool {
    spawned().contains(&pid)
}

pub(crate) fn spawned() -> MutexGuard<'static, BTreeSet<u32>> {
    // A panic cannot leave the set half changed.
    SPAWNED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a process that carries `tag` and is killed when the calling *thread* ends: call it from a thread
/// that lives as long as the process should.
pub(crate) fn spawn(command: &mut Command, group: GroupChoice, tag: &str) -> io::Result<Spawned> {
    if group == GroupChoice::Own {
        command.process_group(0);
    }
    let (parent, tag) = (getpid(), NewTag::for_child(tag));
    // SAFETY: between fork and exec only what is safe to call in a signal handler may be called:
    // these are plain system calls, without allocation or locks.
    unsafe {
        command.pre_exec(move || {
            tag.iter().for_each(NewTag::set);
            if !fence::is_open() {
                return Err(fence::REFUSED.into());
            }
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // The parent may have ended before the call.
            if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::NotConnected.into()) }
        });
    }
    spawn_lasting(command)
}

/// Starts a process that survives this one. With nothing to do between the fork and the new program, no
/// memory has to be copied.
pub(crate) fn spawn_lasting(command: &mut Command) -> io::Result<Spawned> {
    keep_ends();
    // Held until the pid is in the set, so that no other thread takes the child for an orphan.
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

/// Has the kernel keep the ends of children until they are reaped, even if this process was started with
/// SIGCHLD ignored.
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

/// Unblocks signals for this thread and those that it starts: the parent of this process may have blocked
/// them.
pub(crate) fn unblock(signals: &[libc::c_int]) {
    let mut unblocked = MaybeUninit::uninit();
    // SAFETY: both calls are given a place of their type that outlives them; the first one fills it in.
    unsafe {
        libc::sigemptyset(unblocked.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(unblocked.as_mut_ptr(), *signal);
        }
        libc::pthread_sigmask(libc::SIG_UNBLOCK, unblocked.as_ptr(), std::ptr::null_mut());
    }
}

/// Has the kernel begin to write a file to the disk, without waiting for it.
pub(crate) fn begin_writing(file: BorrowedFd<'_>) {
    // SAFETY: the file is open as long as it is borrowed, and the call uses no memory of this process. The
    // sync that has to follow reports errors.
    unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
}

/// Reaps a child of this process. Returns none if it still runs.
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
    let peak_memory = is_its_own(peak_kib).then(|| peak_kib.saturating_mul(1024));
    Usage { cpu: span(usage.ru_utime) + span(usage.ru_stime), peak_memory }
}

/// Returns whether a child had this peak by itself. The kernel reports at least the peak that this process
/// had when it started the child.
fn is_its_own(peak_kib: u64) -> bool {
    // It only grows, so most children need no look at it.
    static OWN_KIB: AtomicU64 = AtomicU64::new(0);
    let is_above = |own_kib: u64| peak_kib > own_kib + PEAK_ERROR_KIB;
    if !is_above(OWN_KIB.load(Ordering::Relaxed)) {
        return false;
    }
    let Some(own_kib) = proc_fs::own_peak_kib() else { return false };
    OWN_KIB.store(own_kib, Ordering::Relaxed);
    is_above(own_kib)
}
