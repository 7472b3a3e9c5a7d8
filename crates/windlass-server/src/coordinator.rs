//! Leads one run: news in, one commit, then the acts that follow from it.
//!
//! The order of durable writes is what makes a run survive a kill at any point. The plan is stored
//! before the run is announced. The start of an attempt, with the names it holds, is stored before
//! its process exists. Its end is stored before any dependent starts, in the same commit. What needs
//! no names may stand on the run's slate instead until the store has it. A resumed run first sees the
//! processes of the old one gone and takes over the slate, then counts lost attempts as interrupted.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use windlass_core::{Fact, Grant, Phase, Timestamp, Token, WorkId, WorkState};
use windlass_store::{Access, JournalPosition, Name, ProcessTree, RunEnd, RunRecord, Store, Topic};
use windlass_workflow::{Plan, Step, Workflow};

use crate::attempt::run_dir;
use crate::ended::Ended;
use crate::events::EventReader;
#[cfg(windlass_faults)]
use crate::fault::Point;
use crate::guard::CheckResult;
use crate::log_file;
use crate::mailbox::{Mailbox, Sender, mailbox};
use crate::nesting;
use crate::processes::{Job, Prepared, Processes};
use crate::pulse::Pulse;
use crate::schedule::Schedule;
use crate::signals::SignalWatch;
use crate::tree;
use crate::users;

mod bells;
mod condition;
mod ending;
mod error;
mod hooks;
mod items;
mod keeping;
mod leader;
mod pass;
mod requests;
mod room;
mod starting;
mod telling;
mod update;
mod waiting;

use self::bells::Bells;
use self::condition::{Conclusion, Conditions, Side, Told};
pub use self::error::RunError;
use self::hooks::Hooks;
use self::items::Items;
pub(crate) use self::keeping::read_slate;
use self::keeping::{Keeper, complete_journal};
use self::leader::{Leader, Start, declare};
use self::pass::{Record, Running};
pub(crate) use self::requests::forget_requests;
pub use self::requests::{Ask, ask};
use self::starting::cannot_log;
use self::telling::Notice;
pub use self::update::{Change, End, StepStatus, Update};
use self::waiting::topics;

/// Leads one run to its end.
pub struct Coordinator {
    store: Store,
    schedule: Schedule,
    leader: Leader,
    logs: PathBuf,
    /// The attempts that are under way.
    running: BTreeMap<WorkId, Running>,
    /// The steps that have begun, and whose `finally` has not run since.
    uncleaned: BTreeSet<WorkId>,
    conditions: Conditions,
    /// None where no guard heeds any.
    events: Option<EventReader>,
    items: Items,
    processes: Processes,
    /// The processes that cannot be started at the moment.
    waiting: room::Waiting,
    news: Mailbox<News>,
    tell: Sender<News>,
    /// What is to be taken in before anything else is waited for.
    inbox: Vec<News>,
    /// Why attempts ended as they did, and steps after them, until that is shown.
    whys: BTreeMap<(WorkId, u32), String>,
    /// Attempts that were lost with an earlier leader, and were not reported yet.
    lost: BTreeSet<(WorkId, u32)>,
    /// For how many changes that are not shown yet it was noted why, where that has to be.
    explained: usize,
    /// What else there is to tell.
    notices: Vec<Notice>,
    /// The steps that wait for names, as was told.
    refused: BTreeSet<WorkId>,
    /// What to store with the next commit, beside the facts.
    records: Vec<Record>,
    /// Steps whose `finally` starts after the next commit.
    due_finally: Vec<WorkId>,
    hooks: Hooks,
    /// Stale holds whose processes were ended here, so that their names can be taken.
    ended: Vec<(Name, Token)>,
    _signals: SignalWatch,
    began: Instant,
    /// When it was last decided what starts.
    decided: Instant,
    /// Beats once the run has lasted for a moment.
    pulse: Option<Pulse>,
    /// When it begins to, if there was no room for it.
    there_at: Option<Instant>,
    bells: Bells,
    keeper: Keeper,
    stop: Option<Stop>,
    /// Somebody has asked for the end of the whole run.
    cancelled: bool,
    /// Everything has ended like this, except for the hook that is told so.
    closing: Option<End>,
}

/// Why nothing starts any more.
#[derive(Clone, Copy)]
enum Stop {
    /// A signal.
    Signal(i32),
    /// There is nothing else to do than what was asked for.
    Leave,
}

/// How everything has come to its end.
enum Over {
    /// Nothing is to follow but that the store knows.
    Plain(End),
    /// All that had to follow has.
    Closed(End),
}

/// Something that happened.
enum News {
    /// A process of a step, or of a hook, has ended.
    Exited {
        job: Job,
        ended: Ended,
    },
    /// A condition was checked; no result if that was stopped.
    Checked {
        work: WorkId,
        round: u64,
        result: io::Result<Option<CheckResult>>,
    },
    /// The conditions of a step are decided.
    Concluded(WorkId, Side, Conclusion),
    /// Somebody wants something.
    Request(requests::Wish),
    Signal(i32),
    /// A bell rang.
    Rang,
}

/// The plan of a run, as it was asked for.
pub(crate) fn plan_of(run: &RunRecord) -> Result<Plan, RunError> {
    plan_as_asked(windlass_workflow::parse(&run.file, &run.text)?, run)
}

/// The plan of a run, whose text was parsed before.
fn plan_as_asked(workflow: Workflow, run: &RunRecord) -> Result<Plan, RunError> {
    let given = run.params.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let mut plan = workflow.into_plan(given)?.only(&run.steps)?;
    plan.concurrency = run.jobs.or(plan.concurrency);
    Ok(plan)
}

/// Whether a run that is taken over must have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Open,
    Over,
}

impl Coordinator {
    /// Stores a new run and leads it. The record's id is given to it here, and so is the
    /// workflow's name.
    pub fn submit(store: Store, run: RunRecord) -> Result<Self, RunError> {
        let workflow = windlass_workflow::parse(&run.file, &run.text)?;
        Self::submit_parsed(store, run, workflow)
    }

    /// As [`Coordinator::submit`], for those who have parsed the record's text already.
    pub fn submit_parsed(
        mut store: Store,
        run: RunRecord,
        workflow: Workflow,
    ) -> Result<Self, RunError> {
        workflow.require_steps()?;
        let plan = plan_as_asked(workflow, &run)?;
        let workflow = plan.name.clone();
        let mut schedule = Schedule::new(plan);
        schedule.submit_all();
        let uid = Some(store.access().creator());
        let (mut leader, facts, parent) = store.transact(|transaction| {
            let parent = nesting::parent(transaction)?;
            let run = RunRecord { id: transaction.runs().new_id()?, workflow, uid, ..run };
            declare(transaction, schedule.plan())?;
            transaction.runs().insert(&run)?;
            let leader = Leader::take_over(transaction, run)?.expect("nobody else knows it yet");
            let facts = leader.append(transaction, &mut schedule)?;
            #[cfg(windlass_faults)]
            Point::BeforeSubmit.reached();
            Ok((leader, facts, parent))
        })?;
        #[cfg(windlass_faults)]
        Point::AfterSubmit.committed();
        leader.attend(store.dir())?;
        parent.iter().for_each(|parent| nesting::note(store.dir(), &leader.run.id, parent));
        Self::new(store, schedule, leader, &facts)
    }

    /// Goes on with a run that was interrupted. `run` may be the beginning of its id.
    pub fn resume(store: Store, run: &str) -> Result<Self, RunError> {
        Self::take_over(store, run, Expected::Open).map(|(coordinator, _)| coordinator)
    }

    /// Has the steps of an ended run that failed or were cancelled tried again, with all that
    /// follows them: those that are named, or all. `run` may be the beginning of its id.
    pub fn retry(store: Store, run: &str, steps: &[String]) -> Result<Self, RunError> {
        let (mut coordinator, end) = Self::take_over(store, run, Expected::Over)?;
        let reopened = coordinator.reopen(steps);
        coordinator.or_give_up(reopened, end)
    }

    /// Ends a run that no process leads, or one of its steps, or all that a step of the file became.
    /// `run` may be the beginning of its id.
    pub fn cancel(store: Store, run: &str, step: Option<&str>) -> Result<Self, RunError> {
        let (mut coordinator, end) = Self::take_over(store, run, Expected::Open)?;
        let cancelled = coordinator.cancel_now(step);
        coordinator.or_give_up(cancelled, end)
    }

    /// What was asked for can be done, or the run is left as it was.
    fn or_give_up(
        mut self,
        asked: Result<(), RunError>,
        end: Option<RunEnd>,
    ) -> Result<Self, RunError> {
        match asked {
            Ok(()) => Ok(self),
            Err(refused) => {
                self.give_up(end)?;
                Err(refused)
            }
        }
    }

    /// Leads a run that is stored. How it has ended, if it has.
    fn take_over(
        mut store: Store,
        run: &str,
        expected: Expected,
    ) -> Result<(Self, Option<RunEnd>), RunError> {
        let run = store.run(run)?;
        users::expect_owner(&run.id, run.uid)?;
        let plan = plan_of(&run)?;
        let taken =
            store.transact(|transaction| Leader::succeed(transaction, run, &plan, expected))?;
        let (mut leader, end) = taken?;
        #[cfg(windlass_faults)]
        Point::AfterTakeOver.reached();
        leader.attend(store.dir())?;
        let what = "the processes of the interrupted run cannot be ended";
        let left = ProcessTree { mark: tree::mark(&leader.mark()), group: None };
        tree::end(&left).map_err(|source| RunError::Io { what, source })?;
        #[cfg(windlass_faults)]
        Point::AfterLeftovers.reached();
        complete_logs(&run_dir(store.dir(), &leader.run.id))?;
        let mut schedule = Schedule::new(plan);
        let facts = complete_journal(&mut store, &leader)?;
        schedule.replay(&facts);
        end.into_iter().for_each(|end| schedule.replay_end(end));
        let mut coordinator = Self::new(store, schedule, leader, &facts)?;
        coordinator.pick_up()?;
        Ok((coordinator, end))
    }

    /// Leads a run whose journal has these facts.
    fn new(
        mut store: Store,
        schedule: Schedule,
        leader: Leader,
        facts: &[Fact],
    ) -> Result<Self, RunError> {
        let logs = run_dir(store.dir(), &leader.run.id);
        // Opens what will have to be synced, while there is room for another open file.
        store.file_to_sync();
        let what = "the directory for logs cannot be made";
        Access::create_dir(&logs).map_err(|source| RunError::Io { what, source })?;
        let what = "processes cannot be waited for";
        let made = mailbox().and_then(|(tell, news)| {
            let processes = Processes::new(&leader.mark(), schedule.at_once(), &news)?;
            Ok((tell, news, processes))
        });
        let (tell, news, processes) = made.map_err(|source| RunError::Io { what, source })?;
        let signals = tell.clone();
        let signals = SignalWatch::start(move |signal| {
            // Nobody listens any more once the run has ended.
            let _ = signals.send(News::Signal(signal));
        });
        let what = "signals cannot be watched";
        let _signals = signals.map_err(|source| RunError::Io { what, source })?;
        // Steps that wait for others are called by them, from the beginning.
        let bells = match topics(schedule.plan()) {
            topics if topics == [Topic::Requests] => Bells::default(),
            topics => Bells::hang(&store, topics)?,
        };
        let events = match heeds_events(schedule.plan()) {
            true => {
                let mut reader = store.try_clone()?;
                let after = reader.last_event()?;
                Some(EventReader::new(reader, after, Vec::new()))
            }
            false => None,
        };
        Ok(Self {
            conditions: Conditions::new(tell.clone(), &leader.mark()),
            events,
            items: Items::of(schedule.plan()),
            keeper: Keeper::new(&logs, &schedule, JournalPosition::default().with(facts)),
            store,
            schedule,
            leader,
            logs,
            running: BTreeMap::new(),
            uncleaned: BTreeSet::new(),
            processes,
            waiting: room::Waiting::default(),
            news,
            tell,
            inbox: vec![News::Rang],
            whys: BTreeMap::new(),
            lost: BTreeSet::new(),
            explained: 0,
            notices: Vec::new(),
            refused: BTreeSet::new(),
            records: Vec::new(),
            due_finally: Vec::new(),
            hooks: Hooks::default(),
            ended: Vec::new(),
            _signals,
            began: Instant::now(),
            decided: Instant::now(),
            pulse: None,
            there_at: None,
            bells,
            stop: None,
            cancelled: false,
            closing: None,
        })
    }

    /// The run's id.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.leader.run.id
    }

    /// Returns what is known of the steps before the run goes on, in the order of the plan. A step has
    /// ended if its end was reported by an earlier leader; steps that end only now are reported by
    /// [`Coordinator::lead`].
    #[must_use]
    pub fn statuses(&self) -> Vec<StepStatus> {
        let (engine, ending) = (self.schedule.engine(), self.schedule.just_ended());
        let status = |work: WorkId| {
            let phase = engine.phase(work).filter(|_| !ending.contains(&work));
            StepStatus {
                state: phase.map_or(WorkState::Pending, Phase::state),
                skipped: phase == Some(Phase::Skipped),
                attempts: engine.attempts(work).unwrap_or_default(),
            }
        };
        (0..self.schedule.len()).map(WorkId::from_index).map(status).collect()
    }

    /// How many steps the run has.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.schedule.len()
    }

    /// What the run was made from.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        self.schedule.plan()
    }

    /// Leads the run until it ends or is interrupted; `watch` is told everything.
    pub fn lead(mut self, mut watch: impl FnMut(&Update<'_>)) -> Result<End, RunError> {
        let ended = self.lead_on(&mut watch).and_then(|over| match over {
            Over::Plain(end) => self.finish_at_once(end, &mut watch),
            Over::Closed(end) => self.finish(end, &mut watch),
        });
        ended.inspect_err(|_| self.tell_stored(&mut watch))
    }

    fn lead_on(&mut self, watch: &mut impl FnMut(&Update<'_>)) -> Result<Over, RunError> {
        loop {
            let news = self.take_in()?;
            let mut follow = self.act(news)?;
            loop {
                if let Some(end) = self.plain_end() {
                    return Ok(Over::Plain(end));
                }
                if !self.may_linger(&follow) {
                    self.make_known(std::mem::take(&mut follow), watch)?;
                    if let Some(end) = self.end()? {
                        return Ok(Over::Closed(end));
                    }
                }
                self.wait()?;
                self.try_waiting()?;
                self.kill_the_slow()?;
                self.end_late_hooks()?;
                if !self.inbox.is_empty() {
                    break;
                }
            }
        }
    }

    /// Tells what is stored and was not told, of a run that cannot go on.
    fn tell_stored(&mut self, watch: &mut impl FnMut(&Update<'_>)) {
        if !self.keeper.has_failed() && self.sync().is_ok() {
            self.show(watch);
        }
    }

    /// Stores what has happened, and starts what may start at once: what does not follow an end that
    /// may be lost with the power. Those that do are returned, ready to start.
    fn act(&mut self, news: Vec<News>) -> Result<Vec<Prepared>, RunError> {
        let starts = self.keep(news)?;
        let ended = self.schedule.just_ended();
        let follows = |start: &Start| self.follows(start, &ended);
        let (follow, free): (Vec<_>, Vec<_>) = starts.into_iter().partition(follows);
        if !follow.is_empty() {
            // While those are made ready.
            self.begin_sync();
        }
        free.into_iter().try_for_each(|start| self.start(start))?;
        Ok(follow.into_iter().filter_map(|start| self.prepare(start)).collect())
    }

    /// Syncs what was written, starts what has to follow that, and tells everybody.
    fn make_known(
        &mut self,
        follow: Vec<Prepared>,
        watch: &mut impl FnMut(&Update<'_>),
    ) -> Result<(), RunError> {
        let synced = if follow.is_empty() { self.sync() } else { self.sync_quickly() };
        synced?;
        follow.into_iter().try_for_each(|prepared| self.begin(prepared))?;
        let late = self.show(watch);
        late.into_iter().try_for_each(|work| self.ask_to_end(work))?;
        self.clean_up()
    }

    /// Everything that has happened since the last time, with what it leads to outside the engine.
    fn take_in(&mut self) -> Result<Vec<News>, RunError> {
        let now = self.schedule.now();
        let mut all = Vec::new();
        let mut rang = false;
        for news in std::mem::take(&mut self.inbox) {
            match news {
                News::Signal(signal) => self.heed_signal(signal)?,
                News::Rang => rang = true,
                News::Checked { work, round, result } => {
                    let guards = &self.schedule.plan().guards;
                    let told = self.conditions.checked(work, round, result, now, guards);
                    self.hear(told, &mut all);
                }
                News::Exited { job, ended } => {
                    all.push(News::Exited { job, ended: self.unless_lost(job, ended)? });
                }
                other => all.push(other),
            }
        }
        if rang || self.conditions.heeds_events() {
            self.read_events(now)?;
        }
        if rang {
            let wishes = self.requests()?;
            if wishes.iter().any(|wish| matches!(wish, requests::Wish::CancelAll { .. })) {
                self.end_hooks()?;
            }
            all.extend(wishes.into_iter().map(News::Request));
        }
        let told = self.conditions.look(now, &self.schedule.plan().guards);
        told.into_iter().for_each(|told| self.hear(Some(told), &mut all));
        Ok(all)
    }

    /// What happened to a condition: what is decided is news for the engine.
    fn hear(&mut self, told: Option<Told>, all: &mut Vec<News>) {
        match told {
            None => {}
            Some(Told::Concluded(work, side, conclusion)) => {
                all.push(News::Concluded(work, side, conclusion));
            }
            Some(Told::NotYet(work)) => self.note_wait(work, ""),
            Some(Told::Blocked(work, used_up)) => {
                self.note_wait(work, &format!("; it {used_up}, and is still checked"));
            }
            Some(Told::Escalated(work, used_up)) => self.escalate(work, used_up),
        }
    }

    fn read_events(&mut self, now: Timestamp) -> Result<(), RunError> {
        let Some(reader) = self.events.as_mut().filter(|_| self.conditions.heeds_events()) else {
            return Ok(());
        };
        while !reader.is_at_end()? {
            self.conditions.wake(&reader.read()?, now);
        }
        Ok(())
    }

    /// Whether an attempt follows the end of another that may be lost with the power. One that does
    /// not need not wait until the disk is sure of its start: no process survives a loss of power.
    fn follows(&self, start: &Start, ended: &BTreeSet<WorkId>) -> bool {
        let mut before = self.schedule.engine().dependencies(start.grant.work);
        before.any(|on| ended.contains(&on.work))
    }

    /// The attempt of a step that is under way, or the last one.
    fn latest(&self, work: WorkId) -> Grant {
        let attempt = self.schedule.engine().attempts(work).expect("it is one of its works");
        Grant { work, attempt }
    }
}

/// Adds what a killed leader has left beside the logs in `dir` to them.
fn complete_logs(dir: &Path) -> Result<(), RunError> {
    match log_file::complete_all_in(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        completed => completed.map_err(cannot_log),
    }
}

/// Whether events can make a guard of the plan worth another look.
fn heeds_events(plan: &Plan) -> bool {
    plan.guards.iter().any(|guard| !guard.wake_on.is_empty())
}

/// Whether a step needs names that all who use the store share.
fn needs_names(step: &Step) -> bool {
    !step.locks.is_empty() || !step.semaphores.is_empty()
}

#[cfg(test)]
mod tests;
