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
/// ```
/// use windlass::{WorkId, WorkScheduler, WorkSchedulerConfig, WorkState};
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
/// let mut scheduler = WorkScheduler::new(WorkSchedulerConfig::default());
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
    /// A scheduler with these settings. [`WorkScheduler::builder`] has more.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use windlass::{WorkScheduler, WorkSchedulerConfig, WorkState};
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
    ///
    /// A body that runs then is asked to stop, and waited for. One that neither looks at its token nor
    /// ends soon holds the run up for as long as it takes, unless a grace is set
    /// ([`cancel_grace`](crate::WorkSchedulerBuilder::cancel_grace)): after that it is dropped.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use windlass::{CancellationToken, WorkScheduler, WorkSchedulerConfig, work_fn};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), windlass::SubmitError> {
    /// # let mut scheduler = WorkScheduler::new(WorkSchedulerConfig::default());
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
    /// scheduler.run_until_done_with_cancel(cancel_token).await;
    /// # assert_eq!(scheduler.metrics().cancelled, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run_until_done_with_cancel(&mut self, cancel: CancellationToken) {
        self.run(Until::Done, cancel).await;
    }

    /// Runs also while there is nothing to do: until `cancel` is triggered, and every work has ended
    /// after it was cancelled. For a scheduler that others submit to through handles, as the example
    /// of [`WorkHandle`] does.
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
