//! Fault points: places between two durable writes at which a test makes the process kill itself.
//!
//! A run survives a kill because of the order of its writes. The start of an attempt is stored before its
//! process exists, and its end before anything follows from it. A leader that takes a run over kills what is
//! left of it before it counts attempts as interrupted. The tests kill a leader at each of these points, and
//! compare the records of the steps, the journal and the digest of the engine that died.
//!
//! The module exists only under `cfg(windlass_faults)`, which the build script of `windlass-server-faulty`
//! sets for a second build of these sources. A Cargo feature would not do: features are unified over all
//! packages that one call of Cargo builds, so the tests would switch it on in the command that ships.
//!
//! `WINDLASS_FAULT=after-spawn:17` kills the process when it reaches that point for the 17th time, and
//! `after-spawn:17:stop` suspends it there. Several
//! points are separated by commas; the first that is reached counts. Before that, the process writes the
//! point and the digest of its engine at the last commit to the file `WINDLASS_FAULT_REPORT`.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use std::{env, fs, thread};

use rustix::process::{Signal, getpid, kill_process};
use windlass_core::{Fact, Input, Timestamp};
use windlass_store::{Store, StoreError};

use crate::attempt::run_dir;
use crate::coordinator::{plan_of, read_wal};
use crate::schedule::Schedule;

/// The variable with the points at which the process kills itself.
pub const FAULT_VARIABLE: &str = "WINDLASS_FAULT";
/// The variable with the file for the point and the digest.
pub const REPORT_VARIABLE: &str = "WINDLASS_FAULT_REPORT";

/// A place in the work of a coordinator, a scheduler or a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    /// A new run is written, but not committed.
    BeforeSubmit,
    /// A new run is stored, but its id was not reported.
    AfterSubmit,
    /// A resumed run has a new leader; processes of the old one still run.
    AfterTakeOver,
    /// The processes of the old leader have ended, but the journal does not know it.
    AfterLeftovers,
    /// Ends and starts are about to be written to the write-ahead log.
    BeforeWalWrite,
    /// Ends and starts are in the write-ahead log, but not in the store, and no process exists.
    AfterWalWrite,
    /// Ends and starts are written, but not committed.
    BeforeCommit,
    /// Starts are committed, and no process exists.
    AfterCommit,
    /// One of several attempts is about to get its process.
    BeforeSpawn,
    /// An attempt has its process, but the leader does not watch it yet.
    AfterSpawn,
    /// An attempt has ended, but the journal does not know it.
    AfterExit,
    /// The processes of a dead holder of a name have ended, but the name is still taken.
    AfterClearing,
    /// Every step has ended, and the run still has its leader.
    BeforeStepDown,
    /// The run has ended and has no leader, but the caller does not know it.
    AfterStepDown,
    /// A command is written to a queue, but not committed.
    BeforeAdd,
    /// A command is in a queue, but its number was not reported.
    AfterAdd,
    /// A change of a step of a queue is written, but not committed.
    BeforeChange,
    /// A change of a step of a queue is stored, but its process has not said so.
    AfterChange,
    /// A base is written in the place of a journal, but not committed.
    BeforeCompact,
    /// A base is in the place of a journal, and the logs of forgotten steps are still there.
    AfterCompact,
    /// A scheduler leads, and has read nothing.
    AfterLead,
    /// A round of a scheduler is written, but not committed.
    BeforeRound,
    /// A round is committed, and no process was notified.
    AfterRound,
    /// What a dead worker has left has ended, but its orders are not reported.
    BeforeGiveUp,
    /// The orders of a dead worker are reported, and the scheduler has not told it.
    AfterGiveUp,
    /// What earlier lives of a worker have left has ended, and its new life has not begun.
    AfterEarlierLives,
    /// The life of a worker is written, but not committed.
    BeforeLife,
    /// A worker has begun, and the ends that its earlier life has noted are still noted.
    AfterLife,
    /// A worker has a guardian, and sends no heartbeats so far.
    AfterGuardian,
    /// A worker knows how an order has ended, and has not noted it.
    BeforeNote,
    /// An end is noted, and not reported.
    AfterNote,
    /// Reports are written, but not committed.
    BeforeReport,
    /// Reports are committed, and the ends are still noted.
    AfterReport,
    /// A heartbeat of a worker is written, but not committed.
    BeforeBeat,
    /// A heartbeat is committed, and the guardian does not know it.
    AfterBeat,
    /// A guardian has told its worker that it ends the worker's processes, and has not ended any.
    GuardianBeforeKill,
}

impl Point {
    /// The points that the leader of a run in the foreground reaches, in this order.
    pub const OF_RUN: [Self; 14] = [
        Self::BeforeSubmit,
        Self::AfterSubmit,
        Self::AfterTakeOver,
        Self::AfterLeftovers,
        Self::BeforeWalWrite,
        Self::AfterWalWrite,
        Self::BeforeCommit,
        Self::AfterCommit,
        Self::BeforeSpawn,
        Self::AfterSpawn,
        Self::AfterExit,
        Self::AfterClearing,
        Self::BeforeStepDown,
        Self::AfterStepDown,
    ];
    /// Those that only queues reach.
    pub const OF_QUEUES: [Self; 6] = [
        Self::BeforeAdd,
        Self::AfterAdd,
        Self::BeforeChange,
        Self::AfterChange,
        Self::BeforeCompact,
        Self::AfterCompact,
    ];
    /// Those that the scheduler of submitted runs reaches.
    pub const OF_SCHEDULER: [Self; 5] = [
        Self::AfterLead,
        Self::BeforeRound,
        Self::AfterRound,
        Self::BeforeGiveUp,
        Self::AfterGiveUp,
    ];
    /// Those that a worker or its guardian reaches, besides the ones of attempts.
    pub const OF_WORKER: [Self; 11] = [
        Self::AfterEarlierLives,
        Self::BeforeLife,
        Self::AfterLife,
        Self::AfterGuardian,
        Self::BeforeNote,
        Self::AfterNote,
        Self::BeforeReport,
        Self::AfterReport,
        Self::BeforeBeat,
        Self::AfterBeat,
        Self::GuardianBeforeKill,
    ];
    /// How many points there are.
    const COUNT: usize = Self::OF_RUN.len()
        + Self::OF_QUEUES.len()
        + Self::OF_SCHEDULER.len()
        + Self::OF_WORKER.len();

    /// Returns all points.
    pub fn all() -> impl Iterator<Item = Self> {
        let of_service = Self::OF_SCHEDULER.into_iter().chain(Self::OF_WORKER);
        Self::OF_RUN.into_iter().chain(Self::OF_QUEUES).chain(of_service)
    }

    /// Returns the name of the point in the variable.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::BeforeSubmit => "before-submit",
            Self::AfterSubmit => "after-submit",
            Self::AfterTakeOver => "after-take-over",
            Self::AfterLeftovers => "after-leftovers",
            Self::BeforeWalWrite => "before-wal-write",
            Self::AfterWalWrite => "after-wal-write",
            Self::BeforeCommit => "before-commit",
            Self::AfterCommit => "after-commit",
            Self::BeforeSpawn => "before-spawn",
            Self::AfterSpawn => "after-spawn",
            Self::AfterExit => "after-exit",
            Self::AfterClearing => "after-clearing",
            Self::BeforeStepDown => "before-step-down",
            Self::AfterStepDown => "after-step-down",
            Self::BeforeAdd => "before-add",
            Self::AfterAdd => "after-add",
            Self::BeforeChange => "before-change",
            Self::AfterChange => "after-change",
            Self::BeforeCompact => "before-compact",
            Self::AfterCompact => "after-compact",
            Self::AfterLead => "after-lead",
            Self::BeforeRound => "before-round",
            Self::AfterRound => "after-round",
            Self::BeforeGiveUp => "before-give-up",
            Self::AfterGiveUp => "after-give-up",
            Self::AfterEarlierLives => "after-earlier-lives",
            Self::BeforeLife => "before-life",
            Self::AfterLife => "after-life",
            Self::AfterGuardian => "after-guardian",
            Self::BeforeNote => "before-note",
            Self::AfterNote => "after-note",
            Self::BeforeReport => "before-report",
            Self::AfterReport => "after-report",
            Self::BeforeBeat => "before-beat",
            Self::AfterBeat => "after-beat",
            Self::GuardianBeforeKill => "guardian-before-kill",
        }
    }

    /// Kills the process if the variable asks for it.
    pub(crate) fn reached(self) {
        if self == Self::AfterStepDown {
            report(self);
        }
        let Some(fault) = asked().iter().find(|fault| fault.point == self) else { return };
        if TIMES[self as usize].fetch_add(1, SeqCst) + 1 == fault.times {
            report(self);
            kill_process(getpid(), fault.signal).expect("a process may signal itself");
            if fault.signal == Signal::KILL {
                thread::sleep(Duration::MAX);
            }
        }
    }

    /// Does what [`Point::reached`] does, directly after a commit.
    pub(crate) fn committed(self) {
        let mut progress = progress();
        progress.committed = progress.written;
        drop(progress);
        self.reached();
    }
}

/// How often each point that the variable names has been reached.
static TIMES: [AtomicU64; Point::COUNT] = [const { AtomicU64::new(0) }; Point::COUNT];
static PROGRESS: Mutex<Progress> = Mutex::new(Progress { time: 0, written: None, committed: None });

struct Progress {
    /// The latest time that the engine got, in nanoseconds.
    time: u64,
    /// The digest when facts were last written, and the time for which it holds.
    written: Option<(u64, u64)>,
    /// The same when they were last known to be committed.
    committed: Option<(u64, u64)>,
}

fn progress() -> MutexGuard<'static, Progress> {
    PROGRESS.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn note_time(now: Timestamp) {
    let mut progress = progress();
    progress.time = progress.time.max(now.as_nanos());
}

pub(crate) fn note_digest(digest: u64) {
    let mut progress = progress();
    progress.written = Some((digest, progress.time));
}

/// What happens to the process at a point.
struct Fault {
    point: Point,
    /// How often the point has to be reached.
    times: u64,
    signal: Signal,
}

/// Returns what the variable asks for.
fn asked() -> &'static [Fault] {
    static ASKED: OnceLock<Vec<Fault>> = OnceLock::new();
    ASKED.get_or_init(|| {
        let asked = env::var(FAULT_VARIABLE).unwrap_or_default();
        asked.split(',').filter(|one| !one.is_empty()).map(fault).collect()
    })
}

fn fault(text: &str) -> Fault {
    let mut words = text.split(':');
    let name = words.next().unwrap_or_default();
    let times = words.next().and_then(|times| times.parse().ok()).expect("a number");
    let signal = match words.next() {
        None => Signal::KILL,
        Some("stop") => Signal::STOP,
        Some(other) => panic!("unknown signal: {other}"),
    };
    let point = Point::all().find(|point| point.name() == name).expect("a point");
    Fault { point, times, signal }
}

/// Writes the point, and the digest that the journal leads to with the time for which it holds.
fn report(point: Point) {
    let Some(path) = env::var_os(REPORT_VARIABLE) else { return };
    let committed = progress().committed;
    let committed = committed.map_or(String::new(), |(digest, time)| format!("{digest} {time}\n"));
    fs::write(path, format!("{}\n{committed}", point.name())).expect("the report can be written");
}

/// Returns the journal of a run, with what its leader has left in the write-ahead log.
pub fn journal(store: &mut Store, run: &str) -> Result<Vec<Fact>, StoreError> {
    let wal = read_wal(&run_dir(store.dir(), run)).expect("it can be read");
    let mut facts = store.facts(run)?;
    facts.extend(wal.after(&facts).facts);
    Ok(facts)
}

/// Returns the digest that the journal of a run leads to, at a time in nanoseconds.
pub fn replay(store: &mut Store, run: &str, time: u64) -> Result<u64, StoreError> {
    let record = store.run(run)?;
    let mut schedule = Schedule::new(plan_of(&record).expect("it was run before"));
    schedule.replay(&journal(store, &record.id)?);
    let time = Timestamp::ZERO.after(Duration::from_nanos(time));
    let ticked = schedule.call_at(time, |engine, world| engine.apply(world, Input::Tick));
    ticked.expect("time passes");
    Ok(schedule.engine().digest())
}
