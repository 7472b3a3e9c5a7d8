//! What a run returns: how the works ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use windlass::{
    CancellationToken, Dependency, RunFailed, RunSummary, WorkError, WorkScheduler, WorkState,
    work_fn,
};

use crate::support::*;

/// The counts of a summary: success, skipped, failed, blocked, cancelled.
fn counts(summary: &RunSummary) -> [usize; 5] {
    let RunSummary { success, skipped, failed, blocked, cancelled, .. } = summary;
    [*success, *skipped, *failed, *blocked, *cancelled]
}

#[tokio::test]
async fn a_summary_counts_every_kind_of_end_and_names_the_first_failures() {
    let mut scheduler = scheduler(1);
    let good = add(&scheduler, ok("good"));
    let bad = add(&scheduler, fails("bad"));
    add(&scheduler, ok("not needed").after([Dependency::failed(good)]));
    add(&scheduler, ok("held up").after([bad]));
    add(&scheduler, act("quits", |_| async { windlass::WorkOutcome::Cancelled }));
    let summary = scheduler.run_until_done().await;
    assert_eq!(counts(&summary), [1, 1, 1, 1, 1]);
    assert_eq!(summary.to_string(), "1 succeeded, 1 skipped, 1 failed, 1 blocked, 1 cancelled");
    assert!(!summary.is_success());
    let [failure] = &summary.failures[..] else { panic!("one failure: {summary:?}") };
    assert_eq!((failure.id, failure.state), (bad, WorkState::Failed));
    assert_eq!(failure.name, "bad");
    let failed = summary.clone().into_result().expect_err("not all went well");
    let first = failure.error.as_deref().expect("it says why");
    assert_eq!(
        failed.to_string(),
        format!("1 work failed, 1 was blocked and 1 was cancelled; first: \"bad\": {first}")
    );
    assert_eq!(failed.summary, summary);
}

#[tokio::test]
async fn a_run_without_a_failure_is_a_success() {
    let mut scheduler = scheduler(1);
    let good = add(&scheduler, ok("good"));
    add(&scheduler, ok("not needed").after([Dependency::failed(good)]));
    let summary = scheduler.run_until_done().await;
    assert!(summary.is_success());
    assert_eq!(summary.into_result(), Ok(()));
    let nothing = scheduler.run_until_done().await;
    assert_eq!((nothing.to_string().as_str(), nothing.is_success()), ("no work ended", true));
}

#[tokio::test]
async fn each_summary_covers_what_ended_since_the_previous_run() {
    let mut scheduler = scheduler(1);
    let bad = add(&scheduler, fails("bad"));
    assert_eq!(counts(&scheduler.run_until_done().await), [0, 0, 1, 0, 0]);
    // It ends as soon as it is submitted, before the next run begins.
    add(&scheduler, ok("held up").after([bad]));
    add(&scheduler, ok("good"));
    let summary = scheduler.run_until_done().await;
    assert_eq!(counts(&summary), [1, 0, 0, 1, 0]);
    let failed = summary.into_result().expect_err("one was blocked");
    assert_eq!(failed.to_string(), "1 work was blocked");
}

#[tokio::test]
async fn forgotten_works_are_counted_too() {
    let builder = WorkScheduler::builder().max_concurrency(1).keep_ended(2);
    let mut scheduler = builder.build().expect("slots");
    for n in 0..50 {
        add(&scheduler, if n % 5 == 0 { fails("bad") } else { ok("good") });
    }
    let summary = scheduler.run_until_done().await;
    assert_eq!(scheduler.metrics().total, 2);
    assert_eq!(counts(&summary), [40, 0, 10, 0, 0]);
    assert_eq!(summary.failures.len(), 8, "the first few");
    assert_eq!(
        summary.into_result().expect_err("ten failed").to_string(),
        "10 works failed; first: \"bad\": broken"
    );
}

#[tokio::test]
async fn a_work_that_is_reopened_counts_by_its_last_end() {
    let mut scheduler = scheduler(1);
    let mended = Arc::new(AtomicBool::new(false));
    let is_mended = Arc::clone(&mended);
    let build = add(
        &scheduler,
        work_fn("build", move |_| {
            let works = is_mended.load(Ordering::Relaxed);
            async move { if works { Ok(()) } else { Err(WorkError::msg("a comma is missing")) } }
        }),
    );
    add(&scheduler, ok("test").after([build]));
    // Runs after the build, in its slot, so the run is under way when the build is reopened.
    let mend = act("mend", move |ctx| {
        let mended = Arc::clone(&mended);
        async move {
            mended.store(true, Ordering::Relaxed);
            ctx.handle().reopen(build).expect("it has failed");
            windlass::WorkOutcome::Success
        }
    });
    add(&scheduler, mend);
    let summary = scheduler.run_until_done().await;
    assert_eq!(counts(&summary), [3, 0, 0, 0, 0]);
    assert_eq!(summary.failures, []);
}

#[tokio::test(start_paused = true)]
async fn the_children_of_an_attempt_that_is_retried_do_not_count_as_failed() {
    let mut scheduler = scheduler(2);
    let parent = work_fn("parent", |ctx| async move {
        let broken = ctx.attempt == 1;
        ctx.spawn_child(work_fn("child", move |_| async move {
            if broken { Err(WorkError::msg("not yet")) } else { Ok(()) }
        }))?;
        Ok(())
    });
    add(&scheduler, parent.retries(1));
    let summary = scheduler.run_until_done().await;
    assert_eq!(counts(&summary), [2, 0, 0, 0, 0], "{summary:?}");
}

#[tokio::test]
async fn a_cancelled_run_is_no_success() {
    let mut scheduler = scheduler(1);
    let cancel = CancellationToken::new();
    cancel.cancel();
    for _ in 0..3 {
        add(&scheduler, ok("late"));
    }
    let summary = scheduler.run_until_done_with_cancel(cancel.clone()).await;
    let RunFailed { summary, .. } = summary.into_result().expect_err("they were cancelled");
    assert_eq!(counts(&summary), [0, 0, 0, 0, 3]);
    assert_eq!(summary.into_result().unwrap_err().to_string(), "3 works were cancelled");
    assert!(scheduler.run_until_cancelled(cancel).await.is_success(), "nothing was left");
}
