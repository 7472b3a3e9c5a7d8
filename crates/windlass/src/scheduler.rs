//! The scheduler: works go in, `run_until_done` runs them, their states come out.

use std::time::Duration;

use thiserror::Error;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_core::{
    Ageing, Amount, CapacityTree, Engine, EngineConfig, Input, Order, Quota, Rate, RateError,
    Rejected, ResourceCost, SLOTS, Submission, Timestamp, Transition, WorkId, WorkState, World,
};

use crate::entry::{Entry, WorkSnapshot};
use crate::event::WorkEvent;
use crate::run::Run;
use crate::spec::{SubmitError, WorkSpec};
use crate::work::Work;

/// The settings that a scheduler has had from the start.
///
/// ```
/// use windlass::{WorkScheduler, WorkSchedulerConfig};
///
/// let config = WorkSchedulerConfig { max_concurrency: 16, ..Default::default() };
/// let scheduler = WorkScheduler::new(config);
/// ```
#[derive(Clone, Debug)]
pub struct WorkSchedulerConfig {
    /// How many works may run at once.
    pub max_concurrency: usize,
    /// How long a work waits before its next attempt when it does not say so itself.
    pub retry_delay: Duration,
    /// Where to send every change of state. What does not fit is dropped and counted.
    pub event_tx: Option<mpsc::Sender<WorkEvent>>,
}

impl Default for WorkSchedulerConfig {
    fn default() -> Self {
        Self { max_concurrency: 4, retry_delay: Duration::from_secs(1), event_tx: None }
    }
}

/// Sets up a [`WorkScheduler`] in every detail.
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until `build`"]
pub struct WorkSchedulerBuilder {
    config: WorkSchedulerConfig,
    limits: ResourceCost,
    rates: Vec<(String, Rate)>,
    quotas: Vec<(String, Quota)>,
    ageing: Ageing,
    order: Order,
}

impl WorkSchedulerBuilder {
    /// The basic settings.
    pub fn config(mut self, config: WorkSchedulerConfig) -> Self {
        self.config = config;
        self
    }

    /// What works may take besides slots, all together.
    pub fn limits(mut self, limits: ResourceCost) -> Self {
        self.limits = limits;
        self
    }

    /// How much of `name` all works together may take per time: a rate counts starts.
    pub fn rate(mut self, name: impl Into<String>, rate: Rate) -> Self {
        self.rates.push((name.into(), rate));
        self
    }

    /// How much of `name` all works together may take per window: a quota counts starts.
    pub fn quota(mut self, name: impl Into<String>, quota: Quota) -> Self {
        self.quotas.push((name.into(), quota));
        self
    }

    /// How waiting makes ready works more urgent; not at all unless said.
    pub fn ageing(mut self, ageing: Ageing) -> Self {
        self.ageing = ageing;
        self
    }

    /// Whether works may start before one that stands before them in line and does not fit; they
    /// may unless said.
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// The scheduler.
    pub fn build(self) -> Result<WorkScheduler, BuildError> {
        let most = self.config.max_concurrency;
        let slots = u32::try_from(most).map_or(Amount::MAX, Amount::from);
        if slots == Amount::ZERO {
            return Err(BuildError::NoConcurrency);
        }
        let mut capacity = CapacityTree::new(&self.limits);
        // There is nobody yet who could be told to look again.
        for (name, rate) in self.rates {
            capacity.set_rate(CapacityTree::ROOT, &name, rate, Timestamp::ZERO)?;
        }
        for (name, quota) in self.quotas {
            capacity.set_quota(CapacityTree::ROOT, &name, quota, Timestamp::ZERO)?;
        }
        let level = capacity.add_level(CapacityTree::ROOT, &ResourceCost::new().with(SLOTS, slots));
        let client = capacity.add_client(level);
        let mut engine_config = EngineConfig::default();
        engine_config.retry_delay = self.config.retry_delay;
        engine_config.ageing = self.ageing;
        engine_config.order = self.order;
        Ok(WorkScheduler {
            engine: Engine::new(engine_config, client),
            capacity,
            origin: None,
            entries: Vec::new(),
            event_tx: self.config.event_tx,
            events_dropped: 0,
        })
    }
}

/// Why a scheduler cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// With `max_concurrency: 0` nothing could ever run.
    #[error("max_concurrency is 0, so nothing could ever run: set it to at least 1")]
    NoConcurrency,
    /// A rate or a quota that makes no sense.
    #[error(transparent)]
    Rate(#[from] RateError),
}

/// Counters over all works of a scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkSchedulerMetrics {
    /// All works.
    pub total: usize,
    /// Works that wait.
    pub pending: usize,
    /// Works with an attempt under way.
    pub running: usize,
    /// Works that ended well.
    pub success: usize,
    /// Works that ended badly.
    pub failed: usize,
    /// Works that will never run, because one they wait for did not succeed.
    pub blocked: usize,
    /// Works that ended on request.
    pub cancelled: usize,
    /// Attempts begun.
    pub attempts: u64,
    /// How many more attempts all works together may ask for.
    pub retries_left: u64,
    /// Events that did not fit into the channel.
    pub events_dropped: u64,
}

/// Runs works in the order of their dependencies, within limits.
///
/// The front page of this crate has an example.
pub struct WorkScheduler {
    pub(crate) engine: Engine,
    capacity: CapacityTree,
    /// When the engine's time began: at the first call that needed the time.
    origin: Option<Instant>,
    pub(crate) entries: Vec<Entry>,
    event_tx: Option<mpsc::Sender<WorkEvent>>,
    events_dropped: u64,
}

impl WorkScheduler {
    /// A scheduler with these settings.
    ///
    /// # Panics
    ///
    /// If `max_concurrency` is 0: nothing could ever run.
    #[must_use]
    pub fn new(config: WorkSchedulerConfig) -> Self {
        match Self::builder().config(config).build() {
            Ok(scheduler) => scheduler,
            Err(error) => panic!("{error}"),
        }
    }

    /// A scheduler to be set up in detail.
    pub fn builder() -> WorkSchedulerBuilder {
        WorkSchedulerBuilder::default()
    }

    /// Adds a work that starts after all of `deps` have succeeded and may be tried again `retries`
    /// times.
    ///
    /// # Panics
    ///
    /// If one of `deps` was not given out by this scheduler.
    pub fn add_work(&mut self, work: Box<dyn Work>, deps: Vec<WorkId>, retries: u32) -> WorkId {
        match self.submit(WorkSpec::boxed(work).after(deps).retries(retries)) {
            Ok(id) => id,
            Err(error) => panic!("{error}"),
        }
    }

    /// Adds a work with everything that can be said about it.
    pub fn submit(&mut self, spec: WorkSpec) -> Result<WorkId, SubmitError> {
        let WorkSpec { body, after, retries, priority, needs } = spec;
        let cost = self.engine.cost(&self.capacity, &needs)?;
        let submission = Submission { after: &after, priority, retries, ..Submission::of(cost) };
        self.entries.push(Entry::new(body));
        let submitted = self.call(|engine, world| engine.submit(world, submission));
        if submitted.is_err() {
            self.entries.pop();
        }
        Ok(submitted?)
    }

    /// Runs until every work has ended.
    ///
    /// Dropping the future cancels every work; the bodies are dropped at their next await.
    pub async fn run_until_done(&mut self) {
        self.run_until_done_with_cancel(CancellationToken::new()).await;
    }

    /// Runs until every work has ended; when `cancel` is triggered, cancels them all first.
    pub async fn run_until_done_with_cancel(&mut self, cancel: CancellationToken) {
        Run::new(self).until_done(&cancel).await;
    }

    /// Cancels a work: at once if it waits; if it runs, it is asked to stop and has ended when it
    /// returns. False if it has ended already, or is unknown.
    pub fn cancel(&mut self, id: WorkId) -> bool {
        let asked = self.apply(Input::Cancel(id)).is_ok();
        if asked {
            self.entries[id.index()].token.cancel();
        }
        asked
    }

    /// Cancels every work that has not ended.
    pub fn cancel_all(&mut self) {
        // Dependents first: otherwise they would be blocked before they can be cancelled.
        for id in self.engine.works().rev().collect::<Vec<_>>() {
            self.cancel(id);
        }
    }

    /// Where a work stands; none if its id is unknown.
    #[must_use]
    pub fn state(&self, id: WorkId) -> Option<WorkState> {
        Some(self.engine.phase(id)?.state())
    }

    /// All works, by id.
    #[must_use]
    pub fn snapshot(&self) -> Vec<WorkSnapshot> {
        self.engine.works().map(|id| self.snapshot_of(id)).collect()
    }

    /// The counters.
    #[must_use]
    pub fn metrics(&self) -> WorkSchedulerMetrics {
        let counters = self.engine.metrics();
        WorkSchedulerMetrics {
            total: self.entries.len(),
            pending: counters.count(WorkState::Pending),
            running: counters.count(WorkState::Running),
            success: counters.count(WorkState::Success),
            failed: counters.count(WorkState::Failed),
            blocked: counters.count(WorkState::Blocked),
            cancelled: counters.count(WorkState::Cancelled),
            attempts: counters.attempts,
            retries_left: counters.retries_left,
            events_dropped: self.events_dropped,
        }
    }

    fn snapshot_of(&self, id: WorkId) -> WorkSnapshot {
        let known = "the engine has a work for every entry";
        let entry = &self.entries[id.index()];
        WorkSnapshot {
            id,
            name: entry.name.clone(),
            state: self.state(id).expect(known),
            deps: self.engine.dependencies(id).map(|dependency| dependency.work).collect(),
            attempts: self.engine.attempts(id).expect(known),
            retries_left: self.engine.retries_left(id).expect(known),
            last_error: entry.last_error.clone(),
            last_duration: entry.last_duration,
            total_duration: entry.total_duration,
        }
    }

    /// When `at` is on the runtime's clock.
    pub(crate) fn instant(&self, at: Timestamp) -> Option<Instant> {
        self.origin?.checked_add(at.since(Timestamp::ZERO))
    }

    pub(crate) fn apply(&mut self, input: Input) -> Result<(), Rejected> {
        self.call(|engine, world| engine.apply(world, input))
    }

    pub(crate) fn call<T>(&mut self, call: impl FnOnce(&mut Engine, &mut World<'_>) -> T) -> T {
        let now = Instant::now();
        let origin = *self.origin.get_or_insert(now);
        let mut transitions = Vec::new();
        // The tree is private, so there is nobody else to wake.
        let mut wakes = Vec::new();
        let mut world = World {
            now: Timestamp::ZERO.after(now - origin),
            capacity: &mut self.capacity,
            facts: None,
            transitions: self.event_tx.is_some().then_some(&mut transitions),
            wakes: &mut wakes,
        };
        let result = call(&mut self.engine, &mut world);
        transitions.iter().for_each(|transition| self.tell(transition));
        result
    }

    fn tell(&mut self, transition: &Transition) {
        let state = transition.to.state();
        let Some(event_tx) = &self.event_tx else { return };
        let first_seen_waiting = transition.from.is_none() && !state.is_terminal();
        if transition.from == Some(state) || first_seen_waiting {
            return;
        }
        let name = self.entries[transition.work.index()].name.clone();
        let event = WorkEvent { id: transition.work, name, state, attempt: transition.attempt };
        if event_tx.try_send(event).is_err() {
            self.events_dropped += 1;
        }
    }
}
