//! The errors of works that ended by a deadline or a child.

use std::time::Duration;

use tokio::time::Instant;
use windlass::{WorkError, WorkScheduler, WorkSpec, work_fn};

fn broken(name: &str) -> WorkSpec {
    work_fn(name, |_| async { Err(WorkError::msg("no route")) })
}

async fn check(spec: WorkSpec, status: &str) {
    let mut scheduler = WorkScheduler::default();
    let work = scheduler.submit(spec).expect("it fits");
    _ = scheduler.run_until_done().await;
    assert_eq!(scheduler.snapshot_of(work).expect("it is known").status(), status);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_in_a_retry_delay_is_named_beside_the_last_reason() {
    let soon = Instant::now() + Duration::from_millis(1500);
    let text = "failed: no route; its deadline passed before attempt 3";
    check(broken("late").retries(9).deadline(soon), text).await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_before_the_first_attempt_is_named() {
    let soon = Instant::now() + Duration::from_secs(1);
    let gated = broken("late").gate(std::future::pending()).deadline(soon);
    check(gated, "failed: its deadline passed before it began").await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_child_is_named_with_its_reason() {
    let parent = |retries| {
        let body =
            |ctx: windlass::WorkContext| async move { Ok(_ = ctx.add_child(broken("child"))?) };
        work_fn("parent", body).retries(retries)
    };
    let child = "failed: its child \"child\" failed: no route";
    check(parent(0), child).await;
    check(parent(1), &format!("{child}; no retries left after attempt 2")).await;
}
