//! The scheduler: callers submit works, `run_until_done` runs them, and callers look at their states.

mod verbs;

use std::fmt;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::builder::{WorkSchedulerBuilder, WorkSchedulerConfig};
use crate::handle::WorkHandle;
use crate::run::{Run, Until};
use crate::shared::Shared;
use crate::summary::RunSummary;

/// Runs works in the order of their dependencies, within limits.
///
/// A scheduler has all methods of a [`WorkHandle`], and it alone can run. When it is dropped, it cancels every
/// work, and its handles refuse new ones.
///
/// ```
/// use windlass::{WorkId, WorkScheduler, WorkState};
/// # struct DownloadWork;
/// # impl DownloadWork { fn new(_file: &str) -> Self { Self } }
/// # #[windlass::async_trait]
/// # impl windlass::Work for DownloadWork {
/// #     async fn run(&mut self, _: windlass::WorkContext) -> windlass::WorkOutcome {
/// #         windlass::WorkOutcome::Success
/// #     }
/// # }
/// # struct VerifyWork;
/// # impl VerifyWork { fn new(_files: &[&str]) -> Self { Self } }
/// # #[windlass::async_trait]
/// # impl windlass::Work for VerifyWork {
/// #     async fn run(&mut self, _: windlass::WorkContext) -> windlass::WorkOutcome {
/// #         windlass::WorkOutcome::Success
/// #     }
/// # }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let files = ["a", "b", "c"];
/// let mut scheduler = WorkScheduler::default();
///
/// // Download files in parallel
/// let downloads: Vec<WorkId> = files
///     .iter()
///     .map(|file| scheduler.add_work(Box::new(DownloadWork::new(file)), vec![], 3))
///     .collect();
///
/// // Verify after all downloads complete
/// let verify_id = scheduler.add_work(
///     Box::new(VerifyWork::new(&files)),
///     downloads,  // depends on all downloads
///     0,
/// );
///
/// scheduler.run_until_done().await;
/// assert_eq!(scheduler.state(verify_id), Some(WorkState::Success));
/// # }
/// ```
///
/// It can be run again after more was added. Works are kept, with what is known about them, until
/// they are [forgotten](WorkHandle::forget).
pub struct WorkScheduler {
    handle: WorkHandle,
}

impl WorkScheduler {
    /// Creates a scheduler with the settings of the original design. [`WorkScheduler::builder`] has all
    /// settings.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use windlass::works::WorkSchedulerConfig;
    /// # use windlass::{WorkScheduler, WorkState};
    /// # struct Download;
    /// # #[windlass::async_trait]
    /// # impl windlass::Work for Download {
    /// #     async fn run(&mut self, _: windlass::WorkContext) -> windlass::WorkOutcome {
    /// #         windlass::WorkOutcome::Success
    /// #     }
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let (work1, work2) = (Download, Download);
    /// let mut scheduler = WorkScheduler::new(WorkSchedulerConfig {
    ///     max_concurrency: 4,
    ///     retry_delay: Duration::from_secs(1),
    ///     event_tx: None,
    /// });
    ///
    /// // Add work items with dependencies
    /// let id1 = scheduler.add_work(Box::new(work1), vec![], 3);  // 3 retries
    /// let id2 = scheduler.add_work(Box::new(work2), vec![id1], 0);  // depends on id1
    ///
    /// // Run until all work completes or is blocked
    /// scheduler.run_until_done().await;
    ///
    /// // Check results
    /// assert_eq!(scheduler.state(id1), Some(WorkState::Success));
    /// # assert_eq!(scheduler.state(id2), Some(WorkState::Success));
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If `max_concurrency` is 0, because nothing could ever run.
    #[must_use]
    pub fn new(config: WorkSchedulerConfig) -> Self {
        match WorkSchedulerBuilder::from(config).build() {
            Ok(scheduler) => scheduler,
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns a builder with all settings.
    pub fn builder() -> WorkSchedulerBuilder {
        WorkSchedulerBuilder::default()
    }

    pub(crate) fn new_with(shared: Arc<Shared>) -> Self {
        Self { handle: WorkHandle::new(shared) }
    }

    /// Returns a handle for other tasks, to be used while the scheduler runs.
    pub fn handle(&self) -> WorkHandle {
        self.handle.clone()
    }

    /// Runs until every work has ended. Returns how they ended.
    ///
    /// ```
    /// # use windlass::{WorkScheduler, work_fn};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let mut scheduler = WorkScheduler::default();
    /// # scheduler.submit(work_fn("fetch", |_ctx| async { Ok(()) }))?;
    /// scheduler.run_until_done().await.into_result()?; // an error if a work did not succeed
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Dropping the future cancels every work: nothing starts any more, and each body is dropped at its next
    /// await. [`WorkHandle::shutdown`] waits for that.
    pub async fn run_until_done(&mut self) -> RunSummary {
        self.run(Until::Done, CancellationToken::new()).await
    }

    /// Runs until every work has ended, and cancels all of them when `cancel` is triggered.
    ///
    /// The run asks running bodies to stop and waits for them. A body that ignores its token delays the end
    /// of the run, unless a [`cancel_grace`](crate::WorkSchedulerBuilder::cancel_grace) is set: then it is
    /// dropped after that time.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use windlass::{CancellationToken, WorkScheduler, work_fn};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), windlass::SubmitError> {
    /// # let mut scheduler = WorkScheduler::default();
    /// # scheduler.submit(work_fn("endless", |ctx| async move {
    /// #     ctx.cancel_token().cancelled().await;
    /// #     Ok(())
    /// # }))?;
    /// let cancel_token = CancellationToken::new();
    /// let token_clone = cancel_token.clone();
    ///
    /// // Trigger cancellation from another task
    /// tokio::spawn(async move {
    ///     tokio::time::sleep(Duration::from_secs(30)).await;
    ///     token_clone.cancel();
    /// });
    ///
    /// // Run with external cancellation control
    /// let summary = scheduler.run_until_done_with_cancel(cancel_token).await;
    /// assert_eq!(summary.cancelled, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run_until_done_with_cancel(&mut self, cancel: CancellationToken) -> RunSummary {
        self.run(Until::Done, cancel).await
    }

    /// Runs until `cancel` is triggered, also while there is nothing to do; then cancels all works and waits
    /// for their ends. For services to which other tasks submit through handles, as in the example of
    /// [`WorkHandle`].
    pub async fn run_until_cancelled(&mut self, cancel: CancellationToken) -> RunSummary {
        self.run(Until::Cancelled, cancel).await
    }

    async fn run(&mut self, until: Until, cancel: CancellationToken) -> RunSummary {
        Run::new(Arc::clone(&self.handle.shared)).go(until, &cancel).await
    }
}

impl Default for WorkScheduler {
    /// Creates a scheduler with the default settings: one work per processor at a time.
    fn default() -> Self {
        Self::new(WorkSchedulerConfig::default())
    }
}

impl AsRef<WorkHandle> for WorkScheduler {
    fn as_ref(&self) -> &WorkHandle {
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
