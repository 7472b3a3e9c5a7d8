//! Throughput: the time per join, spawn or item.

use std::{
    hint::black_box,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
};

use rayon::prelude::*;
use windlass_bench_report::{Report, Row};
use windlass_pool::{Scheduler, Scope, join, map, map_reduce, with_scope};

use crate::pools::Pools;

const FIB: u64 = 32;
const SPAWNS: u64 = 1_000_000;
const ITEMS: u64 = 10_000_000;
const OUTER: u64 = 1_000;
const INNER: u64 = 100;
const LEAVES: u64 = 200_000;

pub(crate) fn run(pools: &Pools, report: &mut Report) {
    report.measure(fib_by_join(pools));
    report.measure(fib_by_scope(pools));
    report.measure(no_op_spawns(pools));
    report.measure(no_op_spawns_from_outside(pools));
    let numbers: Vec<u64> = (0..ITEMS).collect();
    report.measure(sum(pools, &numbers));
    report.measure(mapping(pools, &numbers));
    report.measure(nested_scopes(pools));
    report.measure(uneven_tasks(pools));
    report.measure(uneven_joins(pools));
}

fn fib(n: u64) -> u64 {
    if n < 2 { n } else { fib(n - 1) + fib(n - 2) }
}

/// Returns how many calls of a recursive `fib` call it again.
fn forks(n: u64) -> u64 {
    fib(n + 1) - 1
}

fn fib_by_join(pools: &Pools) -> Row<'_> {
    fn windlass(n: u64) -> u64 {
        if n < 2 {
            return n;
        }
        let (a, b) = join(|| windlass(n - 1), || windlass(n - 2));
        a + b
    }
    fn rayon(n: u64) -> u64 {
        if n < 2 {
            return n;
        }
        let (a, b) = rayon::join(|| rayon(n - 1), || rayon(n - 2));
        a + b
    }
    fn chili(scope: &mut chili::Scope<'_>, n: u64) -> u64 {
        if n < 2 {
            return n;
        }
        let (a, b) = scope.join(|scope| chili(scope, n - 1), |scope| chili(scope, n - 2));
        a + b
    }
    #[inline(never)]
    fn plain(n: u64) -> u64 {
        if n < 2 { n } else { plain(n - 1) + plain(n - 2) }
    }
    Row {
        name: "fib(32), per join",
        operations: forks(FIB),
        expected: fib(FIB),
        contenders: vec![
            ("windlass", Box::new(|| pools.windlass.run(|| windlass(FIB)))),
            ("rayon", Box::new(|| pools.rayon.install(|| rayon(FIB)))),
            ("chili", Box::new(|| chili(&mut pools.chili.scope(), FIB))),
            ("plain calls", Box::new(|| plain(FIB))),
        ],
    }
}

fn fib_by_scope(pools: &Pools) -> Row<'_> {
    fn windlass(scheduler: &Scheduler, n: u64) -> u64 {
        if n < 2 {
            return n;
        }
        let (mut a, mut b) = (0, 0);
        with_scope(scheduler, |scope| {
            scope.spawn(|| a = windlass(scheduler, n - 1));
            b = windlass(scheduler, n - 2);
        });
        a + b
    }
    fn rayon(n: u64) -> u64 {
        if n < 2 {
            return n;
        }
        let (mut a, mut b) = (0, 0);
        rayon::scope(|scope| {
            scope.spawn(|_| a = rayon(n - 1));
            b = rayon(n - 2);
        });
        a + b
    }
    let n = FIB - 4;
    Row {
        name: "fib(28) by scopes, per scope with one spawn",
        operations: forks(n),
        expected: fib(n),
        contenders: vec![
            ("windlass", Box::new(move || pools.windlass.run(|| windlass(&pools.windlass, n)))),
            ("rayon", Box::new(move || pools.rayon.install(|| rayon(n)))),
        ],
    }
}

fn no_op_spawns(pools: &Pools) -> Row<'_> {
    let windlass = || {
        let ran = AtomicU64::new(0);
        pools.windlass.run(|| {
            with_scope(&pools.windlass, |scope| {
                for _ in 0..SPAWNS {
                    scope.spawn(|| {
                        ran.fetch_add(1, Relaxed);
                    });
                }
            });
        });
        ran.into_inner()
    };
    let rayon = || {
        let ran = AtomicU64::new(0);
        pools.rayon.scope(|scope| {
            for _ in 0..SPAWNS {
                scope.spawn(|_| {
                    ran.fetch_add(1, Relaxed);
                });
            }
        });
        ran.into_inner()
    };
    Row {
        name: "scope with 1M no-op spawns, per spawn",
        operations: SPAWNS,
        expected: SPAWNS,
        contenders: vec![("windlass", Box::new(windlass)), ("rayon", Box::new(rayon))],
    }
}

fn no_op_spawns_from_outside(pools: &Pools) -> Row<'_> {
    const FEW: u64 = 1000;
    let windlass = || {
        let ran = AtomicU64::new(0);
        with_scope(&pools.windlass, |scope| {
            for _ in 0..FEW {
                scope.spawn(|| {
                    ran.fetch_add(1, Relaxed);
                });
            }
        });
        ran.into_inner()
    };
    let rayon = || {
        let ran = AtomicU64::new(0);
        pools.rayon.in_place_scope(|scope| {
            for _ in 0..FEW {
                scope.spawn(|_| {
                    ran.fetch_add(1, Relaxed);
                });
            }
        });
        ran.into_inner()
    };
    let std = || {
        let ran = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..FEW {
                scope.spawn(|| ran.fetch_add(1, Relaxed));
            }
        });
        ran.into_inner()
    };
    Row {
        name: "scope with 1000 no-op spawns from outside, per spawn",
        operations: FEW,
        expected: FEW,
        contenders: vec![
            ("windlass", Box::new(windlass)),
            ("rayon", Box::new(rayon)),
            ("std::thread::scope", Box::new(std)),
        ],
    }
}

fn sum<'a>(pools: &'a Pools, numbers: &'a [u64]) -> Row<'a> {
    let windlass = move || {
        let sum = pools.windlass.run(|| map_reduce(numbers, |&n| n, u64::wrapping_add));
        sum.expect("there are some")
    };
    let rayon =
        move || pools.rayon.install(|| numbers.par_iter().copied().reduce(|| 0, u64::wrapping_add));
    let std = move || {
        let (left, right) = numbers.split_at(numbers.len() / 2);
        thread::scope(|scope| {
            let left = scope.spawn(|| left.iter().sum::<u64>());
            right.iter().sum::<u64>() + left.join().expect("it does not panic")
        })
    };
    Row {
        name: "sum over 10M, per item",
        operations: ITEMS,
        expected: numbers.iter().sum(),
        contenders: vec![
            ("windlass", Box::new(windlass)),
            ("rayon", Box::new(rayon)),
            ("std::thread::scope", Box::new(std)),
        ],
    }
}

fn mapping<'a>(pools: &'a Pools, numbers: &'a [u64]) -> Row<'a> {
    fn hash(&n: &u64) -> u64 {
        (n ^ (n >> 13)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
    fn digest(values: &[u64]) -> u64 {
        values[1] ^ values[values.len() / 2] ^ values[values.len() - 1] ^ values.len() as u64
    }
    let expected: Vec<u64> = numbers.iter().map(hash).collect();
    Row {
        name: "map over 10M to a vector, per item",
        operations: ITEMS,
        expected: digest(&expected),
        contenders: vec![
            ("windlass", Box::new(move || digest(&pools.windlass.run(|| map(numbers, hash))))),
            (
                "rayon",
                Box::new(move || {
                    let values: Vec<u64> =
                        pools.rayon.install(|| numbers.par_iter().map(hash).collect());
                    digest(&values)
                }),
            ),
            ("one thread", Box::new(move || digest(&numbers.iter().map(hash).collect::<Vec<_>>()))),
        ],
    }
}

fn nested_scopes(pools: &Pools) -> Row<'_> {
    let windlass = || {
        let ran = AtomicU64::new(0);
        let (scheduler, counter) = (&pools.windlass, &ran);
        scheduler.run(|| {
            with_scope(scheduler, |outer| {
                for _ in 0..OUTER {
                    outer.spawn(move || {
                        with_scope(scheduler, |inner| {
                            for _ in 0..INNER {
                                inner.spawn(move || counter.fetch_add(1, Relaxed));
                            }
                        });
                    });
                }
            });
        });
        ran.into_inner()
    };
    let rayon = || {
        let ran = AtomicU64::new(0);
        let counter = &ran;
        pools.rayon.scope(|outer| {
            for _ in 0..OUTER {
                outer.spawn(move |_| {
                    rayon::scope(|inner| {
                        for _ in 0..INNER {
                            inner.spawn(move |_| {
                                counter.fetch_add(1, Relaxed);
                            });
                        }
                    });
                });
            }
        });
        ran.into_inner()
    };
    Row {
        name: "1000 scopes of 100 spawns in a scope, per spawn",
        operations: OUTER * INNER,
        expected: OUTER * INNER,
        contenders: vec![("windlass", Box::new(windlass)), ("rayon", Box::new(rayon))],
    }
}

/// Computes for about 200 ns.
fn leaf(seed: u64) -> u64 {
    (0..180).fold(black_box(seed) | 1, |x, _| (x ^ (x >> 7)).wrapping_mul(0x9e37_79b9_7f4a_7c15))
        & 1
}

/// Returns the sizes of the two parts of an uneven tree.
fn unevenly(count: u64) -> (u64, u64) {
    let small = (count / 10).max(1);
    (small, count - small)
}

fn uneven_sum(count: u64) -> u64 {
    if count == 1 {
        return leaf(count);
    }
    let (small, large) = unevenly(count);
    uneven_sum(small) + uneven_sum(large)
}

fn uneven_tasks(pools: &Pools) -> Row<'_> {
    fn windlass<'scope>(scope: &'scope Scope<'scope, '_>, count: u64, sum: &'scope AtomicU64) {
        if count == 1 {
            sum.fetch_add(leaf(count), Relaxed);
            return;
        }
        let (small, large) = unevenly(count);
        scope.spawn(move || windlass(scope, small, sum));
        windlass(scope, large, sum);
    }
    fn rayon<'scope>(scope: &rayon::Scope<'scope>, count: u64, sum: &'scope AtomicU64) {
        if count == 1 {
            sum.fetch_add(leaf(count), Relaxed);
            return;
        }
        let (small, large) = unevenly(count);
        scope.spawn(move |scope| rayon(scope, small, sum));
        rayon(scope, large, sum);
    }
    let run_windlass = || {
        let sum = AtomicU64::new(0);
        pools.windlass.run(|| {
            with_scope(&pools.windlass, |scope| windlass(scope, LEAVES, &sum));
        });
        sum.into_inner()
    };
    let run_rayon = || {
        let sum = AtomicU64::new(0);
        pools.rayon.scope(|scope| rayon(scope, LEAVES, &sum));
        sum.into_inner()
    };
    Row {
        name: "uneven tree of tasks, per leaf of 0.2 µs",
        operations: LEAVES,
        expected: uneven_sum(LEAVES),
        contenders: vec![("windlass", Box::new(run_windlass)), ("rayon", Box::new(run_rayon))],
    }
}

fn uneven_joins(pools: &Pools) -> Row<'_> {
    fn windlass(count: u64) -> u64 {
        if count == 1 {
            return leaf(count);
        }
        let (small, large) = unevenly(count);
        let (a, b) = join(|| windlass(small), || windlass(large));
        a + b
    }
    fn rayon(count: u64) -> u64 {
        if count == 1 {
            return leaf(count);
        }
        let (small, large) = unevenly(count);
        let (a, b) = rayon::join(|| rayon(small), || rayon(large));
        a + b
    }
    fn chili(scope: &mut chili::Scope<'_>, count: u64) -> u64 {
        if count == 1 {
            return leaf(count);
        }
        let (small, large) = unevenly(count);
        let (a, b) = scope.join(|scope| chili(scope, small), |scope| chili(scope, large));
        a + b
    }
    Row {
        name: "uneven tree of joins, per leaf of 0.2 µs",
        operations: LEAVES,
        expected: uneven_sum(LEAVES),
        contenders: vec![
            ("windlass", Box::new(|| pools.windlass.run(|| windlass(LEAVES)))),
            ("rayon", Box::new(|| pools.rayon.install(|| rayon(LEAVES)))),
            ("chili", Box::new(|| chili(&mut pools.chili.scope(), LEAVES))),
        ],
    }
}
