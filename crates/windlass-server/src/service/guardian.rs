//! The guardian of a worker: a small process that ends the worker's steps when the worker cannot.
//!
//! The worker tells it from when each good heartbeat counts. Without a good one for 2/3 of a lease it asks the
//! processes of the worker's orders to end, and at 5/6 it kills them, so that nothing of them is left when the
//! lease is over. It kills them at once when the life is over, and when the worker has ended without a word:
//! the connection to a worker closes when the worker and each of its children that has not executed its program
//! have ended, so every process that is left carries the worker's tag by then.
//!
//! It tells the worker before it sends the first signal. So a worker that sees the end of an order, and has not
//! been told, knows that the order has ended by itself.
//!
//! It keeps the worker's directory locked, as the worker does, so the next life begins after it has ended.
//! Between heartbeats it sleeps, and it opens the store only to find what it has to end. A store that does not
//! answer delays nothing: what carries the worker's tag is found without it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write, stdin};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use rustix::process::{Signal, setsid};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use windlass_core::Timestamp;
use windlass_store::{Network, ProcessTree, Store, borrow_password};

use super::life::{left_by, worker_dir, worker_tag};
#[cfg(windlass_faults)]
use crate::fault::Point;
use crate::fence;
use crate::inherited::Inherited;
use crate::poll::{poll, timespec};
use crate::process_tag;
use crate::search::{self, Wanted};
use crate::signals;
use crate::spawn::{Spawned, spawn_lasting};
use crate::tree;

/// The program of this process, also if its file was replaced.
const THIS_PROGRAM: &str = "/proc/self/exe";
/// What the guardian says before it ends anything.
const ENDING: u8 = b'e';

/// What a worker tells its guardian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    /// A heartbeat was good, and counts from that time since the boot.
    Good(Timestamp),
    /// The worker's life is over.
    LifeOver,
}

impl Word {
    const BYTES: usize = 8;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        match self {
            Word::Good(time) => time.as_nanos(),
            Word::LifeOver => 0,
        }
        .to_le_bytes()
    }

    fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        match u64::from_le_bytes(bytes) {
            0 => Word::LifeOver,
            time => Word::Good(Timestamp::from_nanos(time)),
        }
    }
}

/// A guardian, as its worker sees it.
pub(super) struct Guardian {
    process: Spawned,
    said: UnixStream,
    line: Line,
    program: GuardianProgram,
    lease: Duration,
    /// It has told that it ends the worker's processes.
    is_ending: bool,
}

/// What is executed as a guardian: this program.
pub(super) struct GuardianProgram {
    pub(super) arguments: Vec<OsString>,
    pub(super) inherited: Inherited,
}

/// What a guardian does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GuardianState {
    /// It watches.
    Watching,
    /// It ends the worker's processes, or is about to.
    Ending,
    /// It has ended, or cannot be told anything.
    Gone,
}

/// The connection over which a guardian hears of heartbeats, from any thread.
#[derive(Clone)]
pub(super) struct Line(Arc<Mutex<LineState>>);

struct LineState {
    stream: UnixStream,
    /// When the last good heartbeat began to count.
    good: Timestamp,
    is_broken: bool,
}

impl Line {
    /// Tells that a heartbeat was good, which counts from that time.
    pub(super) fn note_good(&self, at: Timestamp) {
        self.state().good = at;
        self.tell(Word::Good(at));
    }

    /// Has the guardian end the worker's processes at once.
    pub(super) fn note_life_over(&self) {
        self.tell(Word::LifeOver);
    }

    fn tell(&self, word: Word) {
        let mut state = self.state();
        // A guardian that is suspended must not suspend its worker, so the stream does not block.
        let written = state.stream.write(&word.to_bytes());
        state.is_broken |= written.ok() != Some(Word::BYTES);
    }

    fn state(&self) -> MutexGuard<'_, LineState> {
        // A panic cannot leave it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Guardian {
    /// Starts a guardian. The last good heartbeat counts from `good`.
    pub(super) fn start(
        program: GuardianProgram,
        presence: &File,
        lease: Duration,
        good: Timestamp,
    ) -> io::Result<Self> {
        let (process, stream) = program.launch(presence)?;
        let said = stream.try_clone()?;
        let line = Line(Arc::new(Mutex::new(LineState { stream, good, is_broken: false })));
        line.note_good(good);
        Ok(Self { process, said, line, program, lease, is_ending: false })
    }

    pub(super) fn line(&self) -> Line {
        self.line.clone()
    }

    /// Returns what the guardian does. A worker whose last good heartbeat is so old that its guardian has to
    /// end its processes counts as told.
    pub(super) fn state(&mut self) -> GuardianState {
        let state = self.line.state();
        let (good, is_broken) = (state.good, state.is_broken);
        drop(state);
        let mut word = [0];
        let read = (&self.said).read(&mut word);
        self.is_ending |= matches!(read, Ok(1)) || fence::now() >= asked_at(good, self.lease);
        let is_open = read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        match (self.is_ending, is_open && !is_broken) {
            (true, _) => GuardianState::Ending,
            (false, true) => GuardianState::Watching,
            (false, false) => GuardianState::Gone,
        }
    }

    /// Replaces a guardian that was killed. One that has failed would fail again, so that is an error.
    pub(super) fn replace(&mut self, presence: &File) -> io::Result<()> {
        // One that can be told nothing any more is suspended.
        let _ = self.process.kill();
        let ended = self.process.wait()?;
        if let Some(code @ 1..) = ended.code() {
            return Err(io::Error::other(format!("it has ended with exit code {code}")));
        }
        let (process, stream) = self.program.launch(presence)?;
        (self.process, self.said) = (process, stream.try_clone()?);
        let mut state = self.line.state();
        (state.stream, state.is_broken) = (stream, false);
        let good = state.good;
        drop(state);
        self.line.note_good(good);
        Ok(())
    }

    /// Returns how long the guardian may take until it has ended the worker's processes; none if it has ended.
    pub(super) fn time_left(&mut self) -> io::Result<Option<Duration>> {
        if self.process.try_wait()?.is_some() {
            return Ok(None);
        }
        let end = killed_at(self.line.state().good, self.lease);
        Ok(Some(end.since(fence::now())).filter(|left| !left.is_zero()))
    }

    /// Ends the guardian, because nothing is left to guard.
    pub(super) fn dismiss(mut self) -> io::Result<()> {
        // It may have ended.
        let _ = self.process.kill();
        self.process.wait().map(drop)
    }
}

impl AsFd for Guardian {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.said.as_fd()
    }
}

impl GuardianProgram {
    fn launch(&self, presence: &File) -> io::Result<(Spawned, UnixStream)> {
        let (own, theirs) = UnixStream::pair()?;
        own.set_nonblocking(true)?;
        let mut command = Command::new(THIS_PROGRAM);
        self.inherited.give_to(&mut command);
        command.arg0("windlass").args(&self.arguments);
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(presence.try_clone()?);
        Ok((spawn_lasting(&mut command)?, own))
    }
}

/// Returns when the processes of a worker are asked to end, after its last good heartbeat.
fn asked_at(good: Timestamp, lease: Duration) -> Timestamp {
    good.after(lease / 3 * 2)
}

/// Returns when they are killed.
fn killed_at(good: Timestamp, lease: Duration) -> Timestamp {
    good.after(lease / 6 * 5)
}

/// Guards the worker of a name, whose process has started this one. Standard input is the connection to the
/// worker, and standard output keeps its directory locked. Returns once nothing is left to guard.
pub fn guard(state: &Path, name: &str, lease: Duration) -> io::Result<()> {
    // A signal to the session or the group of the worker is none for its guardian.
    let _ = setsid();
    signals::survive()?;
    // The worker may have ended when it is needed.
    borrow_password();
    let tag = worker_tag(&worker_dir(state, name), name)?;
    let line = UnixStream::from(stdin().as_fd().try_clone_to_owned()?);
    let ward = Ward { line, state: state.to_owned(), name: name.to_owned(), tag };
    ward.guard(lease)
}

/// A worker, as its guardian sees it.
struct Ward {
    line: UnixStream,
    state: PathBuf,
    name: String,
    tag: String,
}

impl Ward {
    fn guard(&self, lease: Duration) -> io::Result<()> {
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)?;
        let mut good = fence::now();
        loop {
            match self.hear(&timer, asked_at(good, lease))? {
                Some(Some(Word::Good(sent))) => good = sent,
                Some(Some(Word::LifeOver) | None) => return self.kill(lease),
                None => break,
            }
        }
        self.warn();
        self.ask(lease)?;
        let end = killed_at(good, lease);
        // What has begun goes on, whatever the worker says. A worker that has ended waits for nothing.
        while let Some(Some(Word::Good(_))) = self.hear(&timer, end)? {}
        self.kill(lease)
    }

    /// Waits for a word of the worker. The inner value is none if the worker has ended, and the outer one if
    /// nothing was said until `end`. What was said counts before the time, which also passes while this process
    /// is suspended.
    fn hear(&self, timer: &OwnedFd, end: Timestamp) -> io::Result<Option<Option<Word>>> {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let at = timespec(end.since(Timestamp::ZERO));
        let end = Itimerspec { it_interval: zero, it_value: at };
        timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &end)?;
        loop {
            let ready = poll(&[&self.line, timer], None)?;
            if ready[0] {
                let mut word = [0; Word::BYTES];
                return Ok(Some(match (&self.line).read_exact(&mut word) {
                    Ok(()) => Some(Word::from_bytes(word)),
                    Err(_) => None,
                }));
            }
            if ready[1] {
                return Ok(None);
            }
        }
    }

    /// Tells the worker that its processes are ended now.
    fn warn(&self) {
        // It may have ended.
        let _ = (&self.line).write(&[ENDING]);
        #[cfg(windlass_faults)]
        Point::GuardianBeforeKill.reached();
    }

    fn ask(&self, lease: Duration) -> io::Result<()> {
        let trees = self.trees(lease);
        let wanted: Vec<_> = trees.iter().map(|tree| Wanted { tree, roots: &[] }).collect();
        for process in search::members(&wanted, |_, _| ())?.of_trees.concat() {
            // It may have ended, and one that is suspended must get the signal.
            let _ = tree::signal(&process, &[Signal::TERM, Signal::CONT]);
        }
        Ok(())
    }

    fn kill(&self, lease: Duration) -> io::Result<()> {
        self.warn();
        let tagged = tree::kill_all(&[process_tag::tree_of(&self.tag)]);
        tree::kill_all(&self.trees(lease)).and(tagged)
    }

    /// Returns what the worker's processes are found by: its tag, and if the store can be read, those of its
    /// orders, because a process may have cleared its environment.
    fn trees(&self, lease: Duration) -> Vec<ProcessTree> {
        let (state, name, tag) = (self.state.clone(), self.name.clone(), self.tag.clone());
        let (sender, receiver) = mpsc::channel();
        // A database may hang, so it is read on a thread that ends with this process.
        let reader = thread::Builder::new().spawn(move || {
            let store = Store::open_existing(&state, Network::Allow);
            let stored = store
                .and_then(|mut store| store.read(|transaction| left_by(transaction, &name, &tag)));
            // The guardian may have gone on without it.
            let _ = sender.send(stored);
        });
        let stored = reader.ok().and_then(|_| receiver.recv_timeout(lease / 12).ok());
        let stored = stored.and_then(Result::ok);
        stored.unwrap_or_else(|| vec![process_tag::tree_of(&self.tag)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_read_as_it_was_said() {
        for word in [Word::Good(Timestamp::from_millis(7)), Word::LifeOver] {
            assert_eq!(Word::from_bytes(word.to_bytes()), word);
        }
    }

    #[test]
    fn a_worker_is_asked_before_it_is_killed_and_killed_before_its_lease_is_over() {
        let (good, lease) = (Timestamp::from_millis(1_000), Duration::from_millis(600));
        assert_eq!(asked_at(good, lease), Timestamp::from_millis(1_400));
        assert_eq!(killed_at(good, lease), Timestamp::from_millis(1_500));
    }
}
