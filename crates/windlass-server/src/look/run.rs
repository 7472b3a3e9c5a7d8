//! One run: its state, its steps and their attempts.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use windlass_core::{Ending, Fact, Grant, Happening, Name, Phase, WorkId, WorkState};
use windlass_store::{
    AttemptEnd, AttemptRecord, ClockReading, GuardWait, Process, RunEnd, RunListing, RunOutcome,
    RunRecord, Store, StoreError, StoredLease, Transaction, WalSnapshot,
};

use super::find::found;
use super::guarded::GuardTimes;
use super::{AttemptView, LookError, StepState, StepView};
use windlass_workflow::StepDependency;

use crate::attempt::{log_path, run_dir};
use crate::clock::{Clock, millis};
use crate::coordinator::{plan_of, read_wal};
use crate::schedule::{RunHistory, Schedule, SharedCapacity};
use crate::service::placement::{Placement, Slots};

/// A run, as it was at one moment.
#[non_exhaustive]
pub struct RunView {
    /// As it was submitted.
    pub run: RunRecord,
    /// The name of its workflow.
    pub workflow: String,
    /// When it was submitted.
    pub created_ms: i64,
    /// Its state.
    pub state: RunState,
    /// Its steps, each behind those it waits for.
    pub steps: Vec<StepView>,
    /// The moment at which it was read.
    pub now_ms: i64,
    /// Where its logs are.
    pub logs: PathBuf,
    /// The name of the queue that it is, if it is one.
    pub queue: Option<String>,
    pub(super) schedule: Schedule,
    /// The works of the steps, in order.
    pub(super) works: Vec<WorkId>,
    pub(super) waits: Vec<GuardWait>,
    /// The slots of the workers, for a run that was submitted to a service.
    pub(super) slots: Option<Slots>,
    /// Whether its logs may be on other machines.
    may_be_elsewhere: bool,
}

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunState {
    /// A process leads it.
    UnderWay {
        /// That process.
        pid: Option<u32>,
    },
    /// A process leads it, and starts nothing: a user has paused it.
    Paused {
        /// That process.
        pid: Option<u32>,
    },
    /// It was submitted to a service, and no scheduler leads it now; its steps continue.
    Queued {
        /// The process of the scheduler that is running, and has not taken the run so far.
        scheduler: Option<u32>,
    },
    /// No process leads it, and its end is not stored; it can be resumed.
    Interrupted,
    /// It has ended.
    Ended(RunEnd),
}

impl RunState {
    /// Returns the state as a word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            RunState::UnderWay { .. } => "running",
            RunState::Paused { .. } => "paused",
            RunState::Queued { .. } => "queued",
            RunState::Interrupted => "interrupted",
            RunState::Ended(end) => end.outcome.word(),
        }
    }

    /// Returns whether a process leads it, or a scheduler will.
    #[must_use]
    pub fn goes_on(self) -> bool {
        matches!(
            self,
            RunState::UnderWay { .. } | RunState::Paused { .. } | RunState::Queued { .. }
        )
    }

    /// Returns how it ended, if it has.
    #[must_use]
    pub fn end(self) -> Option<RunEnd> {
        match self {
            RunState::Ended(end) => Some(end),
            _ => None,
        }
    }
}

impl RunView {
    /// Returns the run that `text` names: the beginning of its id, or `last` for the newest that no step of
    /// another run has started.
    pub fn find(store: &mut Store, text: &str) -> Result<Self, LookError> {
        let dir = store.dir().to_owned();
        let run = store.read(|transaction| found(transaction, &dir, text))??;
        let wal = wal_of(store, &run.id);
        let seen = store.read(|transaction| Seen::of(transaction, run.clone(), &wal))?;
        Self::of(seen, &dir)
    }

    /// Returns a submitted run as a transaction sees it.
    pub(crate) fn of_submitted(
        transaction: &Transaction<'_>,
        run: RunRecord,
        dir: &Path,
    ) -> Result<Result<Self, LookError>, StoreError> {
        Ok(Self::of(Seen::of(transaction, run, &WalSnapshot::default())?, dir))
    }

    /// Returns what verbs take for the run: the name of its queue, or its id.
    #[must_use]
    pub fn target(&self) -> &str {
        self.queue.as_deref().unwrap_or(&self.run.id)
    }

    /// Returns a number that stands for the state to which the journal leads. All replays of one journal have the
    /// same, so a test or a backup can compare them.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.schedule.engine().digest()
    }

    /// Returns the places of the steps of a queue that have not begun, in the order in which they start if
    /// nothing else keeps them from it.
    #[must_use]
    pub fn unbegun(&self) -> Vec<usize> {
        let is_unbegun = |place: &usize| {
            let step = &self.steps[*place];
            let waits = matches!(step.state, StepState::Waiting | StepState::Paused);
            waits && step.attempts.is_empty()
        };
        let mut unbegun: Vec<_> = (0..self.steps.len()).filter(is_unbegun).collect();
        unbegun.sort_by_key(|place| {
            let work = self.work(*place);
            (Reverse(self.schedule.step(work).priority), self.schedule.engine().seq(work), work)
        });
        unbegun
    }

    /// Returns the step that has not begun and that no other one is in front of.
    pub(crate) fn first_unbegun(&self) -> Option<WorkId> {
        let works = self.unbegun().into_iter().map(|place| self.work(place));
        works.min_by_key(|work| self.schedule.engine().seq(*work))
    }

    pub(super) fn of(seen: Seen, dir: &Path) -> Result<Self, LookError> {
        let Seen { run, listing, queue, mut history, attempts, waits, .. } = seen;
        let Seen { leader, scheduler, heard_ms, workers, now_ms, .. } = seen;
        let logs = run_dir(dir, &run.id);
        let unreadable = |source| LookError::Plan { run: run.id.clone(), source: Box::new(source) };
        let plan = plan_of(&run).map_err(unreadable)?;
        let workflow = plan.name.clone();
        let mut schedule = match &workers {
            Some((capacity, _)) => Schedule::sharing(plan, Clock::start(), capacity),
            None => Schedule::new(plan),
        };
        history.replay(&mut schedule);
        let facts = [history.begun_before(), history.facts].concat();
        let works: Vec<_> = schedule.works().collect();
        listing.end.into_iter().for_each(|end| schedule.replay_end(end));
        let state = match state_of(&run, &listing, leader.as_ref(), scheduler) {
            RunState::UnderWay { pid } if schedule.engine().all_paused_since().is_some() => {
                RunState::Paused { pid }
            }
            state => state,
        };
        let journal = Journal { logs: &logs, schedule: &schedule, works: &works, state, heard_ms };
        let mut steps = journal.steps(&facts, attempts);
        GuardTimes::of(&facts, listing.created_ms, now_ms).tell(&schedule, &works, &mut steps);
        Ok(Self {
            run,
            workflow,
            created_ms: listing.created_ms,
            state,
            steps,
            now_ms,
            logs,
            queue,
            schedule,
            works,
            waits,
            slots: workers.map(|(_, slots)| slots),
            may_be_elsewhere: seen.may_be_elsewhere,
        })
    }

    /// Returns the steps that wait for guards, each with the guard that has not passed.
    #[must_use]
    pub fn guarded(&self) -> Vec<(&str, &str)> {
        let step = |wait: &GuardWait| Some(&self.steps[self.place(wait.work)?]);
        let waits = self.waits.iter();
        waits.filter_map(|wait| Some((step(wait)?.name.as_str(), wait.guard.as_str()))).collect()
    }

    /// Returns the work of the step at `place`.
    pub(crate) fn work(&self, place: usize) -> WorkId {
        self.works[place]
    }

    /// Returns the place of a step, unless it is forgotten.
    pub(super) fn place(&self, work: WorkId) -> Option<usize> {
        self.works.binary_search(&work).ok()
    }

    /// Returns the command of the step at `place`, as its user wrote it.
    #[must_use]
    pub fn command(&self, place: usize) -> String {
        self.schedule.step(self.work(place)).execution.run.to_string()
    }

    /// Returns the path of an attempt's log, unless that is on another machine.
    #[must_use]
    pub fn log_here<'a>(&self, attempt: &'a AttemptView) -> Option<&'a Path> {
        let log = Some(attempt.log.as_path());
        log.filter(|log| !self.may_be_elsewhere || log.exists())
    }

    /// Returns how many steps may run at once, if the run limits that.
    #[must_use]
    pub fn limit(&self) -> Option<u32> {
        self.schedule.plan().concurrency
    }

    /// Returns the guards that the step at `place` has to pass, before it runs and before its end counts.
    #[must_use]
    pub fn guards(&self, place: usize) -> Vec<&str> {
        let plan = self.schedule.plan();
        let step = self.schedule.step(self.work(place));
        step.gate
            .guards
            .iter()
            .chain(&step.ending.ensures)
            .map(|guard| plan.guards[*guard].name.as_str())
            .collect()
    }

    /// Returns the hook that runs after the last step and before the end of the run, as its log is called:
    /// `on.success` or `on.failure`.
    #[must_use]
    pub fn end_hook(&self) -> Option<&'static str> {
        let is_last = matches!(self.state, RunState::UnderWay { .. } | RunState::Paused { .. })
            && self.done() == self.steps.len();
        let hooks = &self.schedule.plan().hooks;
        let (hook, name) = match self.schedule.outcome() {
            RunOutcome::Succeeded => (&hooks.success, "on.success"),
            RunOutcome::Failed | RunOutcome::TooLate => (&hooks.failure, "on.failure"),
            _ => return None,
        };
        (is_last && hook.is_some()).then_some(name)
    }

    /// Returns how many steps have ended.
    #[must_use]
    pub fn done(&self) -> usize {
        self.steps.iter().filter(|step| step.state.is_end()).count()
    }

    /// Returns when its first attempt began, and when its last ended, or now if it has not.
    #[must_use]
    pub fn ended_ms(&self) -> Option<i64> {
        match self.state {
            RunState::Ended(end) => Some(end.at_ms),
            RunState::UnderWay { .. } | RunState::Paused { .. } | RunState::Queued { .. } => None,
            RunState::Interrupted => {
                let attempts = self.steps.iter().flat_map(|step| &step.attempts);
                attempts.map(|attempt| attempt.ended_ms.unwrap_or(attempt.started_ms)).max()
            }
        }
    }
}

/// Everything that is read of a run in one transaction.
pub(super) struct Seen {
    pub(super) run: RunRecord,
    pub(super) listing: RunListing,
    queue: Option<String>,
    history: RunHistory,
    attempts: Vec<AttemptRecord>,
    waits: Vec<GuardWait>,
    leader: Option<StoredLease>,
    /// The process that schedules the submitted runs.
    scheduler: Option<u32>,
    /// When its last leader sent its last heartbeat, if that was since the boot.
    heard_ms: Option<i64>,
    /// The workers, for a run that was submitted to a service.
    workers: Option<(SharedCapacity, Slots)>,
    now_ms: i64,
    may_be_elsewhere: bool,
}

impl Seen {
    /// Reads a run; `wal` was read before.
    pub(super) fn of(
        transaction: &Transaction<'_>,
        run: RunRecord,
        wal: &WalSnapshot,
    ) -> Result<Self, StoreError> {
        let listing = transaction.runs().listing(&run.id)?;
        let mut history = RunHistory::read(transaction, &run.id)?;
        let mut attempts = transaction.steps().attempts(&run.id)?;
        let more = wal.after(&history.facts);
        history.facts.extend(more.facts);
        attempts.extend(more.attempts);
        Ok(Self {
            listing,
            queue: transaction.queues().of_run(&run.id)?.map(|queue| queue.name),
            history,
            attempts,
            waits: transaction.steps().guard_waits(&run.id)?,
            leader: leader_of(transaction, &run.id)?,
            scheduler: live_holder(transaction, &Name::Scheduler)?.map(|process| process.pid),
            heard_ms: heard_ms(transaction, &run.id)?,
            workers: match run.env {
                Some(_) => Some(Placement::seen_by(transaction, &run.id)?),
                None => None,
            },
            now_ms: transaction.now().wall_ms,
            may_be_elsewhere: transaction.now().frame.is_shared(),
            run,
        })
    }
}

/// Returns the write-ahead log of a run; nothing if it cannot be read, which the next leader reports.
pub(super) fn wal_of(store: &Store, run: &str) -> WalSnapshot {
    read_wal(&run_dir(store.dir(), run)).unwrap_or_default()
}

/// Returns the lease of the leader of a run, if its process is alive.
pub(crate) fn leader_of(
    transaction: &Transaction<'_>,
    run: &str,
) -> Result<Option<StoredLease>, StoreError> {
    let leases = transaction.leases().on(&Name::Run(run.to_owned()))?;
    Ok(leases.into_iter().find(|lease| is_live(lease, transaction.now())))
}

/// Returns the process that holds a name, if it is alive, though perhaps without heartbeats.
pub(crate) fn live_holder(
    transaction: &Transaction<'_>,
    name: &Name,
) -> Result<Option<Process>, StoreError> {
    let held = transaction.leases().on(name)?.into_iter();
    let mut alive = held.filter(|stored| !stored.is_over(transaction.now()));
    Ok(alive.find_map(|stored| stored.owner.process))
}

/// Returns when the leader of a run sent its last heartbeat, on the wall clock.
fn heard_ms(transaction: &Transaction<'_>, run: &str) -> Result<Option<i64>, StoreError> {
    let moment = transaction.now();
    let leases = transaction.leases().on(&Name::Run(run.to_owned()))?;
    let heard =
        leases.iter().filter(|stored| stored.owner.frame == moment.frame.id()).map(|stored| {
            let ago = moment.at.since(stored.lease.last_heartbeat).as_millis();
            moment.wall_ms.saturating_sub(i64::try_from(ago).unwrap_or(i64::MAX))
        });
    Ok(heard.max())
}

/// Returns whether the holder of a lease may still be alive.
pub(super) fn is_live(stored: &StoredLease, moment: &ClockReading) -> bool {
    !stored.is_over(moment) && !stored.lease.is_stale(moment.at)
}

/// Returns the state of a run. Its end is stored after its hooks have ended, so a run whose leader was killed
/// before that was interrupted, though all its steps may have ended.
fn state_of(
    run: &RunRecord,
    listing: &RunListing,
    leader: Option<&StoredLease>,
    scheduler: Option<u32>,
) -> RunState {
    match (listing.end, leader) {
        (Some(end), _) => RunState::Ended(end),
        (None, Some(leader)) => {
            RunState::UnderWay { pid: leader.owner.process.as_ref().map(|own| own.pid) }
        }
        (None, None) if run.env.is_some() => RunState::Queued { scheduler },
        (None, None) => RunState::Interrupted,
    }
}

/// Reads the steps of a run out of its journal.
struct Journal<'a> {
    logs: &'a PathBuf,
    schedule: &'a Schedule,
    /// The works of the steps, in order.
    works: &'a [WorkId],
    state: RunState,
    heard_ms: Option<i64>,
}

impl Journal<'_> {
    fn steps(&self, facts: &[Fact], records: Vec<AttemptRecord>) -> Vec<StepView> {
        let mut attempts = self.attempts(facts);
        let mut unbegun = BTreeMap::new();
        let is_known = |record: &AttemptRecord| self.schedule.known_step(record.work).is_some();
        for record in records.into_iter().filter(is_known) {
            let (work, mut view) = (record.work, self.recorded(record));
            if view.number == 0 {
                unbegun.insert(work, view);
                continue;
            }
            if view.end == Some(AttemptEnd::Ensuring) && !self.state.goes_on() {
                // It was interrupted as it was checked.
                continue;
            }
            let own = attempts.entry(work).or_default();
            if let Some(told) = own.remove(&view.number) {
                view.worker = told.worker;
                if told.end == Some(AttemptEnd::Retry) {
                    // The run was interrupted between this attempt and the next one.
                    view.end = told.end;
                }
            }
            own.insert(view.number, view);
        }
        let works = self.works.iter();
        works
            .map(|&work| {
                let own = attempts.remove(&work).unwrap_or_default().into_values().collect();
                self.step(work, own, unbegun.remove(&work))
            })
            .collect()
    }

    fn step(
        &self,
        work: WorkId,
        attempts: Vec<AttemptView>,
        unbegun: Option<AttemptView>,
    ) -> StepView {
        let step = self.schedule.step(work);
        let phase = self.schedule.engine().phase(work);
        let state = phase.map_or(StepState::Waiting, StepState::of);
        let is_under_way = phase.map(Phase::state) == Some(WorkState::Running);
        let state = match state {
            _ if is_under_way && !self.state.goes_on() => StepState::Interrupted,
            state => state,
        };
        let last = attempts.last().map(|last| last.started_ms);
        StepView {
            name: step.name.clone(),
            declared: step.declared.clone(),
            state,
            attempts,
            most_attempts: self.schedule.most_attempts(work),
            after: step.after.iter().filter_map(|edge| self.edge(edge)).collect(),
            guarded_ms: None,
            unbegun: unbegun.filter(|unbegun| is_latest(unbegun, state, last)),
        }
    }

    /// Returns an edge with the place of its step, unless that is forgotten.
    fn edge(&self, edge: &StepDependency) -> Option<StepDependency> {
        let step = self.works.binary_search(&WorkId::from_index(edge.step)).ok()?;
        Some(StepDependency { step, ..*edge })
    }

    /// Returns the attempts that the journal has: when they began and ended, and how.
    fn attempts(&self, facts: &[Fact]) -> BTreeMap<WorkId, BTreeMap<u32, AttemptView>> {
        let mut attempts: BTreeMap<WorkId, BTreeMap<u32, AttemptView>> = BTreeMap::new();
        for fact in facts {
            match fact.what {
                Happening::Started { work, attempt, worker } => {
                    if self.schedule.known_step(work).is_none() {
                        continue;
                    }
                    let grant = Grant { work, attempt };
                    let worker = worker.and_then(|at| self.schedule.engine().worker_name(at));
                    let worker = worker.map(str::to_owned);
                    let view = AttemptView { worker, ..self.begun(grant, millis(fact.at)) };
                    attempts.entry(work).or_default().insert(attempt, view);
                }
                Happening::Ended { work, attempt, ending } => {
                    let view = attempts.get_mut(&work).and_then(|own| own.get_mut(&attempt));
                    if let Some(view) = view {
                        view.ended_ms = Some(millis(fact.at));
                        view.end = Some(end_of(ending));
                    }
                }
                _ => {}
            }
        }
        if !self.state.goes_on() {
            // Their ends are unknown; they ran when the leader sent its last heartbeat.
            let last = facts.last().map(|last| millis(last.at)).max(self.heard_ms);
            let all = attempts.values_mut().flat_map(BTreeMap::values_mut);
            for view in all.filter(|view| view.end.is_none()) {
                (view.end, view.ended_ms) = (Some(AttemptEnd::Interrupted), last);
            }
        }
        attempts
    }

    fn begun(&self, grant: Grant, started_ms: i64) -> AttemptView {
        AttemptView {
            work: grant.work,
            number: grant.attempt,
            started_ms,
            ended_ms: None,
            end: None,
            code: None,
            signal: None,
            why: None,
            peak_kib: None,
            cpu_ms: None,
            worker: None,
            log: log_path(self.logs, grant, &self.schedule.step(grant.work).name),
        }
    }

    fn recorded(&self, record: AttemptRecord) -> AttemptView {
        let grant = Grant { work: record.work, attempt: record.attempt };
        AttemptView {
            ended_ms: Some(record.ended_ms),
            end: Some(record.end),
            code: record.code,
            signal: record.signal,
            why: record.why,
            peak_kib: record.peak_kib,
            cpu_ms: record.cpu_ms,
            ..self.begun(grant, record.started_ms)
        }
    }
}

/// Returns whether a step has ended between its attempts, as recorded, and was not tried again since: its
/// last attempt began before.
fn is_latest(unbegun: &AttemptView, state: StepState, last: Option<i64>) -> bool {
    let as_told = match unbegun.end {
        Some(AttemptEnd::Cancelled) => state == StepState::Cancelled,
        _ => state == StepState::Failed,
    };
    as_told && last <= unbegun.ended_ms
}

fn end_of(ending: Ending) -> AttemptEnd {
    match ending {
        Ending::Success => AttemptEnd::Success,
        Ending::Retry { .. } => AttemptEnd::Retry,
        Ending::Cancelled => AttemptEnd::Cancelled,
        Ending::Interrupted => AttemptEnd::Interrupted,
        _ => AttemptEnd::Failed,
    }
}
