//! The memory of a scheduler that forgets does not grow while it runs. In a process of its own, because
//! it is the process that is measured.

#![cfg(target_os = "linux")]

use std::time::Duration;

use windlass::core::Random;
use windlass::{
    BatchWork, Dependency, RetryPolicy, WorkError, WorkHandle, WorkId, WorkScheduler, WorkSpec,
    work_fn,
};

/// How much memory this process has.
fn resident_kib() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("it is told");
    let number = line.split_whitespace().nth(1).expect("a number");
    number.parse().expect("a number")
}

fn work(random: &mut Random) -> WorkSpec {
    let plan = random.within(0..8);
    match plan {
        0 => work_fn("fails", |_| async { Err(WorkError::msg("on purpose")) })
            .retry(RetryPolicy::fixed(Duration::from_micros(10)).times(2)),
        1 => work_fn("parent", |ctx| async move {
            for _ in 0..3 {
                ctx.add_child(work_fn("child", |_| async { Ok(()) }))?;
            }
            if ctx.attempt == 1 {
                return Err(WorkError::msg("once more"));
            }
            ctx.join_children().await?;
            Ok(())
        })
        .retries(1),
        2 => WorkSpec::new(BatchWork::new("batch", 2, || {
            (0..5).map(|_| work_fn("part", |_| async { Ok(()) }))
        })),
        3 => work_fn("gated", |_| async { Ok(()) }).gate(tokio::task::yield_now()),
        4 => work_fn("timed", |ctx| async move { Ok(ctx.suspend(async {}).await?) })
            .timeout(Duration::from_secs(60))
            .deadline(tokio::time::Instant::now() + Duration::from_secs(3600)),
        _ => work_fn("plain", |_| async { Ok(()) }),
    }
}

fn fill(handle: &WorkHandle, random: &mut Random) {
    let mut before: Option<WorkId> = None;
    for _ in 0..400 {
        let mut spec = work(random);
        if let Some(before) = before.filter(|_| random.one_in(3)) {
            spec = spec.after([Dependency::done(before)]);
        }
        before = Some(handle.submit(spec).expect("it can be taken in"));
    }
}

#[test]
fn memory_does_not_grow_with_what_is_forgotten() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build();
    runtime.expect("a runtime").block_on(async {
        let builder = WorkScheduler::builder().max_concurrency(8).keep_ended(50);
        let builder = builder.retry_delay(Duration::from_micros(10));
        let mut scheduler = builder.build().expect("slots");
        let mut random = Random::new(1);
        let mut warm = 0;
        for round in 0..20 {
            fill(scheduler.as_ref(), &mut random);
            _ = scheduler.run_until_done().await;
            assert!(scheduler.metrics().total <= 50);
            if round == 5 {
                warm = resident_kib();
            }
        }
        let grown = resident_kib() - warm;
        assert!(grown < 1024, "{grown} KiB more after thousands of works more");
    });
}
