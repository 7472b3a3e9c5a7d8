use windlass::{Dependency, WorkError, WorkScheduler, WorkState, work_after, work_fn};

fn scheduler() -> WorkScheduler {
    WorkScheduler::default()
}

#[tokio::test(start_paused = true)]
async fn values_have_the_shape_of_the_inputs_in_every_attempt() {
    let mut scheduler = scheduler();
    let number = |n: u32| work_fn(format!("number {n}"), move |_| async move { Ok(n) });
    let spawn = |n| scheduler.spawn(number(n)).expect("it fits");
    let (one, two, rest) = (spawn(1), spawn(2), vec![spawn(3), spawn(4)]);
    let sum = work_after("sum", ([&one, &two], &rest), |ctx, ([one, two], rest)| async move {
        if ctx.attempt < 3 {
            return Err(WorkError::msg("not yet"));
        }
        Ok(*one + *two + rest.iter().map(|n| **n).sum::<u32>())
    });
    let sum = scheduler.spawn(sum.retries(5)).expect("it fits");
    _ = scheduler.run_until_done().await;
    let deps = scheduler.snapshot_of(sum.id()).expect("it is known").deps;
    assert_eq!(deps, [one.id(), two.id(), rest[0].id(), rest[1].id()]);
    assert_eq!(*sum.await.expect("it has succeeded"), 10);
}

#[tokio::test]
async fn a_failed_input_blocks_the_work_that_takes_it() {
    let mut scheduler = scheduler();
    let broken = work_fn("broken", |_| async { Err::<u32, _>(WorkError::msg("no")) });
    let broken = scheduler.spawn(broken).expect("it fits");
    let takes = work_after("takes", &broken, |_, n| async move { Ok(*n) });
    let takes = scheduler.spawn(takes).expect("it fits");
    _ = scheduler.run_until_done().await;
    let failure = takes.await.expect_err("there is nothing to take");
    assert_eq!(failure.state, WorkState::Blocked);
}

#[tokio::test]
async fn a_skipped_input_is_named_in_the_error() {
    let mut scheduler = scheduler();
    let fine = scheduler.submit(work_fn("fine", |_| async { Ok(()) })).expect("it fits");
    let rescue = work_fn("rescue", |_| async { Ok(1) }).after([Dependency::failed(fine)]);
    let rescue = scheduler.spawn(rescue).expect("it fits");
    let takes = work_after("takes", &rescue, |_, n| async move { Ok(*n) }).retries(3);
    let takes = scheduler.spawn(takes).expect("it fits");
    _ = scheduler.run_until_done().await;
    let failure = takes.await.expect_err("there is nothing to take");
    let text = "work \"takes\" failed: \"rescue\", which it needs, has no value";
    assert_eq!(failure.to_string(), text);
    assert_eq!(scheduler.metrics().attempts, 2, "it is not tried again");
}
