//! What the feature `serde` writes.

use serde_json::{json, to_value};
use windlass::{ResourceCapacity, WorkError, WorkScheduler, work_fn};

use crate::support::*;

/// Fails in its first attempt, after three seconds.
fn flaky() -> windlass::WorkSpec {
    work_fn("flaky", |ctx| async move {
        tokio::time::sleep(secs(3)).await;
        if ctx.attempt == 1 { Err(WorkError::msg("no route")) } else { Ok(()) }
    })
    .retries(1)
}

#[tokio::test(start_paused = true)]
async fn snapshots_have_seconds_numbers_and_lower_case_words() {
    let builder = WorkScheduler::builder().retry_delay(secs(10));
    let mut scheduler = builder.build().expect("slots");
    let first = add(&scheduler, flaky());
    add(&scheduler, ok("then").after([first]));
    let handle = scheduler.handle();
    let look = tokio::spawn(async move {
        tokio::time::sleep(secs(5)).await;
        to_value(handle.snapshot()).expect("it can be written")
    });
    _ = scheduler.run_until_done().await;
    let seen = look.await.expect("no panic");
    let expected = json!({
        "id": 1,
        "name": "flaky",
        "state": "pending",
        "phase": "delayed",
        "stop_reason": null,
        "skipped": false,
        "deps": [],
        "dependents": [2],
        "attempts": 1,
        "retries_left": 0,
        "last_error": "no route",
        "last_duration": 3.0,
        "total_duration": 3.0,
        "retry_in": 8.0,
        "children": { "total": 0, "succeeded": 0, "failed": 0 },
        "status": "Retrying in 8 s (attempt 2 of 2)",
    });
    assert_eq!(seen[0], expected);
    assert_eq!((&seen[1]["phase"], &seen[1]["deps"]), (&json!("waiting"), &json!([1])));
}

#[tokio::test(start_paused = true)]
async fn events_metrics_and_summaries_can_be_written() {
    let (mut scheduler, mut events) = watched(1);
    let bad = add(&scheduler, fails("bad"));
    add(&scheduler, ok("held up").after([bad]));
    let summary = scheduler.run_until_done().await;
    let failure = json!({ "id": 1, "name": "bad", "state": "failed", "error": "broken" });
    let expected = json!({
        "success": 0, "skipped": 0, "failed": 1, "blocked": 1, "cancelled": 0,
        "failures": [failure],
    });
    assert_eq!(to_value(summary).expect("written"), expected);
    let metrics = to_value(scheduler.metrics()).expect("written");
    assert_eq!((&metrics["failed"], &metrics["attempts"]), (&json!(1), &json!(1)));
    let event = to_value(&events.take()[0]).expect("written");
    let expected = json!({
        "id": 1, "name": "bad", "state": "running", "phase": "running", "stop_reason": null,
        "previous": "pending", "attempt": 1, "number": 3, "at": 0.0,
    });
    assert_eq!(event, expected);
}

#[test]
fn metrics_of_a_capacity_can_be_written() {
    let capacity = ResourceCapacity::new([("gpu", 4)]);
    let _held = capacity.try_acquire([("gpu", 3)]).expect("it fits");
    capacity.try_acquire([("gpu", 3)]).expect_err("one is left");
    let seen = to_value(capacity.metrics()).expect("written");
    assert_eq!(seen["refused"], json!({ "limit": 1, "reserved": 0, "rate": 0, "quota": 0 }));
    assert_eq!(seen["utilization"], json!({ "gpu": 0.75 }));
    assert!(seen["rolling"]["over"].is_number());
}
