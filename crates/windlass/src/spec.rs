//! A work with everything that can be said about it before it runs.

use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::time::Instant;
use windlass_core as core;
use windlass_core::{CostError, ResourceCost, RetryPolicy, SubmissionError};

use crate::body::{Body, WorkBody};
use crate::gate::Gate;
use crate::id::{Issuer, WorkId};
use crate::name::Name;
use crate::output::{Output, OutputOf};
use crate::work::Work;

/// A work to submit, with its dependencies, its needs and its other settings. `T` is the type of its output.
///
/// ```
/// use windlass::{Amount, ResourceCost, WorkScheduler, work_fn};
///
/// let limits = ResourceCost::new().with("gpu", Amount::from(2));
/// let mut scheduler = WorkScheduler::builder().limits(limits).build()?;
/// let needs = ResourceCost::new().with("gpu", Amount::from(1));
/// let train = work_fn("train", |_| async { Ok(()) });
/// let infer = work_fn("infer", |_| async { Ok(()) });
/// let first = scheduler.submit(train.needs(needs).retries(2))?;
/// let second = scheduler.submit(infer.after([first]).priority(5))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a spec does nothing until it is submitted"]
pub struct WorkSpec<T = ()> {
    pub(crate) body: Box<dyn Body>,
    pub(crate) name: Name,
    pub(crate) after: After,
    pub(crate) retries: u32,
    pub(crate) priority: i64,
    /// More than a slot.
    pub(crate) needs: Option<ResourceCost>,
    pub(crate) extras: Option<Box<Extras>>,
    /// Returns the output of the body, for a [`WorkRef`](crate::WorkRef).
    pub(crate) output: OutputOf<T>,
}

/// Settings that few works have, kept out of line.
#[derive(Default)]
pub(crate) struct Extras {
    pub(crate) policy: Option<RetryPolicy>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) deadline: Option<Instant>,
    pub(crate) gate: Option<Gate>,
}

impl WorkSpec {
    /// Creates a spec without dependencies and retries, which needs one slot.
    pub fn new(work: impl Work + 'static) -> Self {
        Self::boxed(Box::new(work))
    }

    pub(crate) fn boxed(work: Box<dyn Work>) -> Self {
        let name = work.name().into();
        let body = Box::new(WorkBody::new(work));
        Self::with_output(body, name, |_| Output::Fixed(|| Arc::new(())))
    }
}

impl<T> WorkSpec<T> {
    pub(crate) fn with_output(body: Box<dyn Body>, name: Name, output: OutputOf<T>) -> Self {
        Self {
            body,
            name,
            after: After::default(),
            retries: 0,
            priority: 0,
            needs: None,
            extras: None,
            output,
        }
    }

    /// Returns the name of the work.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Adds dependencies: the work starts after all of these have succeeded, or have ended as a [`Dependency`]
    /// says. They have to be works of the scheduler to which it is submitted.
    ///
    /// ```
    /// use windlass::{Dependency, WorkError, WorkScheduler, WorkState, work_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), windlass::SubmitError> {
    /// let mut scheduler = WorkScheduler::default();
    /// let build = work_fn("build", |_| async { Err::<(), _>(WorkError::msg("no space left")) });
    /// let build = scheduler.submit(build)?;
    /// let deploy = work_fn("deploy", |_| async { Ok(()) });
    /// let deploy = scheduler.submit(deploy.after([build]))?;
    /// let report = work_fn("report", |_| async { Ok(()) });
    /// let report = scheduler.submit(report.after([Dependency::failed(build)]))?;
    /// scheduler.run_until_done().await;
    /// assert_eq!(scheduler.state(deploy), Some(WorkState::Blocked));
    /// assert_eq!(scheduler.state(report), Some(WorkState::Success), "it ran because of the failure");
    /// # Ok(())
    /// # }
    /// ```
    pub fn after<D: Into<Dependency>>(mut self, works: impl IntoIterator<Item = D>) -> Self {
        self.after.extend(works.into_iter().map(Into::into));
        self
    }

    /// Sets how often the work may be retried, by default after the scheduler's `retry_delay`.
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Sets how often the work may be retried, and the delays.
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass::{RetryPolicy, WorkError, WorkScheduler, work_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), windlass::SubmitError> {
    /// let mut scheduler = WorkScheduler::default();
    /// let down = work_fn("down", |_| async { Err::<(), _>(WorkError::msg("refused")) });
    /// let policy = RetryPolicy::exponential(Duration::from_secs(1)).times(3);
    /// scheduler.submit(down.retry(policy))?;
    /// let start = tokio::time::Instant::now();
    /// scheduler.run_until_done().await;
    /// assert_eq!(start.elapsed(), Duration::from_secs(1 + 2 + 4));
    /// # Ok(())
    /// # }
    /// ```
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retries = policy.retries();
        self.extras_mut().policy = Some(policy);
        self
    }

    /// Sets the priority; larger is more urgent, and the default is 0.
    pub fn priority(mut self, priority: i64) -> Self {
        self.priority = priority;
        self
    }

    /// Sets what the work takes while it runs, besides a slot: `.needs([("gpu", 1)])`.
    pub fn needs(mut self, cost: impl Into<ResourceCost>) -> Self {
        self.needs = Some(cost.into()).filter(|cost| !cost.is_empty());
        self
    }

    /// Sets how long one attempt may take. An attempt that exceeds it is asked to stop, and counts as a failure
    /// that may be retried.
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass::{WorkScheduler, work_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), windlass::SubmitError> {
    /// let mut scheduler = WorkScheduler::default();
    /// let hangs = work_fn("hangs", |_| async { Ok(std::future::pending::<()>().await) });
    /// let id = scheduler.submit(hangs.timeout(Duration::from_secs(10)))?;
    /// scheduler.run_until_done().await;
    /// let status = scheduler.snapshot_of(id).expect("it is known").status();
    /// assert_eq!(status, "failed: timed out after 10s");
    /// # Ok(())
    /// # }
    /// ```
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.extras_mut().timeout = Some(timeout);
        self
    }

    /// Sets the time by which the work has to have ended, waits included; otherwise it fails.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tokio::time::Instant;
    /// use windlass::{WorkScheduler, work_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), windlass::SubmitError> {
    /// let mut scheduler = WorkScheduler::default();
    /// let held_up = work_fn("held up", |_| async { Ok(()) }).gate(std::future::pending());
    /// let id = scheduler.submit(held_up.deadline(Instant::now() + Duration::from_secs(60)))?;
    /// scheduler.run_until_done().await;
    /// let status = scheduler.snapshot_of(id).expect("it is known").status();
    /// assert_eq!(status, "failed: its deadline passed before it began");
    /// # Ok(())
    /// # }
    /// ```
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.extras_mut().deadline = Some(deadline);
        self
    }

    /// Adds a gate: the work starts only after this future is ready, too. The scheduler polls it once the
    /// dependencies have ended as required; the work holds no slot meanwhile. [`Gate`] has an example.
    pub fn gate<F>(mut self, opens: F) -> Self
    where
        F: IntoFuture<Output = (), IntoFuture: Send + 'static>,
    {
        self.add_gate(Some(Gate::new(opens)));
        self
    }

    /// Adds the gate that the work itself has.
    pub(crate) fn add_gate(&mut self, gate: Option<Gate>) {
        let Some(other) = gate else { return };
        let own = &mut self.extras_mut().gate;
        *own = Some(match own.take() {
            Some(own) => own.and(other),
            None => other,
        });
    }

    fn extras_mut(&mut self) -> &mut Extras {
        self.extras.get_or_insert_default()
    }
}

impl<T> fmt::Debug for WorkSpec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("WorkSpec");
        shown.field("name", &self.name()).field("after", &self.after.works);
        shown.field("retries", &self.retries).field("priority", &self.priority);
        let needs = self.needs.clone().unwrap_or_default();
        shown.field("needs", &format_args!("{needs}"));
        let extras = self.extras.as_deref();
        shown.field("timeout", &extras.and_then(|extras| extras.timeout));
        shown.field("deadline", &extras.and_then(|extras| extras.deadline));
        shown.field("gate", &extras.and_then(|extras| extras.gate.as_ref())).finish_non_exhaustive()
    }
}

/// A work that has to end before another may start. Made from a [`WorkId`] or a [`WorkRef`](crate::WorkRef), it
/// requires that the work succeeds.
///
/// ```
/// use windlass::{Dependency, WorkScheduler, work_fn};
///
/// let scheduler = WorkScheduler::default();
/// let build = scheduler.submit(work_fn("build", |_| async { Ok(()) }))?;
/// let test = scheduler.submit(work_fn("test", |_| async { Ok(()) }))?;
/// let report = work_fn("report", |_| async { Ok(()) });
/// scheduler.submit(report.after([Dependency::from(build), Dependency::done(test)]))?;
/// # Ok::<(), windlass::SubmitError>(())
/// ```
pub type Dependency = core::Dependency<WorkId>;

/// The dependencies of a work, by the ids of the engine that issued them.
#[derive(Default)]
pub(crate) struct After {
    /// If not all have one issuer, the spec will be refused, so only the first of each issuer is kept.
    works: Vec<core::Dependency>,
    /// The issuer of the first one.
    issuer: Option<Issuer>,
    /// The other issuer, if there are two.
    other: Option<Issuer>,
}

impl After {
    fn extend(&mut self, works: impl Iterator<Item = Dependency>) {
        let Self { works: known, issuer, .. } = self;
        let mut odd = None;
        let local = works.map(|dependency| {
            let own = dependency.work.issuer();
            if *issuer.get_or_insert(own) != own {
                odd.get_or_insert(dependency.work);
            }
            dependency.map_work(WorkId::local)
        });
        if known.is_empty() {
            // Most specs get their dependencies in one call, whose number is known then.
            *known = local.collect();
        } else {
            known.extend(local);
        }
        if let Some(odd) = odd {
            known.truncate(1);
            known.push(odd.local().into());
            self.other = Some(odd.issuer());
        }
    }

    /// Returns a work that has another issuer, if there is one.
    #[inline]
    pub(crate) fn other_than(&self, issuer: Issuer) -> Option<WorkId> {
        if self.other.is_none() && self.issuer.is_none_or(|own| own == issuer) {
            return None;
        }
        let mut issuers = self.issuer.into_iter().chain(self.other).zip(&self.works);
        let (other, dependency) = issuers.find(|(own, _)| *own != issuer)?;
        Some(other.id(dependency.work))
    }

    pub(crate) fn works(&self) -> &[core::Dependency] {
        &self.works
    }
}

/// Why a work was not accepted; nothing has changed. [`WorkHandle::submit`](crate::WorkHandle::submit)
/// has an example.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// It needs more than the limits allow.
    #[error(transparent)]
    Cost(#[from] CostError),
    /// It depends on a work of another scheduler.
    #[error("work {work} belongs to another scheduler")]
    OtherScheduler {
        /// That work.
        work: WorkId,
    },
    /// It depends on a work that is forgotten.
    #[error("unknown dependency: work {work}")]
    UnknownDependency {
        /// That work.
        work: WorkId,
    },
    /// It would be the child of a work that has no attempt under way, or whose family is ending.
    #[error(
        "work {parent} takes no more children: it has not begun, is stopping or has ended, or a \
         child of it has failed"
    )]
    NoParent {
        /// The work.
        parent: WorkId,
    },
    /// It would wait for a work that waits for it, because a parent ends after its children.
    #[error("a child of work {parent} cannot wait for what ends after it: {}", as_path(path))]
    Cycle {
        /// The parent.
        parent: WorkId,
        /// Which work waits for which, with the first one again at the end.
        path: Vec<WorkId>,
    },
    /// The scheduler was dropped or shut down.
    #[error("the scheduler is gone, so nothing can be submitted to it")]
    ShutDown,
}

impl SubmitError {
    pub(crate) fn of(refused: SubmissionError, issuer: Issuer) -> Self {
        match refused {
            SubmissionError::NoParent { parent } => Self::NoParent { parent: issuer.id(parent) },
            SubmissionError::Cycle { parent, path } => {
                Self::Cycle { parent: issuer.id(parent), path: issuer.ids(path) }
            }
            SubmissionError::UnknownDependency { work } => {
                Self::UnknownDependency { work: issuer.id(work) }
            }
        }
    }
}

/// Shows works as `2 -> 1 -> 2`.
pub(crate) fn as_path(works: &[WorkId]) -> String {
    works.iter().map(WorkId::to_string).collect::<Vec<_>>().join(" -> ")
}
