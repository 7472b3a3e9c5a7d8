//! Attempts that fail and are retried.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use windlass::{
    Fatal, Phase, RETRY_A_FEW, RETRY_A_LOT, RETRY_NEVER, RETRY_ONCE, ResourceCost, RetryPolicy,
    WorkError, WorkOutcome, WorkScheduler, WorkState, work_fn,
};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_delayed_retry_is_pending_and_holds_nothing() {
    let gpu = || ResourceCost::from([("gpu", 1)]);
    let builder = WorkScheduler::builder().max_concurrency(1).limits(gpu());
    let (mut scheduler, mut events) = watch(builder);
    let tried = answers("tried", ms(10), &[retry(ms(100)), WorkOutcome::Success]);
    let tried = add(&scheduler, tried.needs(gpu()).retries(1));
    add(&scheduler, takes("other", ms(20)).needs(gpu()));
    let (handle, start) = (scheduler.handle(), Instant::now());
    let looker = tokio::spawn(async move {
        tokio::time::sleep(ms(20)).await;
        look(&handle, tried)
    });
    _ = scheduler.run_until_done().await;
    let seen = looker.await.expect("it only looks");
    assert!(matches!(seen.phase, Phase::Delayed { .. }), "{:?}", seen.phase);
    assert_eq!((seen.state, seen.attempts, seen.retries_left), (WorkState::Pending, 1, 0));
    assert_eq!(seen.retry_at, Some(start + ms(110)));
    let expected = [
        "0ns tried Running 1",
        "10ms tried Pending 1",
        "10ms other Running 1",
        "30ms other Success 1",
        "110ms tried Running 2",
        "120ms tried Success 2",
    ];
    assert_eq!(events.seen(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_retry_without_a_delay_waits_for_the_configured_one() {
    let builder = WorkScheduler::builder().retry_delay(ms(700));
    let (mut scheduler, mut events) = watch(builder);
    let tried = answers("tried", ms(0), &[retry(Duration::ZERO), WorkOutcome::Success]);
    add(&scheduler, tried.retries(1));
    _ = scheduler.run_until_done().await;
    assert_eq!(events.seen()[2], "700ms tried Running 2");
}

#[tokio::test(start_paused = true)]
async fn a_retry_without_retries_left_fails_with_the_last_error() {
    let mut scheduler = scheduler(1);
    let silent = add(&scheduler, answers("silent", ms(0), &[retry(ms(1))]).retries(1));
    let talks = act("talks", |ctx| async move {
        ctx.explain_retry(format!("disk {} is full", ctx.attempt));
        retry(ms(1))
    });
    let talks = add(&scheduler, talks.retries(2));
    let fails = work_fn("fails", |ctx| async move {
        Err::<(), _>(WorkError::msg(format!("no route {}", ctx.attempt)))
    });
    let fails = add(&scheduler, fails);
    _ = scheduler.run_until_done().await;
    let expected = [
        (silent, "it asked to be tried again; no retries left after attempt 2", 2),
        (talks, "disk 3 is full; no retries left after attempt 3", 3),
        (fails, "no route 1", 1),
    ];
    for (work, error, attempts) in expected {
        let seen = look(&scheduler, work);
        assert_eq!((seen.state, seen.attempts), (WorkState::Failed, attempts));
        assert_eq!(last_error(&scheduler, work), error);
    }
}

#[tokio::test(start_paused = true)]
async fn failed_is_final_also_with_retries_left() {
    let (mut scheduler, mut events) = watched(1);
    let work = add(&scheduler, fails("work").retries(RETRY_A_LOT));
    _ = scheduler.run_until_done().await;
    assert_eq!(events.seen(), ["0ns work Running 1", "0ns work Failed 1"]);
    let seen = look(&scheduler, work);
    assert_eq!((seen.last_error.as_deref(), seen.retries_left), (Some("broken"), RETRY_A_LOT));
}

#[tokio::test(start_paused = true)]
async fn a_panic_fails_with_its_message_and_is_not_retried() {
    let (mut scheduler, mut events) = watched(1);
    let work = act("work", |_| async { panic!("out of {}", "cheese") });
    let work = add(&scheduler, work.retries(3));
    let follower = add(&scheduler, ok("follower").after([work]));
    _ = scheduler.run_until_done().await;
    let seen = events.seen();
    assert_eq!(seen, ["0ns work Running 1", "0ns work Failed 1", "0ns follower Blocked 0"]);
    assert_eq!(last_error(&scheduler, work), "the work panicked: out of cheese");
    assert_eq!(state(&scheduler, follower), WorkState::Blocked);
}

/// The payload of a panic whose destructor panics, too.
struct Spiteful;

impl Drop for Spiteful {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("the payload panics");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_payload_may_panic_when_it_is_dropped() {
    let mut scheduler = scheduler(1);
    let at_once = act("at once", |_| async { std::panic::panic_any(Spiteful) });
    let later = act("later", |_| async {
        tokio::task::yield_now().await;
        std::panic::panic_any(Spiteful)
    });
    let gated = ok("gated").gate(async { std::panic::panic_any(Spiteful) });
    let works = [at_once, later, gated].map(|spec| add(&scheduler, spec));
    let next = add(&scheduler, ok("next"));
    _ = scheduler.run_until_done().await;
    for work in works {
        assert_eq!(look(&scheduler, work).status(), "failed: the work panicked: no message");
    }
    assert_eq!(state(&scheduler, next), WorkState::Success);
}

#[tokio::test(start_paused = true)]
async fn a_pending_cancel_wins_over_a_panic() {
    let (mut scheduler, mut events) = watched(1);
    let work = act("work", |ctx| async move {
        assert!(ctx.handle().cancel(ctx.id));
        panic!("too late")
    });
    add(&scheduler, work.retries(3));
    _ = scheduler.run_until_done().await;
    assert_eq!(events.seen(), ["0ns work Running 1", "0ns work Cancelled 1"]);
}

#[test]
fn the_retry_constants_are_those_of_stellar_core() {
    assert_eq!([RETRY_NEVER, RETRY_ONCE, RETRY_A_FEW, RETRY_A_LOT], [0, 1, 5, 32]);
}

/// Returns when the attempts of a work that always asks for a retry begin, in seconds.
async fn starts(policy: RetryPolicy, seed: u64) -> Vec<u64> {
    let (mut scheduler, mut events) = watch(WorkScheduler::builder().seed(seed));
    add(&scheduler, answers("work", ms(0), &[retry(Duration::ZERO)]).retry(policy));
    _ = scheduler.run_until_done().await;
    let starts = events.take().into_iter().filter(|event| event.state == WorkState::Running);
    starts.map(|event| event.at.as_nanos() / 1_000_000_000).collect()
}

#[tokio::test(start_paused = true)]
async fn each_policy_has_its_delays() {
    let second = secs(1);
    let cases = [
        (RetryPolicy::fixed(secs(3)).times(3), vec![0, 3, 6, 9]),
        (RetryPolicy::linear(second).times(4), vec![0, 1, 3, 6, 10]),
        (RetryPolicy::exponential(second).times(4), vec![0, 1, 3, 7, 15]),
        (RetryPolicy::exponential(second).cap(secs(3)).times(4), vec![0, 1, 3, 6, 9]),
        (RetryPolicy::fixed(second).times(RETRY_NEVER), vec![0]),
    ];
    for (policy, expected) in cases {
        assert_eq!(starts(policy, 0).await, expected, "{policy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_default_policy_spreads_its_delays_and_replays_by_seed() {
    let policy = RetryPolicy::default().times(12);
    for seed in 0..20 {
        let begun = starts(policy, seed).await;
        for (n, pair) in (1..).zip(begun.windows(2)) {
            let (delay, most) = (pair[1] - pair[0], 1 << n.min(9));
            // Starts are in whole seconds, so a delay may look one shorter.
            assert!((most / 2..=most).contains(&delay), "{delay} s before retry {n}");
        }
        assert_eq!(starts(policy, seed).await, begun, "seed {seed} again");
    }
    assert_ne!(starts(policy, 1).await, starts(policy, 2).await);
}

#[tokio::test(start_paused = true)]
async fn no_delay_overflows_at_any_attempt() {
    for policy in [RetryPolicy::exponential(Duration::MAX), RetryPolicy::linear(Duration::MAX)] {
        let mut scheduler = scheduler(1);
        let work = answers("work", ms(0), &[retry(Duration::ZERO)]).retry(policy.times(u32::MAX));
        let work = add(&scheduler, work);
        let patience = tokio::time::timeout(secs(3600), scheduler.run_until_done());
        patience.await.expect_err("it comes due in centuries");
        assert_eq!(look(&scheduler, work).attempts, 1);
    }
    assert!(starts(RetryPolicy::exponential(ms(1)).cap(secs(1)).times(100), 0).await.len() == 101);
}

#[tokio::test(start_paused = true)]
async fn an_explicit_delay_goes_before_the_policy() {
    let (mut scheduler, mut events) = watched(1);
    let work = answers("work", ms(0), &[retry(ms(20)), WorkOutcome::Success]);
    add(&scheduler, work.retry(RetryPolicy::fixed(secs(9))));
    _ = scheduler.run_until_done().await;
    assert_eq!(events.seen()[2], "20ms work Running 2");
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_closure_is_retried_and_a_fatal_one_is_not() {
    let mut scheduler = scheduler(2);
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let parses = work_fn("parses", move |ctx| {
        let text = if counted.fetch_add(1, Ordering::Relaxed) < 2 { "x" } else { "7" };
        async move {
            assert!(ctx.attempt <= 3);
            Ok(text.parse::<u32>()?)
        }
    });
    let parses = scheduler.spawn(parses.retries(5)).expect("it is taken in");
    let gives_up =
        work_fn("gives up", |_| async { Err::<(), _>(Fatal(WorkError::msg("no")).into()) });
    let gives_up = add(&scheduler, gives_up.retries(5));
    let parsed_once = work_fn("fatal", |_| async { Ok("x".parse::<u32>().map_err(Fatal)?) });
    let parsed_once = add(&scheduler, parsed_once.retries(5));
    _ = scheduler.run_until_done().await;
    assert_eq!(*parses.clone().await.expect("the third attempt parses"), 7);
    assert_eq!(calls.load(Ordering::Relaxed), 3);
    assert_eq!(last_error(&scheduler, parses.id()), "invalid digit found in string");
    for (work, error) in [(gives_up, "no"), (parsed_once, "invalid digit found in string")] {
        let seen = look(&scheduler, work);
        assert_eq!((seen.state, seen.attempts), (WorkState::Failed, 1));
        assert_eq!(seen.last_error.as_deref(), Some(error));
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_comes_due_while_other_works_run() {
    let (mut scheduler, mut events) = watched(2);
    add(&scheduler, answers("tried", ms(0), &[retry(ms(10)), WorkOutcome::Success]).retries(1));
    add(&scheduler, act("at once", |_| async { retry(ms(20)) }).retries(1));
    add(&scheduler, takes("long", secs(1)));
    _ = scheduler.run_until_done().await;
    let seen = events.seen();
    assert!(seen.contains(&"10ms tried Running 2".to_owned()), "{seen:?}");
    assert!(seen.contains(&"20ms at once Running 2".to_owned()), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn only_works_that_have_not_ended_have_retries_left_in_the_metrics() {
    let mut scheduler = scheduler(1);
    let left = |scheduler: &WorkScheduler| scheduler.metrics().retries_left;
    let good = add(&scheduler, ok("good").retries(3));
    let bad = add(&scheduler, answers("bad", ms(0), &[retry(ms(1)), failed("bad")]).retries(5));
    add(&scheduler, ok("blocked").retries(7).after([bad]));
    let cancelled = add(&scheduler, ok("cancelled").retries(11));
    assert_eq!(left(&scheduler), 3 + 5 + 7 + 11);
    scheduler.cancel(cancelled);
    assert_eq!(left(&scheduler), 3 + 5 + 7);
    _ = scheduler.run_until_done().await;
    assert_eq!(left(&scheduler), 0);
    assert_eq!(look(&scheduler, good).retries_left, 3, "a snapshot has what a work did not use");
    scheduler.forget(good);
    assert_eq!(left(&scheduler), 0);
    scheduler.reopen(bad).expect("it failed");
    assert_eq!(left(&scheduler), 5 + 7, "it begins anew, with what it blocked");
}
