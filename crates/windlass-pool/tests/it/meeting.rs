//! Sides that wait for each other: nothing that has not begun stays out of reach of a free worker.
//!
//! Each test would hang if a right side could be run only after the left one.

use std::sync::Barrier;

use windlass_pool::{Scheduler, checkpoint, for_each, join, map, race, with_scope};

use crate::support::{Signal, amount, must_end};

const MANY: usize = amount(100, 3);

/// A join whose sides meet.
fn meet() {
    let barrier = Barrier::new(2);
    join(|| barrier.wait(), || barrier.wait());
}

/// A join whose sides meet, in the left side of `depth` others.
fn meet_below(depth: usize) {
    match depth {
        0 => meet(),
        _ => drop(join(|| meet_below(depth - 1), || ())),
    }
}

#[test]
fn the_sides_of_a_join_meet_on_a_fresh_pool() {
    must_end(|| {
        for workers in [2, 3] {
            for _ in 0..MANY {
                Scheduler::new(workers).run(meet);
            }
        }
    });
}

#[test]
fn the_sides_of_a_join_meet_on_a_pool_in_use() {
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
fn the_sides_of_a_join_meet_on_the_global_pool_if_it_has_two_workers() {
    must_end(|| {
        if Scheduler::global().worker_count() > 1 {
            (0..MANY).for_each(|_| meet());
        }
    });
}

#[test]
fn the_sides_of_a_join_meet_inside_a_task() {
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
fn the_sides_of_a_join_meet_inside_either_side_of_a_race() {
    must_end(|| {
        let waits = || loop {
            checkpoint();
        };
        for _ in 0..MANY {
            // One keeps a worker busy.
            let scheduler = Scheduler::new(3);
            scheduler.run(|| race(meet, waits));
            scheduler.run(|| race(waits, meet));
        }
    });
}

#[test]
fn the_sides_of_a_join_meet_inside_other_joins() {
    must_end(|| {
        for workers in [2, 3] {
            for depth in 1..=4 {
                for _ in 0..MANY / 2 {
                    let scheduler = Scheduler::new(workers);
                    scheduler.run(|| meet_below(depth));
                    scheduler.run(|| join(|| (), || meet_below(depth)));
                    with_scope(&scheduler, |scope| drop(scope.spawn(|| meet_below(depth))));
                }
            }
        }
    });
}

#[test]
fn as_many_sides_meet_as_there_are_workers() {
    fn arrive(barrier: &Barrier, sides: usize) {
        match sides {
            1 => _ = barrier.wait(),
            _ => drop(join(|| arrive(barrier, sides - 1), || barrier.wait())),
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
fn sides_meet_below_more_joins_than_the_stack_of_forks_has_room_for() {
    const DEEP: usize = amount(1100, 20);
    must_end(|| {
        let scheduler = Scheduler::new(2);
        for depth in [DEEP - 100, DEEP] {
            scheduler.run(|| meet_below(depth));
        }
    });
}

#[test]
fn a_worker_that_runs_out_of_work_later_finds_a_side_whose_owner_forks_no_more() {
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
fn a_worker_that_waits_for_a_task_helps_it_with_a_join() {
    must_end(|| {
        let scheduler = Scheduler::new(2);
        for _ in 0..MANY {
            let begun = Signal::default();
            scheduler.run(|| {
                with_scope(&scheduler, |scope| {
                    let task = scope.spawn(|| {
                        begun.raise();
                        meet();
                    });
                    begun.wait();
                    task.await_result().unwrap();
                });
            });
        }
    });
}

#[test]
fn a_side_of_a_join_on_a_relief_worker_is_found() {
    must_end(|| {
        for round in 0..MANY / 5 {
            // A fresh one: a relief worker of an earlier round could be the one that is busy.
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
                // With both workers busy one side of the race is on a relief worker.
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
