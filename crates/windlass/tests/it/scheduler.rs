use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use windlass::{
    CancellationToken, Work, WorkContext, WorkOutcome, WorkScheduler, WorkSchedulerConfig,
    WorkState,
};

/// A work that answers what it is told to.
struct Answer(Box<dyn FnMut(WorkContext) -> WorkOutcome + Send>);

impl Answer {
    fn boxed(answer: impl FnMut(WorkContext) -> WorkOutcome + Send + 'static) -> Box<dyn Work> {
        Box::new(Answer(Box::new(answer)))
    }
}

#[windlass::async_trait]
impl Work for Answer {
    async fn run(&mut self, ctx: WorkContext) -> WorkOutcome {
        (self.0)(ctx)
    }
}

/// A work that never returns, and counts when it is dropped.
struct Forever(Arc<AtomicUsize>);

#[windlass::async_trait]
impl Work for Forever {
    async fn run(&mut self, _ctx: WorkContext) -> WorkOutcome {
        std::future::pending().await
    }
}

impl Drop for Forever {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn scheduler() -> WorkScheduler {
    WorkScheduler::new(WorkSchedulerConfig::default())
}

#[tokio::test]
async fn a_panic_is_a_failure_with_its_message() {
    let mut scheduler = scheduler();
    let work = scheduler.add_work(Answer::boxed(|_| panic!("out of cheese")), vec![], 3);
    let follower = scheduler.add_work(Answer::boxed(|_| WorkOutcome::Success), vec![work], 0);
    scheduler.run_until_done().await;
    assert_eq!(scheduler.state(work), Some(WorkState::Failed));
    assert_eq!(scheduler.state(follower), Some(WorkState::Blocked));
    let snapshot = &scheduler.snapshot()[work.index()];
    assert_eq!(snapshot.last_error.as_deref(), Some("the work panicked: out of cheese"));
    assert_eq!(snapshot.attempts, 1, "a panic is not retried");
}

#[tokio::test(start_paused = true)]
async fn used_up_retries_are_named_in_the_last_error() {
    let mut scheduler = scheduler();
    let retry = |_| WorkOutcome::Retry { delay: Duration::ZERO };
    let work = scheduler.add_work(Answer::boxed(retry), vec![], 1);
    let start = Instant::now();
    scheduler.run_until_done().await;
    assert_eq!(start.elapsed(), Duration::from_secs(1), "a zero delay is the configured one");
    let snapshot = &scheduler.snapshot()[work.index()];
    assert_eq!(snapshot.state, WorkState::Failed);
    assert_eq!(
        snapshot.last_error.as_deref(),
        Some("it asked to be tried again; no retries left after attempt 2")
    );
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_does_not_wait_for_a_retry_to_come_due() {
    let mut scheduler = scheduler();
    let retry = |_| WorkOutcome::Retry { delay: Duration::from_secs(10) };
    let work = scheduler.add_work(Answer::boxed(retry), vec![], 5);
    let cancel = CancellationToken::new();
    let later = cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        later.cancel();
    });
    let start = Instant::now();
    scheduler.run_until_done_with_cancel(cancel).await;
    assert_eq!(scheduler.state(work), Some(WorkState::Cancelled));
    assert!(start.elapsed() < Duration::from_millis(110));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_run_cancels_every_work_and_drops_the_bodies() {
    let drops = Arc::new(AtomicUsize::new(0));
    let mut scheduler = scheduler();
    let running = scheduler.add_work(Box::new(Forever(drops.clone())), vec![], 0);
    let waiting = scheduler.add_work(Answer::boxed(|_| WorkOutcome::Success), vec![running], 0);
    let timeout = tokio::time::timeout(Duration::from_secs(1), scheduler.run_until_done()).await;
    timeout.expect_err("it never returns by itself");
    assert_eq!(scheduler.state(waiting), Some(WorkState::Cancelled));
    scheduler.shutdown().await;
    assert_eq!(scheduler.state(running), Some(WorkState::Cancelled));
    assert_eq!(drops.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_scheduler_can_be_run_again_after_adding_more() {
    let mut scheduler = scheduler();
    let first = scheduler.add_work(Answer::boxed(|_| WorkOutcome::Success), vec![], 0);
    scheduler.run_until_done().await;
    let second = scheduler.add_work(Answer::boxed(|_| WorkOutcome::Success), vec![first], 0);
    assert_eq!(scheduler.state(second), Some(WorkState::Pending));
    scheduler.run_until_done().await;
    assert_eq!(scheduler.metrics().success, 2);
}

#[test]
#[should_panic(expected = "max_concurrency is 0, so nothing could ever run")]
fn no_concurrency_at_all_is_refused() {
    let config = WorkSchedulerConfig { max_concurrency: 0, ..WorkSchedulerConfig::default() };
    let _ = WorkScheduler::new(config);
}

#[test]
fn a_cancel_of_an_ended_or_unknown_work_is_false() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let _inside = runtime.as_ref().expect("a runtime").enter();
    let scheduler = scheduler();
    let work = scheduler.add_work(Answer::boxed(|_| WorkOutcome::Success), vec![], 0);
    assert!(scheduler.cancel(work));
    assert!(!scheduler.cancel(work), "it has ended");
    assert!(!scheduler.cancel(windlass::WorkId::new(99).expect("not zero")), "it never was");
}
