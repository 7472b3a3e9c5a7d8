//! Runners: bodies that never wait, bodies that never yield, and bodies that always do.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::task::{Context, Wake, Waker};

use tokio::task::{coop, yield_now};
use windlass::{
    CancellationToken, Cancelled, Phase, WorkContext, WorkError, WorkHandle, WorkOutcome,
    WorkScheduler, WorkSpec, WorkState, work_fn,
};

use crate::support::*;

/// A work that blocks its thread until it is released.
fn blocks(name: &str, until: mpsc::Receiver<()>) -> WorkSpec {
    let mut until = Some(until);
    act(name, move |_| {
        let until = until.take().expect("it is tried once");
        async move {
            until.recv().expect("the sender is kept");
            WorkOutcome::Success
        }
    })
}

#[test]
fn a_body_that_never_yields_blocks_only_its_thread() {
    for wide in [1, 100] {
        within(secs(20), move || {
            let (tell, told) = mpsc::channel();
            let mut scheduler = scheduler(500);
            let blocked = add(&scheduler, blocks("blocked", told).priority(9));
            let mut before = Vec::new();
            for _ in 0..3 {
                let layer = (0..wide).map(|n| {
                    let waits = act("work", move |_| async move {
                        if n % 2 == 0 {
                            yield_now().await;
                        }
                        WorkOutcome::Success
                    });
                    add(&scheduler, waits.after(before.clone()))
                });
                before = layer.collect();
            }
            let frees = act("frees", move |_| {
                tell.send(()).expect("it listens");
                async { WorkOutcome::Success }
            });
            add(&scheduler, frees.after(before));
            _ = threads(2).block_on(scheduler.run_until_done());
            assert_eq!(state(&scheduler, blocked), WorkState::Success);
            assert_eq!(scheduler.metrics().success, 2 + 3 * wide);
        });
    }
}

#[test]
fn a_body_that_never_yields_blocks_no_other_after_many_short_ones() {
    within(secs(20), || {
        let (tell, told) = mpsc::channel();
        let mut scheduler = scheduler(500);
        for _ in 0..2000 {
            add(&scheduler, act("tiny", |_| async { WorkOutcome::Success }).priority(2));
        }
        add(&scheduler, blocks("blocked", told).priority(1));
        add(&scheduler, act("tiny", |_| async { WorkOutcome::Success }));
        let frees = act("frees", move |_| {
            tell.send(()).expect("it listens");
            async { WorkOutcome::Success }
        });
        add(&scheduler, frees);
        _ = threads(2).block_on(scheduler.run_until_done());
        assert_eq!(scheduler.metrics().success, 2003);
    });
}

#[test]
fn what_a_runner_has_begun_is_found_while_it_lets_a_body_that_never_yields_go_first() {
    within(secs(20), || {
        let mut scheduler = scheduler(9);
        let (free, is_free) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let mut told = Some(told);
        let first = act("first", move |ctx| {
            let (free, told) = (free.clone(), told.take().expect("it is tried once"));
            let blocked = act("blocked", move |_| {
                free.send(()).expect("it listens");
                told.recv().expect("the sender is kept");
                async { WorkOutcome::Success }
            });
            async move {
                // Its runner has to yield afterwards, and another task is ready.
                while coop::has_budget_remaining() {
                    coop::consume_budget().await;
                }
                let handle = ctx.handle();
                let blocked = add(&handle, blocked);
                while state(&handle, blocked) != WorkState::Running {
                    std::thread::yield_now();
                }
                WorkOutcome::Success
            }
        });
        let first = add(&scheduler, first);
        let frees = act("frees", move |_| {
            tell.send(()).expect("it listens");
            async { WorkOutcome::Success }
        });
        add(&scheduler, frees.after([first]));
        let runtime = threads(2);
        // Until then there is one thread for both.
        let (take, is_taken) = mpsc::channel();
        runtime.spawn(async move {
            take.send(()).expect("it listens");
            is_free.recv().expect("the sender is kept");
        });
        is_taken.recv().expect("a thread is taken");
        _ = runtime.block_on(scheduler.run_until_done());
        assert_eq!(scheduler.metrics().success, 3);
    });
}

/// A work that submits its successor, for ever.
fn endless(handle: &WorkHandle, count: &Arc<AtomicU32>) -> WorkSpec {
    let (handle, count) = (handle.clone(), count.clone());
    act("link", move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        // Refused once the scheduler is gone.
        let _ = handle.submit(endless(&handle, &count));
        async { WorkOutcome::Success }
    })
}

#[test]
fn works_that_never_wait_leave_the_thread_to_other_tasks() {
    for time_stands_still in [false, true] {
        works_that_never_wait_leave_it_to_other_tasks(time_stands_still);
    }
}

fn works_that_never_wait_leave_it_to_other_tasks(time_stands_still: bool) {
    within(secs(20), move || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(time_stands_still).build();
        let runtime = runtime.expect("a runtime");
        runtime.block_on(async {
            let builder = WorkScheduler::builder().max_concurrency(2).keep_ended(10);
            let mut scheduler = builder.build().expect("slots");
            let count = Arc::new(AtomicU32::new(0));
            for _ in 0..3 {
                add(&scheduler, endless(scheduler.as_ref(), &count));
            }
            let stop = CancellationToken::new();
            let (stopped, seen) = (stop.clone(), count.clone());
            let other = tokio::spawn(async move {
                while seen.load(Ordering::Relaxed) < 3000 {
                    yield_now().await;
                }
                stopped.cancel();
            });
            _ = scheduler.run_until_done_with_cancel(stop).await;
            other.await.expect("it had its turns");
            assert!(count.load(Ordering::Relaxed) >= 3000);
            assert_done(&scheduler);
        });
    });
}

async fn waits_often(ctx: WorkContext, waits: u32) -> Result<(), Cancelled> {
    for _ in 0..waits {
        ctx.suspend(yield_now()).await?;
        let (a, b) = tokio::join!(ctx.suspend(yield_now()), ctx.suspend(async {}));
        a.and(b)?;
        tokio::select! {
            _ = ctx.suspend(std::future::pending::<()>()) => {}
            () = yield_now() => {}
        }
        yield_now().await;
    }
    Ok(())
}

#[test]
fn waits_on_several_threads_lose_no_wake_up() {
    for slots in [1, 3] {
        within(secs(20), move || {
            threads(3).block_on(async {
                let mut scheduler = scheduler(slots);
                for _ in 0..100 {
                    let work = work_fn("waits", |ctx| async move {
                        waits_often(ctx, 20).await.map_err(WorkError::from)
                    });
                    add(&scheduler, work);
                }
                _ = scheduler.run_until_done().await;
                assert_eq!(scheduler.metrics().success, 100);
            });
        });
    }
}

#[test]
fn no_more_bodies_are_polled_at_once_than_there_are_slots() {
    within(secs(20), || {
        threads(4).block_on(async {
            let (mut scheduler, inside) = (scheduler(2), Arc::new(AtomicU32::new(0)));
            let too_many = Arc::new(AtomicBool::new(false));
            for _ in 0..200 {
                let (inside, too_many) = (inside.clone(), too_many.clone());
                let work = work_fn("works", move |ctx| {
                    let (inside, too_many) = (inside.clone(), too_many.clone());
                    let step = move || {
                        let others = inside.fetch_add(1, Ordering::SeqCst);
                        too_many.fetch_or(others >= 2, Ordering::SeqCst);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                    };
                    async move {
                        for _ in 0..3 {
                            step();
                            ctx.suspend(yield_now()).await?;
                            step();
                        }
                        Ok(())
                    }
                });
                add(&scheduler, work);
            }
            _ = scheduler.run_until_done().await;
            assert_eq!(scheduler.metrics().success, 200);
            assert!(!too_many.load(Ordering::SeqCst), "never three at once");
        });
    });
}

#[test]
fn a_resumed_attempt_does_not_wait_for_a_body_that_never_yields() {
    within(secs(20), || {
        let limits = cost([("gpu", 1)]);
        let builder = WorkScheduler::builder().max_concurrency(9).limits(limits.clone());
        let mut scheduler = builder.build().expect("it can run something");
        let (wake, woken) = tokio::sync::oneshot::channel();
        let (tell, told) = mpsc::channel();
        let (mut wake, mut woken) = (Some(wake), Some(woken));
        let waits = work_fn("waits", move |ctx| {
            let (woken, tell) = (woken.take().expect("it is tried once"), tell.clone());
            async move {
                ctx.suspend(woken).await??;
                Ok(tell.send(())?)
            }
        });
        let waits = add(&scheduler, waits.needs(limits.clone()));
        let holds = act("holds", move |ctx| {
            wake.take().expect("it is tried once").send(()).expect("it listens");
            async move {
                while look(ctx.handle(), waits).phase != Phase::Resuming {
                    yield_now().await;
                }
                WorkOutcome::Success
            }
        });
        let holds = add(&scheduler, holds.needs(limits));
        add(&scheduler, blocks("blocked", told).after([holds]));
        _ = threads(2).block_on(scheduler.run_until_done());
        assert_eq!(scheduler.metrics().success, 3);
    });
}

#[test]
fn a_thread_that_submits_a_body_that_never_yields_is_not_blocked_by_it() {
    within(secs(20), || {
        let mut scheduler = scheduler(9);
        let (tell, told) = mpsc::channel();
        let first = add(&scheduler, ok("first"));
        let frees = act("frees", move |_| {
            tell.send(()).expect("it listens");
            async { WorkOutcome::Success }
        });
        add(&scheduler, frees.after([first]).priority(1));
        add(&scheduler, blocks("blocked", told).after([first]));
        threads(2).block_on(async move {
            // On a thread of the runtime: a runner that is started there begins there.
            let run = tokio::spawn(async move {
                _ = scheduler.run_until_done().await;
                scheduler.metrics().success
            });
            assert_eq!(run.await.expect("it runs"), 3);
        });
    });
}

/// Counts how often it is woken.
#[derive(Default)]
struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn looking_at_an_idle_scheduler_wakes_no_task() {
    let mut scheduler = scheduler(1);
    let (handle, work) = (scheduler.handle(), add(&scheduler, ok("work")));
    _ = scheduler.run_until_done().await;
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let mut run = pin!(scheduler.run_until_cancelled(CancellationToken::new()));
    assert!(run.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    woken.0.store(0, Ordering::Relaxed);
    for _ in 0..10 {
        assert_eq!(state(&handle, work), WorkState::Success);
        assert_eq!(handle.snapshot().len(), 1);
    }
    assert_eq!(woken.0.load(Ordering::Relaxed), 0);
    add(&handle, ok("another"));
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_first_waits_when_its_runner_has_used_up_its_turn_is_woken() {
    // Somewhere in this range the bodies before it leave nothing of what Tokio allows a task at a time.
    for before in 0..600 {
        let mut scheduler = scheduler(1);
        (0..before)
            .for_each(|_| _ = add(&scheduler, act("quick", |_| async { WorkOutcome::Success })));
        let (tell, told) = tokio::sync::oneshot::channel();
        let mut told = Some(told);
        let waits = act("waits", move |_| {
            let told = told.take().expect("it is tried once");
            async move {
                told.await.expect("the sender is kept");
                WorkOutcome::Success
            }
        });
        let waits = add(&scheduler, waits);
        let handle = scheduler.handle();
        let tells = async {
            while handle.state(waits) != Some(WorkState::Running) {
                yield_now().await;
            }
            tokio::time::sleep(secs(1)).await;
            tell.send(()).expect("it listens");
        };
        let both = async { tokio::join!(scheduler.run_until_done(), tells) };
        let ended = tokio::time::timeout(secs(60), both).await;
        assert!(ended.is_ok(), "after {before} others");
    }
}

#[test]
fn a_dropped_run_on_another_runtime_takes_no_thread_from_the_next() {
    within(secs(20), || {
        let runtime = || tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let (first, second) = (runtime(), runtime());
        let mut scheduler = scheduler(4);
        add(&scheduler, ok("left behind"));
        first.block_on(async {
            let mut run = pin!(scheduler.run_until_done());
            assert!(poll_once(&mut run).is_pending());
        });
        let value = second.block_on(async move {
            let handle = scheduler.handle();
            tokio::spawn(async move {
                _ = scheduler.run_until_cancelled(CancellationToken::new()).await;
            });
            handle.execute(work_fn("next", |_| async { Ok(7) })).await
        });
        assert_eq!(*value.expect("it runs"), 7);
        drop(first);
    });
}
