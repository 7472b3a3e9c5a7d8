//! Bodies that panic, drop, join and cancel where one would not expect it.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, panic_any},
    sync::{
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

use windlass_pool::{Scheduler, TaskError, cancelled, checkpoint, for_each, join, map, with_scope};

use crate::support::{Signal, amount, must_end, panic_of, silence_expected_panics};

const MANY: usize = amount(50, 2);

/// Panics when it is dropped, unless the thread is already panicking.
struct PanicOnDrop(&'static str);

impl Drop for PanicOnDrop {
    fn drop(&mut self) {
        if !thread::panicking() {
            panic!("on purpose: dropped {}", self.0);
        }
    }
}

/// Returns the name of the `PanicOnDrop` with which `f` panics.
fn payload_of(f: impl FnOnce()) -> &'static str {
    let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("it panics");
    let payload = payload.downcast::<PanicOnDrop>().expect("with a payload");
    let name = payload.0;
    std::mem::forget(payload);
    name
}

#[test]
fn of_two_panics_the_left_continues_and_the_right_is_dropped_even_if_its_drop_panics() {
    silence_expected_panics();
    must_end(|| {
        let scheduler = Scheduler::new(2);
        for _ in 0..MANY {
            // Both closures run at the same time, so another worker has stolen the right one.
            let both = Barrier::new(2);
            let side = |name| {
                both.wait();
                panic_any(PanicOnDrop(name));
            };
            let name = payload_of(|| {
                scheduler.run(|| join(|| -> () { side("left") }, || -> () { side("right") }));
            });
            assert_eq!(name, "left");
        }
    });
}

#[test]
fn a_left_panic_continues_even_if_dropping_the_right_value_panics() {
    silence_expected_panics();
    must_end(|| {
        let scheduler = Scheduler::new(2);
        for _ in 0..MANY {
            let right = Signal::default();
            let left = || -> () {
                right.wait();
                panic!("on purpose: left");
            };
            let message = panic_of(|| {
                scheduler.run(|| {
                    join(left, || {
                        right.raise();
                        PanicOnDrop("value")
                    })
                })
            });
            assert_eq!(message, "on purpose: left");
        }
    });
}

#[test]
fn a_left_panic_continues_even_if_dropping_the_unstarted_right_closure_panics() {
    silence_expected_panics();
    must_end(|| {
        let scheduler = Scheduler::new(1);
        let payload = PanicOnDrop("capture");
        let message = panic_of(|| {
            scheduler
                .run(move || join(|| -> () { panic!("on purpose: left") }, move || drop(payload)))
        });
        assert_eq!(message, "on purpose: left");
    });
}

#[test]
fn a_scope_with_many_payloads_whose_drops_panic_raises_the_first() {
    silence_expected_panics();
    must_end(|| {
        let scheduler = Scheduler::new(1);
        let name = payload_of(|| {
            scheduler.run(|| {
                with_scope(&scheduler, |scope| {
                    (0..4).for_each(|_| drop(scope.spawn(|| panic_any(PanicOnDrop("payload")))));
                });
            });
        });
        assert_eq!(name, "payload");
    });
}

#[test]
fn a_panic_in_the_drop_of_an_unobserved_payload_is_not_attributed_to_another_task() {
    silence_expected_panics();
    must_end(|| {
        let scheduler = Scheduler::new(1);
        for round in 0..4 * MANY {
            drop(scheduler.spawn(|| panic_any(PanicOnDrop("unwanted"))));
            // Most likely reuses the memory of the first task.
            let task = scheduler.spawn(move || -> () { panic!("on purpose: {round}") });
            match task.await_result() {
                Err(TaskError::Panicked(panic)) => {
                    assert_eq!(panic.to_string(), format!("on purpose: {round}"));
                }
                other => panic!("{other:?}"),
            }
        }
    });
}

#[test]
fn joins_return_values_of_every_size_and_alignment() {
    must_end(|| {
        for workers in [1, 2] {
            let scheduler = Scheduler::new(workers);
            for _ in 0..MANY {
                let huge = [7_u8; 1 << 12];
                let aligned = Aligned([3; 64]);
                let (nothing, (bytes, numbers)) = scheduler.run(|| {
                    join(|| (), move || join(move || huge, move || std::hint::black_box(aligned)))
                });
                assert_eq!(((), [7_u8; 1 << 12], [3; 64]), (nothing, bytes, numbers.0));
            }
        }
    });
}

#[repr(align(128))]
struct Aligned([u8; 64]);

/// Joins when it is dropped.
struct Joins<'a>(&'a AtomicUsize);

impl Drop for Joins<'_> {
    fn drop(&mut self) {
        let count = || self.0.fetch_add(1, SeqCst);
        join(count, || join(count, count));
    }
}

#[test]
fn a_drop_may_join_while_a_panic_unwinds() {
    silence_expected_panics();
    must_end(|| {
        for workers in [1, 2] {
            let scheduler = Scheduler::new(workers);
            let count = AtomicUsize::new(0);
            for _ in 0..MANY {
                scheduler.run(|| drop(join(|| Joins(&count), || Joins(&count))));
                let message = panic_of(|| {
                    scheduler.run(|| {
                        let _joins = Joins(&count);
                        let left = || {
                            let _joins = Joins(&count);
                            panic!("on purpose: joins")
                        };
                        join(left, || Joins(&count))
                    })
                });
                assert_eq!(message, "on purpose: joins");
            }
            assert!(count.into_inner() >= MANY * 4 * 3);
        }
    });
}

#[test]
fn scopes_joins_and_maps_nest_in_any_order() {
    fn nest(scheduler: &Scheduler, depth: usize, count: &AtomicUsize) {
        if depth == 0 {
            count.fetch_add(1, SeqCst);
            return;
        }
        let inner = || nest(scheduler, depth - 1, count);
        with_scope(scheduler, |scope| {
            let task = scope.spawn(|| join(inner, || with_scope(scheduler, |_| inner())));
            join(inner, || for_each(0..2, |_| inner()));
            task.await_result().unwrap();
        });
    }
    must_end(|| {
        for workers in [1, 2, 3] {
            let scheduler = Scheduler::new(workers);
            let count = AtomicUsize::new(0);
            let depth = amount(5, 2);
            scheduler.run(|| nest(&scheduler, depth, &count));
            nest(&scheduler, depth, &count);
            assert_eq!(count.into_inner(), 2 * 5_usize.pow(u32::try_from(depth).unwrap()));
        }
    });
}

#[test]
fn two_pools_may_call_each_other() {
    fn there_and_back(here: &Scheduler, there: &Scheduler, depth: usize) -> usize {
        if depth == 0 {
            return 1;
        }
        let go = || there.run(|| there_and_back(there, here, depth - 1));
        let (left, right) = join(go, go);
        left + right
    }
    must_end(|| {
        for workers in [1, 2] {
            let (one, other) = (Scheduler::new(workers), Scheduler::new(workers));
            let depth = amount(6, 2);
            let calls = || one.run(|| there_and_back(&one, &other, depth));
            let back = || other.run(|| there_and_back(&other, &one, depth));
            thread::scope(|threads| {
                let calling = threads.spawn(calls);
                assert_eq!(back(), 1 << depth);
                assert_eq!(calling.join().unwrap(), 1 << depth);
            });
        }
    });
}

#[test]
fn a_pool_that_is_dropped_while_joins_run_waits_for_them() {
    must_end(|| {
        for workers in [1, 2, 3] {
            for _ in 0..MANY / 2 {
                let scheduler = Scheduler::new(workers);
                let (started, ended) = (Arc::new(Signal::default()), Arc::new(AtomicUsize::new(0)));
                for _ in 0..workers {
                    let (started, ended) = (Arc::clone(&started), Arc::clone(&ended));
                    drop(scheduler.spawn(move || {
                        started.raise();
                        let side = || {
                            while !cancelled() {
                                thread::yield_now();
                            }
                            ended.fetch_add(1, SeqCst);
                        };
                        join(side, || join(side, side));
                    }));
                }
                started.wait();
                drop(scheduler);
                assert_eq!(ended.load(SeqCst) % 3, 0, "whatever start has ended");
                assert!(ended.load(SeqCst) > 0);
            }
        }
    });
}

#[test]
fn a_checkpoint_in_either_closure_of_a_join_unwinds_the_task_and_not_the_worker() {
    must_end(|| {
        let scheduler = Scheduler::new(2);
        for round in 0..MANY {
            let started = Signal::default();
            with_scope(&scheduler, |scope| {
                let task = scope.spawn(|| {
                    let unwinds = || {
                        started.raise();
                        loop {
                            checkpoint();
                        }
                    };
                    let returns = || while !cancelled() {};
                    if round % 2 == 0 { join(unwinds, returns) } else { join(returns, unwinds) }
                });
                if round % 2 == 0 {
                    started.wait();
                }
                task.cancel();
                assert!(matches!(task.await_result(), Err(TaskError::Cancelled)));
            });
            assert_eq!(scheduler.run(|| map(0..100, |n| n)).len(), 100);
        }
    });
}

#[test]
fn a_join_whose_left_closure_panics_returns_after_the_right_one_has_ended() {
    silence_expected_panics();
    must_end(|| {
        let scheduler = Scheduler::new(2);
        for _ in 0..MANY {
            let (mut numbers, started) = (vec![0_u64; 1000], Signal::default());
            let message = panic_of(|| {
                scheduler.run(|| {
                    let left = || -> () {
                        started.wait();
                        panic!("on purpose: left");
                    };
                    join(left, || {
                        started.raise();
                        numbers.iter_mut().for_each(|number| *number += 1);
                    })
                })
            });
            assert_eq!(message, "on purpose: left");
            assert!(numbers.iter().all(|&number| number == 1));
        }
    });
}
