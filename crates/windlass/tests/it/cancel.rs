//! Works and runs that are asked to stop.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use windlass::{
    BuildError, CancellationToken, Phase, WorkContext, WorkOutcome, WorkScheduler,
    WorkSchedulerConfig, WorkState,
};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_work_cancelled_before_its_start_never_runs() {
    let (mut scheduler, mut events) = watched(1);
    let ready = add(&scheduler, act("ready", |_| async { unreachable!("it never runs") }));
    let waiting = add(&scheduler, ok("waiting").after([ready]));
    assert!(scheduler.cancel(waiting));
    assert!(scheduler.cancel(ready));
    assert_eq!(state(&scheduler, ready), WorkState::Cancelled, "at once, without a run");
    _ = scheduler.run_until_done().await;
    assert_eq!(events.seen(), ["0ns waiting Cancelled 0", "0ns ready Cancelled 0"]);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_triggers_the_token_at_once_and_the_work_is_cancelled_when_it_returns() {
    let answers = [WorkOutcome::Success, failed("late"), retry(secs(1)), WorkOutcome::Cancelled];
    for answer in answers {
        let (mut scheduler, mut events) = watched(1);
        let told = answer.clone();
        let work = act("work", move |ctx| {
            let told = told.clone();
            async move {
                ctx.cancel_token().cancelled().await;
                tokio::time::sleep(ms(40)).await;
                told
            }
        });
        let work = add(&scheduler, work.retries(3));
        let handle = scheduler.handle();
        let canceller = tokio::spawn(async move {
            tokio::time::sleep(ms(10)).await;
            assert!(handle.cancel(work));
            let seen = look(&handle, work);
            assert_eq!(seen.state, WorkState::Running, "until the body returns");
            assert!(matches!(seen.phase, Phase::Cancelling { .. }), "{:?}", seen.phase);
            assert_eq!(seen.status(), "stopping, as asked");
            assert!(handle.cancel(work), "it has not ended");
        });
        _ = scheduler.run_until_done().await;
        canceller.await.expect("it could cancel");
        let seen = events.seen();
        assert_eq!(seen, ["0ns work Running 1", "50ms work Cancelled 1"], "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_of_an_ended_or_unknown_work_is_false() {
    let (mut scheduler, mut events) = watched(1);
    let [good, bad] = [add(&scheduler, ok("good")), add(&scheduler, fails("bad"))];
    let blocked = add(&scheduler, ok("blocked").after([bad]));
    let cancelled = add(&scheduler, ok("cancelled"));
    scheduler.cancel(cancelled);
    _ = scheduler.run_until_done().await;
    events.take();
    for work in [good, bad, blocked, cancelled, foreign()] {
        assert!(!scheduler.cancel(work));
    }
    assert!(scheduler.forget(good));
    assert!(!scheduler.cancel(good), "it is forgotten");
    assert_eq!(events.seen(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_work_that_ignores_its_token_is_dropped_after_its_grace() {
    let (mut scheduler, mut events) = watch(WorkScheduler::builder().cancel_grace(ms(200)));
    let work = add(&scheduler, deaf("work"));
    let handle = scheduler.handle();
    tokio::spawn(async move {
        tokio::time::sleep(ms(10)).await;
        handle.cancel(work);
    });
    _ = scheduler.run_until_done().await;
    assert_eq!(events.seen(), ["0ns work Running 1", "210ms work Cancelled 1"]);
    assert!(scheduler.take_work(work).is_some(), "only its future was dropped");
}

#[tokio::test(start_paused = true)]
async fn without_a_grace_a_run_waits_for_cancelled_works() {
    let (mut scheduler, mut events) = watched(1);
    let work = add(&scheduler, takes("work", secs(3600)));
    let handle = scheduler.handle();
    tokio::spawn(async move {
        tokio::time::sleep(ms(10)).await;
        handle.cancel(work);
    });
    _ = scheduler.run_until_done().await;
    assert_eq!(events.seen(), ["0ns work Running 1", "3600s work Cancelled 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_ends_a_retry_delay_at_once() {
    let (mut scheduler, mut events) = watched(1);
    let work = add(&scheduler, answers("work", ms(0), &[retry(secs(60))]).retries(1));
    let handle = scheduler.handle();
    tokio::spawn(async move {
        tokio::time::sleep(ms(250)).await;
        assert!(handle.cancel(work));
    });
    _ = scheduler.run_until_done().await;
    let seen = events.seen();
    assert_eq!(seen[2..], ["250ms work Cancelled 1"], "and not at the end of the delay");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_does_not_wait_for_a_retry_to_come_due() {
    let mut scheduler = scheduler(1);
    let work = add(&scheduler, answers("work", ms(0), &[retry(secs(10))]).retries(5));
    let cancel = CancellationToken::new();
    let later = cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(ms(100)).await;
        later.cancel();
    });
    let start = Instant::now();
    _ = scheduler.run_until_done_with_cancel(cancel).await;
    assert_eq!(start.elapsed(), ms(100));
    assert_eq!(state(&scheduler, work), WorkState::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_run_cancels_every_work_and_shutdown_waits_for_the_bodies() {
    let (mut scheduler, mut events) = watched(1);
    let gone = Arc::new(Notify::new());
    let (tell, told) = (gone.clone(), gone.clone());
    let running = act("running", move |_| {
        let tell = tell.clone();
        async move {
            let _guard = OnDrop(Some(move || tell.notify_one()));
            std::future::pending().await
        }
    });
    let running = add(&scheduler, running.retries(3));
    let ready = add(&scheduler, ok("ready"));
    let waiting = add(&scheduler, ok("waiting").after([running]));
    tokio::time::timeout(secs(1), scheduler.run_until_done()).await.expect_err("it never returns");
    for work in [ready, waiting] {
        assert_eq!(state(&scheduler, work), WorkState::Cancelled, "at once");
    }
    assert_eq!(state(&scheduler, running), WorkState::Running, "until its next await");
    scheduler.shutdown().await;
    told.notified().await;
    assert_eq!(state(&scheduler, running), WorkState::Cancelled);
    let expected = [
        "0ns running Running 1",
        "1s waiting Cancelled 0",
        "1s ready Cancelled 0",
        "1s running Cancelled 1",
    ];
    assert_eq!(events.seen(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_scheduler_whose_run_was_dropped_can_run_again() {
    let mut scheduler = scheduler(1);
    let lost = add(&scheduler, deaf("lost"));
    tokio::time::timeout(secs(1), scheduler.run_until_done()).await.expect_err("it never returns");
    let next = add(&scheduler, ok("next"));
    assert_eq!(state(&scheduler, next), WorkState::Pending, "as usual");
    _ = scheduler.run_until_done().await;
    assert_eq!(state(&scheduler, lost), WorkState::Cancelled);
    assert_eq!(state(&scheduler, next), WorkState::Success);
}

#[test]
#[should_panic(expected = "max_concurrency is 0, so nothing could ever run")]
fn a_concurrency_of_zero_panics_in_new() {
    let config = WorkSchedulerConfig { max_concurrency: 0, ..WorkSchedulerConfig::default() };
    let _ = WorkScheduler::new(config);
}

#[test]
fn a_concurrency_of_zero_is_an_error_of_the_builder() {
    let refused = WorkScheduler::builder().max_concurrency(0).build();
    assert_eq!(refused.err(), Some(BuildError::NoConcurrency));
}

#[test]
fn the_default_concurrency_is_one_work_per_processor() {
    let WorkSchedulerConfig { max_concurrency, retry_delay, event_tx } = Default::default();
    let processors = std::thread::available_parallelism().expect("the system knows").get();
    assert_eq!((max_concurrency, retry_delay), (processors, Duration::from_secs(1)));
    assert!(event_tx.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_work_submitted_while_a_cancelled_run_ends_is_cancelled_at_once() {
    let (mut scheduler, mut events) = watched(4);
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let slow = act("slow", move |ctx| {
        stop.cancel();
        async move {
            ctx.cancel_token().cancelled().await;
            let late = add(ctx.handle(), ok("late"));
            assert_eq!(state(ctx.handle(), late), WorkState::Cancelled);
            tokio::time::sleep(ms(10)).await;
            WorkOutcome::Success
        }
    });
    add(&scheduler, slow);
    _ = scheduler.run_until_done_with_cancel(cancel).await;
    let seen = events.seen();
    assert_eq!(seen, ["0ns slow Running 1", "0ns late Cancelled 0", "10ms slow Cancelled 1"]);
    let next = add(&scheduler, ok("next"));
    assert_eq!(state(&scheduler, next), WorkState::Pending, "that run has returned");
    _ = scheduler.run_until_done().await;
    assert_eq!(events.seen(), ["10ms next Running 1", "10ms next Success 1"]);
}

#[tokio::test(start_paused = true)]
async fn cancel_all_cancels_dependents_instead_of_blocking_them() {
    let (mut scheduler, mut events) = watched(1);
    let first = add(&scheduler, obedient("first"));
    let second = add(&scheduler, ok("second").after([first]));
    add(&scheduler, ok("third").after([second]));
    let handle = scheduler.handle();
    tokio::spawn(async move {
        tokio::time::sleep(ms(5)).await;
        handle.cancel_all();
    });
    _ = scheduler.run_until_done().await;
    let expected = [
        "0ns first Running 1",
        "5ms third Cancelled 0",
        "5ms second Cancelled 0",
        "5ms first Cancelled 1",
    ];
    assert_eq!(events.seen(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_run_until_cancelled_continues_without_works() {
    let (mut scheduler, mut events) = watched(1);
    let (handle, cancel) = (scheduler.handle(), CancellationToken::new());
    let stop = cancel.clone();
    let service = tokio::spawn(async move { scheduler.run_until_cancelled(stop).await });
    for n in 1..=3 {
        tokio::time::sleep(secs(1)).await;
        handle.execute(ok(&format!("work {n}"))).await.expect("it runs");
    }
    let last = add(&handle, obedient("last"));
    settle().await;
    cancel.cancel();
    _ = service.await.expect("it returns");
    assert_eq!(state(&handle, last), WorkState::Cancelled);
    assert_eq!(events.take().len(), 8);
    assert_done(&handle);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_cancels_its_own_token_is_still_stopped_in_time() {
    let mut scheduler = scheduler(1);
    let cancels = act("cancels", |ctx| async move {
        ctx.cancel_token().cancel();
        assert!(!ctx.is_cancelled(), "it was not asked to stop");
        assert_eq!(ctx.suspend(async { 42 }).await, Ok(42));
        std::future::pending().await
    });
    let id = add(&scheduler, cancels.timeout(ms(10)));
    let done = tokio::time::timeout(secs(1), scheduler.run_until_done()).await;
    assert!(done.is_ok(), "it is out of time");
    let error = "timed out after 10ms";
    assert_eq!(last_error(&scheduler, id), error);
}

#[tokio::test(start_paused = true)]
async fn a_work_reopened_while_a_cancelled_run_ends_is_cancelled() {
    let mut scheduler = scheduler(9);
    let broken = answers("broken", ms(0), &[failed("broken"), WorkOutcome::Success]);
    let broken = add(&scheduler, broken);
    let follows = add(&scheduler, ok("follows").after([broken]));
    let slow = act("slow", |ctx| async move {
        ctx.cancel_token().cancelled().await;
        tokio::time::sleep(ms(10)).await;
        WorkOutcome::Success
    });
    add(&scheduler, slow);
    let cancel = CancellationToken::new();
    let (handle, canceller) = (scheduler.handle(), cancel.clone());
    let helper = tokio::spawn(async move {
        tokio::time::sleep(ms(5)).await;
        canceller.cancel();
        settle().await;
        handle.reopen(broken).expect("it failed");
    });
    _ = scheduler.run_until_done_with_cancel(cancel).await;
    helper.await.expect("it was in time");
    assert_eq!([broken, follows].map(|id| state(&scheduler, id)), [WorkState::Cancelled; 2]);
    assert_eq!(look(&scheduler, broken).attempts, 1);
    scheduler.reopen(broken).expect("it was cancelled");
    _ = scheduler.run_until_done().await;
    assert_eq!([broken, follows].map(|id| state(&scheduler, id)), [WorkState::Success; 2]);
}

#[tokio::test(start_paused = true)]
async fn the_state_of_an_attempt_does_not_leak_into_the_next_on_its_runner() {
    let marks: [fn(&WorkContext); 3] = [
        |ctx| assert!(ctx.handle().cancel(ctx.id)),
        |ctx| ctx.cancel_token().cancel(),
        |ctx| ctx.explain_retry("on purpose"),
    ];
    for mark in marks {
        let mut scheduler = scheduler(1);
        let marked = act("marked", move |ctx| {
            mark(&ctx);
            async { WorkOutcome::Success }
        });
        add(&scheduler, marked);
        let next = act("next", |ctx| {
            let is_told = ctx.is_cancelled() || ctx.cancel_token().is_cancelled();
            assert!(!is_told, "this one was not asked to stop");
            async { retry(ms(1)) }
        });
        let next = add(&scheduler, next);
        _ = scheduler.run_until_done().await;
        let error = look(&scheduler, next).last_error;
        let own = "it asked to be tried again; no retries left after attempt 1";
        assert_eq!(error.as_deref(), Some(own));
    }
}

#[tokio::test]
async fn a_run_whose_token_is_cancelled_already_starts_nothing() {
    for until_done in [true, false] {
        let (mut scheduler, mut events) = watched(4);
        for name in ["a", "b", "c"] {
            add(&scheduler, act(name, |_| async { unreachable!("the run is cancelled") }));
        }
        let gated = act("gated", |_| async { unreachable!("the run is cancelled") });
        add(&scheduler, gated.gate(async {}));
        let cancel = CancellationToken::new();
        cancel.cancel();
        if until_done {
            _ = scheduler.run_until_done_with_cancel(cancel).await;
        } else {
            _ = scheduler.run_until_cancelled(cancel).await;
        }
        assert_eq!(scheduler.metrics().cancelled, 4);
        assert_eq!(scheduler.metrics().attempts, 0);
        assert_eq!(events.take().len(), 4, "each is cancelled once, and nothing else happens");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_cancelled_before_the_first_poll_of_its_run_prevents_all_starts() {
    let mut scheduler = scheduler(4);
    for name in ["a", "b", "c"] {
        add(&scheduler, act(name, |_| async { unreachable!("the run is cancelled") }));
    }
    let cancel = CancellationToken::new();
    let run = scheduler.run_until_done_with_cancel(cancel.clone());
    cancel.cancel();
    _ = run.await;
    assert_eq!((scheduler.metrics().cancelled, scheduler.metrics().attempts), (3, 0));
}

#[tokio::test]
async fn a_scheduler_runs_again_after_a_run_whose_token_was_cancelled_already() {
    let mut scheduler = scheduler(1);
    let first = add(&scheduler, ok("first"));
    let cancel = CancellationToken::new();
    cancel.cancel();
    _ = scheduler.run_until_cancelled(cancel).await;
    let second = add(&scheduler, ok("second"));
    _ = scheduler.run_until_done().await;
    assert_eq!(state(&scheduler, first), WorkState::Cancelled);
    assert_eq!(state(&scheduler, second), WorkState::Success);
}
