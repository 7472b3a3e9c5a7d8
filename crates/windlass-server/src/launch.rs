//! Starts the processes of a run, each with as little as a process can be started with.
//!
//! The child shares our memory until it executes its program, and we wait for that, so nothing is
//! copied and a failure comes back as a number. The C library's `posix_spawn` does the same, but asks
//! the kernel about every signal there is, twice, which is a tenth of what starting a small program
//! takes. What is the same for all processes of a run is prepared once. Knows nothing of steps.
#![allow(unsafe_code)]

use std::env;
use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::ptr;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::attempt::pid;
use crate::limit_tag::NewTag;
use crate::spawn::{keep_ends, reap, spawned};

/// What a child needs before it has a stack of its own; it calls nothing but the kernel.
const STACK_BYTES: usize = 64 << 10;
/// The terminal of whoever opens it.
const TERMINAL: &CStr = c"/dev/tty";
/// The lowest number of an open file that is none of the three that every program begins with.
const FIRST_OWN: c_int = 3;

/// A process that was started here, and is waited for by whoever has this.
pub(crate) struct Launched {
    number: u32,
    /// Becomes readable when it ends.
    handle: OwnedFd,
}

impl Launched {
    pub(crate) fn id(&self) -> u32 {
        self.number
    }

    /// Kills it, and sees it gone.
    pub(crate) fn abandon(&self) -> io::Result<()> {
        pidfd_send_signal(&self.handle, Signal::KILL)?;
        crate::poll::poll(&[&self.handle], None)?;
        pid(self.number).map_or(Ok(()), |number| reap(number).map(drop))
    }

    /// Starts a process by the standard library, in a group of its own, without a terminal.
    pub(crate) fn by_command(command: &mut Command, tag: Option<NewTag>) -> io::Result<Self> {
        keep_ends();
        let has_terminal = open(TERMINAL, OFlags::CLOEXEC, Mode::empty()).is_ok();
        if has_terminal || tag.is_some() {
            let prepare = move || {
                tag.iter().for_each(NewTag::set);
                leave_terminal();
                Ok(())
            };
            // SAFETY: between fork and exec only what is safe to call in a signal handler may be called:
            // these are plain system calls, without allocation or locks.
            unsafe { command.pre_exec(prepare) };
        }
        // Nobody asks before its number is there.
        let mut spawned = spawned();
        let mut child = command.spawn()?;
        spawned.insert(child.id());
        drop(spawned);
        let handle = pid(child.id()).ok_or(Errno::SRCH);
        match handle.and_then(|number| pidfd_open(number, PidfdFlags::empty())) {
            Ok(handle) => Ok(Self { number: child.id(), handle }),
            Err(error) => {
                // One that cannot be waited for with the others must not go on.
                let killed = child.kill().and_then(|()| child.wait());
                crate::spawn::spawned().remove(&child.id());
                Err(killed.err().unwrap_or_else(|| error.into()))
            }
        }
    }
}

impl AsFd for Launched {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        spawned().remove(&self.number);
    }
}

/// A program and what it is started with.
pub(crate) struct Program {
    /// The file, from where the process is to be.
    file: CString,
    /// With the name under which it is called.
    arguments: Vec<CString>,
    /// The variables that it has besides ours, or instead of them, with the lengths of their names.
    env: Vec<(usize, CString)>,
    dir: CString,
}

impl Program {
    /// The program in `file`; `words` begin with the name under which it is called. Of two variables
    /// of one name, the latter counts.
    pub(crate) fn new<'a>(
        file: &Path,
        words: impl Iterator<Item = &'a str>,
        env: &[(&str, &[u8])],
        dir: &Path,
    ) -> io::Result<Self> {
        let mut last = Vec::with_capacity(env.len());
        for (place, (name, value)) in env.iter().enumerate() {
            if env[place + 1..].iter().all(|(later, _)| later != name) {
                last.push((name.len(), text([name.as_bytes(), b"=", value].concat())?));
            }
        }
        Ok(Self {
            file: text(file.as_os_str().as_bytes())?,
            arguments: words.map(text).collect::<io::Result<_>>()?,
            env: last,
            dir: text(dir.as_os_str().as_bytes())?,
        })
    }
}

/// As the standard library says it.
fn text(text: impl Into<Vec<u8>>) -> io::Result<CString> {
    let nul = |_| io::Error::new(io::ErrorKind::InvalidInput, "nul byte found in provided data");
    CString::new(text).map_err(nul)
}

/// Starts processes in groups of their own, with nothing to read and no terminal.
pub(crate) struct Launcher {
    /// Our own variables, with the lengths of their names.
    inherited: Vec<(usize, CString)>,
    nothing: File,
    /// The signals that a program must not find as we have set them.
    caught: Option<Vec<c_int>>,
    stack: Box<[MaybeUninit<u8>]>,
}

impl Launcher {
    pub(crate) fn new() -> io::Result<Self> {
        let variable = |(name, value): (OsString, OsString)| {
            let length = name.len();
            let mut text = name.into_vec();
            text.push(b'=');
            text.extend(value.as_bytes());
            // The kernel has given them to us as C strings.
            CString::new(text).ok().map(|text| (length, text))
        };
        keep_ends();
        Ok(Self {
            inherited: env::vars_os().filter_map(variable).collect(),
            nothing: File::open("/dev/null")?,
            caught: None,
            stack: Box::new_uninit_slice(STACK_BYTES),
        })
    }

    /// Starts a process that prints to `output` and carries `tag`. An error is the program's, or that of its
    /// directory.
    pub(crate) fn launch(
        &mut self,
        program: &Program,
        output: BorrowedFd<'_>,
        tag: Option<NewTag>,
    ) -> io::Result<Launched> {
        let strings = |texts: &mut dyn Iterator<Item = &CString>| -> Vec<*const c_char> {
            texts.map(|text| text.as_ptr()).chain([ptr::null()]).collect()
        };
        let (input, output) =
            (clear_of_standard(self.nothing.as_fd())?, clear_of_standard(output)?);
        let variables = strings(&mut self.environment(program));
        let arguments = strings(&mut program.arguments.iter());
        let caught = self.caught.get_or_insert_with(caught_signals);
        let mut birth = Birth {
            file: program.file.as_ptr(),
            arguments: arguments.as_ptr(),
            variables: variables.as_ptr(),
            dir: program.dir.as_ptr(),
            input: input.number(),
            output: output.number(),
            caught,
            tag,
            error: 0,
        };
        // Nobody asks before its number is there.
        let mut spawned = spawned();
        let launched = birth.give(&mut self.stack)?;
        if birth.error == 0 {
            spawned.insert(launched.number);
        }
        drop(spawned);
        match birth.error {
            0 => Ok(launched),
            error => {
                // It has ended with the error.
                pid(launched.number).map_or(Ok(None), reap)?;
                Err(io::Error::from_raw_os_error(error))
            }
        }
    }

    /// Our own variables, as far as the program does not replace them, and its own.
    fn environment<'a>(&'a self, program: &'a Program) -> impl Iterator<Item = &'a CString> {
        let name = |(length, text): &'a (usize, CString)| &text.as_bytes()[..*length];
        let replaced = move |ours: &'a (usize, CString)| {
            program.env.iter().any(|own| own.0 == ours.0 && name(own) == name(ours))
        };
        let inherited = self.inherited.iter().filter(move |variable| !replaced(variable));
        inherited.chain(&program.env).map(|(_, text)| text)
    }
}

/// An open file whose number is not one that the child gives to another one.
enum Clear<'a> {
    As(BorrowedFd<'a>),
    Moved(OwnedFd),
}

impl Clear<'_> {
    fn number(&self) -> c_int {
        match self {
            Clear::As(file) => file.as_raw_fd(),
            Clear::Moved(file) => file.as_raw_fd(),
        }
    }
}

fn clear_of_standard(file: BorrowedFd<'_>) -> io::Result<Clear<'_>> {
    Ok(match file.as_raw_fd() < FIRST_OWN {
        false => Clear::As(file),
        true => Clear::Moved(fcntl_dupfd_cloexec(file, FIRST_OWN)?),
    })
}

/// The signals with handlers, and the one that Rust programs ignore. A handler that is installed later
/// could only run in a child that is sent a signal before anybody knows its number.
fn caught_signals() -> Vec<c_int> {
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

/// What a child needs to become its program: pointers into memory that it shares with us, and that we
/// leave alone until it has.
struct Birth<'a> {
    file: *const c_char,
    arguments: *const *const c_char,
    variables: *const *const c_char,
    dir: *const c_char,
    input: c_int,
    output: c_int,
    caught: &'a [c_int],
    /// Set before anything else, so that the child is known as early as possible.
    tag: Option<NewTag>,
    /// Why it did not become it.
    error: c_int,
}

impl Birth<'_> {
    /// Returns once the child has become its program, or has ended with an error.
    fn give(&mut self, stack: &mut [MaybeUninit<u8>]) -> io::Result<Launched> {
        let mut handle: c_int = -1;
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
        let top = stack.as_mut_ptr_range().end.cast::<c_void>();
        let argument = ptr::from_mut(self).cast::<c_void>();
        let before = block_signals();
        // SAFETY: the stack is used by nobody else: it is borrowed, and the call returns only after
        // the child has left it for that of its program, or has ended. Until then it uses our memory,
        // of which it changes nothing but its stack and `self.error`. No handler runs in it, because
        // it blocks all signals until it has none. The pointer to the handle is to a place of its type.
        let number = unsafe {
            libc::clone(become_program, top, flags, argument, ptr::from_mut(&mut handle))
        };
        let failed = io::Error::last_os_error();
        set_signals(&before);
        let Ok(number) = u32::try_from(number) else { return Err(failed) };
        // SAFETY: the kernel has opened it for us, and nobody else has its number.
        let handle = unsafe { OwnedFd::from_raw_fd(handle) };
        Ok(Launched { number, handle })
    }
}

/// The rest of a child's life before its program. Calls nothing but the kernel.
extern "C" fn become_program(birth: *mut c_void) -> c_int {
    // SAFETY: it is the one that was given to `clone`, which nobody uses until this has ended.
    let birth = unsafe { &mut *birth.cast::<Birth<'_>>() };
    // SAFETY: the strings and arrays end with zero, and live in memory that is left alone meanwhile;
    // the functions are plain system calls, without allocation or locks.
    unsafe {
        birth.tag.iter().for_each(NewTag::set);
        for signal in birth.caught {
            libc::signal(*signal, libc::SIG_DFL);
        }
        leave_terminal();
        let ready = libc::setpgid(0, 0) == 0
            && libc::dup2(birth.input, 0) == 0
            && libc::dup2(birth.output, 1) == 1
            && libc::dup2(birth.output, 2) == 2
            && libc::chdir(birth.dir) == 0;
        if ready {
            let mut none = MaybeUninit::uninit();
            libc::sigemptyset(none.as_mut_ptr());
            libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
            libc::execve(birth.file, birth.arguments, birth.variables);
        }
        // Never nothing, so that it is taken for no success.
        birth.error = (*libc::__errno_location()).max(1);
        libc::_exit(127)
    }
}

/// Gives up the terminal of this process, if it has one. Whoever asks a person for something there is
/// told at once that nobody is; on a terminal that belongs to others it would be stopped, and wait for ever.
fn leave_terminal() {
    // SAFETY: plain system calls, with a text that ends with zero, on a file that is nobody else's.
    unsafe {
        let terminal = libc::open(TERMINAL.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        if terminal != -1 {
            libc::ioctl(terminal, libc::TIOCNOTTY);
            libc::close(terminal);
        }
    }
}

/// Blocks all signals of this thread. What was blocked before.
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::ended::Exit;

    /// What a shell prints that is started with these variables of its own.
    fn said(dir: &Path, script: &str, env: &[(&str, &str)]) -> String {
        let log = dir.join("log");
        let file = File::create(&log).expect("a file");
        let words = ["called", "-c", script].into_iter();
        let env: Vec<_> = env.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        let program = Program::new(Path::new("/bin/sh"), words, &env, dir).expect("no zero");
        let mut launcher = Launcher::new().expect("it can be made ready");
        let launched = launcher.launch(&program, file.as_fd(), None).expect("there is a shell");
        assert!(crate::spawn::is_spawned(launched.id()));
        crate::poll::poll(&[&launched], None).expect("it can be waited for");
        let ended = reap(pid(launched.id()).expect("a number")).expect("it is a child of ours");
        assert_eq!(ended.map(|ended| ended.exit), Some(Exit::Code(0)));
        fs::read_to_string(&log).expect("it was printed")
    }

    #[test]
    fn a_program_has_its_variables_its_directory_and_its_group() {
        let dir = tempfile::tempdir().expect("a directory");
        let script =
            "echo $0 $A $B; pwd -P; test -n \"$PATH\"; ps -o pgid= -p $$ | tr -d ' '; echo $$";
        let env = [("A", "once"), ("B", "2"), ("A", "again")];
        let said = said(dir.path(), script, &env);
        let lines: Vec<_> = said.lines().collect();
        let place = fs::canonicalize(dir.path()).expect("it is there");
        assert_eq!(lines[..2], ["called again 2", place.to_str().expect("plain")]);
        assert_eq!(lines[2], lines[3], "it leads a group of its own");
    }

    #[test]
    fn a_program_finds_signals_as_if_nobody_had_touched_them() {
        let dir = tempfile::tempdir().expect("a directory");
        let _watch = crate::signals::SignalWatch::start(|_| {}).expect("signals can be watched");
        let said = said(dir.path(), "cat /proc/self/status", &[]);
        let mask = |name: &str| {
            let line = said.lines().find_map(|line| line.strip_prefix(name)).expect("it is there");
            u64::from_str_radix(line.trim(), 16).expect("a number")
        };
        assert_eq!((mask("SigBlk:"), mask("SigCgt:")), (0, 0));
        assert_eq!(mask("SigIgn:") & 1 << (libc::SIGPIPE - 1), 0, "Rust ignores it");
    }

    #[test]
    fn what_cannot_be_executed_is_an_error_and_leaves_nothing() {
        let log = tempfile::tempfile().expect("a file");
        let mut launcher = Launcher::new().expect("it can be made ready");
        let mut error = |file: &str, dir: &str| {
            let program = Program::new(Path::new(file), [file].into_iter(), &[], Path::new(dir));
            let program = program.expect("no zero");
            launcher.launch(&program, log.as_fd(), None).err().expect("it is none").kind()
        };
        assert_eq!(error("/no/such/program", "/"), io::ErrorKind::NotFound);
        assert_eq!(error("/dev/null", "/"), io::ErrorKind::PermissionDenied);
        assert_eq!(error("/bin/true", "/no/such/place"), io::ErrorKind::NotFound);
    }
}
