//! Handles: from inside works, from other threads, and after their scheduler is gone.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use windlass::{
    CancellationToken, ExecuteError, ResourceCapacity, ResourceCost, SubmitError, Work,
    WorkContext, WorkHandle, WorkOutcome, WorkScheduler, WorkSpec, WorkState, WorkWithCallback,
    work_fn,
};

use crate::support::*;

#[test]
fn handles_and_schedulers_can_be_sent_between_threads() {
    fn is_shared<T: Clone + Send + Sync + 'static>() {}
    fn is_sent<T: Send + 'static>() {}
    is_shared::<WorkHandle>();
    is_shared::<WorkContext>();
    is_shared::<windlass::WorkRef<String>>();
    is_sent::<WorkScheduler>();
    is_sent::<windlass::Subscription>();
    is_sent::<WorkSpec<String>>();
}

#[tokio::test(start_paused = true)]
async fn a_running_work_lets_the_graph_grow() {
    let (mut scheduler, mut events) = watched(2);
    let grows = work_fn("grows", |ctx| async move {
        let handle = ctx.handle();
        let first = handle.spawn(work_fn("first", |_| async { Ok(20) }))?;
        let input = first.clone();
        let second = work_fn("second", move |_| {
            let first = input.value();
            async move { Ok(*first.expect("it has succeeded") + 22) }
        });
        let second = handle.spawn(second.after([&first]).after([ctx.id]))?;
        assert_eq!(state(&handle, second.id()), WorkState::Pending);
        let unwanted = handle.submit(ok("unwanted").after([ctx.id]))?;
        assert!(handle.cancel(unwanted));
        assert!(handle.forget(unwanted));
        handle.add_dependency(second.id(), first.id())?;
        Ok(second)
    });
    let grows = scheduler.spawn(grows).expect("it is taken in");
    _ = scheduler.run_until_done().await;
    let second = grows.await.expect("it succeeds");
    assert_eq!(second.value().as_deref(), Some(&42));
    assert_eq!(events.take().len(), 7);
    assert_eq!(scheduler.metrics().forgotten, 1);
}

#[tokio::test(start_paused = true)]
async fn a_work_may_execute_another_while_it_is_suspended() {
    let mut scheduler = scheduler(1);
    let asks = work_fn("asks", |ctx| async move {
        let answer = work_fn("answers", |_| async { Ok(42) });
        let answer = ctx.suspend(ctx.handle().execute(answer)).await??;
        Ok(*answer)
    });
    let asks = scheduler.spawn(asks).expect("it is taken in");
    _ = scheduler.run_until_done().await;
    assert_eq!(*asks.await.expect("it succeeds at one slot"), 42);
}

#[tokio::test(start_paused = true)]
async fn a_work_may_cancel_itself_and_all_others() {
    let (mut scheduler, mut events) = watched(2);
    add(&scheduler, obedient("other"));
    add(
        &scheduler,
        act("stops", |ctx| async move {
            ctx.handle().cancel_all();
            assert!(ctx.is_cancelled());
            WorkOutcome::Success
        }),
    );
    add(&scheduler, ok("third"));
    _ = scheduler.run_until_done().await;
    let seen = events.seen();
    assert_eq!(seen[2], "0ns third Cancelled 0");
    assert_eq!(scheduler.metrics().cancelled, 3);
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_work_is_unknown() {
    let (mut scheduler, mut events) = watched(1);
    let work = add(&scheduler, takes("work", ms(5)));
    let follower = add(&scheduler, ok("follower").after([work]));
    assert!(!scheduler.forget(work), "it has not ended");
    _ = scheduler.run_until_done().await;
    events.take();
    assert!(scheduler.forget(work));
    assert!(!scheduler.forget(work), "it is unknown");
    assert_eq!(scheduler.state(work), None);
    assert!(scheduler.snapshot_of(work).is_none() && scheduler.explain(work).is_none());
    assert!(scheduler.take_work(work).is_none() && !scheduler.wake(work));
    assert!(scheduler.submit(ok("late").after([work])).is_err());
    assert!(scheduler.add_dependency(follower, work).is_err());
    let metrics = scheduler.metrics();
    assert_eq!((metrics.total, metrics.success, metrics.forgotten), (1, 1, 1));
    assert_eq!(events.seen(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_work_that_ends_by_its_deadline_can_be_forgotten_at_that_moment() {
    let (scheduler, mut events) = watched(1);
    let late = add(&scheduler, ok("late").deadline(tokio::time::Instant::now() + ms(1)));
    let follower = add(&scheduler, ok("follower").after([late]));
    tokio::time::advance(ms(2)).await;
    assert!(scheduler.forget(follower), "it is blocked since then");
    assert_eq!(state(&scheduler, late), WorkState::Failed);
    let ends = events.seen();
    assert_eq!(ends[ends.len() - 2..], ["1ms late Failed 0", "1ms follower Blocked 0"]);
}

#[tokio::test(start_paused = true)]
async fn a_scheduler_that_keeps_a_few_forgets_the_oldest() {
    let builder = WorkScheduler::builder().max_concurrency(1).keep_ended(3);
    let mut scheduler = builder.build().expect("slots");
    let mut works = Vec::new();
    for _ in 0..10 {
        works.push(add(&scheduler, ok("work")));
    }
    _ = scheduler.run_until_done().await;
    let known: Vec<_> = scheduler.snapshot().into_iter().map(|work| work.id).collect();
    assert_eq!(known, works[7..]);
    let metrics = scheduler.metrics();
    assert_eq!((metrics.total, metrics.forgotten, metrics.attempts), (3, 7, 10));
}

#[tokio::test(start_paused = true)]
async fn works_forgotten_by_hand_or_reopened_do_not_count_as_kept() {
    let builder = WorkScheduler::builder().max_concurrency(1).keep_ended(2);
    let mut scheduler = builder.build().expect("slots");
    let known = |scheduler: &WorkScheduler| -> Vec<_> {
        scheduler.snapshot().into_iter().map(|work| work.id).collect()
    };
    let [a, b] = [(); 2].map(|()| add(&scheduler, ok("work")));
    _ = scheduler.run_until_done().await;
    assert!(scheduler.forget(b));
    let c = add(&scheduler, answers("c", ms(0), &[failed("once"), WorkOutcome::Success]));
    _ = scheduler.run_until_done().await;
    assert_eq!(known(&scheduler), [a, c], "two are kept");
    scheduler.reopen(c).expect("it failed");
    let d = add(&scheduler, ok("d").priority(1));
    _ = scheduler.run_until_done().await;
    assert_eq!(known(&scheduler), [c, d], "the oldest goes, however often others ended");
    let e = add(&scheduler, ok("e"));
    _ = scheduler.run_until_done().await;
    assert_eq!(known(&scheduler), [c, e], "the one tried again ended after the other");
}

#[tokio::test(start_paused = true)]
async fn a_scheduler_runs_again_after_more_works_are_added() {
    let (mut scheduler, mut events) = watched(2);
    _ = scheduler.run_until_done().await;
    let mut before = None;
    for n in 0..3 {
        let spec = ok(&format!("work {n}")).after(before);
        before = Some(add(&scheduler, spec));
        assert_eq!(events.seen(), [""; 0], "not before it runs");
        _ = scheduler.run_until_done().await;
        assert_eq!(events.take().len(), 2);
    }
    assert_eq!(scheduler.metrics().success, 3);
}

#[tokio::test]
async fn metrics_cost_the_same_however_many_works_there_are() {
    let scheduler = scheduler(1);
    for _ in 0..20_000 {
        add(&scheduler, ok("work"));
    }
    let start = std::time::Instant::now();
    for _ in 0..100_000 {
        assert_eq!(scheduler.metrics().pending, 20_000);
    }
    // Counting anew each time would take two billion steps.
    assert!(start.elapsed() < Duration::from_secs(5), "it took {:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_handle_of_a_dropped_scheduler_refuses_works() {
    let mut scheduler = scheduler(1);
    let handle = scheduler.handle();
    let done = add(&scheduler, ok("done"));
    _ = scheduler.run_until_done().await;
    let waiting = scheduler.spawn(work_fn("waiting", |_| async { Ok(1) })).expect("taken in");
    let executed = tokio::spawn({
        let handle = handle.clone();
        async move { handle.execute(ok("executed")).await }
    });
    let mut told = handle.subscribe();
    settle().await;
    drop(scheduler);

    assert_eq!(handle.submit(ok("late")), Err(SubmitError::ShutDown));
    assert!(handle.spawn(ok("late")).is_err());
    let late = handle.execute(ok("late")).await;
    assert_eq!(late.err(), Some(ExecuteError::Refused(SubmitError::ShutDown)));
    let failure = waiting.await.expect_err("it never ran");
    assert_eq!(failure.state, WorkState::Cancelled);
    let Err(ExecuteError::Failed(failure)) = executed.await.expect("it is told") else {
        panic!("it was taken in, and never ran")
    };
    assert_eq!(failure.to_string(), "work \"executed\" was cancelled");

    let mut changes = 0;
    while told.recv().await.is_some() {
        changes += 1;
    }
    assert_eq!(changes, 3, "one came, two were cancelled, and that was the end");
    assert_eq!(state(&handle, done), WorkState::Success, "it can still be looked at");
    assert!(!handle.cancel(done) && !handle.wake(done) && handle.take_work(done).is_none());
    assert!(handle.reopen(failure.id).is_err(), "its body is gone");
    assert_eq!(handle.explain(done).expect("it is known").reasons, []);
    handle.set_max_concurrency(7);
    handle.cancel_all();
    assert!(handle.forget(done));
    handle.shutdown().await;
    assert_done(&handle);
}

#[tokio::test]
#[should_panic(expected = "the scheduler is gone, so nothing can be submitted to it")]
async fn add_work_panics_if_the_scheduler_is_gone() {
    let handle = scheduler(1).handle();
    handle.add_work(Box::new(Act::new("late", |_| async { failed("never") })), vec![], 0);
}

#[tokio::test(start_paused = true)]
async fn a_scheduler_that_was_shut_down_refuses_works_and_runs_none() {
    let (mut scheduler, mut events) = watched(1);
    add(&scheduler, ok("work"));
    scheduler.shutdown().await;
    assert_eq!(scheduler.submit(ok("late")), Err(SubmitError::ShutDown));
    _ = scheduler.run_until_done().await;
    _ = scheduler.run_until_cancelled(CancellationToken::new()).await;
    assert_eq!(events.seen(), ["0ns work Cancelled 0"]);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_through_a_handle_ends_a_run() {
    let (mut scheduler, mut events) = watched(2);
    add(&scheduler, obedient("work"));
    let handle = scheduler.handle();
    let elsewhere = tokio::spawn(async move {
        sleep(ms(5)).await;
        handle.shutdown().await;
        assert_done(&handle);
    });
    _ = scheduler.run_until_cancelled(CancellationToken::new()).await;
    elsewhere.await.expect("every work has ended by then");
    assert_eq!(events.seen()[1..], ["5ms work Cancelled 1"]);
}

/// A body with a handle of its own scheduler.
struct Owner {
    _handle: WorkHandle,
    _one: Arc<()>,
    answer: WorkOutcome,
}

#[windlass::async_trait]
impl Work for Owner {
    async fn run(&mut self, ctx: WorkContext) -> WorkOutcome {
        match &self.answer {
            WorkOutcome::Cancelled => ctx.suspend(std::future::pending()).await.unwrap_or_default(),
            answer => return answer.clone(),
        }
        WorkOutcome::Success
    }
}

/// Works in every state, all of which own handles.
async fn full_of_owners(census: &Census) -> WorkScheduler {
    let mut scheduler = scheduler(2);
    let owner = |answer| {
        let (_handle, _one) = (scheduler.handle(), census.one());
        WorkSpec::new(Owner { _handle, _one, answer })
    };
    let bad = add(&scheduler, owner(failed("on purpose")));
    add(&scheduler, owner(WorkOutcome::Success).after([bad]));
    add(&scheduler, owner(WorkOutcome::Success));
    let (handle, one) = (scheduler.handle(), census.one());
    let callback = Arc::new(move |_: &WorkOutcome, _: &WorkContext| {
        let _ = (&handle, &one);
    });
    let plain = Act::new("plain", |_| async { WorkOutcome::Success });
    add(&scheduler, WorkSpec::new(WorkWithCallback::new(plain, callback)));
    let (handle, one) = (scheduler.handle(), census.one());
    let brings = work_fn("brings", move |ctx| {
        let value = (handle.clone(), one.clone(), ctx);
        async { Ok(value) }
    });
    drop(scheduler.spawn(brings));
    let (handle, one) = (scheduler.handle(), census.one());
    let gate = async move {
        let _owned = (handle, one);
        std::future::pending::<()>().await;
    };
    add(&scheduler, ok("gated").gate(gate));
    add(&scheduler, owner(WorkOutcome::Cancelled));
    add(&scheduler, owner(retry(secs(3600))).retries(1));
    let run = tokio::time::timeout(ms(10), scheduler.run_until_done());
    run.await.expect_err("one never returns");
    let owner = |answer| {
        let (_handle, _one) = (scheduler.handle(), census.one());
        WorkSpec::new(Owner { _handle, _one, answer })
    };
    let waiting = add(&scheduler, owner(WorkOutcome::Success));
    add(&scheduler, owner(WorkOutcome::Success).after([waiting]));
    let (handle, one) = (scheduler.handle(), census.one());
    let gate = async move {
        let _owned = (handle, one);
    };
    let cancelled = add(&scheduler, ok("cancelled before its gate").gate(gate));
    scheduler.cancel(cancelled);
    assert!(census.alive() > 5);
    scheduler
}

#[tokio::test(start_paused = true)]
async fn works_that_own_handles_are_freed_with_their_scheduler() {
    let census = Census::default();
    let scheduler = full_of_owners(&census).await;
    let handle = scheduler.handle();
    drop(scheduler);
    settle().await;
    assert_eq!(census.alive(), 0, "also while a handle is left");
    assert_done(&handle);
}

#[tokio::test(start_paused = true)]
async fn works_that_own_handles_are_freed_by_a_shutdown() {
    let census = Census::default();
    let scheduler = full_of_owners(&census).await;
    scheduler.shutdown().await;
    settle().await;
    assert_eq!(census.alive(), 0);
    assert_done(&scheduler);
}

/// Starts works of every kind on a runtime and shuts it down. Returns a handle to look at them.
fn shut_down(runtime: tokio::runtime::Runtime, wait: Duration) {
    let census = Census::default();
    let gpu = || ResourceCost::from([("gpu", 3)]);
    let capacity = ResourceCapacity::new(gpu());
    let builder = WorkScheduler::builder().max_concurrency(3).capacity(&capacity);
    let mut scheduler = builder.cancel_grace(secs(3600)).build().expect("slots");
    let handle = scheduler.handle();
    let counted = census.clone();
    let run = async move {
        for n in 0..20 {
            let one = counted.one();
            let work = act("work", move |ctx| {
                let one = one.clone();
                async move {
                    let _one = one;
                    let _ = ctx.add_child(deaf("child"));
                    let _ = ctx.suspend(sleep(ms(n))).await;
                    std::future::pending().await
                }
            });
            let needs = ResourceCost::from([("gpu", 1)]);
            add(&scheduler, work.needs(needs).timeout(ms(1 + n)).retries(3));
        }
        _ = scheduler.run_until_done().await;
    };
    runtime.spawn(run);
    std::thread::sleep(wait);
    drop(runtime);
    assert_eq!(census.alive(), 0, "after {wait:?}");
    assert_eq!(capacity.available(), gpu(), "after {wait:?}");
    assert_done(&handle);
    assert_eq!(handle.submit(ok("late")), Err(SubmitError::ShutDown));
}

#[test]
fn a_runtime_that_is_shut_down_drops_all_bodies() {
    within(secs(20), || {
        for n in 0..8 {
            shut_down(threads(2), ms(n));
            let mut builder = tokio::runtime::Builder::new_current_thread();
            let runtime = builder.enable_time().build().expect("a runtime");
            runtime.block_on(tokio::task::yield_now());
            shut_down(runtime, ms(0));
        }
    });
}

#[test]
fn a_scheduler_outlives_the_runtime_of_a_dropped_run() {
    within(secs(20), || {
        let (mut scheduler, mut events) = watched(2);
        let first = threads(1);
        first.block_on(async {
            add(&scheduler, deaf("lost").retries(3));
            let run = tokio::time::timeout(ms(2), scheduler.run_until_done());
            run.await.expect_err("it never returns");
        });
        drop(first);
        let next = add(&scheduler, ok("next"));
        _ = threads(1).block_on(scheduler.run_until_done());
        assert_eq!(state(&scheduler, next), WorkState::Success);
        assert_eq!(events.take().len(), 4);
        assert_done(&scheduler);
    });
}

#[test]
fn a_handle_needs_no_runtime() {
    let (scheduler, mut events) = watched(1);
    let work = add(&scheduler, ok("work").deadline(tokio::time::Instant::now() + secs(60)));
    let follower = add(&scheduler, ok("follower").after([work]));
    assert_eq!(scheduler.explain(follower).expect("it is known").reasons.len(), 1);
    assert!(scheduler.cancel(work));
    drop(scheduler);
    assert_eq!(events.take().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn works_submitted_by_other_threads_during_a_run_are_run() {
    let mut scheduler = WorkScheduler::default();
    let (handle, stop) = (scheduler.handle(), CancellationToken::new());
    let stopped = stop.clone();
    let service = tokio::spawn(async move { scheduler.run_until_cancelled(stopped).await });
    let clients = (0..4).map(|client| {
        let handle = handle.clone();
        tokio::spawn(async move {
            let mut sum = 0;
            for n in 0..50 {
                let work = work_fn("adds", move |_| async move { Ok(client + n) });
                sum += *handle.execute(work).await.expect("it runs");
            }
            sum
        })
    });
    let sums: Vec<u32> = futures::future::join_all(clients)
        .await
        .into_iter()
        .map(|sum| sum.expect("it is served"))
        .collect();
    stop.cancel();
    _ = service.await.expect("it returns");
    assert_eq!(sums, [1225, 1275, 1325, 1375]);
    assert_eq!(handle.metrics().success, 200);
}

#[test]
fn many_works_that_end_at_once_are_forgotten_at_once() {
    within(secs(20), || {
        let scheduler = WorkScheduler::builder().keep_ended(1).build().expect("slots");
        let first = add(&scheduler, ok("first"));
        for _ in 0..100_000 {
            add(&scheduler, ok("follows").after([first]));
        }
        assert!(scheduler.cancel(first));
        assert_eq!(scheduler.metrics().total, 1);
    });
}

#[tokio::test]
async fn an_explanation_in_one_line_is_short_and_never_empty() {
    let mut scheduler = WorkScheduler::default();
    let parts: Vec<_> = (0..60).map(|n| add(&scheduler, ok(&format!("part {n}")))).collect();
    let sum = add(&scheduler, ok("sum").after(parts));
    let why = scheduler.explain(sum).expect("it is known");
    assert_eq!(why.lines.len(), 60, "all of them are there to be read");
    let line = why.to_string();
    assert!(line.ends_with("it waits for \"part 7\"; and 52 more"), "{line}");
    _ = scheduler.run_until_done().await;
    let why = scheduler.explain(sum).expect("it is known");
    assert_eq!(why.to_string(), "it does not wait");
}
