//! The settings of a scheduler.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::mpsc;
use windlass_core::{
    Ageing, Amount, Engine, EngineConfig, Order, Quota, Rate, RateError, ResourceCost, SLOTS,
};

use crate::capacity::ResourceCapacity;
use crate::event::{Publisher, WorkEvent};
use crate::scheduler::WorkScheduler;
use crate::shared::Shared;
use crate::state::State;

/// The settings of the original design, for [`WorkScheduler::new`]. They are three of those that a
/// [`WorkSchedulerBuilder`] has.
///
/// ```
/// # use windlass::works::{WorkEvent, WorkSchedulerConfig};
/// # use windlass::{WorkScheduler, work_fn};
/// # use tokio::sync::mpsc;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (event_tx, mut event_rx) = mpsc::channel::<WorkEvent>(256);
///
/// let mut scheduler = WorkScheduler::new(WorkSchedulerConfig {
///     event_tx: Some(event_tx),
///     ..Default::default()
/// });
///
/// // Process events in a separate task
/// # let reader =
/// tokio::spawn(async move {
/// #   let mut events = 0;
///     while let Some(event) = event_rx.recv().await {
///         println!("[{}] {} -> {:?}", event.id, event.name, event.state);
/// #       events += 1;
///     }
/// #   events
/// });
/// # scheduler.submit(work_fn("one", |_| async { Ok(()) }))?;
/// # scheduler.run_until_done().await;
/// # drop(scheduler);
/// # assert_eq!(reader.await?, 2, "Running and Success");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct WorkSchedulerConfig {
    /// See [`WorkSchedulerBuilder::max_concurrency`].
    pub max_concurrency: usize,
    /// See [`WorkSchedulerBuilder::retry_delay`].
    pub retry_delay: Duration,
    /// Receives the events that [change a state](WorkEvent::changes_state). Events that do not fit are
    /// dropped and counted. [`WorkHandle::subscribe`](crate::WorkHandle::subscribe) needs no size, and
    /// reports what was missed.
    pub event_tx: Option<mpsc::Sender<WorkEvent>>,
}

impl Default for WorkSchedulerConfig {
    fn default() -> Self {
        let max_concurrency = std::thread::available_parallelism().map_or(1, usize::from);
        Self { max_concurrency, retry_delay: Duration::from_secs(1), event_tx: None }
    }
}

/// Sets up a [`WorkScheduler`] in every detail.
///
/// ```
/// use std::time::Duration;
/// use windlass::{ResourceCost, WorkScheduler};
///
/// let scheduler = WorkScheduler::builder()
///     .max_concurrency(8)
///     .limits([("gpu", 2)])
///     .cancel_grace(Duration::from_secs(5))
///     .keep_ended(1000)
///     .build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until `build`"]
pub struct WorkSchedulerBuilder {
    config: WorkSchedulerConfig,
    capacity: Option<ResourceCapacity>,
    limits: ResourceCost,
    rates: Vec<(String, Rate)>,
    quotas: Vec<(String, Quota)>,
    ageing: Ageing,
    order: Order,
    cancel_grace: Option<Duration>,
    keep_ended: Option<usize>,
    seed: Option<u64>,
}

/// Why a scheduler cannot be built.
///
/// ```
/// use windlass::works::BuildError;
/// use windlass::WorkScheduler;
///
/// let refused = WorkScheduler::builder().max_concurrency(0).build().unwrap_err();
/// assert_eq!(refused, BuildError::NoConcurrency);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// With `max_concurrency: 0` nothing could ever run.
    #[error("max_concurrency is 0, so nothing could ever run: set it to at least 1")]
    NoConcurrency,
    /// A name has one of the three, and the last one set would silently replace the others.
    #[error("{name:?} is given several of a limit, a rate and a quota: use a name for each")]
    SeveralKinds {
        /// The name.
        name: String,
    },
    /// A limit, a rate or a quota of slots.
    #[error("{SLOTS:?} is what `max_concurrency` limits: use another name")]
    Slots,
    /// A rate or a quota that makes no sense.
    #[error(transparent)]
    Rate(#[from] RateError),
}

impl From<WorkSchedulerConfig> for WorkSchedulerBuilder {
    fn from(config: WorkSchedulerConfig) -> Self {
        Self { config, ..Self::default() }
    }
}

impl WorkSchedulerBuilder {
    /// Sets how many works may run at once; by default, one per processor.
    pub fn max_concurrency(mut self, works: usize) -> Self {
        self.config.max_concurrency = works;
        self
    }

    /// Sets how long a work without a delay of its own waits before its next attempt; by default, a second.
    pub fn retry_delay(mut self, delay: Duration) -> Self {
        self.config.retry_delay = delay;
        self
    }

    /// Sets a capacity that the works share with other schedulers, runners and callers. The scheduler's own
    /// limits apply as well.
    ///
    /// ```
    /// use windlass::{ResourceCapacity, ResourceCost, WorkScheduler, work_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let machine = ResourceCapacity::new([("gpu", 1)]);
    /// let mut nightly = WorkScheduler::builder().capacity(&machine).build()?;
    /// let mut urgent = WorkScheduler::builder().capacity(&machine).build()?;
    /// for scheduler in [&nightly, &urgent] {
    ///     let train = work_fn("train", |_| async { Ok(()) });
    ///     scheduler.submit(train.needs([("gpu", 1)]))?;
    /// }
    /// // Never both at once.
    /// let (nightly, urgent) = tokio::join!(nightly.run_until_done(), urgent.run_until_done());
    /// assert_eq!(nightly.success + urgent.success, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn capacity(mut self, capacity: &ResourceCapacity) -> Self {
        self.capacity = Some(capacity.clone());
        self
    }

    /// Adds limits of what all works together may take besides slots: `.limits([("gpu", 2)])`. The last limit
    /// of a name counts.
    pub fn limits(mut self, limits: impl Into<ResourceCost>) -> Self {
        for (name, limit) in limits.into().iter() {
            self.limits = self.limits.with(name, limit);
        }
        self
    }

    /// Limits how much of `name` all works together may take per time: a rate counts starts.
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass::{Amount, Rate, ResourceCost, WorkScheduler, work_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let one = Amount::from(1);
    /// let one_per_second = Rate { amount: one, per: Duration::from_secs(1), burst: one };
    /// let mut scheduler = WorkScheduler::builder().rate("calls", one_per_second).build()?;
    /// for n in 0..4 {
    ///     let call = work_fn(format!("call {n}"), |_| async { Ok(()) });
    ///     scheduler.submit(call.needs([("calls", 1)]))?;
    /// }
    /// let start = tokio::time::Instant::now();
    /// scheduler.run_until_done().await;
    /// assert_eq!(start.elapsed(), Duration::from_secs(3));
    /// # Ok(())
    /// # }
    /// ```
    pub fn rate(mut self, name: impl Into<String>, rate: Rate) -> Self {
        self.rates.push((name.into(), rate));
        self
    }

    /// Limits how much of `name` all works together may take per window: a quota counts starts.
    pub fn quota(mut self, name: impl Into<String>, quota: Quota) -> Self {
        self.quotas.push((name.into(), quota));
        self
    }

    /// Sets how waiting makes ready works more urgent; by default, it does not.
    pub fn ageing(mut self, ageing: Ageing) -> Self {
        self.ageing = ageing;
        self
    }

    /// Sets whether works may overtake one that is ahead in the queue and does not fit; by default, they may.
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// Sets how long an attempt that was asked to stop may go on before it is dropped. By default, a cancelled
    /// attempt may take any time, and one that exceeded its timeout or deadline is dropped at once.
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.cancel_grace = Some(grace);
        self
    }

    /// Sets how many ended works to keep; older ones are forgotten. By default, all are kept.
    pub fn keep_ended(mut self, works: usize) -> Self {
        self.keep_ended = Some(works);
        self
    }

    /// Sets the seed for the jitter of retries; by default, it is random.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Returns the scheduler, or an error if a setting is invalid.
    pub fn build(self) -> Result<WorkScheduler, BuildError> {
        let slots = u32::try_from(self.config.max_concurrency).unwrap_or(u32::MAX);
        if slots == 0 {
            return Err(BuildError::NoConcurrency);
        }
        self.check_names()?;
        let limits = self.limits.with(SLOTS, Amount::from(slots));
        let client = match self.capacity {
            Some(capacity) => capacity.join(&limits),
            None => ResourceCapacity::of_one(&limits),
        };
        let capacity = &client.capacity;
        let (mut tree, now) = (capacity.lock(), capacity.now());
        for (name, rate) in self.rates {
            tree.set_rate(client.level, &name, rate, now)?;
        }
        for (name, quota) in self.quotas {
            tree.set_quota(client.level, &name, quota, now)?;
        }
        drop(tree);
        let mut config = EngineConfig::default();
        config.retry_delay = self.config.retry_delay;
        config.ageing = self.ageing;
        config.order = self.order;
        config.seed = self.seed.unwrap_or_else(|| RandomState::new().hash_one(()));
        let mut engine = Engine::new(config, client.id);
        let one_slot = engine.cost(&capacity.lock(), &ResourceCost::new());
        let one_slot = one_slot.expect("there is at least one slot");
        let publisher = Publisher::new(self.config.event_tx);
        let state = State::new(engine, one_slot, publisher, self.keep_ended);
        Ok(WorkScheduler::new_with(Arc::new(Shared::new(state, client, self.cancel_grace))))
    }

    /// Refuses what would let one declaration replace another.
    fn check_names(&self) -> Result<(), BuildError> {
        let limited = |name: &str| self.limits.amount(name).is_some();
        let rates: BTreeSet<&str> = self.rates.iter().map(|(name, _)| name.as_str()).collect();
        let quotas: BTreeSet<&str> = self.quotas.iter().map(|(name, _)| name.as_str()).collect();
        if limited(SLOTS) || rates.contains(SLOTS) || quotas.contains(SLOTS) {
            return Err(BuildError::Slots);
        }
        let limited = rates.union(&quotas).find(|name| limited(name));
        match limited.or_else(|| rates.intersection(&quotas).next()) {
            Some(name) => Err(BuildError::SeveralKinds { name: (*name).to_owned() }),
            None => Ok(()),
        }
    }
}
