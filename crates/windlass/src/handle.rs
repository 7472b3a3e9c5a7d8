//! The handle of a scheduler: everything that callers can do with it, also while it runs and inside its works.

use std::fmt;
use std::sync::Arc;

use windlass_core as core;
use windlass_core::{AddDependencyError, Amount, Input, Rejected, ResourceCost, SLOTS, WorkState};

use crate::entry::Entry;
use crate::event::Subscription;
use crate::explain::Explanation;
use crate::id::{Issuer, WorkId};
use crate::metrics::WorkSchedulerMetrics;
use crate::reference::{ExecuteError, WorkRef};
use crate::shared::Shared;
use crate::snapshot::WorkSnapshot;
use crate::spec::{Dependency, SubmitError, WorkSpec, as_path};
use crate::state::Mode;
use crate::work::Work;

/// Submits to a scheduler, steers it and looks at it, from anywhere and while it runs.
///
/// ```
/// use windlass::{CancellationToken, WorkScheduler, work_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut scheduler = WorkScheduler::default();
/// let handle = scheduler.handle();
/// let stop = CancellationToken::new();
/// let stopped = stop.clone();
/// let service = tokio::spawn(async move { scheduler.run_until_cancelled(stopped).await });
///
/// let answer = handle.execute(work_fn("think", |_| async { Ok(42) })).await?;
/// assert_eq!(*answer, 42);
/// stop.cancel();
/// service.await?.into_result()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct WorkHandle {
    pub(crate) shared: Arc<Shared>,
}

impl WorkHandle {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Adds a work that starts after all of `deps` have succeeded and has `retries` retries. The name is that
    /// of the original design; [`WorkHandle::submit`] has all settings.
    ///
    /// # Panics
    ///
    /// If one of `deps` was not given out by this scheduler, or is forgotten, or the scheduler is
    /// gone. [`WorkHandle::submit`] returns an error instead.
    pub fn add_work(&self, work: Box<dyn Work>, deps: Vec<WorkId>, retries: u32) -> WorkId {
        match self.submit(WorkSpec::boxed(work).after(deps).retries(retries)) {
            Ok(id) => id,
            Err(error) => panic!("{error}"),
        }
    }

    /// Adds a work with all its settings, or returns why it can never run.
    ///
    /// ```
    /// use windlass::{ResourceCost, SubmitError, WorkScheduler, work_fn};
    ///
    /// let scheduler = WorkScheduler::builder().limits([("gpu", 2)]).build()?;
    /// let greedy = work_fn("greedy", |_| async { Ok(()) }).needs([("gpu", 3)]);
    /// let refused: SubmitError = scheduler.submit(greedy).unwrap_err();
    /// assert_eq!(refused.to_string(), "requires 3 of \"gpu\", but the limit is 2");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn submit<T>(&self, spec: WorkSpec<T>) -> Result<WorkId, SubmitError> {
        self.shared.submit(spec, None, None)
    }

    /// Adds a work whose value or failure can be awaited and used by later works, as the example of [`WorkRef`]
    /// shows.
    pub fn spawn<T>(&self, spec: WorkSpec<T>) -> Result<WorkRef<T>, SubmitError> {
        self.shared.spawn(spec, None)
    }

    /// Adds a work and waits for its value. The scheduler has to run, now or later. Dropping the future does
    /// not cancel the work.
    ///
    /// ```
    /// use windlass::works::ExecuteError;
    /// use windlass::{WorkError, WorkScheduler, work_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut scheduler = WorkScheduler::default();
    /// let handle = scheduler.handle();
    /// let broken = work_fn("broken", |_| async { Err::<(), _>(WorkError::msg("no route")) });
    /// let (result, _) = tokio::join!(handle.execute(broken), scheduler.run_until_done());
    /// match result {
    ///     Err(ExecuteError::Failed(failure)) => println!("{failure}"),
    ///     other => panic!("it cannot have gone well: {other:?}"),
    /// }
    /// # }
    /// ```
    ///
    /// Inside a work, wait for it with `ctx.suspend(ctx.handle().execute(spec)).await??`: a work that
    /// keeps its slot while it waits for another one may wait for ever.
    pub async fn execute<T>(&self, spec: WorkSpec<T>) -> Result<Arc<T>, ExecuteError> {
        Ok(self.spawn(spec)?.await?)
    }

    /// Adds a dependency to a work that has begun no attempt.
    ///
    /// ```
    /// use windlass::{WorkScheduler, work_fn};
    ///
    /// let scheduler = WorkScheduler::default();
    /// let first = scheduler.submit(work_fn("first", |_| async { Ok(()) }))?;
    /// let then = scheduler.submit(work_fn("then", |_| async { Ok(()) }))?;
    /// scheduler.add_dependency(then, first)?;
    /// let refused = scheduler.add_dependency(first, then).unwrap_err();
    /// assert_eq!(refused.to_string(), "dependency cycle: 2 -> 1 -> 2");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_dependency(
        &self,
        work: WorkId,
        on: impl Into<Dependency>,
    ) -> Result<(), DependencyError> {
        let on = on.into();
        let other = |work| DependencyError::OtherScheduler { work };
        let own = |work| self.shared.own(work).ok_or_else(|| other(work));
        let (local, on) = (own(work)?, core::Dependency { work: own(on.work)?, kind: on.kind });
        let added = self.shared.session(|session| {
            session.engine(|engine, world| engine.add_dependency(world, local, on))
        });
        added.map_err(|refused| DependencyError::of(refused, self.shared.issuer))
    }

    /// Cancels a work: at once if it waits. A running work is asked to stop, and is cancelled when it returns.
    /// Returns false if it has ended already, or is unknown.
    ///
    /// ```
    /// # use windlass::{WorkScheduler, WorkState, work_fn};
    /// # let scheduler = WorkScheduler::default();
    /// # let id = scheduler.submit(work_fn("unwanted", |_| async { Ok(()) }))?;
    /// // Cancel a specific work item
    /// let cancelled = scheduler.cancel(id);
    /// # assert!(cancelled);
    /// assert_eq!(scheduler.state(id), Some(WorkState::Cancelled));
    /// assert!(!scheduler.cancel(id), "it has ended already");
    ///
    /// // Cancel all registered work items
    /// scheduler.cancel_all();
    /// # Ok::<(), windlass::SubmitError>(())
    /// ```
    pub fn cancel(&self, id: WorkId) -> bool {
        self.apply(id, Input::Cancel)
    }

    /// Cancels every work that has not ended.
    pub fn cancel_all(&self) {
        self.shared.apply(Input::CancelAll).expect("everything can be cancelled");
    }

    /// Returns the state of a work; none if its id is unknown.
    #[must_use]
    pub fn state(&self, id: WorkId) -> Option<WorkState> {
        let work = self.shared.own(id)?;
        Some(self.shared.look_now().engine.phase(work)?.state())
    }

    /// Returns all works, ordered by id.
    #[must_use]
    pub fn snapshot(&self) -> Vec<WorkSnapshot> {
        let state = self.shared.look_now();
        let works = state.engine.works();
        works.filter_map(|id| WorkSnapshot::of(&state, &self.shared.client, id)).collect()
    }

    /// Returns one work; none if its id is unknown.
    #[must_use]
    pub fn snapshot_of(&self, id: WorkId) -> Option<WorkSnapshot> {
        let work = self.shared.own(id)?;
        WorkSnapshot::of(&self.shared.look_now(), &self.shared.client, work)
    }

    /// Returns the counters, which are kept up to date all the time.
    #[must_use]
    pub fn metrics(&self) -> WorkSchedulerMetrics {
        WorkSchedulerMetrics::of(&self.shared.look())
    }

    /// Returns every reason why a work is not running, as the example of [`Explanation`] shows; none if its id
    /// is unknown.
    #[must_use]
    pub fn explain(&self, id: WorkId) -> Option<Explanation> {
        let work = self.shared.own(id)?;
        Explanation::of(&self.shared.look_now(), &self.shared.client, work)
    }

    /// Subscribes to every event from now on, as the example of [`Subscription`] shows.
    #[must_use]
    pub fn subscribe(&self) -> Subscription {
        self.shared.look().publisher.subscribe()
    }

    /// Forgets an ended work; no work can depend on it any more. Returns false if it has not ended, or is
    /// unknown.
    pub fn forget(&self, id: WorkId) -> bool {
        self.shared.own(id).is_some_and(|work| self.shared.forget(work))
    }

    /// Returns the body of an ended work, with everything it has collected; none if it was dropped with its
    /// attempt.
    ///
    /// ```
    /// use std::any::Any;
    /// use windlass::{Work, WorkContext, WorkOutcome, WorkScheduler};
    ///
    /// struct Collect(Vec<u32>);
    ///
    /// #[windlass::async_trait]
    /// impl Work for Collect {
    ///     async fn run(&mut self, ctx: WorkContext) -> WorkOutcome {
    ///         self.0.push(ctx.attempt);
    ///         WorkOutcome::Success
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut scheduler = WorkScheduler::default();
    /// let id = scheduler.add_work(Box::new(Collect(Vec::new())), vec![], 0);
    /// scheduler.run_until_done().await;
    ///
    /// let work: Box<dyn Any> = scheduler.take_work(id).expect("it has ended");
    /// let collect = work.downcast::<Collect>().expect("it is what was added");
    /// assert_eq!(collect.0, [1]);
    /// # }
    /// ```
    #[must_use]
    pub fn take_work(&self, id: WorkId) -> Option<Box<dyn Work>> {
        let work = self.shared.own(id)?;
        let (body, name) = {
            let mut state = self.shared.look();
            state.engine.phase(work).filter(|phase| phase.state().is_terminal())?;
            let entry = state.entry_mut(work)?;
            (entry.take_body()?, entry.name.clone())
        };
        Some(body.into_work(name.as_str()))
    }

    /// Has a work that failed or was cancelled run again, with everything that depends on it, during the run
    /// under way or the next one. Refused if a body is gone, or a gate that had not opened; a gate that had
    /// opened stays open.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use windlass::{WorkError, WorkScheduler, work_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut scheduler = WorkScheduler::default();
    /// let mended = Arc::new(AtomicBool::new(false));
    /// let is_mended = mended.clone();
    /// let build = scheduler.submit(work_fn("build", move |_| {
    ///     let works = is_mended.load(Ordering::Relaxed);
    ///     async move { if works { Ok(()) } else { Err(WorkError::msg("a comma is missing")) } }
    /// }))?;
    /// scheduler.submit(work_fn("test", |_| async { Ok(()) }).after([build]))?;
    /// scheduler.run_until_done().await;
    /// assert_eq!((scheduler.metrics().failed, scheduler.metrics().blocked), (1, 1));
    ///
    /// mended.store(true, Ordering::Relaxed);
    /// scheduler.reopen(build)?;
    /// scheduler.run_until_done().await;
    /// assert_eq!(scheduler.metrics().success, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn reopen(&self, id: WorkId) -> Result<(), ReopenError> {
        let work = self.shared.own(id).ok_or(ReopenError::OtherScheduler { work: id })?;
        self.shared.session(|session| session.reopen(work))
    }

    /// Ends the wait of a work for [`WorkContext::woken`](crate::WorkContext::woken), now or its next one.
    /// Returns false if no attempt of it is under way.
    pub fn wake(&self, id: WorkId) -> bool {
        let Some(work) = self.shared.own(id) else { return false };
        let attempt = self.shared.look().entry(work).and_then(|entry| entry.attempt().cloned());
        attempt.inspect(|attempt| attempt.notify_woken()).is_some()
    }

    /// Opens the gate of a work by hand. Returns false if the work waits for none.
    pub fn open_gate(&self, id: WorkId) -> bool {
        self.apply(id, Input::Open)
    }

    /// Changes limits of this scheduler; the others stay. Running works continue: if more is in use than a new
    /// limit, nothing starts until that has ended.
    ///
    /// ```
    /// use windlass::{ResourceCost, WorkScheduler};
    ///
    /// let limits = ResourceCost::from([("connections", 10), ("licences", 2)]);
    /// let scheduler = WorkScheduler::builder().limits(limits).build()?;
    /// let handle = scheduler.handle();
    /// // Later, perhaps from another task:
    /// handle.set_limits([("connections", 5)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_limits(&self, limits: impl Into<ResourceCost>) {
        let limits = limits.into();
        self.shared
            .session(|session| {
                session.engine(|engine, world| {
                    let level = world.capacity.level_of(engine.client());
                    let wakes = world.capacity.set_limits(level, &limits);
                    world
                        .wakes
                        .extend(wakes.into_iter().filter(|client| *client != engine.client()));
                    engine.apply(world, Input::RetrySearch)
                })
            })
            .expect("a look is never refused");
    }

    /// Changes how many works may run at once. With 0, nothing starts until it is changed again.
    pub fn set_max_concurrency(&self, works: usize) {
        let slots = u32::try_from(works).unwrap_or(u32::MAX);
        self.set_limits(ResourceCost::new().with(SLOTS, Amount::from(slots)));
    }

    /// Cancels every work, refuses new ones, and waits until all bodies and gates are dropped. A work of this
    /// scheduler must not await it, because it would wait for its own end.
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass::{SubmitError, WorkScheduler, work_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), SubmitError> {
    /// let mut scheduler = WorkScheduler::default();
    /// scheduler.submit(work_fn("endless", |_| async { Ok(std::future::pending::<()>().await) }))?;
    /// let second = Duration::from_secs(1);
    /// let dropped = tokio::time::timeout(second, scheduler.run_until_done()).await;
    /// assert!(dropped.is_err());
    ///
    /// scheduler.shutdown().await;
    /// assert_eq!(scheduler.metrics().cancelled, 1);
    /// let late = scheduler.submit(work_fn("late", |_| async { Ok(()) }));
    /// assert_eq!(late, Err(SubmitError::ShutDown));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn shutdown(&self) {
        self.close();
        self.shared.until(|state| state.engine.is_done() && state.dropping == 0).await;
    }

    fn apply(&self, id: WorkId, input: fn(core::WorkId) -> Input) -> bool {
        self.shared.own(id).is_some_and(|work| self.shared.apply(input(work)).is_ok())
    }

    pub(crate) fn close(&self) {
        self.shared.session(|session| {
            session.state.mode = Mode::Closed;
            session.apply(Input::CancelAll).expect("everything can be cancelled");
            // Bodies may have handles, and so keep what keeps them.
            let mut bodies: Vec<Box<dyn Send>> = Vec::with_capacity(session.state.len());
            for body in session.state.entries_mut().filter_map(Entry::take_body) {
                bodies.push(body);
            }
            session.effects.drop_all_later(bodies);
            session.wake_run();
        });
    }
}

impl AsRef<WorkHandle> for WorkHandle {
    fn as_ref(&self) -> &WorkHandle {
        self
    }
}

impl fmt::Debug for WorkHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkHandle").field("metrics", &self.metrics()).finish_non_exhaustive()
    }
}

/// Why [`WorkHandle::add_dependency`] did not add a dependency; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DependencyError {
    /// The work belongs to another scheduler.
    #[error("work {work} belongs to another scheduler")]
    OtherScheduler {
        /// That work.
        work: WorkId,
    },
    /// The work is forgotten.
    #[error("unknown work {work}")]
    UnknownWork {
        /// That work.
        work: WorkId,
    },
    /// The dependent has begun an attempt or has ended.
    #[error("work {work} has begun or ended, so it cannot get another dependency")]
    Begun {
        /// The dependent.
        work: WorkId,
    },
    /// The works would wait for each other.
    #[error("dependency cycle: {}", as_path(path))]
    Cycle {
        /// The cycle, which ends with its first work.
        path: Vec<WorkId>,
    },
}

impl DependencyError {
    fn of(refused: AddDependencyError, issuer: Issuer) -> Self {
        match refused {
            AddDependencyError::UnknownWork { work } => Self::UnknownWork { work: issuer.id(work) },
            AddDependencyError::Begun { work } => Self::Begun { work: issuer.id(work) },
            AddDependencyError::Cycle { path } => Self::Cycle { path: issuer.ids(path) },
        }
    }
}

/// Why [`WorkHandle::reopen`] did not reopen a work; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReopenError {
    /// The work belongs to another scheduler.
    #[error("work {work} belongs to another scheduler")]
    OtherScheduler {
        /// That work.
        work: WorkId,
    },
    /// The work is forgotten.
    #[error("unknown work {work}")]
    UnknownWork {
        /// That work.
        work: WorkId,
    },
    /// The work neither failed nor was cancelled.
    #[error("cannot retry work {work}: it neither failed nor was cancelled")]
    NotReopenable {
        /// The work.
        work: WorkId,
    },
    /// A work that would run again is under way or has a parent.
    #[error("cannot retry work {work}: it is under way or has a parent")]
    Entangled {
        /// That work.
        work: WorkId,
    },
    /// Works that would run again depend on each other: one of them was added after its dependency had ended.
    #[error("dependency cycle: {}", as_path(path))]
    Cycle {
        /// The cycle, which ends with its first work.
        path: Vec<WorkId>,
    },
    /// The body of a work that would run again was dropped, or taken.
    #[error("the body of work {work} is gone, so it cannot run again")]
    NoBody {
        /// That work.
        work: WorkId,
    },
    /// A work that would run again was waiting for its gate when it ended, and the gate was dropped.
    #[error("the gate of work {work} is gone, so it cannot run again")]
    NoGate {
        /// That work.
        work: WorkId,
    },
}

impl ReopenError {
    pub(crate) fn of(rejected: Rejected, issuer: Issuer) -> Self {
        match rejected {
            Rejected::UnknownWork { work } => Self::UnknownWork { work: issuer.id(work) },
            Rejected::NotReopenable { work } => Self::NotReopenable { work: issuer.id(work) },
            Rejected::Entangled { work } => Self::Entangled { work: issuer.id(work) },
            Rejected::Cycle { path } => Self::Cycle { path: issuer.ids(path) },
            other => unreachable!("{other} does not keep a work from being reopened"),
        }
    }
}
