use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;
use windlass::{
    CancellationToken, WorkError, WorkScheduler, WorkSchedulerConfig, WorkState, pool, work_cpu,
};

fn scheduler() -> WorkScheduler {
    let retry_delay = std::time::Duration::from_millis(1);
    WorkScheduler::new(WorkSchedulerConfig { retry_delay, ..WorkSchedulerConfig::default() })
}

#[tokio::test]
async fn a_closure_runs_on_the_pool_and_is_tried_again() {
    let mut scheduler = scheduler();
    let work = work_cpu("third time", |ctx| {
        let name = std::thread::current().name().map(str::to_owned);
        assert!(name.is_some_and(|name| name.contains("windlass")), "on a worker of the pool");
        if ctx.attempt < 3 {
            return Err(WorkError::msg("not yet"));
        }
        Ok(())
    });
    let id = scheduler.submit(work.retries(5)).expect("it fits");
    scheduler.run_until_done().await;
    assert_eq!(scheduler.state(id), Some(WorkState::Success));
    assert_eq!(scheduler.snapshot()[0].attempts, 3);
}

#[tokio::test]
async fn a_cancel_reaches_a_body_that_computes() {
    let begun = Arc::new(Notify::new());
    let tell = begun.clone();
    let work = work_cpu("endless", move |_| {
        tell.notify_one();
        while !pool::cancelled() {
            std::hint::spin_loop();
        }
        Ok(())
    });
    let mut scheduler = scheduler();
    let id = scheduler.submit(work).expect("it fits");
    let cancel = CancellationToken::new();
    let later = cancel.clone();
    tokio::spawn(async move {
        begun.notified().await;
        later.cancel();
    });
    scheduler.run_until_done_with_cancel(cancel).await;
    assert_eq!(scheduler.state(id), Some(WorkState::Cancelled));
}

#[tokio::test]
async fn a_panic_on_the_pool_is_the_works_own() {
    let mut scheduler = scheduler();
    let work = work_cpu::<(), _>("broken", |_| panic!("out of numbers"));
    let id = scheduler.submit(work).expect("it fits");
    scheduler.run_until_done().await;
    assert_eq!(scheduler.state(id), Some(WorkState::Failed));
    let error = scheduler.snapshot()[0].last_error.clone();
    assert_eq!(error.as_deref(), Some("the work panicked: out of numbers"));
}

#[tokio::test]
async fn a_body_nobody_waits_for_any_more_is_asked_to_stop() {
    let stopped = Arc::new(AtomicBool::new(false));
    let begun = Arc::new(Notify::new());
    let (seen, tell) = (stopped.clone(), begun.clone());
    let work = work_cpu("abandoned", move |_| {
        tell.notify_one();
        while !pool::cancelled() {
            std::hint::spin_loop();
        }
        seen.store(true, Ordering::Release);
        Ok(())
    });
    let mut scheduler = scheduler();
    scheduler.submit(work).expect("it fits");
    tokio::select! {
        () = scheduler.run_until_done() => unreachable!("the body goes on until it is asked to stop"),
        () = begun.notified() => {}
    }
    while !stopped.load(Ordering::Acquire) {
        tokio::task::yield_now().await;
    }
}
