//! Leads one run: news in, one commit, then the acts that follow from it.
//!
//! | part | does | its test double |
//! |---|---|---|
//! | [`RunState`] | decides; pure | none needed |
//! | [`Journal`] | writes everything durable | `FakeJournal` |
//! | [`Attempts`] | executes orders and reports their ends | `FakeAttempts` |
//! | [`RunLoop`] | connects them | |
//!
//! The plan is stored before the run is announced. A resumed run first sees the processes of its last
//! leader gone and takes over its write-ahead log, then counts lost attempts as interrupted.
//!
//! [`Attempts`]: attempts::Attempts
//! [`Journal`]: journal::Journal

use std::io;
use std::path::Path;

use windlass_core::{Fact, Name, Phase, WorkId, WorkState};
use windlass_store::{Access, Process, RunEnd, RunRecord, Store, StoreError};
use windlass_workflow::{Plan, Step, Workflow};

#[cfg(windlass_faults)]
use crate::fault::{self, Point};
use crate::inherited::{Inherited, expect_no_password};
use crate::log_file;
use crate::nesting;
use crate::process_tag;
use crate::processes::ProcessSettings;
use crate::schedule::Schedule;
use crate::service::submitted_env;
use crate::tree;
use crate::users;

mod attached;
pub(crate) mod attempts;
mod error;
mod identity;
mod journal;
mod observer;
mod requests;
mod run_loop;
pub(crate) mod served;
mod state;
mod update;

pub use self::attached::{AttachedRun, FollowEnd};
use self::attempts::LocalAttempts;
pub use self::error::RunError;
pub(crate) use self::identity::run_of;
use self::journal::{Expected, Leader, StoreJournal, declare};
pub(crate) use self::journal::{LOOKED_AT, end_leftovers, expect_limits, read_wal};
pub use self::requests::{Ask, Pause, ask, ask_to_pause, ask_to_retry};
pub(crate) use self::requests::{announce_decision, forget_requests, is_retry_pending, send};
use self::run_loop::RunLoop;
use self::state::RunState;
pub use self::update::{Change, End, StepStatus, Update};

/// Leads one run to its end.
pub struct Coordinator {
    run: RunLoop<StoreJournal, LocalAttempts>,
}

/// How a run is before it is handed to a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundRun {
    /// It was interrupted.
    Open,
    /// It has ended, and will be retried.
    Ended,
}

/// Returns the plan of a run, as its user asked for it.
pub(crate) fn plan_of(run: &RunRecord) -> Result<Plan, RunError> {
    // No file is empty: only a queue has no text.
    if run.text.is_empty() {
        let mut plan = Plan::open(run.workflow.clone());
        plan.concurrency = run.jobs;
        return Ok(plan);
    }
    plan_as_asked(windlass_workflow::parse(&run.file, &run.text)?, run)
}

/// Returns the plan of a run whose text was parsed before.
pub(crate) fn plan_as_asked(workflow: Workflow, run: &RunRecord) -> Result<Plan, RunError> {
    let given = run.params.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let mut plan = workflow.into_plan(given)?.only(&run.steps)?;
    plan.concurrency = run.jobs.or(plan.concurrency);
    plan.priority = run.priority.unwrap_or(plan.priority);
    Ok(plan)
}

/// Refuses to store a run whose steps cannot be told where their outputs and the store are: variables and
/// orders are text.
pub(crate) fn require_text_path(store: &Store) -> Result<(), StoreError> {
    let dir = store.dir();
    let refused = || StoreError::PathNotUtf8 { dir: dir.to_owned() };
    dir.to_str().map(drop).ok_or_else(refused)
}

impl Coordinator {
    /// Stores a new run and leads it. The record's id is given to it here, and so is the
    /// workflow's name.
    pub fn submit(store: Store, run: RunRecord) -> Result<Self, RunError> {
        let workflow = windlass_workflow::parse(&run.file, &run.text)?;
        Self::submit_parsed(store, run, workflow)
    }

    /// Stores a new run and leads it, as [`Coordinator::submit`] does; `workflow` is the record's text,
    /// parsed.
    pub fn submit_parsed(
        mut store: Store,
        run: RunRecord,
        workflow: Workflow,
    ) -> Result<Self, RunError> {
        workflow.require_steps()?;
        require_text_path(&store)?;
        let plan = plan_as_asked(workflow, &run)?;
        let uid = Some(store.access().creator());
        let mut run = RunRecord { workflow: plan.name.clone(), uid, ..run };
        let mut schedule = Schedule::new(plan);
        schedule.submit_all();
        let process = this_process()?;
        let (mut leader, parent) = store.transact(|transaction| {
            let parent = nesting::parent(transaction)?;
            run.id = transaction.runs().new_id()?;
            declare(transaction, schedule.plan())?;
            expect_limits(transaction, schedule.plan())?;
            transaction.runs().insert(&run)?;
            transaction.runs().set_home(&run.id)?;
            let leader = Leader::claim(transaction, run.clone(), process.clone())?
                .expect("no other process knows it yet");
            #[cfg(windlass_faults)]
            fault::note_digest(schedule.engine().digest());
            leader.append(transaction, schedule.facts())?;
            #[cfg(windlass_faults)]
            Point::BeforeSubmit.reached();
            Ok((leader, parent))
        })?;
        let facts = schedule.take_facts();
        #[cfg(windlass_faults)]
        Point::AfterSubmit.committed();
        leader.attend(store.dir())?;
        parent.iter().for_each(|parent| nesting::note(store.dir(), leader.run_id(), parent));
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
        let reopened = coordinator.run.state_mut().reopen(steps);
        coordinator.or_give_up(reopened, end)
    }

    /// Ends a run that no process leads, or one of its steps, or all that a step of the file became.
    /// `run` may be the beginning of its id.
    pub fn cancel(store: Store, run: &str, step: Option<&str>) -> Result<Self, RunError> {
        let (mut coordinator, end) = Self::take_over(store, run, Expected::Open)?;
        let cancelled = coordinator.run.state_mut().cancel(step);
        coordinator.or_give_up(cancelled, end)
    }

    /// Hands a run that no process leads to the scheduler of the store; does nothing if that has it. Its
    /// commands are given the variables of this process that a submission takes along. `run` is the run's
    /// whole id. Refused if the run is not as `found` says.
    pub fn hand_over(store: &mut Store, run: &str, found: FoundRun) -> Result<(), RunError> {
        let record = store.run(run)?;
        users::expect_owner(&record.id, record.uid)?;
        let end = store.read(|transaction| transaction.runs().end(run))?;
        match (found, end) {
            (FoundRun::Open, Some(RunEnd { outcome, .. })) => {
                return Err(RunError::Over { run: record.id, outcome });
            }
            (FoundRun::Ended, None) => return Err(RunError::NotOver { run: record.id }),
            _ if record.env.is_some() => return Ok(()),
            (FoundRun::Ended, Some(_)) => {}
            // What the last leader has left is ended and stored first, as by a new leader.
            (FoundRun::Open, None) => {
                Self::take_over(store.try_clone()?, run, Expected::Open)?.0.run.hand_over()?;
                #[cfg(windlass_faults)]
                Point::AfterStepDown.reached();
            }
        }
        let env = submitted_env(std::env::vars_os(), &plan_of(&record)?.pass_env, &[])?;
        expect_no_password(store, &env)?;
        store.transact(|transaction| {
            let leases = transaction.leases().on(&Name::Run(run.to_owned()))?;
            let now = transaction.now();
            if let Some(leader) = leases.iter().find(|stored| !stored.is_over(now)) {
                let by = leader.lease.holder.clone();
                return Ok(Err(RunError::Led { run: run.to_owned(), by }));
            }
            transaction.runs().set_env(run, &env)?;
            transaction.orders().announce();
            Ok(Ok(()))
        })?
    }

    /// Leads the run if what was asked for can be done, or leaves it as it was.
    fn or_give_up(
        mut self,
        asked: Result<(), RunError>,
        end: Option<RunEnd>,
    ) -> Result<Self, RunError> {
        match asked {
            Ok(()) => Ok(self),
            Err(refused) => {
                self.run.abandon(end)?;
                Err(refused)
            }
        }
    }

    /// Leads a run that is stored. Returns how it has ended, if it has.
    fn take_over(
        mut store: Store,
        run: &str,
        expected: Expected,
    ) -> Result<(Self, Option<RunEnd>), RunError> {
        let run = store.run(run)?;
        users::expect_owner(&run.id, run.uid)?;
        if run.env.is_some() {
            return Err(RunError::Served { run: run.id });
        }
        let plan = plan_of(&run)?;
        let process = this_process()?;
        let taken = store.transact(|transaction| {
            if let Some(home) = transaction.runs().other_home(&run.id)? {
                return Ok(Err(RunError::Elsewhere { run: run.id.clone(), host: home.host }));
            }
            Leader::depose_of_other_boots(transaction, &run.id, &process)?;
            Leader::take_over(transaction, run.clone(), &plan, expected, process.clone())
        })?;
        let (mut leader, end) = taken?;
        #[cfg(windlass_faults)]
        Point::AfterTakeOver.reached();
        leader.attend(store.dir())?;
        let what = "the processes of the interrupted run cannot be ended";
        let left = process_tag::tree_of(&leader.tag());
        tree::kill(&left).map_err(|source| RunError::Io { what, source })?;
        #[cfg(windlass_faults)]
        Point::AfterLeftovers.reached();
        let identity = leader.identity(store.dir());
        complete_logs(identity.logs())?;
        let mut schedule = Schedule::new(plan);
        let (facts, attempts) = StoreJournal::replay(&mut store, &identity)?;
        schedule.replay(&facts);
        end.into_iter().for_each(|end| schedule.replay_end(end));
        let mut coordinator = Self::new(store, schedule, leader, &facts)?;
        coordinator.run.pick_up(&attempts)?;
        Ok((coordinator, end))
    }

    /// Leads a run whose journal has these facts.
    fn new(
        store: Store,
        schedule: Schedule,
        leader: Leader,
        facts: &[Fact],
    ) -> Result<Self, RunError> {
        let identity = leader.identity(store.dir());
        let what = "the directory for logs cannot be made";
        Access::create_dir(identity.logs()).map_err(|source| RunError::Io { what, source })?;
        let clock = schedule.clock().clone();
        let (tag, at_once) = (identity.tag(), schedule.at_once());
        let inherited = Inherited::without_password_of(&store)?;
        let journal = StoreJournal::new(store, leader, identity.clone(), &schedule, facts)?;
        let attempts = LocalAttempts::new(ProcessSettings { tag, at_once, inherited }, clock)?;
        Ok(Self { run: RunLoop::new(RunState::new(schedule, identity), journal, attempts) })
    }

    /// Returns the run's id.
    #[must_use]
    pub fn run_id(&self) -> &str {
        self.run.state().identity().id()
    }

    /// Returns the states of the steps when this process takes over, in the order of the plan. A step has
    /// ended if an earlier leader has reported its end; [`Coordinator::lead`] reports the others.
    #[must_use]
    pub fn statuses(&self) -> Vec<StepStatus> {
        statuses(self.run.state().schedule())
    }

    /// Returns how many steps the run has.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.run.state().schedule().len()
    }

    /// Returns the plan of the run.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        self.run.state().schedule().plan()
    }

    /// Leads the run until it ends or is interrupted; calls `watch` with everything that happens.
    pub fn lead(mut self, mut watch: impl FnMut(&Update<'_>)) -> Result<End, RunError> {
        self.run.run(&mut watch)
    }
}

/// Returns the process that leads a run in the foreground, which is this one.
fn this_process() -> Result<Process, RunError> {
    let what = "this process cannot be identified";
    Process::current().map_err(|source| RunError::Io { what, source })
}

/// Returns what is known of the steps of a run, in the order of the plan.
fn statuses(schedule: &Schedule) -> Vec<StepStatus> {
    let (engine, ending) = (schedule.engine(), schedule.just_ended());
    let status = |work: WorkId| {
        let phase = engine.phase(work).filter(|_| !ending.contains(&work));
        StepStatus {
            state: phase.map_or(WorkState::Pending, Phase::state),
            skipped: phase == Some(Phase::Skipped),
            attempts: engine.attempts(work).unwrap_or_default(),
        }
    };
    schedule.works().map(status).collect()
}

/// Completes the logs in `dir` with what a killed leader has left beside them.
fn complete_logs(dir: &Path) -> Result<(), RunError> {
    match log_file::complete_all_in(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        completed => {
            let what = "a log cannot be written";
            completed.map_err(|source| RunError::Io { what, source })
        }
    }
}

/// Returns whether events can wake a guard of the plan.
fn heeds_events(plan: &Plan) -> bool {
    plan.guards.iter().any(|guard| !guard.wake_on.is_empty())
}

/// Returns whether a step needs names that all users of the store share.
fn needs_names(step: &Step) -> bool {
    let needs = &step.needs;
    !needs.locks.is_empty() || !needs.semaphores.is_empty() || needs.limits().next().is_some()
}

#[cfg(test)]
mod tests;
