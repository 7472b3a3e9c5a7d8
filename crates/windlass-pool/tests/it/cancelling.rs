//! Cancels of tasks and scopes, and their callbacks.

use std::{
    sync::{
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    time::{Duration, Instant},
};

use windlass_pool::{
    Cancelled, Scheduler, TaskError, TaskState, cancelled, checkpoint, join, race, with_scope,
};

use crate::support::{Signal, amount, must_end, panic_of, silence_expected_panics};

#[test]
fn a_running_task_sees_its_cancel() {
    must_end(|| {
        let scheduler = Scheduler::new(1);
        let started = Signal::default();
        with_scope(&scheduler, |scope| {
            let task = scope.spawn(|| -> Result<(), Cancelled> {
                started.raise();
                while !cancelled() {}
                Err(Cancelled)
            });
            started.wait();
            assert_eq!(task.state(), TaskState::Running);
            task.cancel();
            assert_eq!(task.await_result().unwrap(), Err(Cancelled));
        });
    });
}

/// The promise is about time, so the test measures it. It takes the best of many measurements,
/// because other load on the machine can spoil any of them.
#[test]
fn a_cancel_is_seen_within_a_millisecond() {
    let scheduler = Scheduler::new(1);
    let delays: Vec<Duration> = (0..amount(101, 3))
        .map(|_| {
            let started = Signal::default();
            with_scope(&scheduler, |scope| {
                let task = scope.spawn(|| {
                    started.raise();
                    while !cancelled() {}
                    Instant::now()
                });
                started.wait();
                let asked = Instant::now();
                task.cancel();
                task.await_result().unwrap().saturating_duration_since(asked)
            })
        })
        .collect();
    assert!(cfg!(miri) || delays.iter().min().unwrap() < &Duration::from_millis(1), "{delays:?}");
}

#[test]
fn a_body_that_returns_after_a_cancel_still_has_a_value() {
    must_end(|| {
        let scheduler = Scheduler::new(1);
        let (started, go) = (Signal::default(), Signal::default());
        with_scope(&scheduler, |scope| {
            let task = scope.spawn(|| {
                started.raise();
                go.wait();
                42
            });
            started.wait();
            task.cancel();
            assert_eq!(task.state(), TaskState::Cancelling);
            go.raise();
            assert_eq!(task.await_result().unwrap(), 42);
        });
    });
}

#[test]
fn a_task_cancelled_before_it_starts_never_runs() {
    must_end(|| {
        let scheduler = Scheduler::new(1);
        let go = Signal::default();
        let ran = Signal::default();
        with_scope(&scheduler, |scope| {
            scope.spawn(|| go.wait());
            let task = scope.spawn(|| ran.raise());
            task.cancel();
            go.raise();
            assert!(matches!(task.await_result(), Err(TaskError::Cancelled)));
        });
        assert!(!ran.is_raised());
    });
}

#[test]
fn a_checkpoint_unwinds_a_cancelled_task_and_drops_its_locals() {
    struct RaiseOnDrop<'a>(&'a Signal);
    impl Drop for RaiseOnDrop<'_> {
        fn drop(&mut self) {
            self.0.raise();
        }
    }
    must_end(|| {
        let scheduler = Scheduler::new(1);
        let (started, released) = (Signal::default(), Signal::default());
        with_scope(&scheduler, |scope| {
            let task = scope.spawn(|| {
                let _guard = RaiseOnDrop(&released);
                started.raise();
                loop {
                    checkpoint();
                }
            });
            started.wait();
            task.cancel();
            let result: Result<(), TaskError> = task.await_result();
            assert!(matches!(result, Err(TaskError::Cancelled)));
        });
        assert!(released.is_raised());
        let total = scheduler.stats().total();
        assert_eq!((total.cancelled, total.panicked), (1, 0));
    });
}

#[test]
fn a_spawn_in_a_cancelled_scope_is_counted_and_does_not_run() {
    let scheduler = Scheduler::new(1);
    with_scope(&scheduler, |scope| {
        scope.cancel();
        assert!(scope.is_cancelled());
        let task = scope.spawn(|| unreachable!("it does not run"));
        assert_eq!(task.state(), TaskState::Completed);
        let result: Result<(), TaskError> = task.await_result();
        assert!(matches!(result, Err(TaskError::Cancelled)));
    });
    let total = scheduler.stats().total();
    assert_eq!((total.spawned, total.cancelled, total.completed), (1, 1, 0));
}

#[test]
fn a_cancel_reaches_child_tasks_and_child_scopes_however_deep() {
    must_end(|| {
        let scheduler = Scheduler::new(4);
        let started = AtomicUsize::new(0);
        let spin = |started: &AtomicUsize| {
            started.fetch_add(1, SeqCst);
            while !cancelled() {
                std::thread::yield_now();
            }
        };
        with_scope(&scheduler, |scope| {
            let (scheduler, started, spin) = (&scheduler, &started, &spin);
            let parent = scope.spawn(move || {
                scope.spawn(move || spin(started));
                with_scope(scheduler, |inner| {
                    inner.spawn(move || spin(started));
                    inner.with_child(|innermost| {
                        innermost.spawn(move || join(|| spin(started), checkpoint));
                    });
                });
            });
            while started.load(SeqCst) < 3 {
                std::thread::yield_now();
            }
            parent.cancel();
            assert!(!scope.is_cancelled(), "a cancel does not reach the parent");
        });
    });
}

#[test]
fn a_cancel_leaves_siblings_alone() {
    let scheduler = Scheduler::new(1);
    with_scope(&scheduler, |scope| {
        let (one, other) = (scope.spawn(|| 1), scope.spawn(cancelled));
        one.cancel();
        assert!(!other.await_result().unwrap());
        assert!(!scope.is_cancelled());
    });
}

#[test]
fn nothing_is_cancelled_outside_a_scope() {
    assert!(!cancelled());
    checkpoint();
}

#[test]
fn a_callback_is_called_once_when_its_scope_is_cancelled() {
    let scheduler = Scheduler::new(1);
    let calls = AtomicUsize::new(0);
    let call = |count| _ = calls.fetch_add(count, SeqCst);
    with_scope(&scheduler, |scope| {
        scope.on_cancel(|| call(1));
        assert_eq!(calls.load(SeqCst), 0);
        scope.cancel();
        assert_eq!(calls.load(SeqCst), 1);
        scope.cancel();
        scope.on_cancel(|| call(10));
        assert_eq!(calls.load(SeqCst), 11, "a late one is called at once");
    });
    assert_eq!(calls.into_inner(), 11);
}

#[test]
fn a_callback_of_an_inner_scope_is_called_when_an_outer_one_is_cancelled() {
    must_end(|| {
        let scheduler = Scheduler::new(1);
        let (stop, stopped) = mpsc::channel();
        with_scope(&scheduler, |outer| {
            let (started, has_started) = mpsc::channel();
            outer.spawn(move || {
                outer.with_child(|inner| {
                    inner.on_cancel(move || stop.send(()).unwrap());
                    started.send(()).unwrap();
                    stopped.recv().unwrap();
                });
            });
            has_started.recv().unwrap();
            outer.cancel();
        });
    });
}

#[test]
fn a_callback_of_a_scope_that_is_not_cancelled_is_dropped_uncalled() {
    let scheduler = Scheduler::new(1);
    let token = std::sync::Arc::new(());
    let kept = std::sync::Arc::clone(&token);
    with_scope(&scheduler, |scope| scope.on_cancel(move || unreachable!("{kept:?}")));
    assert_eq!(std::sync::Arc::strong_count(&token), 1);
}

#[test]
fn a_panic_in_a_callback_continues_in_the_caller_of_its_scope() {
    silence_expected_panics();
    let scheduler = Scheduler::new(1);
    let message = panic_of(|| {
        with_scope(&scheduler, |scope| {
            scope.on_cancel(|| panic!("on purpose: callback"));
            scope.cancel();
        });
    });
    assert_eq!(message, "on purpose: callback");
}

#[test]
fn a_race_is_won_by_the_first_to_return_and_cancels_the_other() {
    must_end(|| {
        let scheduler = Scheduler::new(2);
        let (started, stopped) = (Signal::default(), Signal::default());
        let winner = scheduler.run(|| {
            let endless = || {
                started.raise();
                while !cancelled() {}
                stopped.raise();
                "endless"
            };
            let quick = || {
                started.wait();
                "quick"
            };
            race(endless, quick)
        });
        assert_eq!(winner, "quick");
        assert!(stopped.is_raised(), "it is waited for");
    });
}

#[test]
fn a_panic_ends_a_race_while_the_other_closure_runs() {
    silence_expected_panics();
    must_end(|| {
        let scheduler = Scheduler::new(2);
        let endless = || while !cancelled() {};
        let message =
            panic_of(|| scheduler.run(|| race(endless, || panic!("on purpose: contender"))));
        assert_eq!(message, "on purpose: contender");
    });
}

/// The only worker waits for a callback that another thread runs, and that waits for a task of the
/// pool.
#[test]
fn a_worker_that_waits_for_a_callback_is_replaced_while_it_waits() {
    must_end(|| {
        let scheduler = Scheduler::new(1);
        let (registered, called) = (Signal::default(), Signal::default());
        let ran = Signal::default();
        with_scope(&scheduler, |outer| {
            let (scheduler, registered, called, ran) = (&scheduler, &registered, &called, &ran);
            outer.spawn(move || {
                with_scope(scheduler, |inner| {
                    inner.on_cancel(|| {
                        called.raise();
                        scheduler.spawn(|| ()).await_result().unwrap();
                        ran.raise();
                    });
                    registered.raise();
                    called.wait();
                });
            });
            registered.wait();
            outer.cancel();
        });
        assert!(ran.is_raised());
    });
}
