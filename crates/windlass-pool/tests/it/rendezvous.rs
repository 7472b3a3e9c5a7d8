//! Closures that wait for each other: an idle worker can reach every closure that has not started.
//!
//! Each test would hang if a right closure could run only after the left one.

use std::sync::Barrier;

use windlass_pool::{Scheduler, checkpoint, for_each, join, map, race, with_scope};

use crate::support::{Signal, amount, must_end};

const MANY: usize = amount(100, 3);

/// Runs a join whose closures wait for each other.
fn meet() {
    let barrier = Barrier::new(2);
    join(|| barrier.wait(), || barrier.wait());
}

/// Runs such a join inside the left closures of `depth` others.
fn meet_in_nested_joins(depth: usize) {
    match depth {
        0 => meet(),
        _ => drop(join(|| meet_in_nested_joins(depth - 1), || ())),
    }
}

#[test]
fn the_closures_of_a_join_meet_on_a_fresh_pool() {
    must_end(|| {
        for workers in [2, 3] {
            for _ in 0..MANY {
                Scheduler::new(workers).run(meet);
            }
        }
    });
}

#[test]
fn the_closures_of_a_join_meet_on_a_pool_in_use() {
    must_end(|| {
        for workers in [2, 3] {
            let scheduler = Scheduler::new(workers);
            for _ in 0..10 * MANY {
                scheduler.run(meet);
            }
        }
    });
}

#[test]
fn the_closures_of_a_join_meet_on_a_global_pool_with_two_workers() {
    must_end(|| {
        if Scheduler::global().worker_count() > 1 {
            (0..MANY).for_each(|_| meet());
        }
    });
}

#[test]
fn the_closures_of_a_join_meet_inside_a_task() {
    must_end(|| {
        for workers in [2, 3] {
            for _ in 0..MANY {
                let scheduler = Scheduler::new(workers);
                with_scope(&scheduler, |scope| drop(scope.spawn(meet)));
                scheduler.run(|| with_scope(&scheduler, |_| meet()));
                scheduler.run(|| {
                    with_scope(&scheduler, |scope| scope.spawn(meet).await_result().unwrap());
                });
            }
        }
    });
}

#[test]
fn the_closures_of_a_join_meet_inside_either_closure_of_a_race() {
    must_end(|| {
        let waits = || loop {
            checkpoint();
        };
        for _ in 0..MANY {
            // The loser keeps one worker busy.
            let scheduler = Scheduler::new(3);
            scheduler.run(|| race(meet, waits));
            scheduler.run(|| race(waits, meet));
        }
    });
}

#[test]
fn the_closures_of_a_join_meet_inside_other_joins() {
    must_end(|| {
        for workers in [2, 3] {
            for depth in 1..=4 {
                for _ in 0..MANY / 2 {
                    let scheduler = Scheduler::new(workers);
                    scheduler.run(|| meet_in_nested_joins(depth));
                    scheduler.run(|| join(|| (), || meet_in_nested_joins(depth)));
                    with_scope(&scheduler, |scope| {
                        drop(scope.spawn(|| meet_in_nested_joins(depth)));
                    });
                }
            }
        }
    });
}

#[test]
fn as_many_closures_meet_as_there_are_workers() {
    fn arrive(barrier: &Barrier, closures: usize) {
        match closures {
            1 => _ = barrier.wait(),
            _ => drop(join(|| arrive(barrier, closures - 1), || barrier.wait())),
        }
    }
    must_end(|| {
        for workers in 2..=5 {
            for _ in 0..MANY / 2 {
                let barrier = Barrier::new(workers);
                Scheduler::new(workers).run(|| arrive(&barrier, workers));
            }
        }
    });
}

#[test]
fn closures_meet_in_more_nested_joins_than_a_fork_deque_holds() {
    const DEEP: usize = amount(1100, 20);
    must_end(|| {
        let scheduler = Scheduler::new(2);
        for depth in [DEEP - 100, DEEP] {
            scheduler.run(|| meet_in_nested_joins(depth));
        }
    });
}

#[test]
fn a_worker_that_becomes_idle_later_steals_a_fork_whose_owner_forks_no_more() {
    must_end(|| {
        let scheduler = Scheduler::new(2);
        for _ in 0..MANY {
            let (busy, forked) = (Signal::default(), Signal::default());
            let barrier = Barrier::new(2);
            with_scope(&scheduler, |scope| {
                scope.spawn(|| {
                    busy.raise();
                    forked.wait();
                });
                scope.spawn(|| {
                    busy.wait();
                    let left = || {
                        forked.raise();
                        barrier.wait();
                    };
                    join(left, || barrier.wait());
                });
            });
        }
    });
}

#[test]
fn a_worker_that_awaits_a_task_helps_with_its_join() {
    must_end(|| {
        let scheduler = Scheduler::new(2);
        for _ in 0..MANY {
            let started = Signal::default();
            scheduler.run(|| {
                with_scope(&scheduler, |scope| {
                    let task = scope.spawn(|| {
                        started.raise();
                        meet();
                    });
                    started.wait();
                    task.await_result().unwrap();
                });
            });
        }
    });
}

#[test]
fn a_fork_of_a_spare_worker_is_stolen() {
    must_end(|| {
        for round in 0..MANY / 5 {
            // A new pool: a spare worker of an earlier round could be the busy one.
            let scheduler = Scheduler::new(2);
            let (busy, forked) = (Signal::default(), Signal::default());
            let barrier = Barrier::new(2);
            let left = || {
                forked.raise();
                barrier.wait();
            };
            let both = Barrier::new(2);
            let forks = || {
                both.wait();
                join(left, || barrier.wait());
            };
            let waits = || {
                both.wait();
                loop {
                    checkpoint();
                }
            };
            with_scope(&scheduler, |scope| {
                // Both workers are busy, so one closure of the race is on a spare worker.
                scope.spawn(|| {
                    busy.raise();
                    forked.wait();
                });
                scope.spawn(|| {
                    busy.wait();
                    if round % 2 == 0 { race(waits, forks) } else { race(forks, waits) }
                });
            });
        }
    });
}

#[test]
fn two_items_of_a_map_meet() {
    must_end(|| {
        for _ in 0..MANY {
            let barrier = Barrier::new(2);
            let items = Scheduler::new(2).run(|| map(0..2, |n| (barrier.wait(), n).1));
            assert_eq!(items, [0, 1]);
        }
    });
}

#[test]
fn as_many_items_meet_as_there_are_workers() {
    must_end(|| {
        for workers in 2..=5 {
            for _ in 0..MANY / 2 {
                let scheduler = Scheduler::new(workers);
                let barrier = Barrier::new(workers);
                scheduler.run(|| {
                    for_each(0..workers, |_| {
                        barrier.wait();
                    });
                });
                let mut items = vec![0; workers];
                scheduler.run(|| {
                    for_each(&mut items[..], |item| {
                        *item += 1;
                        barrier.wait();
                    });
                });
                assert_eq!(items, vec![1; workers]);
            }
        }
    });
}
