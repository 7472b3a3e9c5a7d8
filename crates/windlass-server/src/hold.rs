//! Runs a command while holding names that all processes of the store share.
//!
//! The wrapper sends heartbeats from a thread of its own, passes signals on, and releases the names when the
//! command has ended. If a lease is lost, the command is killed with everything it has started before another
//! holder gets the name. If the wrapper itself is killed, the kernel kills its command, and the next holder
//! kills the rest. When the wrapper has the terminal, the command stays in its process group, so that
//! Ctrl-C, Ctrl-Z and input work; otherwise it gets a group of its own.
//!
//! The processes of the command are found by tag, group and parents. The wrapper is no child subreaper: it
//! would become the parent of processes that are not its own, and would have to reap them.

use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};
use thiserror::Error;
use windlass_core::{Hold as NameHold, HolderId, LeaseTerms, Name, Need, Timestamp, Token};
use windlass_store::{Answer, LimitItems, Process, ProcessTree, Refused, Store, StoreError};

use crate::attempt::{FENCE_VARIABLE, STATE_VARIABLE, fence, pid};
use crate::ended::Exit;
use crate::heartbeat::{Heartbeat, HeldNames, Lost};
use crate::inherited::Inherited;
use crate::lock_client::LockClient;
use crate::poll::poll;
use crate::proc_fs;
use crate::process_tag::{self, TAG_VARIABLE};
use crate::signals::SignalPipe;
use crate::spawn::{GroupChoice, Spawned, spawn};
use crate::tree;

/// What to hold, for how long to wait, and what to run.
#[derive(Clone, Debug)]
pub struct Hold {
    /// The names, acquired together or not at all.
    pub needs: Vec<Need>,
    /// A semaphore to declare first, and its capacity.
    pub declared: Option<(String, u32)>,
    /// How long to wait for them; none to wait without limit.
    pub wait: Option<Duration>,
    /// For how long to hold them.
    pub terms: LeaseTerms,
    /// The command and its arguments; never empty.
    pub command: Vec<OsString>,
}

/// Why the command did not run, or was killed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HoldError {
    /// The names were not free in time.
    #[error("timed out waiting for {name}: held by, or queued behind, {by}")]
    NotAcquired {
        /// The name that refused.
        name: Name,
        /// Its holder, or the first waiter.
        by: HolderId,
    },
    /// A signal ended the wait.
    #[error("interrupted while waiting")]
    Interrupted {
        /// The signal.
        signal: i32,
    },
    /// The command cannot be started.
    #[error("cannot start {command:?}: {source}{}", word_hint(command, source))]
    Start {
        /// The command.
        command: OsString,
        /// Why.
        source: io::Error,
    },
    /// The names were lost while the command ran, and it was killed.
    #[error("{name} was lost, and the command was killed: {why}")]
    Lost {
        /// One of the names.
        name: Name,
        /// Why.
        why: Lost,
    },
    /// The process with which the lease should end does not exist.
    #[error("cannot acquire a lock for process {pid}: no such process")]
    NoProcess {
        /// Its number.
        pid: u32,
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
    Store(StoreError),
}

impl HoldError {
    pub(crate) fn interrupted(signals: &SignalPipe) -> Self {
        match signals.next() {
            Ok(signal) => HoldError::Interrupted { signal },
            Err(source) => io_error("cannot read signals")(source),
        }
    }
}

/// Returns how to write a command line that was given as one word.
fn word_hint(command: &OsStr, source: &io::Error) -> &'static str {
    let has_space = command.as_encoded_bytes().contains(&b' ');
    match source.kind() == io::ErrorKind::NotFound && has_space {
        true => {
            "; it was given as one word: leave the quotes out, or let a shell run it: sh -c 'COMMAND'"
        }
        false => "",
    }
}

/// Acquires the names, runs the command, releases the names, and returns the command's exit code. Calls
/// `on_refused` with the holders if the names are not free at once.
pub fn hold(
    mut store: Store,
    order: &Hold,
    on_refused: impl FnMut(&Refused),
) -> Result<i32, HoldError> {
    let signals = SignalPipe::open().map_err(io_error("cannot watch signals"))?;
    let process = Process::current().map_err(io_error("cannot identify this process"))?;
    let holder = holder_of(&process);
    let tag = holder.as_str().replace(char::is_whitespace, "_");
    let tree = process_tag::tree_of(&tag);
    let client = LockClient {
        holder: &holder,
        needs: &order.needs,
        terms: order.terms,
        process: Some(&process),
        waiter: &process,
        tree: Some(&tree),
        declared: order.declared.as_ref().map(|(name, capacity)| (name.as_str(), *capacity)),
        wait: order.wait,
        signals: Some(&signals),
    };
    store.keep_pace_with(order.terms.heartbeat_timeout);
    let (holds, since) = client.acquire(&mut store, on_refused)?;
    let items = items_of(&mut store, &holds)?;
    let held = Held { holder, holds, items, since, tree, tag };
    let ended = held.run(&store, order, &signals);
    if matches!(ended, Err(HoldError::Io { .. })) {
        // Processes of the command may still run, so the names are kept until the next holder has killed
        // them.
        return ended;
    }
    let released = held.release(&mut store, &signals);
    let code = ended?;
    released?;
    Ok(code)
}

/// Returns an id that no other holder ever has.
fn holder_of(process: &Process) -> HolderId {
    static HOLDS: AtomicU64 = AtomicU64::new(1);
    // The number orders no other memory access.
    let number = HOLDS.fetch_add(1, Ordering::Relaxed);
    HolderId::new(format!("process {} ({}.{number})", process.pid, process.id()))
}

/// Returns the items that holds of limits have.
fn items_of(store: &mut Store, holds: &[NameHold]) -> Result<Vec<LimitItems>, StoreError> {
    if !holds.iter().any(|hold| matches!(hold.name, Name::Limit(_))) {
        return Ok(Vec::new());
    }
    store.read(|transaction| {
        let limits = holds.iter().filter(|hold| matches!(hold.name, Name::Limit(_)));
        let items = limits.map(|hold| transaction.limits().items(hold.name.text(), hold.token));
        items.filter_map(Result::transpose).collect()
    })
}

/// Names that are held.
struct Held {
    holder: HolderId,
    holds: Vec<NameHold>,
    /// The items of limits that are held.
    items: Vec<LimitItems>,
    /// A time before they were claimed.
    since: Timestamp,
    tree: ProcessTree,
    tag: String,
}

impl Held {
    fn run(&self, store: &Store, order: &Hold, signals: &SignalPipe) -> Result<i32, HoldError> {
        let group = GroupChoice::for_terminal();
        let mut running = RunningCommand::start(self, order, group, store)?;
        let beat = self.beat(order, &running);
        if beat.is_late() {
            // This process was suspended before the command began, and another holder that found no process
            // of it may have taken over.
            return Err(running.end(self, Lost::Expired));
        }
        // Most commands are short, and over before a heartbeat is due.
        if let Some(code) = running.until_end(self, signals, Losing::NotYet(beat.first()))? {
            return Ok(code);
        }
        let (losing, mut writer) = io::pipe().map_err(io_error("cannot create a pipe"))?;
        let heartbeat = Heartbeat::start(store, beat, move |lost| {
            // There is no reader any more once the command has ended.
            let _ = writer.write(&[lost as u8]);
        });
        let _heartbeat = heartbeat.map_err(io_error("cannot send heartbeats"))?;
        let ended = running.until_end(self, signals, Losing::By(&losing))?;
        Ok(ended.expect("the wait has no time limit"))
    }

    fn beat(&self, order: &Hold, running: &RunningCommand) -> HeldNames {
        HeldNames {
            holder: self.holder.clone(),
            names: self.holds.iter().map(|hold| (hold.name.clone(), hold.token)).collect(),
            terms: order.terms,
            since: self.since,
            group: proc_fs::group_of(running.child.id()),
        }
    }

    /// Releases the names. Fails if one of them was no longer held: another holder may have had it. A signal
    /// interrupts a wait for other writers; the names are free then as soon as this process has ended.
    fn release(&self, store: &mut Store, signals: &SignalPipe) -> Result<(), HoldError> {
        let signalled = signals.flag();
        store.give_up_when(move |_| signalled().then_some(StoreError::Interrupted));
        let lost = store.transact_leases(|transaction| {
            let mut lost = None;
            for NameHold { name, token, .. } in &self.holds {
                if transaction.leases().release(name, &self.holder, *token)? != Answer::Released {
                    lost = Some(name.clone());
                }
            }
            Ok(lost)
        });
        let lost = match lost {
            Err(StoreError::Interrupted) => return Err(HoldError::interrupted(signals)),
            lost => lost?,
        };
        match lost {
            Some(name) => Err(HoldError::Lost { name, why: Lost::Expired }),
            None => Ok(()),
        }
    }

    fn tokens(&self) -> Vec<Token> {
        self.holds.iter().map(|hold| hold.token).collect()
    }
}

/// The command while it runs.
struct RunningCommand {
    child: Spawned,
    group: GroupChoice,
    _lender: Inherited,
}

impl RunningCommand {
    /// Starts the command, in which `windlass` uses the same store unless it says otherwise.
    fn start(
        held: &Held,
        order: &Hold,
        group: GroupChoice,
        store: &Store,
    ) -> Result<Self, HoldError> {
        let (program, arguments) = order.command.split_first().expect("a command is never empty");
        let mut command = Command::new(program);
        let lender = Inherited::without_password_of(store).map_err(HoldError::Store)?;
        lender.lend_to(&mut command);
        command.args(arguments).env(FENCE_VARIABLE, fence(&held.tokens()));
        command.envs(held.items.iter().map(LimitItems::variable));
        command
            .env(TAG_VARIABLE, process_tag::inherited_with(&held.tag))
            .env(STATE_VARIABLE, store.dir());
        let start = |source| HoldError::Start { command: program.clone(), source };
        let child = spawn(&mut command, group, &held.tag).map_err(start)?;
        Ok(Self { child, group, _lender: lender })
    }

    /// Waits for the command, passes signals on, and kills it if the lease is lost. Returns none if it has
    /// not ended when the first heartbeat is due.
    fn until_end(
        &mut self,
        held: &Held,
        signals: &SignalPipe,
        losing: Losing<'_>,
    ) -> Result<Option<i32>, HoldError> {
        let number = pid(self.child.id()).expect("a child has a number");
        let ended = pidfd_open(number, PidfdFlags::empty());
        let ended = ended.map_err(|error| io_error(WAITING)(error.into()))?;
        let mut sources: Vec<&dyn AsFd> = vec![&ended, signals];
        let patience = match losing {
            Losing::NotYet(first) => Some(first),
            Losing::By(pipe) => {
                sources.push(pipe);
                None
            }
        };
        loop {
            let ready = poll(&sources, patience).map_err(io_error(WAITING))?;
            if ready[0] {
                return Ok(Some(Exit::from(self.reap()?).code()));
            }
            if ready[1] {
                self.pass_on(signals.next().map_err(io_error("cannot read signals"))?);
            }
            match losing {
                Losing::NotYet(_) => return Ok(None),
                Losing::By(pipe) if ready[2] => return Err(self.end(held, why(pipe))),
                Losing::By(_) => {}
            }
        }
    }

    fn reap(&mut self) -> Result<ExitStatus, HoldError> {
        self.child.wait().map_err(io_error(WAITING))
    }

    /// Passes a signal on. The terminal sends its signals to a shared group itself. A command that is
    /// suspended goes on, as it could not heed the signal otherwise.
    fn pass_on(&self, signal: i32) {
        let number = pid(self.child.id()).expect("a child has a number");
        let signal = Signal::from_named_raw(signal).unwrap_or(Signal::TERM);
        for signal in [signal, Signal::CONT] {
            // The command may have ended a moment ago.
            let _ = match self.group {
                GroupChoice::Own => kill_process_group(number, signal),
                GroupChoice::Shared if matches!(signal, Signal::INT | Signal::QUIT) => Ok(()),
                GroupChoice::Shared => kill_process(number, signal),
            };
        }
    }

    /// Kills the command and everything it has started.
    fn end(&mut self, held: &Held, why: Lost) -> HoldError {
        let group = proc_fs::group_of(self.child.id());
        let tree = ProcessTree { group, ..held.tree.clone() };
        // The command itself is killed even if the search for the rest fails.
        let killed = self.child.kill().and_then(|()| tree::kill(&tree));
        let reaped = self.reap();
        match killed.map_err(io_error("cannot kill the command")).and(reaped) {
            Ok(_) => HoldError::Lost { name: held.holds[0].name.clone(), why },
            Err(error) => error,
        }
    }
}

/// How a running command learns that its lease is lost.
#[derive(Clone, Copy)]
enum Losing<'a> {
    /// It is not lost before this time has passed.
    NotYet(Duration),
    /// The heartbeat thread writes to this pipe.
    By(&'a PipeReader),
}

fn why(mut losing: &PipeReader) -> Lost {
    let mut why = [0];
    match losing.read_exact(&mut why) {
        Ok(()) if why[0] == Lost::Overheld as u8 => Lost::Overheld,
        Ok(()) if why[0] == Lost::Expired as u8 => Lost::Expired,
        _ => Lost::Unreachable,
    }
}

const WAITING: &str = "cannot wait for the command";

fn io_error(what: &'static str) -> impl FnOnce(io::Error) -> HoldError {
    move |source| HoldError::Io { what, source }
}
