//! Races: both closures run at the same time, on however few workers.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use windlass_pool::{Scheduler, TaskError, checkpoint, race, with_scope};

use crate::support::{Signal, amount, must_end, panic_of, silence_expected_panics};

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

/// A contender that awaits a task with a limit that it never reaches. The child of that task is
/// queued when the await begins to wait.
fn awaits_its_task_with_a_limit(scheduler: &Scheduler) {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    with_scope(scheduler, |scope| {
        let mut task = scope.spawn(|| drop(scope.spawn(thread::yield_now)));
        assert!(task.await_timeout(DAY).is_some());
    });
}

#[test]
fn a_winner_that_awaits_with_a_limit_ends_while_all_workers_run_losers() {
    must_end(|| {
        for workers in 1..=2 {
            let scheduler = Scheduler::new(workers);
            let winner = || awaits_its_task_with_a_limit(&scheduler);
            for _ in 0..MANY {
                scheduler.run(|| race(winner, until_cancelled));
                scheduler.run(|| race(until_cancelled, winner));
            }
        }
    });
}
