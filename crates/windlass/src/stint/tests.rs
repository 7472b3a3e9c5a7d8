//! Whatever happens in the middle of a stint, everything is as if there were none.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use futures::FutureExt;
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use crate::{
    Phase, ResourceCapacity, ResourceCost, WorkContext, WorkError, WorkHandle, WorkId,
    WorkScheduler, WorkSchedulerBuilder, WorkState, work_fn,
};

/// How many works a runner is given ahead, whatever bodies take.
const AHEAD: usize = 7;
const WORKS: usize = 40;

fn scheduler(max_concurrency: usize) -> WorkScheduler {
    build(WorkScheduler::builder().max_concurrency(max_concurrency))
}

fn build(builder: WorkSchedulerBuilder) -> WorkScheduler {
    let scheduler = builder.build().expect("settings that make sense");
    let mut state = scheduler.shared.look();
    (state.crew.ahead_in_test, state.crew.is_patient_in_test) = (Some(AHEAD), true);
    drop(state);
    let start = scheduler.submit(work_fn("start", |_| async { Ok(()) })).expect("it can run");
    assert_eq!(start, START);
    scheduler
}

/// The work that all others follow, so that one runner begins with them.
const START: WorkId = WorkId::from_index(0);

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("a runtime")
}

/// Drives `future` on one of two threads while the other one is busy, so that bodies come one after the
/// other.
fn in_turn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
    let (runtime, (release, released)) = (runtime(), mpsc::channel::<()>());
    let (tell, told) = mpsc::channel();
    runtime.spawn(async move {
        tell.send(()).expect("somebody listens");
        // Ends with the sender.
        let _ = released.recv();
    });
    told.recv().expect("it has begun");
    let result = runtime.block_on(runtime.spawn(future)).expect("no panic");
    drop(release);
    result
}

fn run_in_turn(mut scheduler: WorkScheduler) -> WorkScheduler {
    in_turn(async move {
        scheduler.run_until_done().await;
        scheduler
    })
}

/// Works that call `act` with their place, one after the other.
fn submit(
    scheduler: &WorkHandle,
    act: impl Fn(usize, &WorkContext) -> Result<(), WorkError> + Send + Sync + 'static,
) -> Vec<WorkId> {
    let act = Arc::new(act);
    let works = (0..WORKS).map(|place| {
        let act = Arc::clone(&act);
        let work = work_fn(format!("work {place}"), move |ctx| {
            let done = act(place, &ctx);
            async move { done }
        });
        scheduler.submit(work.after([START])).expect("it can run")
    });
    works.collect()
}

#[track_caller]
fn expect_stints(scheduler: &WorkScheduler) {
    let given = scheduler.shared.look().stints.given;
    assert!(given >= AHEAD, "works were given ahead: {given}");
}

#[test]
fn works_are_given_ahead_and_each_runs_once_in_order() {
    let ran = Arc::new(Mutex::new(Vec::new()));
    let scheduler = scheduler(100);
    let note = Arc::clone(&ran);
    let ids = submit(&scheduler, move |place, _| {
        note.lock().expect("no panic").push(place);
        Ok(())
    });
    let scheduler = run_in_turn(scheduler);
    expect_stints(&scheduler);
    assert_eq!(*ran.lock().expect("no panic"), (0..WORKS).collect::<Vec<_>>());
    for id in ids {
        let seen = scheduler.snapshot_of(id).expect("it is known");
        assert_eq!((seen.state, seen.attempts), (WorkState::Success, 1));
        assert!(seen.last_duration.is_some(), "what it took is kept");
        assert!(scheduler.take_work(id).is_some(), "its body is back");
    }
}

#[test]
fn no_limit_is_exceeded_as_bodies_see_it() {
    for limit in [1, 2, 3, 30] {
        let mut scheduler = scheduler(limit);
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (running, peak) = (Arc::clone(&now), Arc::clone(&most));
        submit(&scheduler, move |_, ctx| {
            peak.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
            assert!(ctx.handle().metrics().running <= limit);
            running.fetch_sub(1, SeqCst);
            Ok(())
        });
        let runtime = runtime();
        let run = runtime.spawn(async move {
            scheduler.run_until_done().await;
            scheduler.metrics().success
        });
        assert_eq!(runtime.block_on(run).expect("no panic"), WORKS + 1);
        assert!(most.load(SeqCst) <= limit, "{} at once", most.load(SeqCst));
    }
}

#[test]
fn in_the_middle_everybody_sees_what_is_true() {
    let scheduler = scheduler(100);
    submit(&scheduler, move |place, ctx| {
        let handle = ctx.handle();
        let id = |place: usize| WorkId::from_index(START.index() + 1 + place);
        if place % 5 != 3 {
            return Ok(());
        }
        let states: Vec<_> = (0..WORKS).map(|place| handle.state(id(place)).unwrap()).collect();
        assert!(states[..place].iter().all(|state| *state == WorkState::Success));
        assert_eq!(states[place], WorkState::Running);
        assert!(states[place + 1..].iter().all(|state| *state == WorkState::Pending));
        let metrics = handle.metrics();
        assert_eq!((metrics.success, metrics.running), (place + 1, 1));
        assert_eq!(metrics.pending, WORKS - place - 1);
        if place + 1 < WORKS {
            let phase = handle.shared.look().engine.phase(id(place + 1));
            assert_eq!(phase, Some(Phase::Ready), "in line, where it was");
            assert!(!handle.explain(id(place + 1)).unwrap().reasons.is_empty());
        }
        Ok(())
    });
    let scheduler = run_in_turn(scheduler);
    expect_stints(&scheduler);
    assert_eq!(scheduler.metrics().success, WORKS + 1);
}

#[test]
fn a_cancel_in_the_middle_reaches_whom_it_is_meant_for() {
    let scheduler = scheduler(100);
    let ran = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&ran);
    let ids = submit(&scheduler, move |place, ctx| {
        note.lock().expect("no panic").push(place);
        if place == 3 {
            let next = WorkId::from_index(ctx.id.index() + 1);
            assert!(ctx.handle().cancel(next), "it has not begun");
            assert!(!ctx.handle().cancel(WorkId::from_index(ctx.id.index() - 1)), "it has ended");
        }
        if place == 9 {
            assert!(ctx.handle().cancel(ctx.id), "it is under way");
            assert!(ctx.is_cancelled());
        }
        Ok(())
    });
    let scheduler = run_in_turn(scheduler);
    expect_stints(&scheduler);
    let expected: Vec<_> = (0..WORKS).filter(|place| *place != 4).collect();
    assert_eq!(*ran.lock().expect("no panic"), expected);
    let cancelled = |id: &&WorkId| scheduler.state(**id) == Some(WorkState::Cancelled);
    assert_eq!(ids.iter().filter(cancelled).collect::<Vec<_>>(), [&ids[4], &ids[9]]);
    assert_eq!(scheduler.metrics().success, WORKS - 1);
}

#[test]
fn what_fails_or_panics_in_the_middle_concerns_nobody_else() {
    let scheduler = scheduler(100);
    let ids = submit(&scheduler, |place, _| match place {
        5 => Err(WorkError::msg("broken")),
        6 => panic!("out of paper"),
        _ => Ok(()),
    });
    let scheduler = run_in_turn(scheduler);
    expect_stints(&scheduler);
    let status = |place: usize| scheduler.snapshot_of(ids[place]).expect("it is known").status();
    assert_eq!(status(5), "failed: broken; no retries left after attempt 1");
    assert_eq!(status(6), "failed: the work panicked: out of paper");
    assert_eq!((scheduler.metrics().success, scheduler.metrics().failed), (WORKS - 1, 2));
}

#[test]
fn a_body_that_blocks_in_the_middle_does_not_hold_up_the_rest() {
    let mut scheduler = scheduler(100);
    scheduler.shared.look().crew.is_patient_in_test = false;
    let ran = Arc::new(AtomicUsize::new(0));
    let done = Arc::clone(&ran);
    let ids = submit(&scheduler, move |place, _| {
        while place == 20 && done.load(SeqCst) < WORKS {
            // It keeps its thread until all the others have run, and one that follows another.
            std::thread::yield_now();
        }
        done.fetch_add(1, SeqCst);
        Ok(())
    });
    let follows = Arc::clone(&ran);
    let last = work_fn("last", move |_| {
        follows.fetch_add(1, SeqCst);
        async { Ok(()) }
    });
    scheduler.submit(last.after([ids[19]])).expect("it can run");
    let runtime = runtime();
    let run = runtime.spawn(async move {
        scheduler.run_until_done().await;
        scheduler.metrics().success
    });
    assert_eq!(runtime.block_on(run).expect("no panic"), WORKS + 2);
}

#[test]
fn an_end_that_somebody_waits_for_is_told_before_the_next_body() {
    let scheduler = scheduler(100);
    submit(&scheduler, |_, _| Ok(()));
    let one =
        scheduler.spawn(work_fn("one", |_| async { Ok(1) }).after([START])).expect("it can run");
    let (tell, told) = mpsc::channel();
    let waits = std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        let one = runtime.block_on(one).expect("it goes well");
        tell.send(*one).expect("somebody listens");
    });
    let told = Mutex::new(told);
    let next = work_fn("next", move |_| {
        let one = told.lock().expect("no panic").recv().expect("it is told");
        assert_eq!(one, 1);
        async { Ok(()) }
    });
    scheduler.submit(next.after([START])).expect("it can run");
    submit(&scheduler, |_, _| Ok(()));
    let scheduler = run_in_turn(scheduler);
    waits.join().expect("no panic");
    expect_stints(&scheduler);
    assert_eq!(scheduler.metrics().success, 2 * WORKS + 3);
}

#[test]
fn a_run_that_is_dropped_in_the_middle_cancels_what_has_not_ended() {
    let mut scheduler = scheduler(100);
    let ran = Arc::new(AtomicUsize::new(0));
    let (reached, mut is_reached) = tokio::sync::mpsc::channel(1);
    for place in 0..WORKS {
        let (ran, reached) = (Arc::clone(&ran), reached.clone());
        let work = work_fn(format!("work {place}"), move |_| {
            ran.fetch_add(1, SeqCst);
            let reached = reached.clone();
            async move {
                if place >= 12 {
                    let _ = reached.send(()).await;
                    std::future::pending::<()>().await;
                }
                Ok(())
            }
        });
        scheduler.submit(work.after([START])).expect("it can run");
    }
    let scheduler = in_turn(async move {
        tokio::select! {
            () = scheduler.run_until_done() => unreachable!("it waits for ever"),
            _ = is_reached.recv() => {}
        }
        scheduler.shutdown().await;
        scheduler
    });
    let (metrics, ran) = (scheduler.metrics(), ran.load(SeqCst));
    assert_eq!((metrics.success, metrics.cancelled), (13, WORKS - 12));
    assert!(ran >= 13, "at least one waits");
    assert_eq!((metrics.running, metrics.pending), (0, 0));
}

#[test]
fn a_context_that_outlives_its_attempt_is_of_that_attempt_alone() {
    let scheduler = scheduler(100);
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&kept);
    submit(&scheduler, move |place, ctx| {
        if place % 4 == 1 {
            keep.lock().expect("no panic").push((place, ctx.clone()));
        }
        if place % 4 == 2 {
            ctx.handle().cancel(ctx.id);
        }
        if place % 4 == 3 {
            ctx.add_child(work_fn("child", |_| async { Ok(()) }))?;
        }
        Ok(())
    });
    let scheduler = run_in_turn(scheduler);
    expect_stints(&scheduler);
    for (place, ctx) in kept.lock().expect("no panic").drain(..) {
        assert_eq!(ctx.id.index(), START.index() + 1 + place);
        assert!(!ctx.is_cancelled(), "another one was");
        assert_eq!(ctx.children().open(), 0);
    }
    let metrics = scheduler.metrics();
    assert_eq!((metrics.success, metrics.cancelled), (WORKS + 1, WORKS / 4));
}

#[test]
fn limits_that_change_in_the_middle_hold_at_once() {
    let scheduler = scheduler(100);
    let ran = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ran);
    let handle = scheduler.handle();
    submit(&scheduler, move |place, ctx| {
        count.fetch_add(1, SeqCst);
        if place == 10 {
            ctx.handle().set_max_concurrency(0);
            let (handle, count) = (ctx.handle(), Arc::clone(&count));
            std::thread::spawn(move || {
                while handle.metrics().running > 0 {
                    std::thread::yield_now();
                }
                assert_eq!(count.load(SeqCst), 11, "nothing starts");
                assert_eq!(handle.metrics().pending, WORKS - 11);
                handle.set_max_concurrency(100);
            });
        }
        Ok(())
    });
    let scheduler = run_in_turn(scheduler);
    expect_stints(&scheduler);
    assert_eq!((handle.metrics().success, ran.load(SeqCst)), (WORKS + 1, WORKS));
}

#[test]
fn what_time_alone_changes_in_the_middle_is_told() {
    let scheduler = scheduler(100);
    let start = Instant::now();
    let due = move |place: usize| start + Duration::from_millis(2 * (place as u64 + 1));
    let ids = submit(&scheduler, move |place, ctx| {
        while Instant::now() <= due(place) {
            std::thread::yield_now();
        }
        // Whoever looks settles what is on: every now and then that has just begun.
        assert!(ctx.handle().metrics().running > 0);
        Ok(())
    });
    let late = (0..WORKS).map(|place| {
        let work = work_fn(format!("late {place}"), |_| async { Ok(()) });
        scheduler.spawn(work.after([ids[WORKS - 1]]).deadline(due(place))).expect("it can run")
    });
    let late: Vec<_> = late.collect();
    let scheduler = run_in_turn(scheduler);
    expect_stints(&scheduler);
    assert_eq!(scheduler.metrics().failed, WORKS);
    for late in late {
        let told = late.now_or_never().expect("whoever waits for its end is told");
        assert!(told.is_err());
    }
}

#[test]
fn whoever_looks_at_the_capacity_in_the_middle_sees_what_is_true() {
    let gpus = |n| ResourceCost::of([("gpu", n)]).expect("a cost");
    let machine = ResourceCapacity::new(gpus(20));
    let scheduler = build(WorkScheduler::builder().capacity(&machine).max_concurrency(100));
    for place in 0..WORKS {
        let machine = machine.clone();
        let work = work_fn(format!("work {place}"), move |_| {
            assert_eq!(machine.available(), gpus(19), "one runs at a time");
            machine.set_limits(&gpus(1));
            assert_eq!(machine.available(), gpus(0));
            machine.set_limits(&gpus(20));
            async { Ok(()) }
        });
        scheduler.submit(work.needs(gpus(1)).after([START])).expect("it can run");
    }
    let scheduler = run_in_turn(scheduler);
    assert_eq!((scheduler.metrics().success, scheduler.metrics().failed), (WORKS + 1, 0));
}
