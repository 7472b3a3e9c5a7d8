//! The seam between a run's decisions and what executes for it.
//!
//! Everything that executes is an [`Order`]: the command of an attempt, its `finally`, a check of a
//! condition, a hook. Orders and reports are plain data, so an implementation may run them in this
//! process or hand them to another one. An implementation decides nothing about the run. A run identifies
//! its orders by [`OrderId`]; a worker, which executes orders of many runs, by keys of its own.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::{Grant, Timestamp, WorkId};

use super::RunError;
use crate::command::CommandSpec;
use crate::ended::Ended;
use crate::guard::CheckResult;
use crate::log_file::Growth;

mod checks;
mod local;
mod meanwhile;
mod room;
mod timers;

pub(crate) use self::local::LocalAttempts;
pub(crate) use self::meanwhile::Meanwhile;

/// Identifies an order among all that one object executes.
pub(crate) trait OrderKey: Copy + Ord + Send + 'static {
    /// Returns what the order executes.
    fn kind(self) -> OrderKind;
}

/// What an order executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OrderKind {
    /// Returns the id of the command of an attempt.
    Command,
    /// The `finally` that follows an attempt.
    Finally,
    /// A check of a condition.
    Check,
    /// A call of a hook, by a number that no other call has.
    Hook(u32),
}

/// Executes orders and reports how they end.
pub(crate) trait Attempts<K = OrderId> {
    /// Makes an order ready, so that [`Attempts::start_prepared`] has nothing left to do but start it.
    fn prepare(&mut self, order: Order<K>);

    /// Starts the orders that were prepared, in their order. One that cannot be started is reported
    /// as ended.
    fn start_prepared(&mut self) -> Result<(), RunError>;

    /// Ends what an order has started, or stops it for a while; does nothing if it has ended.
    fn stop(&mut self, id: K, mode: StopMode) -> Result<(), RunError>;

    /// Lets an order that has a time limit run for `left` from now on; without a limit if that is none.
    fn set_limit(&mut self, id: K, left: Option<Duration>);

    /// Waits until there is news, for at most `timeout`. May return early without any.
    fn wait(&mut self, timeout: Option<Duration>) -> Result<Vec<News<K>>, RunError>;

    /// Returns whether nothing of a command or a hook is left, nor waits to be started.
    fn is_idle(&self) -> bool;

    /// Has a wait end with [`News::Wakeup`] while `source` is readable.
    fn watch(&mut self, source: BorrowedFd<'_>) -> io::Result<()>;

    /// Kills everything that runs, and returns once it is gone.
    fn finish(&mut self) -> Result<(), RunError>;
}

/// Something to execute.
#[derive(Debug)]
pub(crate) struct Order<K = OrderId> {
    pub(crate) id: K,
    /// What to run, and with which environment; or why that is unknown. Such an order is reported as
    /// ended, with the reason in its log.
    pub(crate) command: Result<CommandSpec, String>,
    /// The tag that its processes carry beside that of the run. No other order has it.
    pub(crate) tag: String,
    /// Where its output goes; none for a check, of which only the last line is reported.
    pub(crate) log: Option<LogSpec>,
    /// Where it may write its outputs for later steps.
    pub(crate) output: Option<PathBuf>,
    pub(crate) limits: Limits,
    /// The time, on a clock that does not pause, after which it must not start without being ordered
    /// again, because the names that it holds may be lost by then; none if it holds none.
    pub(crate) start_by: Option<Timestamp>,
}

/// Identifies an order of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OrderId {
    /// Returns the id of the command of an attempt.
    Command(Grant),
    /// The `finally` that follows an attempt.
    Finally(Grant),
    /// A check of a condition of a step, by a number that no other check has.
    Check { work: WorkId, round: u64 },
    /// A hook of the run, by a number that no other hook has.
    Hook(u32),
}

/// A log file, and how many bytes of output it keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogSpec {
    pub(crate) path: PathBuf,
    pub(crate) limit: u64,
    /// Who is told on this machine that it grows.
    #[serde(skip)]
    pub(crate) growth: Option<Growth>,
}

/// How long an order and its processes may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Limits {
    /// How long it may run; none for a command, which the engine times out, and for a `finally`.
    pub(crate) time: Option<Duration>,
    /// How long processes that outlive the order's own may take to end by themselves.
    pub(crate) linger: Duration,
    /// How long its processes may take to end once they were asked to.
    pub(crate) grace: Duration,
}

/// How to end what an order has started, or to stop it for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopMode {
    /// Asks its processes to end, and kills those that remain after the grace period.
    Ask { grace: Duration },
    /// Leaves its own process alone, and kills everything that remains after the grace period.
    Finish { grace: Duration },
    /// Kills its processes.
    Kill,
    /// Stops its processes, and lets no time limit end them.
    Halt,
    /// Lets processes that were stopped continue.
    Continue,
}

/// What a wait returns.
#[derive(Debug)]
pub(crate) enum News<K = OrderId> {
    Report(Report<K>),
    /// A signal has reached this process.
    Signal(i32),
    /// The journal may have requests, events or names for this run.
    Wakeup,
    /// The guardian of this worker ends its processes.
    LifeOver,
}

/// What has become of an order.
#[derive(Debug)]
pub(crate) enum Report<K = OrderId> {
    /// Nothing of the order runs any more.
    Ended { id: K, ended: Ended },
    /// A check has ended.
    Checked { id: K, end: CheckEnd },
    /// The order was not started before its `start_by`.
    Late(K),
    /// Nothing of the order runs any more, and how it ended is unknown.
    Lost { id: K, why: String },
    /// Orders wait, because the system has no room for another process.
    NoRoom(String),
}

/// How a check ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CheckEnd {
    Result(CheckResult),
    /// It was stopped.
    Stopped,
    /// The system refused something that the check needs.
    Failed(String),
}

impl LogSpec {
    pub(crate) fn new(path: PathBuf, limit: u64) -> Self {
        Self { path, limit, growth: None }
    }
}

impl OrderKey for OrderId {
    fn kind(self) -> OrderKind {
        match self {
            OrderId::Command(_) => OrderKind::Command,
            OrderId::Finally(_) => OrderKind::Finally,
            OrderId::Check { .. } => OrderKind::Check,
            OrderId::Hook(call) => OrderKind::Hook(call),
        }
    }
}

impl OrderId {
    /// Returns the step of an order; none for a hook.
    pub(crate) fn work(self) -> Option<WorkId> {
        match self {
            OrderId::Command(grant) | OrderId::Finally(grant) => Some(grant.work),
            OrderId::Check { work, .. } => Some(work),
            OrderId::Hook(_) => None,
        }
    }
}
