//! Following a run that a scheduler leads, from its journal: the same updates as the leader of a run in
//! the foreground gives.
//!
//! The facts that are new are applied to a schedule of its own, and what follows from them is shown. Why an
//! attempt ended is in its record. Reads only.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use windlass_core::{Ending, Fact, Grant, Happening, Phase, Transition, WorkId, WorkState};
use windlass_store::{
    AttemptEnd, AttemptRecord, GuardWait, RunOutcome, RunRecord, Store, StoreError, Topic,
    Transaction, Wakeup,
};
use windlass_workflow::Plan;

use super::observer::{LogPlace, Notice, Observer, SKIPPED_BY_WHEN};
use super::{End, RunError, StepStatus, Update, plan_of, statuses};
use crate::attempt::run_dir;
use crate::look::step_argument;
use crate::poll::poll;
use crate::schedule::Schedule;
use crate::signals::SignalPipe;

/// How often to look without a wake-up.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A run that a scheduler leads, as this process follows it.
pub struct AttachedRun {
    store: Store,
    run: RunRecord,
    logs: PathBuf,
    schedule: Schedule,
    observer: Observer,
    /// How many facts have been applied.
    seen: usize,
    /// The guards that steps wait for, as was shown.
    waits: BTreeMap<WorkId, GuardWait>,
    wakeup: Wakeup,
    signals: SignalPipe,
}

/// Why a run is followed no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FollowEnd {
    /// The run has ended.
    Over(End),
    /// A signal has come; the run goes on.
    Signal(i32),
}

/// What is new of a run.
struct New {
    facts: Vec<Fact>,
    records: Vec<AttemptRecord>,
    waits: Vec<GuardWait>,
    end: Option<RunOutcome>,
}

impl AttachedRun {
    /// Begins to follow a submitted run; `run` may be the beginning of its id.
    pub fn open(mut store: Store, run: &str) -> Result<Self, RunError> {
        let run = store.run(run)?;
        if run.env.is_none() {
            return Err(RunError::NotServed { run: run.id });
        }
        if let Some(queue) = store.read(|transaction| transaction.queues().of_run(&run.id))? {
            return Err(RunError::IsQueue { queue: queue.name });
        }
        let what = "the run cannot be followed";
        let signals = SignalPipe::open().map_err(|source| RunError::Io { what, source })?;
        let wakeup = store.register(&Topic::Progress)?;
        let mut schedule = Schedule::new(plan_of(&run)?);
        let facts = store.facts(&run.id)?;
        schedule.replay(&facts);
        let logs = run_dir(store.dir(), &run.id);
        let place = if store.logs().is_some() { LogPlace::Anywhere } else { LogPlace::Here };
        let (observer, waits, seen) = (Observer::new(place), BTreeMap::new(), facts.len());
        Ok(Self { store, run, logs, schedule, observer, seen, waits, wakeup, signals })
    }

    /// Returns the run's id.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.run.id
    }

    /// Returns the plan of the run.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        self.schedule.plan()
    }

    /// Returns what is known of the steps before they are followed, in the order of the plan. An attempt
    /// that is under way is shown from its beginning.
    #[must_use]
    pub fn statuses(&self) -> Vec<StepStatus> {
        let mut statuses = statuses(&self.schedule);
        for status in statuses.iter_mut().filter(|status| status.state == WorkState::Running) {
            status.attempts -= 1;
        }
        statuses
    }

    /// Calls `watch` with everything that happens, until the run ends or a signal comes.
    pub fn follow(mut self, mut watch: impl FnMut(&Update<'_>)) -> Result<FollowEnd, RunError> {
        self.show_present(&mut watch);
        loop {
            self.wakeup.drain();
            let (run, seen) = (self.run.id.clone(), self.seen);
            let new = self.store.read(|transaction| New::read(transaction, &run, seen))?;
            let end = new.end;
            self.show(new, &mut watch);
            if let Some(outcome) = end {
                return Ok(FollowEnd::Over(outcome.into()));
            }
            let what = "the run cannot be followed";
            let sources: [&dyn AsFd; 2] = [&self.signals, &self.wakeup];
            let ready = poll(&sources, Some(LOOK_AGAIN));
            if ready.map_err(|source| RunError::Io { what, source })?[0] {
                let signal = self.signals.next();
                return Ok(FollowEnd::Signal(
                    signal.map_err(|source| RunError::Io { what, source })?,
                ));
            }
        }
    }

    /// Shows the attempts that are under way already.
    fn show_present(&mut self, watch: &mut dyn FnMut(&Update<'_>)) {
        let running = self.schedule.works_in(|phase| phase.state() == WorkState::Running);
        let changes = running.into_iter().map(|work| Transition {
            at: self.schedule.began_attempt(work),
            work,
            attempt: self.schedule.engine().attempts(work).unwrap_or_default(),
            from: Some(WorkState::Pending),
            to: self.schedule.engine().phase(work).unwrap_or(Phase::Running),
        });
        let changes: Vec<_> = changes.collect();
        self.observer.show(&mut self.schedule, &self.logs, &changes, |_| false, watch);
    }

    fn show(&mut self, new: New, watch: &mut dyn FnMut(&Update<'_>)) {
        let Self { schedule, observer, logs, waits, run, .. } = self;
        self.seen += new.facts.len();
        for record in new.records {
            let why = record.why.or_else(|| match (record.code, record.signal) {
                (Some(code), _) if code != 0 => Some(format!("exit code {code}")),
                (_, Some(signal)) => Some(format!("ended by signal {signal}")),
                _ => None,
            });
            let grant = Grant { work: record.work, attempt: record.attempt };
            if let Some(why) = why {
                if record.end == AttemptEnd::Failed && why.starts_with("finally: ") {
                    observer.note_failed_finally(grant);
                }
                observer.note_reason(grant.work, grant.attempt, why);
            }
        }
        for fact in &new.facts {
            match fact.what {
                Happening::Ended { work, attempt, ending: Ending::Interrupted } => {
                    observer.note_lost(Grant { work, attempt });
                }
                Happening::GateSkipped { work } => {
                    let attempt = schedule.engine().attempts(work).unwrap_or_default();
                    observer.note_reason(work, attempt, SKIPPED_BY_WHEN.to_owned());
                }
                _ => {}
            }
            schedule.follow(fact);
        }
        let now: BTreeMap<_, _> = new.waits.into_iter().map(|wait| (wait.work, wait)).collect();
        for (work, wait) in &now {
            let is_new = waits.get(work).is_none_or(|before| {
                (&before.guard, before.escalated) != (&wait.guard, wait.escalated)
            });
            if is_new {
                let said = wait.last_result.as_deref().map(|said| format!(": {said}"));
                let target = step_argument(&run.id, &schedule.step(*work).name);
                let decide = format!("\nto decide it now: windlass approve {target}");
                let said = said.unwrap_or_default();
                observer
                    .notice(Notice::Waits(*work, format!("guard {}{said}{decide}", wait.guard)));
            }
        }
        *waits = now;
        observer.note_pauses(schedule, &run.id);
        let changes = schedule.take_transitions();
        observer.show(schedule, logs, &changes, |work| waits.contains_key(&work), watch);
    }
}

impl New {
    fn read(transaction: &Transaction<'_>, run: &str, seen: usize) -> Result<Self, StoreError> {
        let facts = transaction.facts().after(run, seen)?;
        let ended = facts.iter().filter_map(|fact| match fact.what {
            Happening::Ended { work, attempt, .. } => Some((work, attempt)),
            // Why a step ended between its attempts is recorded as attempt 0.
            Happening::GateRejected { work }
            | Happening::GateSkipped { work }
            | Happening::CancelAsked { work } => Some((work, 0)),
            _ => None,
        });
        let mut records = Vec::new();
        for (work, attempt) in ended {
            records.extend(transaction.steps().attempt(run, work, attempt)?);
        }
        let waits = transaction.steps().guard_waits(run)?;
        let end = transaction.runs().listing(run)?.end.map(|end| end.outcome);
        Ok(Self { facts, records, waits, end })
    }
}

impl From<RunOutcome> for End {
    fn from(outcome: RunOutcome) -> Self {
        match outcome {
            RunOutcome::Succeeded => End::Succeeded,
            RunOutcome::TooLate => End::TooLate,
            RunOutcome::Cancelled => End::Cancelled,
            _ => End::Failed,
        }
    }
}
