//! Attempts that wait without a slot.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use windlass::{
    Cancelled, Phase, Reason, ResourceCapacity, ResourceCost, WorkOutcome, WorkScheduler,
    WorkState, work_fn,
};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_suspended_work_leaves_its_slot_and_resources_to_others_and_takes_them_again() {
    let gpu = || ResourceCost::from([("gpu", 1)]);
    let capacity = ResourceCapacity::new(gpu());
    let builder = WorkScheduler::builder().max_concurrency(1).capacity(&capacity);
    let (mut scheduler, mut events) = watch(builder);
    let seen = capacity.clone();
    let asks = work_fn("asks", move |ctx| {
        let seen = seen.clone();
        async move {
            assert_eq!(seen.available().to_string(), "gpu=0");
            let free = ctx.suspend(async { seen.available().to_string() }).await?;
            assert_eq!(free, "gpu=1");
            assert_eq!(seen.available().to_string(), "gpu=0");
            ctx.suspend(sleep(ms(50))).await?;
            assert_eq!(seen.available().to_string(), "gpu=0", "it has it again");
            Ok(())
        }
    });
    let asks = add(&scheduler, asks.needs(gpu()));
    add(&scheduler, takes("other", ms(60)).needs(gpu()));
    let handle = scheduler.handle();
    let looker = tokio::spawn(async move {
        sleep(ms(20)).await;
        let waiting = (look(&handle, asks), handle.explain(asks).expect("it is known"));
        sleep(ms(35)).await;
        (waiting, look(&handle, asks))
    });
    _ = scheduler.run_until_done().await;
    let ((waiting, why), wants_on) = looker.await.expect("it only looks");
    assert_eq!((waiting.phase, waiting.state), (Phase::Suspended, WorkState::Running));
    assert_eq!(waiting.status(), "waiting, without a slot");
    assert_eq!(why.reasons, [Reason::Suspended]);
    assert_eq!(wants_on.phase, Phase::Resuming);
    assert_eq!(wants_on.status(), "waiting for its turn to go on");
    let expected = [
        "0ns asks Running 1",
        "0ns other Running 1",
        "60ms other Success 1",
        "60ms asks Success 1",
    ];
    assert_eq!(events.seen(), expected, "a suspension is no change of state");
    assert_eq!(capacity.available(), gpu());
}

#[tokio::test(start_paused = true)]
async fn a_resumed_work_comes_before_works_that_have_not_begun() {
    let (mut scheduler, mut events) = watched(1);
    let asks = work_fn("asks", |ctx| async move {
        ctx.suspend(sleep(ms(5))).await?;
        sleep(ms(10)).await;
        Ok(())
    });
    add(&scheduler, asks.priority(-5));
    add(&scheduler, takes("first", ms(10)).priority(-6));
    for n in 0..3 {
        add(&scheduler, takes(&format!("urgent {n}"), ms(10)).priority(9).gate(sleep(ms(2))));
    }
    _ = scheduler.run_until_done().await;
    assert_eq!(
        events.seen()[3],
        "20ms asks Success 1",
        "after the one that runs, before all others"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cancel_ends_a_suspension_at_once() {
    let (mut scheduler, mut events) = watched(1);
    let log = Log::default();
    let seen = log.clone();
    let waits = work_fn("waits", move |ctx| {
        let seen = seen.clone();
        async move {
            let ended = ctx.suspend(std::future::pending::<()>()).await;
            seen.add(format!("{ended:?}"));
            let again = ctx.suspend(std::future::ready(())).await;
            seen.add(format!("{again:?}"));
            Ok(ended?)
        }
    });
    let waits = add(&scheduler, waits.retries(3));
    add(&scheduler, takes("holder", secs(5)));
    let handle = scheduler.handle();
    tokio::spawn(async move {
        sleep(ms(30)).await;
        handle.cancel(waits);
    });
    _ = scheduler.run_until_done().await;
    assert_eq!(log.take(), ["Err(Cancelled)", "Err(Cancelled)"]);
    assert_eq!(events.seen()[2], "30ms waits Cancelled 1", "without its slot");
    assert_eq!(Cancelled.to_string(), "the work was asked to stop");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_of_an_attempt_queued_to_resume_ends_the_suspension_at_once() {
    let (mut scheduler, mut events) = watched(1);
    let waits = work_fn("waits", |ctx| async move { Ok(ctx.suspend(sleep(ms(10))).await?) });
    let waits = add(&scheduler, waits);
    add(&scheduler, takes("holder", secs(5)));
    let handle = scheduler.handle();
    tokio::spawn(async move {
        sleep(ms(30)).await;
        assert_eq!(look(&handle, waits).phase, Phase::Resuming);
        handle.cancel(waits);
    });
    _ = scheduler.run_until_done().await;
    assert_eq!(events.seen()[2], "30ms waits Cancelled 1");
}

#[tokio::test(start_paused = true)]
async fn a_wait_can_be_ended_from_outside_also_before_it_begins() {
    let (mut scheduler, mut events) = watched(1);
    let waits = work_fn("waits", |ctx| async move {
        sleep(ms(10)).await;
        ctx.suspend(ctx.woken()).await?;
        ctx.suspend(ctx.woken()).await?;
        Ok(())
    });
    let waits = add(&scheduler, waits);
    let handle = scheduler.handle();
    assert!(!handle.wake(waits), "it has not begun");
    let waker = tokio::spawn(async move {
        sleep(ms(5)).await;
        assert!(handle.wake(waits), "early, and not lost");
        sleep(ms(20)).await;
        assert!(handle.wake(waits));
        handle
    });
    _ = scheduler.run_until_done().await;
    let handle = waker.await.expect("it wakes");
    assert_eq!(events.seen()[1], "25ms waits Success 1");
    assert!(!handle.wake(waits), "it has ended");
    assert!(!handle.wake(foreign()));
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_dropped_midway_is_over() {
    let (mut scheduler, mut events) = watched(1);
    let waits = work_fn("waits", |ctx| async move {
        tokio::select! {
            _ = ctx.suspend(std::future::pending::<()>()) => unreachable!("it is pending"),
            () = sleep(ms(10)) => {}
        }
        // Another one has the slot until 50 ms.
        tokio::task::yield_now().await;
        sleep(ms(1)).await;
        Ok(())
    });
    add(&scheduler, waits);
    add(&scheduler, takes("other", ms(50)));
    _ = scheduler.run_until_done().await;
    let seen = events.seen();
    assert_eq!(seen[2..], ["50ms other Success 1", "51ms waits Success 1"]);
}

#[tokio::test(start_paused = true)]
async fn waits_side_by_side_end_one_by_one() {
    let (mut scheduler, mut events) = watched(1);
    let start = Instant::now();
    let waits = work_fn("waits", move |ctx| async move {
        let wait = |n| {
            let ctx = ctx.clone();
            async move {
                ctx.suspend(sleep(ms(n))).await?;
                Ok::<_, Cancelled>(start.elapsed())
            }
        };
        let (first, second) = tokio::join!(wait(10), wait(30));
        assert_eq!((first?, second?), (ms(10), ms(30)));
        assert!(look(ctx.handle(), ctx.id).phase.holds(), "it goes on with its slot");
        Ok(())
    });
    add(&scheduler, waits);
    let other = ok("other").gate(sleep(ms(20)));
    add(&scheduler, other);
    _ = scheduler.run_until_done().await;
    let expected = [
        "0ns waits Running 1",
        "20ms other Running 1",
        "20ms other Success 1",
        "30ms waits Success 1",
    ];
    assert_eq!(events.seen(), expected, "the slot is free again once the first has gone on");
}

#[tokio::test(start_paused = true)]
async fn a_task_of_the_body_may_suspend_the_attempt_and_outlive_it() {
    let (mut scheduler, mut events) = watched(1);
    let log = Log::default();
    let seen = log.clone();
    let spawns = work_fn("spawns", move |ctx| {
        let (inside, seen) = (ctx.clone(), seen.clone());
        tokio::spawn(async move {
            let waited = inside.suspend(sleep(ms(100))).await;
            seen.add(format!("waited {waited:?}"));
        });
        async move {
            sleep(ms(10)).await;
            assert_eq!(look(ctx.handle(), ctx.id).phase, Phase::Suspended);
            Ok(())
        }
    });
    add(&scheduler, spawns);
    add(&scheduler, takes("other", ms(10)));
    _ = scheduler.run_until_done().await;
    assert_eq!(events.seen()[2], "10ms spawns Success 1");
    sleep(ms(200)).await;
    assert_eq!(log.take(), ["waited Ok(())"], "no wait for a slot is left");
    assert_done(&scheduler);
}

#[tokio::test(start_paused = true)]
async fn a_suspension_after_the_attempt_is_over_only_waits() {
    let (mut scheduler, mut events) = watched(1);
    let (log, go) = (Log::default(), Arc::new(Notify::new()));
    let (seen, gone) = (log.clone(), go.clone());
    let leaks = act("leaks", move |ctx| {
        let (inside, seen, gone, attempt) = (ctx.clone(), seen.clone(), gone.clone(), ctx.attempt);
        tokio::spawn(async move {
            gone.notified().await;
            let waited = inside.suspend(sleep(ms(5))).await;
            seen.add(format!("attempt {attempt} waited {waited:?}"));
            let refused = inside.add_child(ok("too late")).is_err();
            seen.add(format!("attempt {attempt} refused {refused}"));
        });
        let answer = if ctx.attempt == 1 { retry(ms(10)) } else { WorkOutcome::Success };
        async move {
            ctx.suspend(sleep(ms(10))).await.expect("it is not asked to stop");
            sleep(ms(10)).await;
            answer
        }
    });
    let leaks = add(&scheduler, leaks.retries(1));
    let handle = scheduler.handle();
    tokio::spawn(async move {
        sleep(ms(41)).await;
        assert_eq!(look(&handle, leaks).attempts, 2);
        go.notify_one();
    });
    _ = scheduler.run_until_done().await;
    assert_eq!(events.seen()[3], "50ms leaks Success 2", "its second attempt never waited for it");
    sleep(ms(10)).await;
    assert_eq!(log.take(), ["attempt 1 waited Ok(())", "attempt 1 refused true"]);
    assert_eq!(scheduler.metrics().total, 1);
}

#[tokio::test(start_paused = true)]
async fn hundreds_of_suspended_works_share_one_slot() {
    let mut scheduler = scheduler(1);
    let start = Instant::now();
    for _ in 0..300 {
        add(
            &scheduler,
            work_fn("waits", |ctx| async move { Ok(ctx.suspend(sleep(secs(60))).await?) }),
        );
    }
    _ = scheduler.run_until_done().await;
    assert_eq!(start.elapsed(), secs(60));
    assert_eq!(scheduler.metrics().success, 300);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_follows_a_dropped_one_holds_nothing_either() {
    let (mut scheduler, mut events) = watched(1);
    let (tell, told) = tokio::sync::oneshot::channel();
    let (mut tell, mut told) = (Some(tell), Some(told));
    let waits = work_fn("waits", move |ctx| {
        let told = told.take().expect("it is tried once");
        async move {
            let wait = ctx.suspend(std::future::pending::<()>());
            assert!(tokio::time::timeout(ms(10), wait).await.is_err(), "it is pending");
            ctx.suspend(told).await??;
            Ok(())
        }
    });
    add(&scheduler, waits);
    let tells = act("tells", move |_| {
        tell.take().expect("it is tried once").send(()).expect("it listens");
        async { WorkOutcome::Success }
    });
    add(&scheduler, tells.gate(sleep(ms(20))));
    let done = tokio::time::timeout(secs(1), scheduler.run_until_done()).await;
    assert!(done.is_ok(), "the one that it waits for has the slot meanwhile");
    let expected = [
        "0ns waits Running 1",
        "20ms tells Running 1",
        "20ms tells Success 1",
        "20ms waits Success 1",
    ];
    assert_eq!(events.seen(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_begins_beside_one_that_resumes_does_not_delay_it() {
    let (mut scheduler, mut events) = watched(1);
    let waits = work_fn("waits", |ctx| async move {
        let (tell, told) = tokio::sync::oneshot::channel();
        let goes_on = async {
            ctx.suspend(sleep(ms(10))).await?;
            tell.send(()).expect("it listens");
            Ok::<_, Cancelled>(())
        };
        let begins = async {
            sleep(ms(20)).await;
            ctx.suspend(told).await.map(|told| told.expect("it is told"))
        };
        let still = ctx.suspend(sleep(ms(40)));
        let (first, second, third) = tokio::join!(goes_on, begins, still);
        first?;
        second?;
        third?;
        Ok(())
    });
    add(&scheduler, waits);
    add(&scheduler, takes("other", ms(30)));
    let done = tokio::time::timeout(secs(1), scheduler.run_until_done()).await;
    assert!(done.is_ok(), "it goes on at 30 ms");
    assert_eq!(events.seen()[2..], ["30ms other Success 1", "40ms waits Success 1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_that_begins_when_another_has_just_resumed_leaves_it_the_slot() {
    let mut scheduler = scheduler(1);
    let began = Arc::new(AtomicBool::new(false));
    let (let_go, may_go) = std::sync::mpsc::channel();
    let has_begun = began.clone();
    let waits = work_fn("waits", move |ctx| {
        let (began, let_go) = (began.clone(), let_go.clone());
        async move {
            let handle = ctx.handle();
            let mut over = pin!(ctx.suspend(async {
                while !began.load(Ordering::SeqCst) {
                    sleep(ms(1)).await;
                }
            }));
            let mut endless = pin!(ctx.suspend(std::future::pending::<()>()));
            poll_fn(|cx| {
                let polled = over.as_mut().poll(cx);
                if polled.is_pending() && look(&handle, ctx.id).phase == Phase::Resuming {
                    let_go.send(()).expect("the other body waits for it");
                    while look(&handle, ctx.id).phase != Phase::Running {
                        std::thread::yield_now();
                    }
                    assert!(endless.as_mut().poll(cx).is_pending());
                }
                polled
            })
            .await?;
            Ok(())
        }
    });
    let waits = add(&scheduler, waits);
    let has_the_slot = act("has the slot", move |_| {
        has_begun.store(true, Ordering::SeqCst);
        may_go.recv().expect("it is let go");
        async { WorkOutcome::Success }
    });
    add(&scheduler, has_the_slot);
    let ended = tokio::time::timeout(secs(30), scheduler.run_until_done()).await;
    _ = ended.expect("the wait that is over goes on");
    assert_eq!(state(&scheduler, waits), WorkState::Success);
}

#[tokio::test(start_paused = true)]
async fn a_work_with_the_only_slot_waits_for_several_others_at_once() {
    let mut scheduler = scheduler(1);
    let waits = work_fn("waits", |ctx| async move {
        let other = |n: u64| {
            work_fn("other", move |_| async move {
                sleep(ms(n)).await;
                Ok(n)
            })
        };
        let others = (1..=5).map(|n| ctx.execute(other(n)));
        let brought = futures::future::join_all(others).await;
        for (n, brought) in (1..).zip(brought) {
            assert_eq!(*brought?, n);
        }
        assert!(look(ctx.handle(), ctx.id).phase.holds(), "it goes on with its slot");
        Ok(())
    });
    add(&scheduler, waits);
    let done = tokio::time::timeout(secs(1), scheduler.run_until_done()).await;
    assert!(done.is_ok(), "they have the slot while they are waited for");
    assert_eq!(scheduler.metrics().success, 6);
}
