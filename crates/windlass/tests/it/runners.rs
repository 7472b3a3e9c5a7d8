//! Runners: bodies that never wait, bodies that never yield, and bodies that always do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;

use tokio::task::yield_now;
use windlass::{
    CancellationToken, Cancelled, WorkContext, WorkError, WorkHandle, WorkOutcome, WorkScheduler,
    WorkSpec, WorkState, work_fn,
};

use crate::support::*;

/// A work that keeps its thread until it is told to go on.
fn blocks(name: &str, until: mpsc::Receiver<()>) -> WorkSpec {
    let mut until = Some(until);
    act(name, move |_| {
        let until = until.take().expect("it is tried once");
        async move {
            until.recv().expect("somebody tells it");
            WorkOutcome::Success
        }
    })
}

#[test]
fn a_body_that_never_yields_keeps_its_thread_and_nothing_else() {
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
            threads(2).block_on(scheduler.run_until_done());
            assert_eq!(state(&scheduler, blocked), WorkState::Success);
            assert_eq!(scheduler.metrics().success, 2 + 3 * wide);
        });
    }
}

/// A work that has another one follow it, for ever.
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
fn works_that_never_wait_keep_nobody_from_a_thread() {
    within(secs(20), || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let builder = WorkScheduler::builder().max_concurrency(2).keep_ended(10);
            let mut scheduler = builder.build().expect("slots");
            let count = Arc::new(AtomicU32::new(0));
            for _ in 0..3 {
                add(&scheduler, endless(&scheduler, &count));
            }
            let stop = CancellationToken::new();
            let (stopped, seen) = (stop.clone(), count.clone());
            let other = tokio::spawn(async move {
                while seen.load(Ordering::Relaxed) < 3000 {
                    yield_now().await;
                }
                stopped.cancel();
            });
            scheduler.run_until_done_with_cancel(stop).await;
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
                scheduler.run_until_done().await;
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
            scheduler.run_until_done().await;
            assert_eq!(scheduler.metrics().success, 200);
            assert!(!too_many.load(Ordering::SeqCst), "never three at once");
        });
    });
}
