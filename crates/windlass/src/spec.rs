//! A work with everything that can be said about it before it runs.

use thiserror::Error;
use windlass_core::{CostError, Dependency, ResourceCost};

use crate::work::Work;

/// What to submit: a work, whom it follows, what it needs.
///
/// ```
/// # struct Train;
/// # #[windlass::async_trait]
/// # impl windlass::Work for Train {
/// #     async fn run(&mut self, _: windlass::WorkContext) -> windlass::WorkOutcome {
/// #         windlass::WorkOutcome::Success
/// #     }
/// # }
/// use windlass::{Amount, ResourceCost, WorkScheduler, WorkSpec};
///
/// let limits = ResourceCost::new().with("gpu", Amount::from(2));
/// let mut scheduler = WorkScheduler::builder().limits(limits).build()?;
/// let needs = ResourceCost::new().with("gpu", Amount::from(1));
/// let first = scheduler.submit(WorkSpec::new(Train).needs(needs).retries(2))?;
/// let second = scheduler.submit(WorkSpec::new(Train).after([first]).priority(5))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a spec does nothing until it is submitted"]
pub struct WorkSpec {
    pub(crate) body: Box<dyn Work>,
    pub(crate) after: Vec<Dependency>,
    pub(crate) retries: u32,
    pub(crate) priority: i64,
    pub(crate) needs: ResourceCost,
}

impl WorkSpec {
    /// A work that follows nobody, needs one slot, and is tried once.
    pub fn new(work: impl Work + 'static) -> Self {
        Self::boxed(Box::new(work))
    }

    pub(crate) fn boxed(body: Box<dyn Work>) -> Self {
        Self { body, after: Vec::new(), retries: 0, priority: 0, needs: ResourceCost::new() }
    }

    /// It starts only after all of these have succeeded, or have ended as a [`Dependency`] says.
    ///
    /// ```
    /// # struct Step;
    /// # #[windlass::async_trait]
    /// # impl windlass::Work for Step {
    /// #     async fn run(&mut self, _: windlass::WorkContext) -> windlass::WorkOutcome {
    /// #         windlass::WorkOutcome::Failed("no space left".to_owned())
    /// #     }
    /// # }
    /// use windlass::{Dependency, WorkScheduler, WorkSchedulerConfig, WorkSpec, WorkState};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), windlass::SubmitError> {
    /// let mut scheduler = WorkScheduler::new(WorkSchedulerConfig::default());
    /// let build = scheduler.submit(WorkSpec::new(Step))?;
    /// let deploy = scheduler.submit(WorkSpec::new(Step).after([build]))?;
    /// let report = scheduler.submit(WorkSpec::new(Step).after([Dependency::failed(build)]))?;
    /// scheduler.run_until_done().await;
    /// assert_eq!(scheduler.state(deploy), Some(WorkState::Blocked));
    /// assert_ne!(scheduler.state(report), Some(WorkState::Blocked), "it ran because of the failure");
    /// # Ok(())
    /// # }
    /// ```
    pub fn after<D: Into<Dependency>>(mut self, works: impl IntoIterator<Item = D>) -> Self {
        self.after.extend(works.into_iter().map(Into::into));
        self
    }

    /// It may be tried again this often.
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Larger is more urgent; 0 unless said.
    pub fn priority(mut self, priority: i64) -> Self {
        self.priority = priority;
        self
    }

    /// What it takes while it runs, besides a slot.
    pub fn needs(mut self, cost: ResourceCost) -> Self {
        self.needs = cost;
        self
    }
}

/// Why a work was not taken in; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// It needs what can never be had.
    #[error(transparent)]
    Cost(#[from] CostError),
    /// It cannot be placed in the graph.
    #[error(transparent)]
    Graph(#[from] windlass_core::SubmitError),
}
