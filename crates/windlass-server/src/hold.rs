//! Runs a command while holding locks that the whole machine shares.

use std::ffi::OsString;
use std::io;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};
use thiserror::Error;
use windlass_core::{HolderId, Token};
use windlass_store::{Claim, Claimed, Name, Process, Refused, Store, StoreError};

use crate::attempt::{FENCE_VARIABLE, exit_code, fence, pid};
use crate::signals::SignalWatch;

/// How often to ask again for names that were refused.
const POLL: Duration = Duration::from_millis(20);

/// What to hold, for how long to wait, and what to run.
#[derive(Clone, Debug)]
pub struct Hold {
    /// The locks, taken together or not at all.
    pub names: Vec<String>,
    /// How long to wait for them; none to wait for as long as it takes.
    pub wait: Option<Duration>,
    /// The command and its arguments; never empty.
    pub command: Vec<OsString>,
}

/// Why the command did not run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HoldError {
    /// The locks could not be had in time.
    #[error("lock {name:?} was not had in time: {by} has it or stands before us")]
    NotHad {
        /// The lock that refused.
        name: String,
        /// Who has it.
        by: HolderId,
    },
    /// A signal ended the wait.
    #[error("interrupted while waiting")]
    Interrupted {
        /// The signal.
        signal: i32,
    },
    /// The command cannot be started.
    #[error("{command:?} cannot be started: {source}")]
    Start {
        /// The command.
        command: OsString,
        /// Why.
        source: io::Error,
    },
    /// The system refused something that holding needs.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What the holder hears while it waits.
enum Heard {
    Signal(i32),
    Exited(io::Result<ExitStatus>),
}

/// Takes the locks, runs the command, gives the locks back, and returns the command's exit code.
pub fn hold(mut store: Store, order: &Hold) -> Result<i32, HoldError> {
    let (tell, heard) = mpsc::channel();
    let signals = tell.clone();
    let watch = SignalWatch::start(move |signal| {
        // Nobody listens any more once the command has ended.
        let _ = signals.send(Heard::Signal(signal));
    });
    let _watch = watch.map_err(io_error("signals cannot be watched"))?;
    let names: Vec<_> = order.names.iter().cloned().map(Name::Lock).collect();
    let process = Process::current().map_err(io_error("this process cannot be identified"))?;
    let holder = HolderId::new(format!("lock[{}.{}]", process.pid, process.started));
    let claim = Claim { holder: &holder, process: &process, names: &names };

    let held = acquire(&mut store, &claim, order.wait, &heard);
    if held.is_err() {
        store.transact(|transaction| transaction.leave_line(&holder))?;
    }
    let tokens = held?;
    let code = run(order, &tokens, tell, &heard);
    store.transact(|transaction| {
        for (name, token) in names.iter().zip(tokens) {
            transaction.release(name, &holder, token)?;
        }
        Ok(())
    })?;
    code
}

fn acquire(
    store: &mut Store,
    claim: &Claim<'_>,
    wait: Option<Duration>,
    heard: &Receiver<Heard>,
) -> Result<Vec<Token>, HoldError> {
    let began = Instant::now();
    loop {
        let refused = match store.transact(|transaction| transaction.claim(claim))? {
            Claimed::Held(tokens) => return Ok(tokens),
            Claimed::Refused(refused) => refused,
        };
        let left = wait.map_or(POLL, |wait| wait.saturating_sub(began.elapsed()));
        if left.is_zero() {
            let Refused { name: Name::Lock(name) | Name::Run(name), by } = refused;
            return Err(HoldError::NotHad { name, by });
        }
        if let Ok(Heard::Signal(signal)) = heard.recv_timeout(left.min(POLL)) {
            return Err(HoldError::Interrupted { signal });
        }
    }
}

/// Runs the command; a SIGTERM that we get is passed on, a Ctrl-C reaches it by itself.
fn run(
    order: &Hold,
    tokens: &[Token],
    tell: Sender<Heard>,
    heard: &Receiver<Heard>,
) -> Result<i32, HoldError> {
    let (program, arguments) = order.command.split_first().expect("a command is never empty");
    let mut command = Command::new(program);
    command.args(arguments).env(FENCE_VARIABLE, fence(tokens));
    let start = |source| HoldError::Start { command: program.clone(), source };
    let mut child = command.spawn().map_err(start)?;
    let pid = pid(child.id());
    thread::spawn(move || tell.send(Heard::Exited(child.wait())));
    loop {
        match heard.recv().expect("the waiter tells before it goes") {
            Heard::Exited(status) => {
                let status = status.map_err(io_error("the command cannot be waited for"))?;
                return Ok(exit_code(status));
            }
            Heard::Signal(signal) if signal == Signal::TERM.as_raw() => {
                // It may have ended a moment ago.
                let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
            }
            Heard::Signal(_) => {}
        }
    }
}

fn io_error(what: &'static str) -> impl FnOnce(io::Error) -> HoldError {
    move |source| HoldError::Io { what, source }
}
