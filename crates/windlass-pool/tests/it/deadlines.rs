//! Deadlines of scopes.

use std::{
    thread,
    time::{Duration, Instant},
};

use windlass_pool::{
    Scheduler, TaskError, cancelled, checkpoint, with_deadline, with_deadline_on, with_scope,
};

use crate::support::{Signal, TIMEOUT, amount, must_end, panic_of, silence_expected_panics};

const SOON: Duration = Duration::from_millis(5);

#[test]
fn a_scope_that_ends_before_its_deadline_returns_its_value() {
    let scheduler = Scheduler::new(2);
    let value = with_deadline_on(&scheduler, TIMEOUT, |scope| {
        assert!(scope.deadline().is_some());
        scope.spawn(|| 7).await_result().unwrap()
    });
    assert_eq!(value, Some(7));
}

#[test]
fn a_missed_deadline_cancels_the_tasks_and_returns_none() {
    must_end(|| {
        let scheduler = Scheduler::new(2);
        let start = Instant::now();
        let (started, seen) = (Signal::default(), Signal::default());
        let value = with_deadline_on(&scheduler, SOON, |scope| {
            scope.spawn(|| {
                started.raise();
                while !cancelled() {}
                seen.raise();
            });
        });
        assert_eq!(value, None);
        // On a slow machine the deadline passes before the task starts.
        assert_eq!(seen.is_raised(), started.is_raised(), "every task has ended");
        assert!(start.elapsed() >= SOON, "no deadline is early");
    });
}

#[test]
fn a_deadline_missed_after_the_body_returned_returns_none() {
    must_end(|| {
        let scheduler = Scheduler::new(1);
        let value = with_deadline_on(&scheduler, SOON, |scope| {
            scope.spawn(|| while !cancelled() {});
            "the body returns at once"
        });
        assert_eq!(value, None);
    });
}

#[test]
fn a_checkpoint_unwinds_a_body_whose_deadline_has_passed() {
    must_end(|| {
        let scheduler = Scheduler::new(1);
        let value: Option<()> = with_deadline_on(&scheduler, SOON, |_| {
            loop {
                checkpoint();
            }
        });
        assert_eq!(value, None);
    });
}

#[test]
fn a_body_that_ignores_its_deadline_runs_to_its_end_and_returns_none() {
    let scheduler = Scheduler::new(1);
    let mut ran_to_its_end = false;
    let value = with_deadline_on(&scheduler, Duration::from_millis(1), |scope| {
        while !scope.is_cancelled() {
            thread::yield_now();
        }
        ran_to_its_end = true;
    });
    assert_eq!(value, None);
    assert!(ran_to_its_end);
}

#[test]
fn an_inner_deadline_is_never_later_than_the_outer_one() {
    must_end(|| {
        let scheduler = Scheduler::new(1);
        let outer = with_deadline_on(&scheduler, SOON, |outer| {
            let inner = with_deadline_on(&scheduler, TIMEOUT, |inner| {
                assert_eq!(inner.deadline(), outer.deadline());
                while !cancelled() {}
            });
            assert_eq!(inner, None);
        });
        assert_eq!(outer, None);
    });
}

#[test]
fn an_inner_deadline_leaves_the_outer_scope_alone() {
    must_end(|| {
        let scheduler = Scheduler::new(1);
        let outer = with_deadline_on(&scheduler, TIMEOUT, |outer| {
            let inner = with_deadline_on(&scheduler, SOON, |_| while !cancelled() {});
            assert_eq!(inner, None);
            assert!(!outer.is_cancelled());
            outer.spawn(|| 1).await_result().unwrap()
        });
        assert_eq!(outer, Some(1));
    });
}

#[test]
fn a_cancel_from_outside_does_not_count_as_a_missed_deadline() {
    must_end(|| {
        let scheduler = Scheduler::new(2);
        with_scope(&scheduler, |scope| {
            let started = std::sync::Arc::new(Signal::default());
            let has_started = std::sync::Arc::clone(&started);
            let scheduler = &scheduler;
            let returns = scope.spawn(move || {
                with_deadline_on(scheduler, TIMEOUT, |_| {
                    started.raise();
                    while !cancelled() {}
                    "in time all the same"
                })
            });
            has_started.wait();
            returns.cancel();
            assert_eq!(returns.await_result().unwrap(), Some("in time all the same"));

            let unwound = scope.spawn(move || {
                with_deadline_on(scheduler, TIMEOUT, |_| {
                    loop {
                        checkpoint();
                    }
                })
            });
            unwound.cancel();
            let result: Result<Option<()>, TaskError> = unwound.await_result();
            assert!(matches!(result, Err(TaskError::Cancelled)));
        });
    });
}

#[test]
fn on_a_worker_a_deadline_uses_that_workers_scheduler() {
    let scheduler = Scheduler::new(1);
    let (here, there) = scheduler.run(|| {
        let here = thread::current().id();
        let task = || thread::current().id();
        (here, with_deadline(TIMEOUT, |scope| scope.spawn(task).await_result().unwrap()))
    });
    assert_eq!(there, Some(here));
}

#[test]
fn outside_a_pool_a_deadline_uses_the_global_scheduler() {
    let name = with_deadline(TIMEOUT, |scope| {
        scope.spawn(|| thread::current().name().map(str::to_owned)).await_result().unwrap()
    });
    assert!(name.unwrap().unwrap().starts_with("windlass-"));
}

#[test]
fn a_panic_after_the_deadline_continues_in_the_caller() {
    silence_expected_panics();
    let scheduler = Scheduler::new(1);
    let message = panic_of(|| {
        with_deadline_on(&scheduler, Duration::ZERO, |_| panic!("on purpose: late"));
    });
    assert_eq!(message, "on purpose: late");
}

#[test]
fn a_limit_may_be_zero_or_longer_than_an_instant_can_represent() {
    let scheduler = Scheduler::new(1);
    assert_eq!(with_deadline_on(&scheduler, Duration::MAX, |_| 1), Some(1));
    assert_eq!(with_deadline_on(&scheduler, Duration::ZERO, |_| 1), None);
}

#[test]
fn a_deadline_that_has_passed_when_the_scope_opens_runs_no_task() {
    let scheduler = Scheduler::new(2);
    let ran = Signal::default();
    for _ in 0..amount(500, 5) {
        let value = with_deadline_on(&scheduler, Duration::ZERO, |scope| {
            assert!(cancelled() && scope.is_cancelled());
            let task = scope.spawn(|| ran.raise());
            assert!(matches!(task.await_result(), Err(TaskError::Cancelled)));
            scope.spawn(|| ran.raise());
            scope.with_child(|child| drop(child.spawn(|| ran.raise())));
        });
        assert_eq!(value, None);
    }
    assert!(!ran.is_raised());
}

#[test]
fn an_outer_deadline_that_has_passed_is_seen_as_soon_as_an_inner_one_opens() {
    let scheduler = Scheduler::new(1);
    let value = with_deadline_on(&scheduler, SOON, |outer| {
        while Instant::now() < outer.deadline().unwrap() {}
        let inner = with_deadline_on(&scheduler, TIMEOUT, |inner| {
            assert!(cancelled() && inner.is_cancelled());
            inner.spawn(|| unreachable!("it must not run"));
        });
        assert_eq!(inner, None);
    });
    assert_eq!(value, None);
}

#[test]
fn many_deadlines_at_once_all_cancel_their_scopes() {
    must_end(|| {
        let scheduler = Scheduler::new(2);
        let missed = with_scope(&scheduler, |scope| {
            let scheduler = &scheduler;
            let tasks: Vec<_> = (0..amount(50, 5) as u64)
                .map(|n| {
                    let limit = Duration::from_millis(n % 5);
                    scope.spawn(move || {
                        with_deadline_on(scheduler, limit, |_| while !cancelled() {})
                    })
                })
                .collect();
            tasks.into_iter().all(|task| task.await_result().unwrap().is_none())
        });
        assert!(missed);
    });
}

/// The only worker waits for a callback that the timer's thread runs, and that waits for a task of
/// the pool.
#[test]
fn a_worker_whose_deadline_runs_a_callback_is_replaced_while_it_waits() {
    must_end(|| {
        let scheduler = Scheduler::new(1);
        let ran = Signal::default();
        let value = scheduler.run(|| {
            with_deadline_on(&scheduler, SOON, |scope| {
                let called = Signal::default();
                scope.with_child(|inner| {
                    inner.on_cancel(|| {
                        called.raise();
                        scheduler.spawn(|| ()).await_result().unwrap();
                        ran.raise();
                    });
                    called.wait();
                });
            })
        });
        assert_eq!(value, None);
        assert!(ran.is_raised());
    });
}
