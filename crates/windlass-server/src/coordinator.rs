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
use std::process::Child;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use thiserror::Error;
use windlass_core::{Grant, HolderId, Input, Outcome, Token, Transition, WorkId, WorkState};
use windlass_store::{
    Claim, Claimed, LeaseTerms, Leftover, Name, Need, Process, RunRecord, Store, StoreError,
    Transaction, Tree,
};
use windlass_workflow::{Mistakes, ParamErrors, Plan};

use crate::attempt::{self, exit_code, log_path, signal_group};
use crate::leftovers;
use crate::order::Orders;
use crate::pulse::Pulse;
use crate::schedule::Schedule;
use crate::signals::SignalWatch;
use crate::tree;
use crate::unsupported::{Unsupported, unsupported};

/// How often to ask again for names that were refused.
const TICKET_POLL: Duration = Duration::from_millis(50);
/// How long steps may take to end after an interrupt before they are killed.
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
    stop: Option<Stop>,
}

/// Who leads the run, and under which epoch.
struct Leader {
    run: RunRecord,
    holder: HolderId,
    process: Process,
    epoch: Token,
}

/// An attempt that the store knows about, with the names it holds.
struct Start {
    grant: Grant,
    names: Vec<(Name, Token)>,
}

struct Running {
    start: Start,
    /// The leader of its process group; none if it could not be started.
    pid: Option<u32>,
}

/// An interrupt that is being carried out.
struct Stop {
    signal: i32,
    kill_at: Instant,
}

enum News {
    Exited { grant: Grant, code: i32 },
    Signal(i32),
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
            let run = RunRecord { id, file, text, dir: dir.to_owned() };
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
        let leader = store.transact(|transaction| Leader::take_over(transaction, run))?;
        let leader = leader.map_err(|(run, by)| RunError::Led { run, by })?;
        let what = "the processes of the interrupted run cannot be ended";
        leftovers::end_all(&leader.run.id).map_err(|source| RunError::Io { what, source })?;
        let mut schedule = Schedule::new(plan);
        schedule.replay(&store.facts(&leader.run.id)?);
        for work in schedule.works_in(|phase| phase.state() == WorkState::Running) {
            let attempt = schedule.engine().attempts(work).expect("it is one of its works");
            let outcome = Outcome::Interrupted;
            let lost = Input::Finished { grant: Grant { work, attempt }, outcome };
            schedule.apply(lost).expect("the journal says that it runs");
        }
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
        let _pulse = Pulse::of_process(store.another()?, process, LeaseTerms::default());
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
            stop,
        })
    }

    /// The run's id.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.leader.run.id
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
            self.show(&mut watch);
            starts.into_iter().for_each(|start| self.start(start));
            if let Some(end) = self.end() {
                self.step_down()?;
                return Ok(end);
            }
            news = self.wait();
            self.heed_signals(&news);
        }
    }

    /// Applies all news, decides what starts, and stores all of it in one commit.
    fn commit(&mut self, news: &[News]) -> Result<Vec<Start>, RunError> {
        let Self { store, schedule, leader, running, ended, stop, .. } = self;
        let stopping = stop.is_some();
        let mut leftovers = Vec::new();
        let starts = store.transact(|transaction| {
            for exited in news.iter().filter_map(News::exited) {
                let Start { grant, names } = running.remove(&exited.0.work).expect("it ran").start;
                finish(schedule, exited, stopping);
                for (name, token) in &names {
                    let holder = leader.holder_of(grant);
                    transaction.release(name, &holder, *token)?;
                }
            }
            let starts = if stopping {
                Vec::new()
            } else {
                admit(schedule, leader, transaction, (ended, &mut leftovers))?
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

    fn show(&mut self, watch: &mut impl FnMut(&Change<'_>)) {
        for Transition { at, work, attempt, from, to } in self.schedule.take_transitions() {
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
    }

    /// Starts the process of an attempt that the store knows about. One that cannot be started has
    /// ended with 126 or 127, as a shell would say.
    fn start(&mut self, start: Start) {
        let grant = start.grant;
        let step = self.schedule.step(grant.work);
        let log = log_path(&self.logs, grant, &step.name);
        let tokens: Vec<_> = start.names.iter().map(|(_, token)| *token).collect();
        let mut order = self.leader.orders(&self.schedule).order(grant, &log, &tokens);
        let marks = tree::marks_with(&self.leader.mark_of(grant));
        order.env.push((tree::MARKS.to_owned(), marks));
        let pid = match attempt::start(&order) {
            Ok(child) => Some(self.await_exit(grant, child)),
            Err(error) => {
                let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
                // The log is the place for it; if that fails too, the code has to do.
                let _ = fs::write(&log, format!("the step cannot be started: {error}\n"));
                self.tell.send(News::Exited { grant, code }).expect("we listen ourselves");
                None
            }
        };
        self.running.insert(grant.work, Running { start, pid });
    }

    fn await_exit(&self, grant: Grant, mut child: Child) -> u32 {
        let pid = child.id();
        let tell = self.tell.clone();
        thread::spawn(move || {
            attempt::await_end(pid);
            // Whatever the step left behind in its group ends with it. The group's number cannot
            // be anybody else's before its leader is reaped.
            signal_group(pid, Signal::KILL);
            let code = child.wait().map_or(126, exit_code);
            // Nobody listens any more if the run has failed meanwhile.
            let _ = tell.send(News::Exited { grant, code });
        });
        pid
    }

    fn end(&self) -> Option<End> {
        let engine = self.schedule.engine();
        if engine.is_done() {
            let all = engine.metrics().count(WorkState::Success) == self.schedule.len();
            return Some(if all { End::Succeeded } else { End::Failed });
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
        let ticket = self.schedule.ticketed().next().map(|_| TICKET_POLL);
        let kill = self.stop.as_ref();
        let kill = kill.map(|stop| stop.kill_at.saturating_duration_since(Instant::now()));
        [due, ticket, kill].into_iter().flatten().min()
    }

    /// The first signal asks the steps to end, the second one kills them, and so does patience.
    fn heed_signals(&mut self, news: &[News]) {
        for signal in news.iter().filter_map(News::signal) {
            let again = self.stop.is_some();
            let kill_at = Instant::now() + if again { Duration::ZERO } else { GRACE };
            self.stop = Some(Stop { signal, kill_at });
            self.signal_steps(Signal::TERM);
        }
        if self.stop.as_ref().is_some_and(|stop| stop.kill_at <= Instant::now()) {
            self.signal_steps(Signal::KILL);
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

impl Leader {
    /// The right to lead `run`, or who else has it.
    fn take_over(
        transaction: &Transaction<'_>,
        run: RunRecord,
    ) -> Result<Result<Self, (String, HolderId)>, StoreError> {
        let unknown = |source| StoreError::Io { path: "/proc/self".into(), source };
        let process = Process::current().map_err(unknown)?;
        let holder = HolderId::new(format!("windlass[{}.{}]", process.pid, process.started));
        let needs = [Need::one(Name::Run(run.id.clone()))];
        let claim = Claim { process: Some(&process), ..Claim::new(&holder, &needs) };
        match transaction.claim(&claim)? {
            Claimed::Held(holds) => {
                let epoch = holds[0].token;
                Ok(Ok(Self { run, holder, process, epoch }))
            }
            Claimed::Refused(refused) => {
                transaction.leave_line(&holder)?;
                Ok(Err((run.id, refused.first().1.clone())))
            }
        }
    }

    fn append(
        &self,
        transaction: &Transaction<'_>,
        schedule: &mut Schedule,
    ) -> Result<(), StoreError> {
        let facts = schedule.take_facts();
        if facts.is_empty() { Ok(()) } else { transaction.append(&self.run.id, self.epoch, &facts) }
    }

    /// How to start the steps of `schedule`.
    fn orders<'a>(&'a self, schedule: &'a Schedule) -> Orders<'a> {
        Orders { plan: schedule.plan(), run: &self.run.id, dir: &self.run.dir }
    }

    /// What marks the processes of an attempt, for whoever takes its names over.
    fn mark_of(&self, grant: Grant) -> String {
        format!("run-{}-{}-{}-{}", self.run.id, self.epoch, grant.work, grant.attempt)
    }

    /// Who an attempt is when it asks for names: unique for this life of the run.
    fn holder_of(&self, grant: Grant) -> HolderId {
        let Grant { work, attempt } = grant;
        HolderId::new(format!("run {}/{work}@{attempt} epoch {}", self.run.id, self.epoch))
    }
}

impl News {
    fn exited(&self) -> Option<(Grant, i32)> {
        match *self {
            News::Exited { grant, code } => Some((grant, code)),
            News::Signal(_) => None,
        }
    }

    fn signal(&self) -> Option<i32> {
        match *self {
            News::Signal(signal) => Some(signal),
            News::Exited { .. } => None,
        }
    }
}

/// Takes every work that fits inside the run, and begins those whose names can be had in this very
/// commit. The others keep a place in line, and what they had inside the run is free again.
fn admit(
    schedule: &mut Schedule,
    leader: &Leader,
    transaction: &Transaction<'_>,
    (ended, leftovers): (&[(Name, Token)], &mut Vec<Leftover>),
) -> Result<Vec<Start>, StoreError> {
    let known = "it was granted just now";
    schedule.ring_all();
    let mut starts = Vec::new();
    while let Some(grant) = schedule.take_next() {
        let locks = leader.orders(schedule).locks(grant);
        let names: Vec<_> = locks.into_iter().map(Name::Lock).collect();
        let holder = leader.holder_of(grant);
        let needs: Vec<_> = names.into_iter().map(Need::one).collect();
        let tree = Tree { mark: tree::mark(&leader.mark_of(grant)), group: None };
        let (process, tree) = (Some(&leader.process), Some(&tree));
        let claim = Claim { process, tree, ended, ..Claim::new(&holder, &needs) };
        let claimed =
            if needs.is_empty() { Claimed::Held(Vec::new()) } else { transaction.claim(&claim)? };
        match claimed {
            Claimed::Held(holds) => {
                schedule.apply(Input::Begin(grant)).expect(known);
                let names = holds.into_iter().map(|hold| (hold.name, hold.token)).collect();
                starts.push(Start { grant, names });
            }
            Claimed::Refused(refused) => {
                leftovers.extend(refused.leftovers);
                schedule.refuse(grant).expect(known);
            }
        }
    }
    Ok(starts)
}

fn finish(schedule: &mut Schedule, (grant, code): (Grant, i32), stopping: bool) {
    let retry = &schedule.step(grant.work).retry;
    let named = retry.on_exit.as_ref().is_none_or(|codes| codes.contains(&code));
    let retried = retry.count > 0 && named;
    let outcome = match code {
        0 => Outcome::Success,
        _ if stopping => Outcome::Interrupted,
        _ if retried => Outcome::Retry { delay: retry.delay_after(grant.attempt) },
        _ => Outcome::Failed,
    };
    schedule.apply(Input::Finished { grant, outcome }).expect("an attempt ends once");
}

#[cfg(test)]
mod tests;
