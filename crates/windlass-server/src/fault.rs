//! Points at which the process can be made to kill itself, for the tests that kill it there.
//!
//! Compiled only where `cfg(windlass_faults)` is set, which nothing but the build script of
//! `windlass-server-faulty` does: that package compiles these very sources a second time, for a
//! binary of its own. So the ordinary command has no trace of this, not even of the variable's
//! name, and no feature that somebody's build could switch on.
//!
//! `WINDLASS_FAULT=after-spawn:17` kills the process when it reaches that point for the 17th time;
//! of several, with commas between them, whichever comes first. Before that it leaves in the file
//! `WINDLASS_FAULT_REPORT` where it died and what its engine had come to at the last commit, so
//! that others can replay the journal and compare.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use std::{env, fs, thread};

use rustix::process::{Signal, getpid, kill_process};
use windlass_core::{Fact, Input, Timestamp};
use windlass_store::{Store, StoreError};

use crate::attempt::run_dir;
use crate::coordinator::{plan_of, read_slate};
use crate::schedule::Schedule;

/// Says where to die.
pub const FAULT_VARIABLE: &str = "WINDLASS_FAULT";
/// Says where to leave what the engine had come to.
pub const REPORT_VARIABLE: &str = "WINDLASS_FAULT_REPORT";

/// A place in the life of a coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    /// A new run is written and not committed.
    BeforeSubmit,
    /// A new run is stored, and nobody knows its name.
    AfterSubmit,
    /// A resumed run has a new leader; what the old one left still runs.
    AfterTakeOver,
    /// What the old leader left is gone, and the journal does not know it.
    AfterLeftovers,
    /// Ends and starts are to be jotted down.
    BeforeJotting,
    /// Ends and starts stand on the slate and not in the store, and no process exists.
    AfterJotting,
    /// Ends and starts are written and not committed.
    BeforeCommit,
    /// Starts are committed, and no process exists.
    AfterCommit,
    /// One of several attempts is about to get its process.
    BeforeSpawn,
    /// An attempt has its process, and nobody watches it.
    AfterSpawn,
    /// An attempt has ended, and the journal does not know it.
    AfterExit,
    /// What a dead holder of a name left is gone, and its name still taken.
    AfterClearing,
    /// Every step has ended, and the run still has its leader.
    BeforeStepDown,
    /// Everything is over, and nobody was told.
    AfterStepDown,
}

impl Point {
    /// All of them, in the order of a life.
    pub const ALL: [Self; 14] = [
        Self::BeforeSubmit,
        Self::AfterSubmit,
        Self::AfterTakeOver,
        Self::AfterLeftovers,
        Self::BeforeJotting,
        Self::AfterJotting,
        Self::BeforeCommit,
        Self::AfterCommit,
        Self::BeforeSpawn,
        Self::AfterSpawn,
        Self::AfterExit,
        Self::AfterClearing,
        Self::BeforeStepDown,
        Self::AfterStepDown,
    ];

    /// Its name in the variable.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::BeforeSubmit => "before-submit",
            Self::AfterSubmit => "after-submit",
            Self::AfterTakeOver => "after-take-over",
            Self::AfterLeftovers => "after-leftovers",
            Self::BeforeJotting => "before-jotting",
            Self::AfterJotting => "after-jotting",
            Self::BeforeCommit => "before-commit",
            Self::AfterCommit => "after-commit",
            Self::BeforeSpawn => "before-spawn",
            Self::AfterSpawn => "after-spawn",
            Self::AfterExit => "after-exit",
            Self::AfterClearing => "after-clearing",
            Self::BeforeStepDown => "before-step-down",
            Self::AfterStepDown => "after-step-down",
        }
    }

    /// Dies here, if it is time to.
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

    /// As [`Point::reached`], right behind a commit.
    pub(crate) fn committed(self) {
        let mut progress = progress();
        progress.committed = progress.written;
        drop(progress);
        self.reached();
    }
}

/// How often each point has been reached, if it was asked for.
static TIMES: [AtomicU64; Point::ALL.len()] = [const { AtomicU64::new(0) }; Point::ALL.len()];
static PROGRESS: Mutex<Progress> = Mutex::new(Progress { time: 0, written: None, committed: None });

struct Progress {
    /// The latest time that the engine was told, in nanoseconds.
    time: u64,
    /// The digest when facts were last written, and the time up to which it counts.
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

/// Which points to die at, and at which time of reaching them.
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

/// Leaves the point, and the digest that the journal leads to, with the time up to which it counts.
fn report(point: Point) {
    let Some(path) = env::var_os(REPORT_VARIABLE) else { return };
    let committed = progress().committed;
    let committed = committed.map_or(String::new(), |(digest, time)| format!("{digest} {time}\n"));
    fs::write(path, format!("{}\n{committed}", point.name())).expect("the report can be written");
}

/// The journal of a run, with what its leader has left on the slate.
pub fn journal(store: &mut Store, run: &str) -> Result<Vec<Fact>, StoreError> {
    let slate = read_slate(&run_dir(store.dir(), run)).expect("it can be read");
    let mut facts = store.facts(run)?;
    facts.extend(slate.after(&facts).facts);
    Ok(facts)
}

/// The digest that the journal of a run leads to, at a time in nanoseconds.
pub fn replay(store: &mut Store, run: &str, time: u64) -> Result<u64, StoreError> {
    let record = store.run(run)?;
    let mut schedule = Schedule::new(plan_of(&record).expect("it was run before"));
    schedule.replay(&journal(store, &record.id)?);
    let time = Timestamp::ZERO.after(Duration::from_nanos(time));
    let ticked = schedule.call_at(time, |engine, world| engine.apply(world, Input::Tick));
    ticked.expect("time passes");
    Ok(schedule.engine().digest())
}
