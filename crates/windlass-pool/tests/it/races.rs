//! Races: both closures run at the same time, on however few workers.

use std::{
    sync::{
        Barrier, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    thread,
    time::Duration,
};

use windlass_pool::{Scheduler, Task, TaskError, cancelled, checkpoint, race, with_scope};

use crate::support::{
    Signal, amount, must_end, panic_of, silence_expected_panics, without_stealing,
};

const MANY: usize = amount(50, 2);

fn until_cancelled<R>() -> R {
    loop {
        checkpoint();
        thread::yield_now();
    }
}

fn race_of_one_that_ends() -> &'static str {
    let (first, second) = (race(until_cancelled, || "quick"), race(|| "quick", until_cancelled));
    assert_eq!(first, second);
    first
}

#[test]
fn as_many_races_as_there_are_workers_end() {
    must_end(|| {
        for workers in 1..=3 {
            let scheduler = Scheduler::new(workers);
            for _ in 0..MANY {
                with_scope(&scheduler, |scope| {
                    let races = (0..workers).map(|_| scope.spawn(race_of_one_that_ends));
                    for race in races.collect::<Vec<_>>() {
                        assert_eq!(race.await_result().unwrap(), "quick");
                    }
                });
            }
        }
    });
}

#[test]
fn more_races_than_workers_end_when_threads_outside_the_pool_call_them() {
    must_end(|| {
        let scheduler = Scheduler::new(2);
        thread::scope(|threads| {
            for _ in 0..6 {
                threads.spawn(|| {
                    for _ in 0..MANY {
                        assert_eq!(scheduler.run(race_of_one_that_ends), "quick");
                    }
                });
            }
        });
    });
}

#[test]
fn the_closures_of_a_race_meet_while_all_workers_are_busy() {
    must_end(|| {
        for workers in 1..=3 {
            let scheduler = Scheduler::new(workers);
            for _ in 0..MANY {
                let (all_busy, met) = (Barrier::new(workers), Signal::default());
                with_scope(&scheduler, |scope| {
                    for _ in 1..workers {
                        scope.spawn(|| {
                            all_busy.wait();
                            met.wait();
                        });
                    }
                    scope.spawn(|| {
                        all_busy.wait();
                        let barrier = Barrier::new(2);
                        race(|| barrier.wait(), || barrier.wait());
                        met.raise();
                    });
                });
            }
        }
    });
}

#[test]
fn races_nest() {
    fn nested(depth: usize, barrier: &Barrier) {
        match depth {
            0 => _ = barrier.wait(),
            _ => race(|| nested(depth - 1, barrier), || nested(depth - 1, barrier)),
        }
    }
    must_end(|| {
        for workers in 1..=2 {
            let scheduler = Scheduler::new(workers);
            for depth in 0..=4 {
                // All innermost closures have to run at the same time.
                let barrier = Barrier::new(1 << depth);
                scheduler.run(|| nested(depth, &barrier));
            }
        }
    });
}

#[test]
fn spare_workers_for_races_do_not_accumulate() {
    must_end(|| {
        let scheduler = Scheduler::new(1);
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let body = || {
            most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
            thread::yield_now();
            running.fetch_sub(1, SeqCst);
        };
        with_scope(&scheduler, |scope| {
            scope.spawn(|| {
                // A queue that is never empty, and races that each need a spare worker.
                for _ in 0..10 * MANY {
                    scope.spawn(body);
                    race(until_cancelled, || ());
                }
            });
        });
        let most = most.into_inner();
        assert!(most <= 2, "{most} ordinary tasks at the same time on one worker");
    });
}

#[test]
fn a_panic_ends_a_race_and_continues_in_the_caller() {
    silence_expected_panics();
    must_end(|| {
        let scheduler = Scheduler::new(1);
        for _ in 0..MANY {
            let message = panic_of(|| {
                scheduler.run(|| race(until_cancelled::<()>, || panic!("on purpose: lost")));
            });
            assert_eq!(message, "on purpose: lost");
        }
    });
}

#[test]
fn a_cancel_from_outside_ends_both_closures_of_a_race() {
    must_end(|| {
        let scheduler = Scheduler::new(1);
        let barrier = Barrier::new(3);
        with_scope(&scheduler, |scope| {
            let task = scope.spawn(|| {
                let side = || {
                    barrier.wait();
                    until_cancelled::<()>();
                };
                race(side, side);
            });
            barrier.wait();
            task.cancel();
            assert!(matches!(task.await_result(), Err(TaskError::Cancelled)));
        });
    });
}

/// A contender that waits for tasks of its own.
fn waits_for_its_tasks(scheduler: &Scheduler) {
    with_scope(scheduler, |scope| {
        scope.spawn(thread::yield_now);
        scope.spawn(thread::yield_now);
    });
}

fn nested(scheduler: &Scheduler, depth: usize) {
    match depth {
        0 => waits_for_its_tasks(scheduler),
        _ => race(|| nested(scheduler, depth - 1), until_cancelled),
    }
}

#[test]
fn a_winner_that_waits_for_its_tasks_ends_while_all_workers_run_losers() {
    for (workers, depth) in [(1, 1), (1, 2), (2, 3), (4, 5)] {
        must_end(move || {
            let scheduler = Scheduler::new(workers);
            for _ in 0..20 {
                scheduler.run(|| nested(&scheduler, depth));
            }
        });
    }
}

#[test]
fn many_races_whose_winners_wait_for_their_tasks_end() {
    for (workers, races) in [(1, 2), (2, 8), (4, 12)] {
        must_end(move || {
            let scheduler = Scheduler::new(workers);
            for _ in 0..20 {
                with_scope(&scheduler, |scope| {
                    for _ in 0..races {
                        scope.spawn(|| race(|| waits_for_its_tasks(&scheduler), until_cancelled));
                    }
                });
            }
        });
    }
}

/// A contender that awaits a task again and again, with the given limit. The child of the task is
/// queued when the first await begins to wait.
fn awaits_its_task_with_a_limit(scheduler: &Scheduler, limit: Duration) {
    with_scope(scheduler, |scope| {
        let mut task = scope.spawn(|| drop(scope.spawn(thread::yield_now)));
        while task.await_timeout(limit).is_none() {}
    });
}

#[test]
fn a_winner_that_awaits_with_a_limit_ends_while_all_workers_run_losers() {
    const LONG: Duration = Duration::from_secs(24 * 60 * 60);
    const SHORT: Duration = Duration::from_micros(100);
    for (workers, limit) in [(1, LONG), (2, LONG), (1, SHORT), (2, SHORT)] {
        must_end(move || {
            let scheduler = Scheduler::new(workers);
            let winner = || awaits_its_task_with_a_limit(&scheduler, limit);
            for _ in 0..MANY {
                scheduler.run(|| race(winner, until_cancelled));
                scheduler.run(|| race(until_cancelled, winner));
            }
        });
    }
}

#[test]
fn a_winner_that_waits_does_not_start_a_thread_for_each_queued_task() {
    must_end(|| {
        let scheduler = Scheduler::new(3);
        let (gate, running) = (Mutex::new(()), AtomicUsize::new(0));
        let (started, waits) = (Signal::default(), Signal::default());
        let closed = gate.lock().unwrap();
        let pass = || drop(gate.lock().unwrap_or_else(PoisonError::into_inner));
        let most = with_scope(&scheduler, |scope| {
            let slow = scope.spawn(|| {
                started.raise();
                pass();
            });
            let winner = || {
                started.wait();
                waits.raise();
                slow.await_result().unwrap();
            };
            let mut racing = scope.spawn(|| race(winner, until_cancelled));
            waits.wait();
            for _ in 0..500 {
                scope.spawn(|| {
                    running.fetch_add(1, SeqCst);
                    pass();
                });
            }
            // Long enough for the winner to recheck the queues hundreds of times.
            for _ in 0..amount(300, 2) {
                assert!(racing.await_timeout(Duration::from_millis(1)).is_none());
            }
            let most = running.load(SeqCst);
            drop(closed);
            most
        });
        assert!(most < 100, "{most} tasks at the same time on 3 workers");
    });
}

/// Without stealing, no other worker can take the child from the deque of the worker that runs the
/// loser.
#[test]
fn a_winner_awaits_a_task_whose_child_is_queued_on_the_worker_of_the_loser() {
    must_end(|| {
        for _ in 0..MANY {
            // A new one, without spare workers from the round before.
            let scheduler = without_stealing(1);
            with_scope(&scheduler, |scope| {
                let (send, receive) = mpsc::channel();
                scope.spawn(move || {
                    let mut task: Task<'_, ()> = receive.recv().unwrap();
                    // Runs the task here, without its child.
                    assert!(task.await_timeout(Duration::ZERO).is_none());
                    race(until_cancelled, || task.await_result().unwrap());
                });
                send.send(scope.spawn(|| drop(scope.spawn(|| ())))).unwrap();
            });
        }
    });
}

#[test]
fn a_winner_that_waits_for_another_pool_ends_while_that_pool_runs_the_loser() {
    must_end(|| {
        let (one, other) = (Scheduler::new(1), Scheduler::new(1));
        let (winner, loser) = (|| other.run(|| "quick"), || other.run(until_cancelled));
        for _ in 0..MANY {
            assert_eq!(one.run(|| race(loser, winner)), "quick");
            assert_eq!(one.run(|| race(winner, loser)), "quick");
        }
    });
}

#[test]
fn a_winner_that_waits_for_a_pool_behind_another_ends_while_that_pool_runs_the_loser() {
    must_end(|| {
        let [one, middle, last] = [(); 3].map(|()| Scheduler::new(1));
        let winner = || middle.run(|| last.run(|| "quick"));
        let loser = || middle.run(|| last.run(until_cancelled));
        for _ in 0..MANY {
            assert_eq!(one.run(|| race(loser, winner)), "quick");
            assert_eq!(one.run(|| race(winner, loser)), "quick");
        }
    });
}

struct PanicsOnDrop;

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        panic!("on purpose: drop");
    }
}

#[test]
fn the_value_of_a_winner_may_panic_in_its_drop_when_the_loser_has_panicked() {
    silence_expected_panics();
    must_end(|| {
        let scheduler = Scheduler::new(1);
        let barrier = Barrier::new(2);
        let winner = || {
            barrier.wait();
            PanicsOnDrop
        };
        let loser = || {
            barrier.wait();
            while !cancelled() {}
            panic!("on purpose: late")
        };
        let message = panic_of(|| scheduler.run(|| drop(race(winner, loser))));
        assert_eq!(message, "on purpose: late");
    });
}
