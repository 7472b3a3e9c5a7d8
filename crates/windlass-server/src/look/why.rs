//! Explains why steps do not run: every reason, with the holders, since when, and until when.

use windlass_core::EdgeKind;
use windlass_core::{Amount, Name, WorkerKind};
use windlass_store::Store;

use super::cause::{causes, skipped};
use super::expected::Forecast;
use super::find::found;
use super::reason::{Names, reasons};
use super::run::{Seen, wal_of};
use super::turn::tell_habits;
use super::{Estimate, Expectations, Expected, LookError, RunState, RunView, StepState, StepView};

/// Why steps of a run wait, were skipped, or will not run.
#[non_exhaustive]
pub struct Explanation {
    /// The run, as it was at that moment.
    pub view: RunView,
    /// The steps that were asked about, in the order of [`RunView::steps`].
    pub steps: Vec<StepExplanation>,
    forecast: Forecast,
}

/// Why one step waits, was skipped, or will not run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepExplanation {
    /// The step's place in [`RunView::steps`].
    pub place: usize,
    /// Why it does not run; empty if it runs or has ended.
    pub reasons: Vec<WaitReason>,
    /// The steps that are to blame if it is blocked.
    pub causes: Vec<Cause>,
    /// Why it was skipped, if it was.
    pub skipped: Option<Skipped>,
    /// How long it usually takes.
    pub expected: Option<Expected>,
}

impl Explanation {
    /// Explains the step called `step` of the run that `run` names, or all steps that a step of
    /// that name became through its `each`.
    pub fn of_step(store: &mut Store, run: &str, step: &str) -> Result<Self, LookError> {
        Self::read(store, run, |view| view.places(step))
    }

    /// Explains all steps that wait in the run that `run` names; if it has ended, all that failed
    /// or were cancelled.
    pub fn of_run(store: &mut Store, run: &str) -> Result<Self, LookError> {
        Self::read(store, run, |view| Ok(view.unsettled()))
    }

    /// Explains the first `most` of the steps that wait in the run that `run` names.
    pub fn of_first(store: &mut Store, run: &str, most: usize) -> Result<Self, LookError> {
        Self::read(store, run, |view| Ok(view.unsettled().into_iter().take(most).collect()))
    }

    fn read(
        store: &mut Store,
        run: &str,
        choose: impl FnOnce(&RunView) -> Result<Vec<usize>, LookError>,
    ) -> Result<Self, LookError> {
        let dir = store.dir().to_owned();
        let run = store.read(|transaction| found(transaction, &dir, run))??;
        let wal = wal_of(store, &run.id);
        let (seen, names) = store.read(|transaction| {
            let names = Names::read(transaction)?;
            Ok((Seen::of(transaction, run.clone(), &wal)?, names))
        })?;
        let mut view = RunView::of(seen, &dir)?;
        let places = choose(&view)?;
        let expectations = Expectations::of(store, &view.workflow, &view.run.id)?;
        let mut found = reasons(&names, &mut view, &places);
        tell_habits(store, found.iter_mut().flatten())?;
        let explained = places.into_iter().zip(found).map(|(place, reasons)| StepExplanation {
            place,
            causes: causes(&view.steps, place),
            skipped: skipped(&view.steps, place),
            expected: expectations.step(&view.steps[place].name),
            reasons,
        });
        let steps = explained.collect();
        let forecast = Forecast::of(&view.steps, view.now_ms, &expectations);
        Ok(Self { view, steps, forecast })
    }

    /// Returns when a step may start, according to earlier runs.
    #[must_use]
    pub fn estimate(&self, step: &StepExplanation) -> Option<Estimate> {
        if step.reasons.is_empty() {
            return None;
        }
        let RunView { steps, now_ms, .. } = &self.view;
        let estimate = self.forecast.estimate(steps, *now_ms, step.place);
        estimate.or_else(|| Estimate::of_turn(&step.reasons, *now_ms))
    }
}

impl RunView {
    /// Returns the places of the steps that wait, or of those that failed or were cancelled if the run has
    /// ended. A running step waits if a guard holds up its end.
    fn unsettled(&self) -> Vec<usize> {
        use StepState::{Cancelled, Failed, Interrupted, Paused, Retrying, Running, Waiting};
        let guarded = self.guarded();
        let is_wanted = |step: &StepView| match (self.state, step.state) {
            (RunState::Ended(_), state) => matches!(state, Failed | Cancelled),
            (_, Running) => guarded.iter().any(|(name, _)| *name == step.name),
            (_, state) => matches!(state, Waiting | Paused | Retrying { .. } | Interrupted),
        };
        let steps = self.steps.iter().enumerate();
        steps.filter(|(_, step)| is_wanted(step)).map(|(place, _)| place).collect()
    }
}

/// Why a step was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Skipped {
    /// It was only for the failure of a step that did not fail.
    NoFailure {
        /// The place of that step in [`RunView::steps`].
        place: usize,
    },
    /// Its `when` said so.
    When,
}

/// One reason why a step does not start.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitReason {
    /// The run is interrupted: no process leads it.
    Interrupted,
    /// A user has paused the run.
    RunPaused,
    /// A user has paused the step.
    Paused,
    /// The run was submitted to a service, and no scheduler is running.
    NoScheduler,
    /// The run was submitted to a service, and the scheduler has not taken it so far.
    Scheduler {
        /// The process of the scheduler.
        pid: u32,
    },
    /// The workers of the service have no free slot.
    Workers {
        /// How many steps they execute at a time.
        slots: u64,
        /// How many of those are steps of other runs.
        others: u64,
        /// The steps of the run that they execute.
        holders: Vec<String>,
    },
    /// No worker can take it now, for more reasons than that all slots are in use.
    NoWorker {
        /// What each kind of worker lacks, the kind that lacks the least first.
        kinds: Vec<WorkerKind>,
        /// The step to whose worker it has to go.
        beside: Option<String>,
    },
    /// A step has to end first.
    Step {
        /// Its place in [`RunView::steps`].
        place: usize,
        /// How it must end.
        kind: EdgeKind,
    },
    /// A guard has not passed.
    Guard {
        /// Its name.
        guard: String,
        /// Since when it is waited for.
        since_ms: i64,
        /// How often it was checked.
        checks: u32,
        /// What came of the last check.
        said: Option<String>,
        /// A user has to decide.
        escalated: bool,
    },
    /// It may not start before this time.
    Time {
        /// The time, in milliseconds since 1970.
        at_ms: i64,
    },
    /// Its guards or its `when` have not been checked yet, or not again.
    Gate {
        /// The guards that must pass.
        guards: Vec<String>,
    },
    /// Its next attempt comes later.
    Retry {
        /// When.
        at_ms: i64,
        /// Which attempt that will be.
        attempt: u32,
    },
    /// There is too little of something that the steps of the run share.
    Resource {
        /// Its name; `slots` for the concurrency of the run.
        name: String,
        /// How much it needs.
        wanted: Amount,
        /// How much is there for it.
        free: Amount,
        /// The steps that have some of it.
        holders: Vec<String>,
        /// The step that some of it is reserved for.
        reserved_for: Option<String>,
    },
    /// Too much was started lately.
    Rate {
        /// The name of the rate.
        name: String,
        /// How much it needs.
        wanted: Amount,
        /// When there is enough; none if others come first.
        at_ms: Option<i64>,
    },
    /// Other steps are ahead of it in the run's queue.
    Queue {
        /// How many.
        ahead: usize,
        /// The first of them.
        first: String,
    },
    /// Another holder has a name that all processes of the store share.
    Name {
        /// The name.
        name: Name,
        /// The holders.
        holders: Vec<HolderView>,
        /// The waiters ahead of it in the queue.
        ahead: Vec<HolderView>,
        /// Since when it is in the queue.
        since_ms: i64,
    },
    /// Others have a limit of the store, or come before it.
    Limit {
        /// Its name.
        name: String,
        /// How much it needs.
        wanted: Amount,
        /// The limit; none if it was removed.
        limit: Option<Amount>,
        /// How much is there for it.
        free: Amount,
        /// Who has some of it.
        holders: Vec<HolderView>,
        /// The waiters ahead of its run in the queue.
        ahead: Vec<HolderView>,
    },
    /// Its turn has come.
    Starting,
}

/// A holder of a name, or a waiter for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HolderView {
    /// `RUN/STEP` for a step, `process PID` for a command, or its id.
    pub name: String,
    /// Since when.
    pub since_ms: i64,
    /// Its process.
    pub pid: Option<u32>,
    /// The command line of that process, if it can be read.
    pub command: Option<String>,
    /// Its machine, if that is another one.
    pub host: Option<String>,
    /// How many slots of a semaphore, or steps of an amount of a limit, it has or wants.
    pub weight: u64,
    /// Its process has ended.
    pub gone: bool,
    /// How long it usually takes, if it is a step with earlier runs.
    pub usually_ms: Option<i64>,
}

/// A step that is to blame for a block.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cause {
    /// The step that failed or was cancelled, by its place in [`RunView::steps`].
    pub place: usize,
    /// The blocked steps in between, from the explained one.
    pub through: Vec<usize>,
}
