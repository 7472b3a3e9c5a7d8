//! Starts the processes of a run with as few system calls as possible.
//!
//! The C library's `posix_spawn` also starts a process without copying memory, but it makes two system
//! calls for every signal, which is a tenth of the time that starting a small program takes. Here only
//! changed signals are reset, and what all processes of a run have in common is prepared once. Knows
//! nothing of steps.

mod child;
mod program;

use std::ffi::{CString, OsString, c_char, c_int};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::Command;
use std::ptr;

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use self::child::{ChildSetup, caught_signals};
pub(crate) use self::program::Program;
use crate::attempt::pid;
use crate::inherited::Inherited;
use crate::limit_tag::NewTag;
use crate::spawn::{keep_ends, reap, spawned};

/// The size of the stack that a child uses before its program has one; it only makes system calls.
const STACK_BYTES: usize = 64 << 10;
/// The lowest descriptor that is not one of the three standard ones.
const FIRST_OWN: c_int = 3;

/// A child of this process. The owner of this value waits for it.
pub(crate) struct Launched {
    number: u32,
    /// A pidfd, which becomes readable when the process ends.
    handle: OwnedFd,
}

impl Launched {
    pub(crate) fn id(&self) -> u32 {
        self.number
    }

    /// Kills the process, waits for its end, and reaps it.
    pub(crate) fn abandon(&self) -> io::Result<()> {
        pidfd_send_signal(&self.handle, Signal::KILL)?;
        crate::poll::poll(&[&self.handle], None)?;
        pid(self.number).map_or(Ok(()), |number| reap(number).map(drop))
    }

    /// Starts a process with the standard library, in a group of its own, without a terminal.
    pub(crate) fn by_command(command: &mut Command, tag: Option<NewTag>) -> io::Result<Self> {
        keep_ends();
        child::set_up(command, tag);
        // Held until the pid is in the set, so that no other thread takes the child for an orphan.
        let mut spawned = spawned();
        let mut child = command.spawn()?;
        spawned.insert(child.id());
        drop(spawned);
        let handle = pid(child.id()).ok_or(Errno::SRCH);
        match handle.and_then(|number| pidfd_open(number, PidfdFlags::empty())) {
            Ok(handle) => Ok(Self { number: child.id(), handle }),
            Err(error) => {
                // A process whose end would not be noticed must not run.
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

/// Starts processes in groups of their own, with an empty standard input and no terminal.
pub(crate) struct Launcher {
    inherited: Inherited,
    /// The variables that processes inherit, with the lengths of their names.
    variables: Vec<(usize, CString)>,
    /// The standard input of all processes.
    null: File,
    /// The signals to reset in a child; found when the first process starts.
    caught: Option<Vec<c_int>>,
    stack: Box<[MaybeUninit<u8>]>,
}

impl Launcher {
    pub(crate) fn new(inherited: Inherited) -> io::Result<Self> {
        let variable = |(name, value): (OsString, OsString)| {
            let length = name.len();
            let mut text = name.into_vec();
            text.push(b'=');
            text.extend(value.as_bytes());
            // The kernel has passed them to this process as C strings.
            CString::new(text).ok().map(|text| (length, text))
        };
        keep_ends();
        Ok(Self {
            variables: inherited.variables().filter_map(variable).collect(),
            inherited,
            null: File::open("/dev/null")?,
            caught: None,
            stack: Box::new_uninit_slice(STACK_BYTES),
        })
    }

    /// Returns the environment that processes inherit.
    pub(crate) fn inherited(&self) -> &Inherited {
        &self.inherited
    }

    /// Starts a process that prints to `output` and carries `tag`. Fails if its program cannot be executed,
    /// or its directory cannot be entered.
    pub(crate) fn launch(
        &mut self,
        program: &Program,
        output: BorrowedFd<'_>,
        tag: Option<NewTag>,
    ) -> io::Result<Launched> {
        let strings = |texts: &mut dyn Iterator<Item = &CString>| -> Vec<*const c_char> {
            texts.map(|text| text.as_ptr()).chain([ptr::null()]).collect()
        };
        let (input, output) = (clear_of_standard(self.null.as_fd())?, clear_of_standard(output)?);
        let variables = strings(&mut self.environment(program));
        let arguments = strings(&mut program.arguments.iter());
        let caught = self.caught.get_or_insert_with(caught_signals);
        let mut setup = ChildSetup {
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
        // Held until the pid is in the set, so that no other thread takes the child for an orphan.
        let mut spawned = spawned();
        let (number, handle) = setup.clone_child(&mut self.stack)?;
        let launched = Launched { number, handle };
        if setup.error == 0 {
            spawned.insert(launched.number);
        }
        drop(spawned);
        match setup.error {
            0 => Ok(launched),
            error => {
                // The child has ended with the error.
                pid(launched.number).map_or(Ok(None), reap)?;
                Err(io::Error::from_raw_os_error(error))
            }
        }
    }

    /// Returns the inherited variables that the program does not replace, and its own.
    fn environment<'a>(&'a self, program: &'a Program) -> impl Iterator<Item = &'a CString> {
        let name = |(length, text): &'a (usize, CString)| &text.as_bytes()[..*length];
        let replaced = move |ours: &'a (usize, CString)| {
            program.env.iter().any(|own| own.0 == ours.0 && name(own) == name(ours))
        };
        let inherited = self.variables.iter().filter(move |variable| !replaced(variable));
        inherited.chain(&program.env).map(|(_, text)| text)
    }
}

/// An open file whose descriptor is none of the standard ones, which the child replaces.
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

#[cfg(test)]
mod tests;
