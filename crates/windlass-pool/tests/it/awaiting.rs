//! Awaits inside tasks, on pools of every size and in every order.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    time::Duration,
};

use windlass_pool::{Scheduler, SchedulerConfig, Scope, Task, TaskState, cancelled, with_scope};

use crate::support::{Signal, TIMEOUT, amount, must_end, without_stealing};

/// Returns schedulers on which awaits could deadlock in different ways.
fn schedulers() -> Vec<Scheduler> {
    let tiny_queue =
        SchedulerConfig { worker_count: 2, local_queue_size: 1, ..SchedulerConfig::default() };
    let restless = SchedulerConfig { worker_count: 2, spin_count: 0, ..SchedulerConfig::default() };
    vec![
        without_stealing(1),
        Scheduler::new(2),
        Scheduler::new(1),
        Scheduler::new(3),
        without_stealing(2),
        Scheduler::with_config(tiny_queue),
        Scheduler::with_config(restless),
    ]
}

fn on_each(check: impl Fn(&Scheduler) + Send + 'static) {
    must_end(move || schedulers().iter().take(amount(usize::MAX, 2)).for_each(check));
}

fn fib_by_scopes(scheduler: &Scheduler, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    with_scope(scheduler, |scope| {
        let left = scope.spawn(|| fib_by_scopes(scheduler, n - 1));
        let right = scope.spawn(|| fib_by_scopes(scheduler, n - 2));
        left.await_result().unwrap() + right.await_result().unwrap()
    })
}

#[test]
fn nested_awaits_never_deadlock() {
    on_each(|scheduler| {
        assert_eq!(fib_by_scopes(scheduler, amount(12, 6) as u64), amount(144, 8) as u64);
    });
}

fn fib_by_children<'scope>(scope: &'scope Scope<'scope, '_>, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let left = scope.spawn(move || fib_by_children(scope, n - 1));
    let right = scope.spawn(move || fib_by_children(scope, n - 2));
    right.await_result().unwrap() + left.await_result().unwrap()
}

#[test]
fn awaits_of_child_tasks_never_deadlock() {
    on_each(|scheduler| {
        let fib = with_scope(scheduler, |scope| {
            scope.spawn(move || fib_by_children(scope, amount(12, 6) as u64)).await_result()
        });
        assert_eq!(fib.unwrap(), amount(144, 8) as u64);
    });
}

/// Each task awaits the one before it. A worker that starts with the last one must not overflow its
/// stack.
#[test]
fn a_long_chain_of_awaits_neither_deadlocks_nor_overflows() {
    const LENGTH: usize = amount(5_000, 250);
    on_each(|scheduler| {
        let last = with_scope(scheduler, |scope| {
            let chain = move || {
                let mut last = scope.spawn(|| 0);
                for _ in 1..LENGTH {
                    let earlier = last;
                    last = scope.spawn(move || earlier.await_result().unwrap() + 1);
                }
                last.await_result().unwrap()
            };
            scope.spawn(chain).await_result()
        });
        assert_eq!(last.unwrap(), LENGTH - 1);
    });
}

/// A diamond of awaits across tasks that are not each other's children. A worker that ran any task
/// while it waits could wait for a task further down on its own stack.
#[test]
fn awaits_across_siblings_never_deadlock() {
    on_each(|scheduler| {
        for _ in 0..amount(50, 1) {
            with_scope(scheduler, |scope| {
                let layers = move || {
                    let mut layer: Vec<_> = (0..8).map(|_| scope.spawn(|| 1_u64)).collect();
                    for _ in 0..6 {
                        let earlier = layer.into_iter().map(|task| Mutex::new(Some(task)));
                        let earlier: Vec<Mutex<Option<Task<'_, u64>>>> = earlier.collect();
                        let mut earlier = earlier.into_iter();
                        let mut next = Vec::new();
                        while let (Some(a), Some(b)) = (earlier.next(), earlier.next()) {
                            next.push(scope.spawn(move || {
                                let await_one = |task: Mutex<Option<Task<'_, u64>>>| {
                                    task.into_inner().unwrap().unwrap().await_result().unwrap()
                                };
                                await_one(a) + await_one(b)
                            }));
                        }
                        next.extend((0..8).map(|_| scope.spawn(|| 1)));
                        layer = next;
                    }
                    layer.into_iter().map(|task| task.await_result().unwrap()).sum::<u64>()
                };
                assert!(scope.spawn(layers).await_result().unwrap() > 8);
            });
        }
    });
}

/// The body of the awaited task has returned, and its child is queued behind unrelated tasks.
#[test]
fn a_worker_that_awaits_a_completing_task_runs_its_child() {
    must_end(|| {
        for scheduler in [Scheduler::new(1), without_stealing(1)] {
            let ran = AtomicUsize::new(0);
            with_scope(&scheduler, |scope| {
                let ran = &ran;
                let first = move || {
                    let mut completing = scope.spawn(move || {
                        scope.spawn(move || ran.fetch_add(1, SeqCst));
                    });
                    // Runs the task on this worker, without its child.
                    let _ = completing.await_timeout(Duration::ZERO);
                    let sibling = scope.spawn(move || completing.await_result().is_ok());
                    sibling.await_result().unwrap()
                };
                assert!(scope.spawn(first).await_result().unwrap());
            });
            assert_eq!(ran.into_inner(), 1);
        }
    });
}

/// Polls a task whose only other worker is the one that polls.
fn poll_until_complete<T>(mut task: Task<'_, T>) -> T {
    loop {
        if let Some(result) = task.await_timeout(Duration::ZERO) {
            return result.unwrap();
        }
    }
}

#[test]
fn the_only_worker_may_poll_a_task_whose_child_is_queued() {
    must_end(|| {
        for scheduler in [Scheduler::new(1), without_stealing(1)] {
            for _ in 0..amount(100, 2) {
                let ran = AtomicUsize::new(0);
                scheduler.run(|| {
                    with_scope(&scheduler, |scope| {
                        let ran = &ran;
                        let parent = move || drop(scope.spawn(move || ran.fetch_add(1, SeqCst)));
                        poll_until_complete(scope.spawn(parent));
                    });
                });
                assert_eq!(ran.into_inner(), 1);
            }
        }
    });
}

#[test]
fn the_only_worker_may_poll_a_task_of_another_pool_that_waits_for_this_one() {
    must_end(|| {
        let (near, far) = (Scheduler::new(1), Scheduler::new(1));
        for _ in 0..amount(100, 2) {
            let answer = near.run(|| {
                with_scope(&far, |scope| poll_until_complete(scope.spawn(|| near.run(|| 42))))
            });
            assert_eq!(answer, 42);
        }
    });
}

#[test]
fn a_worker_that_polls_starts_no_thread_for_each_queued_task() {
    const TASKS: usize = amount(200, 10);
    must_end(|| {
        let scheduler = Scheduler::new(1);
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        scheduler.run(|| {
            with_scope(&scheduler, |scope| {
                let (running, most) = (&running, &most);
                let child = move || {
                    most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                    std::thread::yield_now();
                    running.fetch_sub(1, SeqCst);
                };
                let parent = move || (0..TASKS).for_each(|_| drop(scope.spawn(child)));
                poll_until_complete(scope.spawn(parent));
            });
        });
        assert_eq!(most.into_inner(), 1, "one spare worker at a time");
    });
}

/// A worker defers the release of a parent, but no longer than until it returns to a body.
#[test]
fn a_parent_whose_last_child_ran_during_an_await_is_complete_when_the_await_returns() {
    must_end(|| {
        let scheduler = Scheduler::new(1);
        with_scope(&scheduler, |scope| {
            let waiter = move || {
                let (leave, left) = mpsc::channel();
                let mut parent = scope.spawn(move || leave.send(scope.spawn(|| ())).unwrap());
                assert!(parent.await_timeout(Duration::ZERO).is_none(), "its child has not run");
                let child = left.recv().unwrap();
                child.await_result().unwrap();
                parent.try_result().is_some()
            };
            assert!(scope.spawn(waiter).await_result().unwrap());
        });
    });
}

#[test]
fn a_worker_runs_the_unstarted_task_that_it_awaits() {
    must_end(|| {
        let scheduler = Scheduler::new(1);
        with_scope(&scheduler, |scope| {
            let outer = scope.spawn(move || {
                let own = std::thread::current().id();
                let inner = scope.spawn(|| std::thread::current().id());
                inner.await_result().unwrap() == own
            });
            assert!(outer.await_result().unwrap());
        });
    });
}

#[test]
fn an_await_returns_none_after_its_timeout_and_the_value_later() {
    must_end(|| {
        let scheduler = Scheduler::new(2);
        let go = Signal::default();
        with_scope(&scheduler, |scope| {
            let mut task = scope.spawn(|| go.wait());
            assert!(task.await_timeout(Duration::from_millis(5)).is_none());
            assert!(task.try_result().is_none());
            go.raise();
            assert!(task.await_timeout(TIMEOUT).expect("long enough").is_ok());
            assert!(task.try_result().is_none(), "a result is taken once");
            assert_eq!(task.state(), TaskState::Completed);
        });
    });
}

#[test]
fn an_await_with_a_timeout_on_a_worker_returns_none() {
    must_end(|| {
        let scheduler = Scheduler::new(2);
        with_scope(&scheduler, |scope| {
            let endless = scope.spawn(|| while !cancelled() {});
            let waiter = scope.spawn(move || {
                let mut endless = endless;
                while endless.state() == TaskState::New {}
                let short = endless.await_timeout(Duration::from_millis(1)).is_none();
                endless.cancel();
                short && endless.await_result().is_ok()
            });
            // The endless task has started on the other worker before it is awaited.
            assert!(waiter.await_result().unwrap());
        });
    });
}

/// The only worker of each pool waits for the other pool, so the innermost task needs a spare worker.
#[test]
fn two_pools_of_one_worker_each_can_wait_for_each_other() {
    must_end(|| {
        let (near, far) = (Scheduler::new(1), Scheduler::new(1));
        let sum = near.run(|| {
            let value = far.run(|| near.run(|| 20) + 1);
            value * 2
        });
        assert_eq!(sum, 42);
    });
}
