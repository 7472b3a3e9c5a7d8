//! Leads one run: news in, one commit, then the acts that follow from it.
//!
//! The order of durable writes is what makes a run survive a kill at any point. The plan is stored
//! before the run is announced. The start of an attempt, with the names it holds, is stored before
//! its process exists. Its end is stored before any dependent starts, in the same commit. A resumed
//! run first sees the processes of the old one gone, then counts their attempts as interrupted.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use thiserror::Error;
use windlass_core::{Grant, HolderId, Input, Outcome, Phase, Token, Transition, WorkId, WorkState};
use windlass_store::{Leftover, Name, RunRecord, Store, StoreError, Topic};
use windlass_workflow::{Mistakes, ParamErrors, Plan, Step};

use crate::attempt::{log_path, signal_group};
use crate::leftovers;
use crate::pulse::Pulse;
use crate::schedule::Schedule;
use crate::signals::SignalWatch;
use crate::tree;
use crate::unsupported::{Unsupported, unsupported};

mod leader;
mod starting;
mod turn;

use self::leader::{Asking, Leader, Start, admit, declare, terms};
use self::turn::TurnWatch;

/// How often to ask again for names that were refused, though nobody rang: a holder that was killed
/// rings for nobody.
const NET: Duration = Duration::from_secs(1);
/// How long a step that does not say so may take to end once it was asked to.
const GRACE: Duration = Duration::from_secs(10);

/// Why a run could not go on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The stored workflow cannot be read by this version.
    #[error("the stored workflow cannot be read:\n{0}")]
    Mistakes(#[from] Mistakes),
    /// The stored workflow asks for values that were not stored.
    #[error("the stored workflow cannot be run: {0}")]
    Params(#[from] ParamErrors),
    /// The workflow asks for what cannot be run yet.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The system refused something that a run needs.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// Another process leads the run.
    #[error("run {run} is still led by {by}")]
    Led {
        /// The run.
        run: String,
        /// Who leads it.
        by: HolderId,
    },
}

/// A step changed its state, and the store knows it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Change<'a> {
    /// The step's name.
    pub step: &'a str,
    /// The state it is in now.
    pub state: WorkState,
    /// Its latest attempt, from 1; 0 before the first.
    pub attempt: u32,
    /// When, in nanoseconds since 1970.
    pub at_nanos: u64,
    /// Where the output of that attempt is, if there was one.
    pub log: Option<PathBuf>,
}

/// How a run ended, or paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Every step succeeded.
    Succeeded,
    /// A step failed, was blocked or cancelled.
    Failed,
    /// Not every step succeeded before the deadline of the run.
    TooLate,
    /// A signal interrupted it; it can be resumed.
    Interrupted {
        /// The signal.
        signal: i32,
    },
}

/// Leads one run to its end.
pub struct Coordinator {
    store: Store,
    schedule: Schedule,
    leader: Leader,
    logs: PathBuf,
    /// The attempts whose processes run.
    running: BTreeMap<WorkId, Running>,
    news: Receiver<News>,
    tell: Sender<News>,
    /// Stale holds whose processes were ended here, so that their names can be taken.
    ended: Vec<(Name, Token)>,
    _signals: SignalWatch,
    _pulse: Pulse,
    /// Where steps need names.
    turns: Option<TurnWatch>,
    stop: Option<Stop>,
}

struct Running {
    start: Start,
    /// The leader of its process group; none if it could not be started.
    pid: Option<u32>,
    /// It was asked to end, and is killed then.
    kill_at: Option<Instant>,
}

/// An interrupt that is being carried out.
struct Stop {
    signal: i32,
}

enum News {
    Exited {
        grant: Grant,
        code: i32,
    },
    Signal(i32),
    /// A place in line may have come up.
    Turn,
}

impl Coordinator {
    /// Stores a new run of `plan` and leads it. `text` is what the plan was read from.
    pub fn submit(
        mut store: Store,
        file: &str,
        text: &str,
        plan: Plan,
        dir: &Path,
    ) -> Result<Self, RunError> {
        unsupported(&plan)?;
        let mut schedule = Schedule::new(plan);
        schedule.submit_all();
        let leader = store.transact(|transaction| {
            let id = transaction.new_run_id()?;
            let (file, text) = (file.to_owned(), text.to_owned());
            let run = RunRecord { id, file, text, dir: dir.to_owned(), ..RunRecord::default() };
            declare(transaction, schedule.plan())?;
            transaction.insert_run(&run)?;
            let leader = Leader::take_over(transaction, run)?.expect("nobody else knows it yet");
            leader.append(transaction, &mut schedule)?;
            Ok(leader)
        })?;
        Self::new(store, schedule, leader)
    }

    /// Goes on with a run that was interrupted. `run` may be the beginning of its id.
    pub fn resume(mut store: Store, run: &str) -> Result<Self, RunError> {
        let run = store.run(run)?;
        let plan = windlass_workflow::parse(&run.file, &run.text)?.bind([])?;
        unsupported(&plan)?;
        let leader = store.transact(|transaction| {
            declare(transaction, &plan)?;
            Leader::take_over(transaction, run)
        })?;
        let leader = leader.map_err(|(run, by)| RunError::Led { run, by })?;
        let what = "the processes of the interrupted run cannot be ended";
        leftovers::end_all(&leader.run.id).map_err(|source| RunError::Io { what, source })?;
        let mut schedule = Schedule::new(plan);
        schedule.replay(&store.facts(&leader.run.id)?);
        schedule.lose_all();
        store.transact(|transaction| leader.append(transaction, &mut schedule))?;
        Self::new(store, schedule, leader)
    }

    fn new(store: Store, schedule: Schedule, leader: Leader) -> Result<Self, RunError> {
        let logs = store.dir().join("runs").join(&leader.run.id);
        let what = "the directory for logs cannot be made";
        fs::create_dir_all(&logs).map_err(|source| RunError::Io { what, source })?;
        let (tell, news) = mpsc::channel();
        let signals = tell.clone();
        let signals = SignalWatch::start(move |signal| {
            // Nobody listens any more once the run has ended.
            let _ = signals.send(News::Signal(signal));
        });
        let what = "signals cannot be watched";
        let _signals = signals.map_err(|source| RunError::Io { what, source })?;
        let (running, ended) = (BTreeMap::new(), Vec::new());
        let process = leader.process.clone();
        let _pulse = Pulse::of_process(store.another()?, process, terms(schedule.plan()));
        let turns = match schedule.plan().steps.iter().any(needs_names) {
            true => {
                let what = "the bell for places in line cannot be heard";
                let watch = TurnWatch::start(store.hang(&Topic::Turn)?, tell.clone());
                Some(watch.map_err(|source| RunError::Io { what, source })?)
            }
            false => None,
        };
        let stop = None;
        Ok(Self {
            store,
            schedule,
            leader,
            logs,
            running,
            news,
            tell,
            ended,
            _signals,
            _pulse,
            turns,
            stop,
        })
    }

    /// The run's id.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.leader.run.id
    }

    /// What the run carries out.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        self.schedule.plan()
    }

    /// The states of the steps, in the order of the plan. Only a resumed run begins with steps that
    /// have ended.
    #[must_use]
    pub fn states(&self) -> Vec<WorkState> {
        let engine = self.schedule.engine();
        let phases = (0..self.schedule.len()).map(|place| engine.phase(WorkId::from_index(place)));
        phases.map(|phase| phase.map_or(WorkState::Pending, Phase::state)).collect()
    }

    /// How many steps the run has.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.schedule.len()
    }

    /// Leads the run until it ends or is interrupted; `watch` is told every change.
    pub fn lead(mut self, mut watch: impl FnMut(&Change<'_>)) -> Result<End, RunError> {
        let mut news = Vec::new();
        loop {
            let starts = self.commit(&news)?;
            let late = self.show(&mut watch);
            late.into_iter().for_each(|work| self.ask_to_end(work));
            starts.into_iter().for_each(|start| self.start(start));
            if let Some(end) = self.end() {
                self.step_down()?;
                return Ok(end);
            }
            news = self.wait();
            self.heed_signals(&news);
            self.kill_the_slow();
        }
    }

    /// Applies all news, decides what starts, and stores all of it in one commit.
    fn commit(&mut self, news: &[News]) -> Result<Vec<Start>, RunError> {
        let Self { store, schedule, leader, logs, running, ended, stop, turns, .. } = self;
        let stopping = stop.is_some();
        let mut leftovers = Vec::new();
        let bell = turns.as_ref().map(TurnWatch::bell);
        let starts = store.transact(|transaction| {
            schedule.apply(Input::Tick).expect("time passes");
            for exited in news.iter().filter_map(News::exited) {
                let Start { grant, names, .. } =
                    running.remove(&exited.0.work).expect("it ran").start;
                finish(schedule, exited, stopping);
                for (name, token) in &names {
                    let holder = leader.holder_of(grant);
                    transaction.release(name, &holder, *token)?;
                }
            }
            schedule.heed_failures();
            let starts = if stopping {
                Vec::new()
            } else {
                {
                    let mut asking = Asking { ended, leftovers: &mut leftovers, bell };
                    admit(schedule, leader, logs, transaction, &mut asking)?
                }
            };
            leader.append(transaction, schedule)?;
            Ok(starts)
        })?;
        self.end_leftovers(leftovers)?;
        Ok(starts)
    }

    /// Ends what dead holders of our names have left running; the names are had at the next try.
    fn end_leftovers(&mut self, leftovers: Vec<Leftover>) -> Result<(), RunError> {
        self.ended.clear();
        for Leftover { name, token, tree, .. } in leftovers {
            let what = "what a dead holder has left running cannot be ended";
            tree::end(&tree).map_err(|source| RunError::Io { what, source })?;
            self.ended.push((name, token));
        }
        Ok(())
    }

    /// Tells of every change; the steps that have to end, because their time is up.
    fn show(&mut self, watch: &mut impl FnMut(&Change<'_>)) -> Vec<WorkId> {
        let mut late = Vec::new();
        for Transition { at, work, attempt, from, to } in self.schedule.take_transitions() {
            if let Phase::Cancelling { .. } = to {
                late.push(work);
            }
            let state = to.state();
            let submitted = from.is_none() && !state.is_terminal();
            if from == Some(state) || submitted {
                continue;
            }
            let step = self.schedule.step(work).name.as_str();
            let log = log_path(&self.logs, Grant { work, attempt }, step);
            let log = (attempt > 0).then_some(log);
            watch(&Change { step, state, attempt, at_nanos: at.as_nanos(), log });
        }
        late
    }

    fn end(&self) -> Option<End> {
        let engine = self.schedule.engine();
        if engine.is_done() {
            let all = engine.metrics().count(WorkState::Success) == self.schedule.len();
            let too_late = self.schedule.deadline().is_some_and(|at| self.schedule.now() >= at);
            return Some(match all {
                true => End::Succeeded,
                false if too_late => End::TooLate,
                false => End::Failed,
            });
        }
        let stop = self.stop.as_ref().filter(|_| self.running.is_empty())?;
        Some(End::Interrupted { signal: stop.signal })
    }

    /// Everything that has happened, once something has, or time has come for something.
    fn wait(&self) -> Vec<News> {
        let first = match self.patience() {
            Some(patience) => self.news.recv_timeout(patience),
            None => self.news.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        first.into_iter().chain(self.news.try_iter()).collect()
    }

    fn patience(&self) -> Option<Duration> {
        let due = self.schedule.engine().next_wakeup();
        let due = due.map(|due| due.since(self.schedule.now()));
        let ticket = self.schedule.ticketed().next().map(|_| NET);
        let kill = self.running.values().filter_map(|running| running.kill_at).min();
        let kill = kill.map(|at| at.saturating_duration_since(Instant::now()));
        [due, ticket, kill].into_iter().flatten().min()
    }

    /// The first signal asks the steps to end, the second one kills them.
    fn heed_signals(&mut self, news: &[News]) {
        for signal in news.iter().filter_map(News::signal) {
            let again = self.stop.replace(Stop { signal }).is_some();
            for work in self.running.keys().copied().collect::<Vec<_>>() {
                self.ask_to_end(work);
            }
            if again {
                self.signal_steps(Signal::KILL);
            }
        }
    }

    /// Asks a step to end, within its grace.
    fn ask_to_end(&mut self, work: WorkId) {
        let grace = self.schedule.step(work).grace.unwrap_or(GRACE);
        let Some(running) = self.running.get_mut(&work) else { return };
        running.kill_at.get_or_insert(Instant::now() + grace);
        if let Some(pid) = running.pid {
            signal_group(pid, Signal::TERM);
        }
    }

    /// Kills whoever was asked to end and has used up its grace.
    fn kill_the_slow(&mut self) {
        let now = Instant::now();
        for running in self.running.values_mut() {
            if running.kill_at.take_if(|at| *at <= now).is_some()
                && let Some(pid) = running.pid
            {
                signal_group(pid, Signal::KILL);
            }
        }
    }

    fn signal_steps(&self, signal: Signal) {
        for pid in self.running.values().filter_map(|running| running.pid) {
            signal_group(pid, signal);
        }
    }

    /// Gives up the run, and every place in line that it still has.
    fn step_down(mut self) -> Result<(), StoreError> {
        let Self { store, schedule, leader, .. } = &mut self;
        store.transact(|transaction| {
            for work in schedule.ticketed() {
                let attempts = schedule.engine().attempts(work).expect("it is one of its works");
                let grant = Grant { work, attempt: attempts + 1 };
                transaction.leave_line(&leader.holder_of(grant))?;
            }
            let name = Name::Run(leader.run.id.clone());
            transaction.release(&name, &leader.holder, leader.epoch)?;
            Ok(())
        })
    }
}

impl Drop for Coordinator {
    /// A run that cannot go on leaves no step running; one that has ended has none.
    fn drop(&mut self) {
        self.signal_steps(Signal::KILL);
    }
}

impl News {
    fn exited(&self) -> Option<(Grant, i32)> {
        match *self {
            News::Exited { grant, code } => Some((grant, code)),
            News::Signal(_) | News::Turn => None,
        }
    }

    fn signal(&self) -> Option<i32> {
        match *self {
            News::Signal(signal) => Some(signal),
            News::Exited { .. } | News::Turn => None,
        }
    }
}

/// Whether a step needs names that the whole machine shares.
fn needs_names(step: &Step) -> bool {
    !step.locks.is_empty() || !step.semaphores.is_empty()
}

fn finish(schedule: &mut Schedule, (grant, code): (Grant, i32), stopping: bool) {
    let retry = &schedule.step(grant.work).retry;
    let named = retry.on_exit.as_ref().is_none_or(|codes| codes.contains(&code));
    let retried = retry.count > 0 && named;
    let outcome = match code {
        0 => Outcome::Success,
        _ if stopping => Outcome::Interrupted,
        // The delay is what the step's policy says.
        _ if retried => Outcome::Retry { delay: Duration::ZERO },
        _ => Outcome::Failed,
    };
    schedule.apply(Input::Finished { grant, outcome }).expect("an attempt ends once");
}

#[cfg(test)]
mod tests;
