//! A machine without processes: its time, what lives on it, and everything that is random.
//!
//! Schedulers, workers and users are *processes*, which can be killed and suspended. What a worker starts
//! for an order is a *child*: it ends by itself after its time, also if its worker was killed, unless it
//! is killed before.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use windlass_core::{Random, Timestamp, WorkId};
use windlass_store::{Clock, ClockReading, Frame, Liveness, Process, ProcessTree};

use crate::coordinator::attempts::OrderKind;
use crate::ended::Exit;
use crate::process_tag;

/// When virtual time begins.
const BEGIN: u64 = 1_000_000_000_000;
/// How many of the latest events are printed when something is wrong.
const REMEMBERED: usize = 80;

/// A machine; clones share it.
#[derive(Clone)]
pub(super) struct Machine {
    nanos: Arc<AtomicU64>,
    state: Arc<Mutex<State>>,
}

struct State {
    random: Random,
    processes: BTreeMap<u32, Condition>,
    children: Vec<Child>,
    log: VecDeque<String>,
}

/// The condition of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Runs,
    /// It is suspended until then.
    Suspended(u64),
    Gone,
}

/// What a worker has started for an order.
#[derive(Clone, Debug)]
pub(super) struct Child {
    /// The process that has started it.
    pub(super) parent: u32,
    /// The tag of its worker, and its own.
    pub(super) tags: [String; 2],
    /// The order.
    pub(super) token: u64,
    pub(super) kind: OrderKind,
    /// Whether its step holds all names that it needs, as the scheduler has told it.
    pub(super) holds: bool,
    pub(super) ends: u64,
    pub(super) exit: Exit,
}

impl Child {
    /// Returns the run, the step and the attempt that the child works for; none for a hook or a check.
    pub(super) fn attempt(&self) -> Option<(&str, usize, u32)> {
        let mut parts = self.tags[1].strip_prefix(process_tag::RUN_PREFIX)?.split('-');
        let (run, _epoch) = (parts.next()?, parts.next()?);
        let work = WorkId::new(parts.next()?.parse().ok()?)?;
        Some((run, work.index(), parts.next()?.parse().ok()?))
    }
}

impl Machine {
    pub(super) fn new(seed: u64) -> Self {
        let state = State {
            random: Random::new(seed),
            processes: BTreeMap::new(),
            children: Vec::new(),
            log: VecDeque::new(),
        };
        let nanos = Arc::new(AtomicU64::new(BEGIN));
        Self { nanos, state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the nanoseconds that a manual clock shows.
    pub(super) fn nanos(&self) -> &Arc<AtomicU64> {
        &self.nanos
    }

    pub(super) fn at(&self) -> u64 {
        self.nanos.load(Ordering::Relaxed)
    }

    pub(super) fn advance(&self, nanos: u64) {
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
        let at = self.at();
        for condition in self.state().processes.values_mut() {
            if matches!(condition, Condition::Suspended(until) if *until <= at) {
                *condition = Condition::Runs;
            }
        }
    }

    /// Returns a random number.
    pub(super) fn within(&self, range: std::ops::Range<u64>) -> u64 {
        self.state().random.within(range)
    }

    pub(super) fn one_in(&self, n: u64) -> bool {
        self.state().random.one_in(n)
    }

    pub(super) fn start_process(&self) -> u32 {
        let processes = &mut self.state().processes;
        let pid = 1 + processes.len() as u32;
        processes.insert(pid, Condition::Runs);
        pid
    }

    pub(super) fn condition(&self, pid: u32) -> Condition {
        self.state().processes.get(&pid).copied().unwrap_or(Condition::Gone)
    }

    pub(super) fn is_gone(&self, pid: u32) -> bool {
        self.condition(pid) == Condition::Gone
    }

    /// Ends a process. Its children go on.
    pub(super) fn end_process(&self, pid: u32) {
        self.state().processes.insert(pid, Condition::Gone);
    }

    /// Suspends a process that runs.
    pub(super) fn suspend(&self, pid: u32, span: Duration) {
        let until = self.at() + span.as_nanos() as u64;
        if let Some(condition @ Condition::Runs) = self.state().processes.get_mut(&pid) {
            *condition = Condition::Suspended(until);
        }
    }

    /// Has all suspended processes go on.
    pub(super) fn resume_all(&self) {
        for condition in self.state().processes.values_mut() {
            if *condition != Condition::Gone {
                *condition = Condition::Runs;
            }
        }
    }

    /// Returns the processes that are not suspended.
    pub(super) fn running(&self) -> Vec<u32> {
        let state = self.state();
        let runs = state.processes.iter().filter(|(_, condition)| **condition == Condition::Runs);
        runs.map(|(pid, _)| *pid).collect()
    }

    pub(super) fn start_child(&self, child: Child) {
        self.state().children.push(child);
    }

    /// Returns all children, also those that have ended.
    pub(super) fn children(&self) -> Vec<Child> {
        self.state().children.clone()
    }

    /// Returns the children that have not ended.
    pub(super) fn live_children(&self) -> Vec<Child> {
        let at = self.at();
        let state = self.state();
        state.children.iter().filter(|child| child.ends > at).cloned().collect()
    }

    /// Ends the children that `is_it` at a time, with a signal, unless they end before.
    pub(super) fn signal_children(&self, ends: u64, signal: i32, is_it: impl Fn(&Child) -> bool) {
        for child in self.state().children.iter_mut().filter(|child| is_it(child)) {
            if child.ends > ends {
                (child.ends, child.exit) = (ends, Exit::Signal(signal));
            }
        }
    }

    /// Kills the children that carry the tags of `trees`.
    pub(super) fn kill(&self, trees: &[ProcessTree]) {
        let is_in = |tag: &String| trees.iter().any(|tree| *tree == process_tag::tree_of(tag));
        self.signal_children(self.at(), 9, |child| child.tags.iter().any(is_in));
    }

    pub(super) fn log(&self, what: impl FnOnce() -> String) {
        let at = (self.at() - BEGIN) as f64 / 1e9;
        let log = &mut self.state().log;
        if log.len() == REMEMBERED {
            log.pop_front();
        }
        log.push_back(format!("{at:9.3} {}", what()));
    }

    pub(super) fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut self.state().log).into()
    }
}

impl Clock for Machine {
    fn now(&self) -> ClockReading {
        let at = self.at();
        let wall_ms = i64::try_from(at / 1_000_000).expect("time is not that long");
        let (at, frame) = (Timestamp::from_nanos(at), Frame::Boot(process(0).boot));
        ClockReading { at, here: at, frame, wall_ms }
    }

    fn liveness(&self, process: &Process) -> Liveness {
        if self.is_gone(process.pid) { Liveness::Gone } else { Liveness::Alive }
    }
}

/// Returns a process of the machine, as the store knows it.
pub(super) fn process(pid: u32) -> Process {
    static THIS: OnceLock<Process> = OnceLock::new();
    let this = THIS.get_or_init(|| Process::current().expect("this is Linux"));
    Process { pid, started: pid.into(), ..this.clone() }
}
