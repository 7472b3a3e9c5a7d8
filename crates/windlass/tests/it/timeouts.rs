//! Attempts and works that take too long.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use windlass::{
    Phase, RetryPolicy, WorkOutcome, WorkScheduler, WorkSchedulerBuilder, WorkSpec, WorkState,
    work_fn,
};

use crate::support::*;

fn with_grace(grace: Option<Duration>) -> WorkSchedulerBuilder {
    let builder = WorkScheduler::builder().max_concurrency(1);
    match grace {
        Some(grace) => builder.cancel_grace(grace),
        None => builder,
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_gives_an_attempt_that_is_out_of_time_no_more_time() {
    for (grace, dropped_at) in [(None, 100), (Some(ms(30)), 130)] {
        let times_out = || deaf("late").timeout(ms(100));
        let misses = || deaf("late").deadline(Instant::now() + ms(100));
        for late in [times_out as fn() -> WorkSpec, misses] {
            let late = late();
            let mut scheduler = with_grace(grace).build().expect("slots");
            let (work, handle) = (add(&scheduler, late), scheduler.handle());
            let start = Instant::now();
            // The engine sees both at once, and the cancel is the graver reason.
            tokio::spawn(async move {
                sleep(ms(100)).await;
                handle.cancel(work);
            });
            let ended = timeout(secs(10), scheduler.run_until_done()).await;
            assert_eq!(ended.map(|summary| summary.cancelled), Ok(1));
            assert_eq!(start.elapsed(), ms(dropped_at));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_times_out_is_asked_to_stop_and_dropped_after_its_grace() {
    for (grace, dropped_at) in [(None, 100), (Some(ms(30)), 130)] {
        let (mut scheduler, mut events) = watch(with_grace(grace));
        let log = Log::default();
        let seen = log.clone();
        let start = Instant::now();
        let work = act("work", move |ctx| {
            let seen = seen.clone();
            tokio::spawn(async move {
                ctx.cancel_token().cancelled().await;
                seen.add(format!("told after {:?}", start.elapsed()));
            });
            std::future::pending()
        });
        let work = add(&scheduler, work.timeout(ms(100)).retries(1));
        _ = scheduler.run_until_done().await;
        let again = dropped_at + 1000;
        let expected = [
            "0ns work Running 1".to_owned(),
            format!("{dropped_at}ms work Pending 1"),
            format!("{:?} work Running 2", ms(again)),
            format!("{:?} work Failed 2", ms(again + dropped_at)),
        ];
        assert_eq!(events.seen(), expected, "grace {grace:?}");
        let error = "timed out after 100ms; no retries left after attempt 2";
        assert_eq!(last_error(&scheduler, work), error);
        settle().await;
        let told = [ms(100), ms(again + 100)].map(|at| format!("told after {at:?}"));
        assert_eq!(log.take(), told, "at once, with any grace");
    }
}

#[tokio::test(start_paused = true)]
async fn a_timeout_is_a_failure_also_if_the_body_succeeds_meanwhile() {
    let answers =
        [WorkOutcome::Success, failed("by itself"), retry(secs(77)), WorkOutcome::Cancelled];
    for answer in answers {
        let (mut scheduler, mut events) = watch(with_grace(Some(ms(50))));
        let told = answer.clone();
        let work = act("work", move |ctx| {
            let told = told.clone();
            async move {
                ctx.cancel_token().cancelled().await;
                told
            }
        });
        let work = add(&scheduler, work.timeout(ms(10)).retry(RetryPolicy::fixed(ms(5)).times(1)));
        _ = scheduler.run_until_done().await;
        let expected = [
            "0ns work Running 1",
            "10ms work Pending 1",
            "15ms work Running 2",
            "25ms work Failed 2",
        ];
        assert_eq!(events.seen(), expected, "{answer:?}");
        assert!(last_error(&scheduler, work).starts_with("timed out after 10ms"), "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_attempt_has_the_whole_timeout() {
    let (mut scheduler, mut events) = watched(1);
    let work = answers("work", ms(80), &[retry(ms(50)), WorkOutcome::Success]);
    add(&scheduler, work.timeout(ms(100)).retries(1));
    _ = scheduler.run_until_done().await;
    assert_eq!(events.seen()[3], "210ms work Success 2");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_wins_over_a_timeout() {
    let (mut scheduler, mut events) = watch(with_grace(Some(ms(100))));
    let work = add(&scheduler, deaf("work").timeout(ms(10)).retries(3));
    let handle = scheduler.handle();
    tokio::spawn(async move {
        sleep(ms(50)).await;
        assert!(handle.cancel(work), "it has not ended");
    });
    _ = scheduler.run_until_done().await;
    assert_eq!(events.seen(), ["0ns work Running 1", "110ms work Cancelled 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_passes_before_the_start_fails_the_work() {
    let (mut scheduler, mut events) = watched(1);
    add(&scheduler, takes("holder", ms(100)));
    let late = add(&scheduler, ok("late").deadline(Instant::now() + ms(60)).retries(5));
    add(&scheduler, ok("follower").after([late]));
    _ = scheduler.run_until_done().await;
    let expected = [
        "0ns holder Running 1",
        "60ms late Failed 0",
        "60ms follower Blocked 0",
        "100ms holder Success 1",
    ];
    assert_eq!(events.seen(), expected);
    assert_eq!(last_error(&scheduler, late), "its deadline passed before it began");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_an_attempt_and_leaves_no_retry() {
    let (mut scheduler, mut events) = watched(1);
    let work = deaf("work").deadline(Instant::now() + ms(60)).retries(5);
    let work = add(&scheduler, work);
    _ = scheduler.run_until_done().await;
    assert_eq!(events.seen(), ["0ns work Running 1", "60ms work Failed 1"]);
    assert_eq!(last_error(&scheduler, work), "its deadline passed");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_a_retry_delay_and_a_past_one_ends_everything_at_once() {
    let (mut scheduler, mut events) = watched(1);
    let work = answers("work", ms(10), &[retry(secs(10))]).deadline(Instant::now() + ms(60));
    add(&scheduler, work.retries(5));
    tokio::time::advance(ms(5)).await;
    let past = add(&scheduler, ok("past").deadline(Instant::now() - ms(5)));
    assert_eq!(state(&scheduler, past), WorkState::Failed, "without a run");
    _ = scheduler.run_until_done().await;
    let expected =
        ["5ms past Failed 0", "5ms work Running 1", "15ms work Pending 1", "60ms work Failed 1"];
    assert_eq!(events.seen(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_suspension_pauses_the_timeout_but_not_the_deadline() {
    let (mut scheduler, mut events) = watched(1);
    let waits = |name: &str| {
        work_fn(name, |ctx| async move {
            sleep(ms(30)).await;
            ctx.suspend(sleep(secs(10))).await?;
            sleep(ms(30)).await;
            Ok(())
        })
    };
    add(&scheduler, waits("timed").timeout(ms(70)));
    _ = scheduler.run_until_done().await;
    assert_eq!(events.seen()[1], "10.06s timed Success 1");
    let tight = add(&scheduler, waits("tight").timeout(ms(50)));
    _ = scheduler.run_until_done().await;
    assert_eq!(events.seen()[1], "20.11s tight Failed 1", "20 ms are left after the wait");
    assert!(last_error(&scheduler, tight).starts_with("timed out after 50ms"));
    let late = add(&scheduler, waits("late").deadline(Instant::now() + secs(1)));
    _ = scheduler.run_until_done().await;
    assert_eq!(events.seen()[1], "21.11s late Failed 1");
    assert_eq!(look(&scheduler, late).phase, Phase::Failed);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_passes_also_while_nothing_runs() {
    let scheduler = scheduler(1);
    let late = add(&scheduler, ok("late").deadline(Instant::now() + secs(1)));
    assert_eq!(state(&scheduler, late), WorkState::Pending);
    tokio::time::advance(secs(2)).await;
    assert_eq!(state(&scheduler, late), WorkState::Failed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_at_any_moment_only_fails_the_attempt() {
    for round in 0..8 {
        let builder = WorkScheduler::builder().max_concurrency(2000).retry_delay(ms(0));
        let (mut scheduler, mut events) = watch(builder);
        let start = Instant::now() + ms(20);
        for n in 0..500 {
            // They are all late at once, and that while they start.
            let deadline = start + Duration::from_micros(300 + 50 * round);
            add(&scheduler, ok("late").deadline(deadline));
            add(&scheduler, ok("slow").timeout(Duration::from_nanos(n * 100)).retries(1));
        }
        tokio::time::sleep_until(start).await;
        _ = scheduler.run_until_done().await;
        assert_done(&scheduler);
        for work in scheduler.snapshot() {
            let blamed = work.last_error.is_some();
            assert!(blamed || work.state.is_success(), "{} failed for no reason", work.name);
        }
        let ends = events.take().into_iter().filter(|event| event.state.is_terminal());
        assert_eq!(ends.count(), 1000);
    }
}
