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
//! `WINDLASS_FAULT=after-spawn:17` kills the process when it reaches that point for the 17th time. Several
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

/// A place in the work of a coordinator.
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
    /// A base is written in the place of a journal, but not committed.
    BeforeCompact,
    /// A base is in the place of a journal, and the logs of forgotten steps are still there.
    AfterCompact,
}

impl Point {
    /// All points, in the order in which a run reaches them.
    pub const ALL: [Self; 18] = [
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
        Self::BeforeAdd,
        Self::AfterAdd,
        Self::BeforeCompact,
        Self::AfterCompact,
    ];

    /// The points that only queues reach.
    pub const OF_QUEUES: [Self; 4] =
        [Self::BeforeAdd, Self::AfterAdd, Self::BeforeCompact, Self::AfterCompact];

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
            Self::BeforeCompact => "before-compact",
            Self::AfterCompact => "after-compact",
        }
    }

    /// Kills the process if the variable asks for it.
    pub(crate) fn reached(self) {
        if self == Self::AfterStepDown {
            report(self);
        }
        let Some((_, times)) = asked().iter().find(|(point, _)| *point == self) else { return };
        if TIMES[self as usize].fetch_add(1, SeqCst) + 1 == *times {
            report(self);
            kill_process(getpid(), Signal::KILL).expect("a process may signal itself");
            thread::sleep(Duration::MAX);
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
static TIMES: [AtomicU64; Point::ALL.len()] = [const { AtomicU64::new(0) }; Point::ALL.len()];
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

/// Returns the points at which to die, and how often each is reached before.
fn asked() -> &'static [(Point, u64)] {
    static ASKED: OnceLock<Vec<(Point, u64)>> = OnceLock::new();
    ASKED.get_or_init(|| {
        let asked = env::var(FAULT_VARIABLE).unwrap_or_default();
        asked.split(',').filter(|one| !one.is_empty()).map(fault).collect()
    })
}

fn fault(text: &str) -> (Point, u64) {
    let (name, times) = text.split_once(':').expect("a point, a colon and a number");
    let point = Point::ALL.into_iter().find(|point| point.name() == name);
    (point.expect("a point"), times.parse().expect("a number"))
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
