//! Waiting for the ends of runs and of steps, and for queues that have nothing left to do.
//!
//! The facts that are new are applied to a schedule of its own, so a wait costs what happens, not what is
//! stored. Reads only.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use windlass_core::WorkId;
use windlass_store::{RunEnd, RunRecord, Store, StoreError, Topic, Transaction};

use super::follow::{Unled, unled};
use crate::coordinator::{RunError, is_retry_pending, plan_of};
use crate::look::{LookError, RunView, StepState, find_run};
use crate::poll::poll;
use crate::queue::{change_of, step_of};
use crate::schedule::{RunHistory, Schedule};
use crate::signals::SignalPipe;

/// How often to look without a wake-up.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Something whose end can be waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Awaited {
    /// A run.
    Run(String),
    /// A queue, until nothing of it is queued or runs.
    Queue {
        /// Its name.
        name: String,
        /// The id of its run.
        run: String,
    },
    /// A step of a submitted run or of a queue.
    Step {
        /// The id of the run.
        run: String,
        /// The name of the step.
        step: String,
        /// The step.
        work: WorkId,
    },
}

/// How something has ended that was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AwaitedEnd {
    /// A run has ended like this.
    Run(RunEnd),
    /// A queue has nothing left to do.
    Idle,
    /// A step has ended.
    Step {
        /// Its state.
        state: StepState,
        /// The exit code of its last attempt, if there was one; above 128 if a signal has ended it.
        code: Option<i32>,
    },
}

/// Returns what `run` and `step` name: a run, a queue, a step, or the steps of a group.
pub fn awaited(store: &mut Store, run: &str, step: Option<&str>) -> Result<Vec<Awaited>, RunError> {
    let record = find_run(store, run)?;
    let Some(step) = step else {
        let queue = store.read(|transaction| transaction.queues().of_run(&record.id))?;
        return Ok(vec![match queue {
            Some(queue) => Awaited::Queue { name: queue.name, run: queue.run },
            None => Awaited::Run(record.id),
        }]);
    };
    if record.env.is_none() {
        return Err(RunError::NotServed { run: record.id });
    }
    let view = RunView::find(store, run)?;
    let of_place = |place: usize| Awaited::Step {
        run: view.run.id.clone(),
        step: view.steps[place].name.clone(),
        work: view.work(place),
    };
    Ok(view.places(step)?.into_iter().map(of_place).collect())
}

/// Waits until all of this has ended. Returns the ends, or the signal that came first. Calls `tell` once for
/// each run that is found without a leader.
pub fn await_ends(
    store: &mut Store,
    awaited: &[Awaited],
    tell: &mut dyn FnMut(&str, Unled),
) -> Result<Result<Vec<AwaitedEnd>, i32>, RunError> {
    let mut waits = KnownEnds { followed: BTreeMap::new(), ends: vec![None; awaited.len()] };
    // A store that can only be read cannot notify a process.
    if let Some(ends) = waits.look(store, awaited)? {
        return Ok(Ok(ends));
    }
    let what = "the ends of runs cannot be waited for";
    let io = |source| RunError::Io { what, source };
    let signals = SignalPipe::open().map_err(io)?;
    let wakeup = store.register(&Topic::Progress)?;
    let (mut told, mut sought) = (BTreeSet::new(), None::<Instant>);
    loop {
        wakeup.drain();
        if let Some(ends) = waits.look(store, awaited)? {
            return Ok(Ok(ends));
        }
        // A busy scheduler notifies this process hundreds of times per second.
        if sought.is_none_or(|sought| sought.elapsed() >= LOOK_AGAIN) {
            for run in awaited.iter().map(Awaited::run) {
                if let Some(unled) = store.read(|transaction| unled(transaction, run))?
                    && told.insert(run)
                {
                    tell(run, unled);
                }
            }
            sought = Some(Instant::now());
        }
        let sources: [&dyn AsFd; 2] = [&signals, &wakeup];
        if poll(&sources, Some(LOOK_AGAIN)).map_err(io)?[0] {
            return Ok(Err(signals.next().map_err(io)?));
        }
    }
}

/// What is known of the ends that are waited for.
struct KnownEnds {
    followed: BTreeMap<String, FollowedRun>,
    ends: Vec<Option<AwaitedEnd>>,
}

impl KnownEnds {
    /// Looks what has ended, and returns the ends once all of them are known.
    fn look(
        &mut self,
        store: &mut Store,
        awaited: &[Awaited],
    ) -> Result<Option<Vec<AwaitedEnd>>, RunError> {
        let Self { followed, ends } = self;
        for run in followed.values_mut() {
            run.catch_up(store)?;
        }
        for (wanted, end) in awaited.iter().zip(&mut *ends).filter(|(_, end)| end.is_none()) {
            *end = wanted.end(store, followed)?;
        }
        Ok(ends.iter().copied().collect())
    }
}

impl Awaited {
    /// Returns the id of the run that this is, or belongs to.
    fn run(&self) -> &str {
        let (Awaited::Run(id) | Awaited::Queue { run: id, .. } | Awaited::Step { run: id, .. }) =
            self;
        id
    }

    /// Returns how this has ended, if it has. Runs that have to be followed for that are added to
    /// `followed`.
    fn end(
        &self,
        store: &mut Store,
        followed: &mut BTreeMap<String, FollowedRun>,
    ) -> Result<Option<AwaitedEnd>, RunError> {
        let id = self.run();
        if let Awaited::Run(_) = self {
            let end = store.read(|transaction| Ok(transaction.runs().listing(id)?.end))?;
            return Ok(end.map(AwaitedEnd::Run));
        }
        if !followed.contains_key(id) {
            let record = store.run(id)?;
            followed.insert(id.to_owned(), FollowedRun::open(store, record)?);
        }
        let run = &followed[id];
        let Awaited::Step { step, work, .. } = self else {
            return Ok(run.is_idle().then_some(AwaitedEnd::Idle));
        };
        if run.is_forgotten(*work) {
            return Err(LookError::ForgottenStep { run: id.to_owned(), step: step.clone() }.into());
        }
        let Some(state) = run.end(*work) else { return Ok(None) };
        let code = store.read(|transaction| run.code(transaction, *work))?;
        Ok(Some(AwaitedEnd::Step { state, code }))
    }
}

/// A run whose steps are waited for.
struct FollowedRun {
    run: RunRecord,
    schedule: Schedule,
    /// How many facts have been applied, those that a base stands for included.
    seen: usize,
    /// Whether something of it is to be tried again, which no scheduler has taken in.
    is_retried: bool,
}

impl FollowedRun {
    fn open(store: &mut Store, run: RunRecord) -> Result<Self, RunError> {
        let mut schedule = Schedule::new(plan_of(&run)?);
        let (mut history, is_retried) = store.read(|transaction| {
            let history = RunHistory::read(transaction, &run.id)?;
            Ok((history, is_retry_pending(transaction, &run.id)?))
        })?;
        history.replay_journal(&mut schedule);
        Ok(Self { run, schedule, seen: history.seen(), is_retried })
    }

    /// Applies what is new.
    fn catch_up(&mut self, store: &mut Store) -> Result<(), RunError> {
        let (run, seen, last) = (&self.run.id, self.seen, self.schedule.last_added());
        let changed = self.schedule.last_change();
        let new = store.read(|transaction| {
            let base = transaction.queues().base(run)?;
            if base.is_some_and(|base| base.facts > seen) {
                return Ok(None);
            }
            let added = transaction.queues().steps_after(run, last)?;
            let added = added.iter().map(step_of).collect::<Result<Vec<_>, _>>()?;
            let changes = transaction.queues().changes_after(run, changed)?;
            let changes = changes.iter().map(change_of).collect::<Result<Vec<_>, _>>()?;
            let is_retried = is_retry_pending(transaction, run)?;
            Ok(Some((added, changes, transaction.facts().after(run, seen)?, is_retried)))
        })?;
        let Some((added, changes, facts, is_retried)) = new else {
            *self = Self::open(store, self.run.clone())?;
            return Ok(());
        };
        self.schedule.expect_added(added);
        self.schedule.expect_changes(changes);
        facts.iter().for_each(|fact| self.schedule.follow(fact));
        self.seen += facts.len();
        self.is_retried = is_retried;
        self.schedule.take_transitions();
        Ok(())
    }

    /// Returns whether nothing is queued or runs.
    fn is_idle(&self) -> bool {
        let is_done = self.schedule.engine().is_done() && !self.is_retried;
        is_done && self.schedule.last_added() == self.schedule.taken()
    }

    /// Returns how a step has ended; none if it has not, or may be tried again, or is forgotten.
    fn end(&self, work: WorkId) -> Option<StepState> {
        if self.is_retried {
            return None;
        }
        let state = StepState::of(self.schedule.engine().phase(work)?);
        state.is_end().then_some(state)
    }

    /// Returns whether a step has ended so long ago that it is forgotten.
    fn is_forgotten(&self, work: WorkId) -> bool {
        work.get() <= self.schedule.taken() && self.schedule.engine().phase(work).is_none()
    }

    /// Returns the exit code of the last attempt of a step that has ended, if there was one.
    fn code(&self, transaction: &Transaction<'_>, work: WorkId) -> Result<Option<i32>, StoreError> {
        let attempt = self.schedule.engine().attempts(work).unwrap_or_default();
        let record = transaction.steps().attempt(&self.run.id, work, attempt)?;
        Ok(record.and_then(|record| record.code.or(record.signal.map(|signal| 128 + signal))))
    }
}
