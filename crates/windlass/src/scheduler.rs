//! The scheduler: works go in, `run_until_done` runs them, their states come out.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::builder::{WorkSchedulerBuilder, WorkSchedulerConfig};
use crate::handle::WorkHandle;
use crate::run::{Run, Until};
use crate::shared::Shared;

/// Runs works in the order of their dependencies, within limits.
///
/// It can do everything that a [`WorkHandle`] can: submit, cancel, look, change limits. What it can
/// do besides is run. Dropped, it cancels every work, and its handles take nothing in any more.
///
/// The front page of this crate has an example.
pub struct WorkScheduler {
    handle: WorkHandle,
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

    pub(crate) fn new_with(shared: Arc<Shared>) -> Self {
        Self { handle: WorkHandle::new(shared) }
    }

    /// What can be given to others, to be used while the scheduler runs.
    pub fn handle(&self) -> WorkHandle {
        self.handle.clone()
    }

    /// Runs until every work has ended.
    ///
    /// Dropping the future cancels every work: nothing starts any more, and the bodies are dropped
    /// at their next await. [`WorkHandle::shutdown`] waits for that.
    pub async fn run_until_done(&mut self) {
        self.run(Until::Done, CancellationToken::new()).await;
    }

    /// Runs until every work has ended; when `cancel` is triggered, cancels them all first.
    pub async fn run_until_done_with_cancel(&mut self, cancel: CancellationToken) {
        self.run(Until::Done, cancel).await;
    }

    /// Runs also while there is nothing to do: until `cancel` is triggered, and every work has ended
    /// after it was cancelled. For a scheduler that others submit to through handles.
    pub async fn run_until_cancelled(&mut self, cancel: CancellationToken) {
        self.run(Until::Cancelled, cancel).await;
    }

    async fn run(&mut self, until: Until, cancel: CancellationToken) {
        Run::new(Arc::clone(&self.handle.shared)).go(until, &cancel).await;
    }
}

impl Deref for WorkScheduler {
    type Target = WorkHandle;

    fn deref(&self) -> &WorkHandle {
        &self.handle
    }
}

impl Drop for WorkScheduler {
    fn drop(&mut self) {
        self.handle.close();
    }
}

impl fmt::Debug for WorkScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkScheduler").field("metrics", &self.metrics()).finish_non_exhaustive()
    }
}
