//! Destructors of the user's values may do anything: use a handle, or panic.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::time::{Instant, sleep};
use windlass::{
    ConditionalWork, ResourceCost, Work, WorkContext, WorkHandle, WorkOutcome, WorkScheduler,
    WorkSpec, WorkState, WorkWithCallback, work_fn,
};

use crate::support::*;

/// A body that does something when it is dropped.
struct Last<F: FnOnce()> {
    name: &'static str,
    answer: WorkOutcome,
    _last: OnDrop<F>,
}

#[windlass::async_trait]
impl<F: FnOnce() + Send + 'static> Work for Last<F> {
    fn name(&self) -> &str {
        self.name
    }

    async fn run(&mut self, _ctx: WorkContext) -> WorkOutcome {
        self.answer.clone()
    }
}

fn last(name: &'static str, last: impl FnOnce() + Send + 'static) -> WorkSpec {
    answering(name, WorkOutcome::Success, last)
}

fn answering(
    name: &'static str,
    answer: WorkOutcome,
    last: impl FnOnce() + Send + 'static,
) -> WorkSpec {
    WorkSpec::new(Last { name, answer, _last: OnDrop(Some(last)) })
}

/// A gate that never opens, and does something when it is dropped.
fn shut(last: impl FnOnce() + Send + 'static) -> impl Future<Output = ()> + Send {
    let guard = OnDrop(Some(last));
    async move {
        let _guard = guard;
        std::future::pending::<()>().await;
    }
}

/// Returns a closure that uses many methods of a handle.
fn uses(handle: &WorkHandle, log: &Log) -> impl FnOnce() + Send + use<> {
    let (handle, log) = (handle.clone(), log.clone());
    move || {
        let taken_in = handle.submit(ok("from a destructor")).is_ok();
        let works = handle.snapshot();
        works.iter().for_each(|work| _ = handle.explain(work.id));
        works.iter().for_each(|work| _ = handle.take_work(work.id).map(drop));
        handle.set_max_concurrency(3);
        handle.cancel(foreign());
        handle.forget(foreign());
        let _ = handle.subscribe();
        log.add(format!("taken in: {taken_in}"));
    }
}

#[test]
fn a_refused_work_may_use_a_handle_when_it_is_dropped() {
    in_time(|| async {
        let (scheduler, log) = (scheduler(1), Log::default());
        let gpu = ResourceCost::from([("gpu", 1)]);
        let never = last("never", uses(scheduler.as_ref(), &log)).needs(gpu);
        scheduler.submit(never).expect_err("no level declares that");
        let unknown = last("unknown", uses(scheduler.as_ref(), &log)).after([foreign()]);
        scheduler.submit(unknown).expect_err("it is another scheduler's");
        let late = last("late", uses(scheduler.as_ref(), &log));
        let handle = scheduler.handle();
        drop(scheduler);
        handle.submit(late).expect_err("the scheduler is gone");
        assert_eq!(log.take(), ["taken in: true", "taken in: true", "taken in: false"]);
    });
}

#[test]
fn a_refused_child_may_use_a_handle_when_it_is_dropped() {
    in_time(|| async {
        let (mut scheduler, log) = (scheduler(1), Log::default());
        let (handle, seen) = (scheduler.handle(), log.clone());
        let parent = work_fn("parent", move |ctx| {
            let child = last("child", uses(&handle, &seen)).after([ctx.id]);
            async move {
                ctx.add_child(child).expect_err("it waits for its parent");
                Ok(())
            }
        });
        add(&scheduler, parent);
        _ = scheduler.run_until_done().await;
        assert_eq!(log.take(), ["taken in: true"]);
        assert_eq!(scheduler.metrics().success, 2);
    });
}

#[test]
fn a_forgotten_work_may_use_a_handle_when_it_is_dropped() {
    in_time(|| async {
        let log = Log::default();
        let mut scheduler = WorkScheduler::builder().keep_ended(1).build().expect("slots");
        let first = add(&scheduler, last("first", uses(scheduler.as_ref(), &log)));
        add(&scheduler, last("second", uses(scheduler.as_ref(), &log)).after([first]));
        add(&scheduler, takes("third", ms(5)));
        _ = scheduler.run_until_done().await;
        _ = scheduler.run_until_done().await;
        assert_eq!(log.take(), ["taken in: true"; 2]);
        assert_eq!((scheduler.metrics().total, scheduler.metrics().forgotten), (1, 4));
    });
}

#[test]
fn everything_of_a_dropped_scheduler_may_use_a_handle() {
    in_time(|| async {
        let (mut scheduler, log) = (scheduler(2), Log::default());
        add(&scheduler, last("ended", uses(scheduler.as_ref(), &log)));
        _ = scheduler.run_until_done().await;
        add(&scheduler, last("waiting", uses(scheduler.as_ref(), &log)));
        let gate = shut(uses(scheduler.as_ref(), &log));
        add(&scheduler, ok("gated").gate(gate));
        drop(scheduler);
        assert_eq!(log.take(), ["taken in: false"; 3]);
    });
}

#[test]
fn everything_of_a_dropped_run_may_use_a_handle() {
    in_time(|| async {
        let (mut scheduler, log) = (scheduler(4), Log::default());
        let gate = shut(uses(scheduler.as_ref(), &log));
        add(&scheduler, ok("gated").gate(gate));
        let (handle, seen) = (scheduler.handle(), log.clone());
        let runs = work_fn("runs", move |ctx| {
            let guard = OnDrop(Some(uses(&handle, &seen)));
            async move {
                let _guard = guard;
                ctx.suspend(std::future::pending::<()>()).await?;
                Ok(())
            }
        });
        add(&scheduler, runs);
        let run = tokio::time::timeout(ms(10), scheduler.run_until_done());
        run.await.expect_err("it never returns");
        settle().await;
        assert_eq!(log.take(), ["taken in: true"; 2]);
        _ = scheduler.run_until_done().await;
        assert_done(&scheduler);
    });
}

#[test]
fn children_that_are_forgotten_for_a_retry_may_use_a_handle() {
    in_time(|| async {
        let (mut scheduler, log) = (scheduler(1), Log::default());
        let (handle, seen) = (scheduler.handle(), log.clone());
        let parent = act("parent", move |ctx| {
            ctx.add_child(last("child", uses(&handle, &seen))).expect("it runs");
            async move {
                ctx.join_children().await.expect("it is not asked to stop");
                if ctx.attempt == 1 { retry(ms(1)) } else { WorkOutcome::Success }
            }
        });
        add(&scheduler, parent.retries(1));
        _ = scheduler.run_until_done().await;
        assert_eq!(log.take(), ["taken in: true"]);
        assert_done(&scheduler);
    });
}

#[test]
fn a_panic_in_the_drop_of_a_forgotten_body_is_contained() {
    in_time(|| async {
        let mut scheduler = WorkScheduler::builder().keep_ended(0).build().expect("slots");
        for _ in 0..5 {
            let first = add(&scheduler, last("first", || panic!("on purpose")));
            let second = last("second", || panic!("on purpose")).after([first]);
            add(&scheduler, second);
        }
        _ = scheduler.run_until_done().await;
        assert_eq!((scheduler.metrics().total, scheduler.metrics().forgotten), (0, 10));
        let kept = last("kept", || panic!("on purpose"));
        let kept = add(&scheduler, kept);
        assert!(scheduler.cancel(kept), "it is forgotten with that");
        assert_eq!(scheduler.state(kept), None);
    });
}

#[test]
fn a_scheduler_with_bodies_that_panic_is_dropped_like_any_other() {
    in_time(|| async {
        let (mut scheduler, census) = (scheduler(1), Census::default());
        let body = |name| {
            let one = census.one();
            last(name, move || {
                drop(one);
                panic!("on purpose")
            })
        };
        add(&scheduler, body("ended"));
        _ = scheduler.run_until_done().await;
        add(&scheduler, body("waiting"));
        add(&scheduler, body("waiting too"));
        let (handle, told) = (scheduler.handle(), scheduler.spawn(body("spawned")));
        let dropped = catch_unwind(AssertUnwindSafe(move || drop(scheduler)));
        assert!(dropped.is_ok(), "a destructor that panics is kept away from others");
        assert_eq!(census.alive(), 0);
        told.expect("it is taken in").await.expect_err("it is cancelled");
        handle.shutdown().await;
        assert_done(&handle);
    });
}

/// A body whose future panics when it is dropped.
fn brittle(name: &str) -> WorkSpec {
    act(name, |ctx| async move {
        if ctx.attempt > 1 {
            return WorkOutcome::Success;
        }
        let _guard = OnDrop(Some(|| panic!("on purpose")));
        std::future::pending().await
    })
}

#[test]
fn a_future_that_panics_when_it_is_dropped_ends_its_attempt_only() {
    in_time(|| async {
        let (mut scheduler, mut events) =
            watch(WorkScheduler::builder().max_concurrency(4).cancel_grace(ms(1)));
        let timed = add(&scheduler, brittle("timed").timeout(ms(5)).retries(1));
        let late = add(&scheduler, brittle("late").deadline(Instant::now() + ms(5)));
        let stopped = add(&scheduler, brittle("stopped"));
        let handle = scheduler.handle();
        tokio::spawn(async move {
            sleep(ms(5)).await;
            handle.cancel(stopped);
        });
        _ = scheduler.run_until_done().await;
        assert_eq!(state(&scheduler, timed), WorkState::Success, "it is tried again");
        assert_eq!(state(&scheduler, late), WorkState::Failed);
        assert_eq!(last_error(&scheduler, late), "its deadline passed");
        assert_eq!(state(&scheduler, stopped), WorkState::Cancelled);
        for work in [timed, late, stopped] {
            assert!(scheduler.take_work(work).is_some(), "the body itself is whole");
        }
        assert_eq!(events.take().len(), 8);
    });
}

#[test]
fn a_future_that_panics_when_its_run_is_dropped_is_cancelled() {
    in_time(|| async {
        let (mut scheduler, mut events) = watched(4);
        let works = ["a", "b", "c"].map(|name| add(&scheduler, brittle(name)));
        let run = tokio::time::timeout(ms(10), scheduler.run_until_done());
        run.await.expect_err("it never returns");
        scheduler.shutdown().await;
        assert!(works.iter().all(|work| state(&scheduler, *work) == WorkState::Cancelled));
        assert_eq!(events.take().len(), 6);
    });
}

#[test]
fn a_panic_in_the_drop_of_a_gate_is_contained() {
    in_time(|| async {
        let mut scheduler = scheduler(1);
        let gate = || shut(|| panic!("on purpose"));
        let watched = add(&scheduler, ok("watched").gate(gate()));
        let first = add(&scheduler, takes("first", ms(10)));
        let unwatched = add(&scheduler, ok("unwatched").after([first]).gate(gate()));
        let handle = scheduler.handle();
        let canceller = tokio::spawn(async move {
            sleep(ms(5)).await;
            assert!(handle.cancel(unwatched));
            assert!(handle.cancel(watched));
        });
        _ = scheduler.run_until_done().await;
        canceller.await.expect("it could cancel them");
        assert_eq!(scheduler.metrics().cancelled, 2);
        assert_done(&scheduler);
    });
}

#[test]
fn a_gate_is_polled_also_if_its_work_gets_a_dependency_meanwhile() {
    in_time(|| async {
        let (mut scheduler, mut events) = watch(WorkScheduler::builder().keep_ended(0));
        let gated = add(&scheduler, ok("gated").gate(sleep(ms(20))));
        let other = add(&scheduler, takes("other", ms(5)));
        let handle = scheduler.handle();
        // Dropped in the first round of the run, in which the gate is found.
        let late = last("late", move || {
            handle.add_dependency(gated, other).expect("it has not begun");
        });
        add(&scheduler, late.deadline(Instant::now() + ms(1)));
        tokio::time::advance(ms(2)).await;
        let run = tokio::time::timeout(secs(1), scheduler.run_until_done());
        _ = run.await.expect("the gate opens");
        let seen = events.seen();
        assert_eq!(seen[0], "1ms late Failed 0");
        assert_eq!(seen[4], "20ms gated Success 1");
    });
}

#[test]
fn a_work_submitted_by_a_destructor_as_a_run_returns_is_not_cancelled() {
    in_time(|| async {
        let (mut scheduler, mut events) = watch(WorkScheduler::builder().keep_ended(0));
        let log = Log::default();
        let late = last("late", uses(scheduler.as_ref(), &log)).deadline(Instant::now() + ms(1));
        add(&scheduler, late);
        tokio::time::advance(ms(2)).await;
        _ = scheduler.run_until_done().await;
        assert_eq!(log.take(), ["taken in: true"]);
        _ = scheduler.run_until_done().await;
        let seen = events.seen();
        assert_eq!(
            seen[1..],
            ["2ms from a destructor Running 1", "2ms from a destructor Success 1"]
        );
    });
}

#[test]
fn callbacks_and_conditions_may_use_a_handle() {
    in_time(|| async {
        let (mut scheduler, log) = (scheduler(1), Log::default());
        let (handle, seen) = (scheduler.handle(), log.clone());
        let callback = Arc::new(move |outcome: &WorkOutcome, ctx: &WorkContext| {
            uses(&handle, &seen)();
            seen.add(format!("{outcome:?}, cancelled now: {}", handle.cancel(ctx.id)));
        });
        let plain = Act::new("plain", |_| async { WorkOutcome::Success });
        let told = add(&scheduler, WorkSpec::new(WorkWithCallback::new(plain, callback)));
        let (handle, seen) = (scheduler.handle(), log.clone());
        let condition = move || {
            uses(&handle, &seen)();
            handle.state(told).is_some_and(WorkState::is_terminal)
        };
        let plain = Act::new("conditional", |_| async { WorkOutcome::Success });
        add(&scheduler, WorkSpec::new(ConditionalWork::new(condition, plain)));
        _ = scheduler.run_until_done().await;
        assert_eq!(state(&scheduler, told), WorkState::Cancelled, "after the outcome was known");
        let lines = log.take();
        assert!(lines.contains(&"Success, cancelled now: true".to_owned()), "{lines:?}");
        assert!(lines.iter().filter(|line| *line == "taken in: true").count() >= 2, "{lines:?}");
        assert_done(&scheduler);
    });
}

/// A gate that is open, or panics, and panics again when it is dropped.
struct Brittle {
    opens: bool,
    _last: OnDrop<fn()>,
}

impl Future for Brittle {
    type Output = ();

    fn poll(self: std::pin::Pin<&mut Self>, _: &mut std::task::Context<'_>) -> std::task::Poll<()> {
        assert!(self.opens, "it does not open");
        std::task::Poll::Ready(())
    }
}

#[test]
fn a_gate_that_panics_when_it_is_dropped_fails_its_work() {
    in_time(|| async {
        let mut scheduler = scheduler(1);
        let works = [true, false].map(|opens| {
            let gate = Brittle { opens, _last: OnDrop(Some(|| panic!("on purpose"))) };
            add(&scheduler, ok("gated").gate(gate))
        });
        let done = tokio::time::timeout(secs(1), scheduler.run_until_done()).await;
        assert!(done.is_ok(), "no work waits for them");
        assert_eq!(last_error(&scheduler, works[0]), "the work panicked: on purpose");
        assert_eq!(last_error(&scheduler, works[1]), "the work panicked: it does not open");
        assert_eq!(scheduler.metrics().failed, 2);
    });
}

#[test]
fn a_body_that_has_not_begun_may_panic_when_its_run_is_dropped() {
    in_time(|| async {
        let mut scheduler = scheduler(9);
        let body = add(&scheduler, last("started", || panic!("on purpose")));
        {
            let mut run = std::pin::pin!(scheduler.run_until_done());
            assert!(poll_once(&mut run).is_pending());
        }
        settle().await;
        assert_done(&scheduler);
        assert_eq!(state(&scheduler, body), WorkState::Cancelled);
    });
}
