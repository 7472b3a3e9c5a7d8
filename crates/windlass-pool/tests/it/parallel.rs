//! Joins and parallel loops.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use windlass_pool::{
    Scheduler, SchedulerConfig, Source, TaskError, cancelled, for_each, join, map, map_reduce,
    with_scope,
};

use crate::support::{Signal, amount, must_end, panic_of, silence_expected_panics};

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (left, right) = join(|| fib(n - 1), || fib(n - 2));
    left + right
}

#[test]
fn joins_nest() {
    for workers in [1, 2, 3] {
        assert_eq!(
            Scheduler::new(workers).run(|| fib(amount(20, 8) as u64)),
            amount(6765, 21) as u64
        );
    }
    assert_eq!(fib(15), 610, "on the global scheduler");
}

#[test]
fn every_closure_runs_once_however_eagerly_workers_steal() {
    // Workers that do not spin steal forks from each other at once.
    let config = SchedulerConfig { worker_count: 3, spin_count: 0, ..SchedulerConfig::default() };
    let scheduler = Scheduler::with_config(config);
    for _ in 0..amount(50, 2) {
        assert_eq!(scheduler.run(|| fib(amount(18, 8) as u64)), amount(2584, 21) as u64);
        let mut items = vec![0_u8; amount(2000, 20)];
        scheduler.run(|| for_each(&mut items[..], |item| *item += 1));
        assert!(items.iter().all(|&item| item == 1));
    }
}

#[test]
fn joins_nest_deeper_than_a_fork_deque() {
    const DEEP: usize = amount(1500, 50);
    fn count(n: usize) -> usize {
        if n == 0 {
            return 0;
        }
        let (one, rest) = join(|| 1, || count(n - 1));
        one + rest
    }
    fn count_left(n: usize) -> usize {
        if n == 0 {
            return 0;
        }
        let (rest, one) = join(|| count_left(n - 1), || 1);
        rest + one
    }
    let scheduler = Scheduler::new(2);
    assert_eq!(scheduler.run(|| count(DEEP)), DEEP);
    assert_eq!(scheduler.run(|| count_left(DEEP)), DEEP);
}

#[test]
fn a_panic_in_either_closure_of_a_join_continues_in_the_caller() {
    silence_expected_panics();
    let scheduler = Scheduler::new(2);
    for _ in 0..amount(200, 3) {
        let left = panic_of(|| scheduler.run(|| join(|| panic!("on purpose: left"), || fib(5))));
        assert_eq!(left, "on purpose: left");
        let right = panic_of(|| scheduler.run(|| join(|| fib(5), || panic!("on purpose: right"))));
        assert_eq!(right, "on purpose: right");
        let both = panic_of(|| {
            let (left, right) = ("on purpose: left", "on purpose: right");
            scheduler.run(|| join(|| panic!("{left}"), || panic!("{right}")))
        });
        assert_eq!(both, "on purpose: left");
    }
}

#[test]
fn a_join_in_a_cancelled_task_returns_two_values() {
    must_end(|| {
        let scheduler = Scheduler::new(2);
        let started = Signal::default();
        with_scope(&scheduler, |scope| {
            let task = scope.spawn(|| {
                started.raise();
                while !cancelled() {}
                fib(10)
            });
            started.wait();
            task.cancel();
            assert_eq!(task.await_result().unwrap(), 55);
        });
    });
}

#[test]
fn for_each_visits_every_item_once() {
    let scheduler = Scheduler::new(2);
    for len in (0..amount(300, 8)).chain([amount(10_000, 100), amount(100_000, 300)]) {
        let mut items = vec![0_u32; len];
        scheduler.run(|| for_each(&mut items[..], |item| *item += 1));
        assert!(items.iter().all(|&item| item == 1), "{len}: {items:?}");
    }
}

#[test]
fn map_keeps_the_order() {
    let scheduler = Scheduler::new(2);
    for len in (0..amount(300, 8)).chain([amount(10_000, 100), amount(100_000, 300)]) {
        let strings = scheduler.run(|| map(0..len, |n| n.to_string()));
        assert_eq!(strings.len(), len);
        assert!(strings.iter().enumerate().all(|(n, text)| *text == n.to_string()), "{len}");
    }
}

#[test]
fn map_reduce_combines_in_order() {
    let scheduler = Scheduler::new(2);
    let text: String = (0..amount(2000, 100)).map(|n| format!("{n},")).collect();
    let joined =
        scheduler.run(|| map_reduce(0..amount(2000, 100), |n| format!("{n},"), |a, b| a + &b));
    assert_eq!(joined, Some(text));
    assert_eq!(map_reduce(0..0_u32, |n| n, |a, _| a), None);
}

#[test]
fn ranges_of_every_integer_type_are_mapped_to_their_ends() {
    const FRACTION: i32 = if cfg!(miri) { 1 << 26 } else { 1 << 12 };
    fn check<
        S: Source<Item = T> + Clone + Iterator<Item = T>,
        T: Send + PartialEq + std::fmt::Debug,
    >(
        range: S,
    ) {
        assert_eq!(map(range.clone(), |n| n), range.collect::<Vec<_>>());
    }
    check(0..5_usize);
    check(7..7_u32);
    check(u32::MAX - 3..u32::MAX);
    check(u64::MAX - 3..u64::MAX);
    check(-3..3_i32);
    check(i64::MIN..i64::MIN + 3);
    let empty = std::ops::Range { start: 3_i32, end: -3 };
    check(empty);
    let wide = map_reduce(i32::MIN / FRACTION..i32::MAX / FRACTION, i64::from, |a, b| a + b);
    let half = i64::from(i32::MAX / FRACTION);
    assert_eq!(wide, Some((-half - 1 + half - 1) * (2 * half + 1) / 2));
}

struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(alive: &'a AtomicUsize) -> Self {
        alive.fetch_add(1, SeqCst);
        Self(alive)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

#[test]
fn a_map_that_panics_drops_the_values_it_has_collected() {
    silence_expected_panics();
    let scheduler = Scheduler::new(2);
    let alive = AtomicUsize::new(0);
    let message = panic_of(|| {
        scheduler.run(|| {
            map(0..amount(50_000, 500), |n| {
                assert!(n != amount(40_000, 400), "on purpose: in the middle");
                Counted::new(&alive)
            })
        })
    });
    assert_eq!(message, "on purpose: in the middle");
    assert_eq!(alive.into_inner(), 0);
}

#[test]
fn a_cancel_ends_a_map_between_two_chunks() {
    must_end(|| {
        let scheduler = Scheduler::new(2);
        let started = Signal::default();
        with_scope(&scheduler, |scope| {
            let task = scope.spawn(|| map(0..usize::MAX / 64, |_| started.raise()).len());
            started.wait();
            task.cancel();
            assert!(matches!(task.await_result(), Err(TaskError::Cancelled)));
        });
    });
}

#[test]
fn a_join_outside_the_pool_in_a_cancelled_scope_returns_two_values() {
    let scheduler = Scheduler::new(1);
    let sum = with_scope(&scheduler, |scope| {
        scope.cancel();
        let (one, two) = join(|| 1, || 2);
        one + two
    });
    assert_eq!(sum, 3);
}

#[test]
fn run_calls_its_closure_in_a_cancelled_scope_too() {
    let scheduler = Scheduler::new(1);
    let outside = with_scope(&scheduler, |scope| {
        scope.cancel();
        scheduler.run(cancelled)
    });
    assert!(outside, "the closure ran and saw the cancel");
}
