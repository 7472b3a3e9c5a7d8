//! What a child does between its start and its program, in memory that it shares with its parent.
//!
//! `clone` with `CLONE_VM` and `CLONE_VFORK` stops the parent's thread until the child has executed its
//! program, so no memory is copied and an error comes back as a number. The child may only make system
//! calls: it must neither allocate nor take locks.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;

use rustix::fs::{Mode, OFlags, open};

use crate::fence;
use crate::limit_tag::NewTag;

/// The controlling terminal of the process that opens it.
const TERMINAL: &CStr = c"/dev/tty";

/// Returns the signals that have a handler, and the one that Rust programs ignore. A handler that is
/// installed later could only run in a child that gets a signal before its pid is known to any process.
pub(super) fn caught_signals() -> Vec<c_int> {
    let has_handler = |signal: &c_int| {
        let mut now = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: the pointer is to a place of its type that outlives the call; nothing is changed.
        let asked = unsafe { libc::sigaction(*signal, ptr::null(), now.as_mut_ptr()) };
        // SAFETY: it consists of numbers, for which zero is a value, whether or not the call has
        // filled it in.
        let now = unsafe { now.assume_init() };
        asked == 0 && !matches!(now.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN)
    };
    let all = 1..=libc::SIGRTMAX();
    all.filter(|signal| *signal == libc::SIGPIPE || has_handler(signal)).collect()
}

/// What a child needs to execute its program: pointers into memory that it shares with its parent, which
/// leaves that memory alone until the child has executed the program.
pub(super) struct ChildSetup<'a> {
    pub(super) file: *const c_char,
    pub(super) arguments: *const *const c_char,
    pub(super) variables: *const *const c_char,
    pub(super) dir: *const c_char,
    pub(super) input: c_int,
    pub(super) output: c_int,
    pub(super) caught: &'a [c_int],
    /// Set before anything else, so that the child can be found as early as possible.
    pub(super) tag: Option<NewTag>,
    /// The error for which the child could not execute the program; 0 if it has.
    pub(super) error: c_int,
}

impl ChildSetup<'_> {
    /// Starts the child. Returns its pid and its pidfd once it has executed its program, or has ended with
    /// an error.
    pub(super) fn clone_child(
        &mut self,
        stack: &mut [MaybeUninit<u8>],
    ) -> io::Result<(u32, OwnedFd)> {
        let mut handle: c_int = -1;
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
        let top = stack.as_mut_ptr_range().end.cast::<c_void>();
        let argument = ptr::from_mut(self).cast::<c_void>();
        let before = block_signals();
        // SAFETY: no other code uses the stack: it is borrowed, and the call returns only after the child
        // has executed its program, or has ended. Until then the child uses the memory of its parent, of
        // which it changes nothing but its stack and `self.error`. No handler runs in it, because it blocks
        // all signals until it has no handlers. The pointer to the handle is to a place of its type.
        let number = unsafe {
            libc::clone(become_program, top, flags, argument, ptr::from_mut(&mut handle))
        };
        let failed = io::Error::last_os_error();
        set_signals(&before);
        let Ok(number) = u32::try_from(number) else { return Err(failed) };
        // SAFETY: the kernel has opened the descriptor for this call, so no other code owns it.
        let handle = unsafe { OwnedFd::from_raw_fd(handle) };
        Ok((number, handle))
    }
}

/// What the child does before its program. Calls nothing but the kernel.
extern "C" fn become_program(setup: *mut c_void) -> c_int {
    // SAFETY: the pointer is that of the caller of `clone`, who waits until this has ended.
    let setup = unsafe { &mut *setup.cast::<ChildSetup<'_>>() };
    // SAFETY: the strings and arrays end with zero, and live in memory that the parent leaves alone
    // meanwhile; the functions are plain system calls, without allocation or locks.
    unsafe {
        setup.tag.iter().for_each(NewTag::set);
        if !fence::is_open() {
            setup.error = fence::REFUSED.raw_os_error();
            libc::_exit(127);
        }
        for signal in setup.caught {
            libc::signal(*signal, libc::SIG_DFL);
        }
        leave_terminal();
        let ready = libc::setpgid(0, 0) == 0
            && libc::dup2(setup.input, 0) == 0
            && libc::dup2(setup.output, 1) == 1
            && libc::dup2(setup.output, 2) == 2
            && libc::chdir(setup.dir) == 0;
        if ready {
            let mut none = MaybeUninit::uninit();
            libc::sigemptyset(none.as_mut_ptr());
            libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
            libc::execve(setup.file, setup.arguments, setup.variables);
        }
        // Never 0, which means success.
        setup.error = (*libc::__errno_location()).max(1);
        libc::_exit(127)
    }
}

/// Gives up the terminal of this process, if it has one. A program that asks the user for input there fails
/// at once; with a terminal that belongs to another process group it would be stopped, and wait for ever.
/// (A session of its own would do as well, but costs a scheduling group where the kernel makes one per
/// session.)
fn leave_terminal() {
    // SAFETY: plain system calls, with a text that ends with zero, on a descriptor that is opened here.
    unsafe {
        let terminal = libc::open(TERMINAL.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        if terminal != -1 {
            libc::ioctl(terminal, libc::TIOCNOTTY);
            libc::close(terminal);
        }
    }
}

/// Blocks all signals of this thread, and returns those that were blocked before.
fn block_signals() -> libc::sigset_t {
    let mut all = MaybeUninit::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: both pointers are to places of their type that outlive the calls; the first call fills
    // its place in, and the other one consists of numbers, for which zero is a value.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

fn set_signals(blocked: &libc::sigset_t) {
    // SAFETY: the pointer is to a place of its type that outlives the call.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, ptr::from_ref(blocked), ptr::null_mut()) };
}

/// Has the child of `command` set a tag and give up its terminal before it executes its program.
pub(super) fn set_up(command: &mut Command, tag: Option<NewTag>) {
    let has_terminal = open(TERMINAL, OFlags::CLOEXEC, Mode::empty()).is_ok();
    if has_terminal || tag.is_some() || fence::is_set() {
        let set_up = move || {
            tag.iter().for_each(NewTag::set);
            leave_terminal();
            if fence::is_open() { Ok(()) } else { Err(fence::REFUSED.into()) }
        };
        // SAFETY: between fork and exec only what is safe to call in a signal handler may be called:
        // these are plain system calls, without allocation or locks.
        unsafe { command.pre_exec(set_up) };
    }
}
