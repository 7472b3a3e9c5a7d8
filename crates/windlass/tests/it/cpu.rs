use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::sync::Notify;
use windlass::{
    CancellationToken, ResourceCapacity, WorkContext, WorkError, WorkScheduler, WorkSpec,
    WorkState, pool, work_cpu, work_once,
};

use crate::support::{BusyPool, cpus, poll_once};

fn scheduler() -> WorkScheduler {
    let builder = WorkScheduler::builder().retry_delay(Duration::from_millis(1));
    builder.build().expect("it makes sense")
}

#[tokio::test]
async fn a_closure_runs_on_the_pool_and_is_retried() {
    let mut scheduler = scheduler();
    let work = work_cpu("third time", |ctx| {
        let name = std::thread::current().name().map(str::to_owned);
        assert!(name.is_some_and(|name| name.contains("windlass")), "on a worker of the pool");
        if ctx.attempt < 3 {
            return Err(WorkError::msg("not yet"));
        }
        Ok(())
    });
    let id = scheduler.submit(work.retries(5)).expect("it fits");
    _ = scheduler.run_until_done().await;
    assert_eq!(scheduler.state(id), Some(WorkState::Success));
    assert_eq!(scheduler.snapshot()[0].attempts, 3);
}

#[tokio::test]
async fn a_cancel_reaches_a_body_that_computes() {
    let begun = Arc::new(Notify::new());
    let tell = begun.clone();
    let work = work_cpu("endless", move |_| {
        tell.notify_one();
        while !pool::cancelled() {
            std::hint::spin_loop();
        }
        Ok(())
    });
    let mut scheduler = scheduler();
    let id = scheduler.submit(work).expect("it fits");
    let cancel = CancellationToken::new();
    let later = cancel.clone();
    tokio::spawn(async move {
        begun.notified().await;
        later.cancel();
    });
    _ = scheduler.run_until_done_with_cancel(cancel).await;
    assert_eq!(scheduler.state(id), Some(WorkState::Cancelled));
}

#[tokio::test]
async fn a_panic_on_the_pool_fails_the_work() {
    let mut scheduler = scheduler();
    let work = work_cpu::<(), _>("broken", |_| panic!("out of numbers"));
    let id = scheduler.submit(work).expect("it fits");
    _ = scheduler.run_until_done().await;
    assert_eq!(scheduler.state(id), Some(WorkState::Failed));
    let error = scheduler.snapshot()[0].last_error.clone();
    assert_eq!(error.as_deref(), Some("the work panicked: out of numbers"));
}

#[tokio::test]
async fn a_body_on_the_pool_is_asked_to_stop_when_its_run_is_dropped() {
    let stopped = Arc::new(AtomicBool::new(false));
    let begun = Arc::new(Notify::new());
    let (seen, tell) = (stopped.clone(), begun.clone());
    let work = work_cpu("abandoned", move |_| {
        tell.notify_one();
        while !pool::cancelled() {
            std::hint::spin_loop();
        }
        seen.store(true, Ordering::Release);
        Ok(())
    });
    let mut scheduler = scheduler();
    scheduler.submit(work).expect("it fits");
    tokio::select! {
        _ = scheduler.run_until_done() => unreachable!("the body goes on until it is asked to stop"),
        () = begun.notified() => {}
    }
    while !stopped.load(Ordering::Acquire) {
        tokio::task::yield_now().await;
    }
}

/// A body that ignores its token until it is released, and how many such bodies run now.
fn deaf() -> (WorkSpec, Arc<AtomicUsize>, mpsc::Sender<()>) {
    let (let_go, may_go) = mpsc::channel();
    let may_go = std::sync::Mutex::new(may_go);
    let computing = Arc::new(AtomicUsize::new(0));
    let now = computing.clone();
    let work = work_cpu("deaf", move |ctx| {
        assert_eq!(now.fetch_add(1, Ordering::SeqCst), 0, "one attempt at a time");
        if ctx.attempt == 1 {
            may_go.lock().expect("no holder panics").recv().expect("the test releases it");
        }
        now.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    });
    (work, computing, let_go)
}

#[tokio::test]
async fn a_body_on_the_pool_that_times_out_keeps_its_slot_until_it_returns() {
    let (work, computing, let_go) = deaf();
    let builder = WorkScheduler::builder().cancel_grace(Duration::ZERO).max_concurrency(1);
    let builder = builder.retry_delay(Duration::from_millis(1));
    let mut scheduler = builder.build().expect("it makes sense");
    let timeout = Duration::from_millis(250);
    let id = scheduler.submit(work.timeout(timeout).retries(1)).expect("it fits");
    let handle = scheduler.handle();
    let waits = async {
        while handle.snapshot_of(id).expect("it is known").status() != "stopping, out of time" {
            tokio::time::sleep(timeout).await;
        }
        tokio::time::sleep(timeout).await;
        assert_eq!(computing.load(Ordering::SeqCst), 1);
        assert_eq!(handle.metrics().running, 1, "it computes");
        let_go.send(()).expect("it waits for that");
    };
    _ = tokio::join!(scheduler.run_until_done(), waits);
    let seen = handle.snapshot_of(id).expect("it is known");
    assert_eq!((seen.state, seen.attempts), (WorkState::Success, 2));
}

#[tokio::test]
async fn a_body_on_the_pool_whose_run_is_dropped_keeps_its_resources_until_it_returns() {
    let (work, computing, let_go) = deaf();
    let machine = ResourceCapacity::new(cpus(1));
    let mut scheduler =
        WorkScheduler::builder().capacity(&machine).build().expect("it makes sense");
    let id = scheduler.submit(work.needs(cpus(1))).expect("it fits");
    let has_begun = async {
        while computing.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = scheduler.run_until_done() => unreachable!("the body has not been let go"),
        () = has_begun => {}
    }
    assert_eq!((scheduler.state(id), machine.available()), (Some(WorkState::Running), cpus(0)));
    let handle = scheduler.handle();
    let mut shut = Box::pin(handle.shutdown());
    assert!(poll_once(&mut shut).is_pending(), "a body is left");
    let_go.send(()).expect("it waits for that");
    shut.await;
    assert_eq!(computing.load(Ordering::SeqCst), 0);
    assert_eq!((scheduler.state(id), machine.available()), (Some(WorkState::Cancelled), cpus(1)));
}

#[tokio::test]
async fn a_task_that_an_attempt_started_on_the_pool_stops_with_it() {
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let (stopped, has_stopped) = mpsc::channel();
    let work = work_once("starts a task", async move |ctx: WorkContext| {
        let task = ctx.compute(move || {
            begun.send(()).expect("the test waits");
            while !pool::cancelled() {
                std::thread::yield_now();
            }
            stopped.send(()).expect("the test waits");
        });
        _ = task.await;
        Ok(())
    });
    let mut scheduler = scheduler();
    let id = scheduler.submit(work).expect("it fits");
    let handle = scheduler.handle();
    let cancels = async {
        has_begun.await.expect("it begins");
        handle.cancel(id);
    };
    _ = tokio::join!(scheduler.run_until_done(), cancels);
    assert_eq!(scheduler.state(id), Some(WorkState::Cancelled));
    has_stopped.try_recv().expect("the run has waited for the task");
}

#[tokio::test]
async fn a_work_keeps_its_slot_until_the_last_of_its_tasks_has_returned() {
    let (let_go, is_let_go) = mpsc::channel::<()>();
    let work = work_once("two tasks", async move |ctx: WorkContext| {
        let quick = ctx.compute(|| ());
        let slow = ctx.compute(move || is_let_go.recv());
        quick.await?;
        _ = slow.await?;
        Ok(())
    });
    let builder = WorkScheduler::builder().cancel_grace(Duration::ZERO).max_concurrency(1);
    let mut scheduler = builder.build().expect("it makes sense");
    let id = scheduler.submit(work.timeout(Duration::from_millis(20))).expect("it fits");
    let handle = scheduler.handle();
    let waits = async {
        while handle.snapshot_of(id).expect("it is known").status() != "stopping, out of time" {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(handle.metrics().running, 1);
        drop(let_go);
    };
    _ = tokio::join!(scheduler.run_until_done(), waits);
    assert_eq!(scheduler.state(id), Some(WorkState::Failed));
}

#[tokio::test]
async fn a_work_whose_body_drops_a_task_keeps_its_slot_until_the_task_returns() {
    let (let_go, is_let_go) = mpsc::channel::<()>();
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let busy = Arc::new(AtomicUsize::new(0));
    let inside = Arc::clone(&busy);
    let first = work_once("gives up", async move |ctx: WorkContext| {
        let task = ctx.compute(move || {
            inside.fetch_add(1, Ordering::SeqCst);
            begun.send(()).expect("the body waits");
            _ = is_let_go.recv();
            inside.fetch_sub(1, Ordering::SeqCst);
        });
        has_begun.await?;
        drop(task);
        Ok(())
    });
    let mut scheduler =
        WorkScheduler::builder().max_concurrency(1).build().expect("it makes sense");
    let first = scheduler.submit(first).expect("it fits");
    let seen = Arc::clone(&busy);
    let next = work_once("next", async move |_| Ok(seen.load(Ordering::SeqCst)));
    let next = scheduler.spawn(next.after([first])).expect("it fits");
    let handle = scheduler.handle();
    let waits = async {
        while busy.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(handle.state(first), Some(WorkState::Running), "its task has not returned");
        drop(let_go);
    };
    _ = tokio::join!(scheduler.run_until_done(), waits);
    assert_eq!(*next.await.expect("it succeeded"), 0, "no task ran beside the next work");
    assert_eq!(busy.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_suspension_begins_when_the_tasks_of_the_attempt_have_returned() {
    let (let_go, is_let_go) = mpsc::channel::<()>();
    let first = work_once("suspends", async move |ctx: WorkContext| {
        let task = ctx.compute(move || is_let_go.recv());
        ctx.suspend(tokio::task::yield_now()).await?;
        _ = task.await?;
        Ok(())
    });
    let mut scheduler =
        WorkScheduler::builder().max_concurrency(1).build().expect("it makes sense");
    let first = scheduler.submit(first).expect("it fits");
    let next = scheduler.submit(work_cpu("next", |_| Ok(()))).expect("it fits");
    let handle = scheduler.handle();
    let waits = async {
        while handle.state(first) != Some(WorkState::Running) {
            tokio::task::yield_now().await;
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(handle.state(next), Some(WorkState::Pending), "the slot is taken");
        drop(let_go);
    };
    _ = tokio::join!(scheduler.run_until_done(), waits);
    assert_eq!(scheduler.metrics().success, 2);
}

#[tokio::test]
async fn a_task_that_no_worker_has_begun_is_withdrawn_by_a_cancel_and_a_timeout() {
    let busy = BusyPool::begin();
    let mut scheduler = scheduler();
    let late = work_cpu("late", |_| Ok(())).timeout(Duration::from_millis(20));
    let late = scheduler.submit(late).expect("it fits");
    let unwanted = scheduler.submit(work_cpu("unwanted", |_| Ok(()))).expect("it fits");
    let handle = scheduler.handle();
    let cancels = async {
        while handle.state(unwanted) != Some(WorkState::Running) {
            tokio::task::yield_now().await;
        }
        handle.cancel(unwanted);
    };
    _ = tokio::join!(scheduler.run_until_done(), cancels);
    assert_eq!(scheduler.state(late), Some(WorkState::Failed));
    assert_eq!(scheduler.state(unwanted), Some(WorkState::Cancelled));
    drop(busy);
}
