//! Numeric kernels that fill the pool, together with a stream of short tasks.
//!
//! The kernel is many blocks of arithmetic, each of about 50 µs; the stream is one short task every
//! half millisecond. Reported are the times of the kernel alone and with the stream, and the times of
//! the short tasks from spawn to end.

use std::{
    hint::black_box,
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use windlass_bench_report::{Report, Row};
use windlass_pool::with_scope;

use crate::pools::Pools;

const BLOCKS: u64 = 2_000;

pub(crate) fn run(pools: &Pools, report: &mut Report) {
    const NAME: &str = "kernel of 2000 blocks, per block of 50 µs";
    const SHORT: &str = "short tasks beside the kernel";
    if !report.wants(NAME) {
        return;
    }
    let (windlass_delays, rayon_delays) = (mpsc::channel(), mpsc::channel());
    let submit_windlass = |job: Job| drop(pools.windlass.spawn(job));
    let submit_rayon = |job: Job| pools.rayon.spawn(job);
    report.measure(Row {
        name: NAME,
        operations: BLOCKS,
        expected: BLOCKS,
        contenders: vec![
            ("windlass alone", Box::new(|| windlass_kernel(pools))),
            (
                "windlass with short tasks",
                Box::new(|| {
                    beside(&submit_windlass, &windlass_delays.0, || windlass_kernel(pools))
                }),
            ),
            ("rayon alone", Box::new(|| rayon_kernel(pools))),
            (
                "rayon with short tasks",
                Box::new(|| beside(&submit_rayon, &rayon_delays.0, || rayon_kernel(pools))),
            ),
        ],
    });
    report.add_delays(SHORT, "windlass", &windlass_delays.1.try_iter().collect::<Vec<_>>());
    report.add_delays(SHORT, "rayon", &rayon_delays.1.try_iter().collect::<Vec<_>>());
}

type Job = Box<dyn FnOnce() + Send>;

fn block(seed: u64) {
    let start = seed as f64;
    black_box((0..6_800).fold(start, |x, n| (x + f64::from(n)).sqrt() * 1.000_1));
}

fn windlass_kernel(pools: &Pools) -> u64 {
    let ran = AtomicU64::new(0);
    pools.windlass.run(|| {
        with_scope(&pools.windlass, |scope| {
            for seed in 0..BLOCKS {
                let ran = &ran;
                scope.spawn(move || {
                    block(seed);
                    ran.fetch_add(1, Relaxed);
                });
            }
        });
    });
    ran.into_inner()
}

fn rayon_kernel(pools: &Pools) -> u64 {
    let ran = AtomicU64::new(0);
    pools.rayon.scope(|scope| {
        for seed in 0..BLOCKS {
            let ran = &ran;
            scope.spawn(move |_| {
                block(seed);
                ran.fetch_add(1, Relaxed);
            });
        }
    });
    ran.into_inner()
}

/// Runs the kernel while another thread spawns short tasks and measures each.
fn beside(
    submit: &(dyn Fn(Job) + Sync),
    delays: &mpsc::Sender<Duration>,
    kernel: impl FnOnce() -> u64,
) -> u64 {
    let over = AtomicBool::new(false);
    let delays = delays.clone();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Relaxed) {
                let (asked, delays) = (Instant::now(), delays.clone());
                submit(Box::new(move || {
                    black_box((0..200).fold(1.0_f64, |x, n| (x + f64::from(n)).sqrt()));
                    delays.send(asked.elapsed()).expect("they are collected at the end");
                }));
                thread::sleep(Duration::from_micros(500));
            }
        });
        let result = kernel();
        over.store(true, Relaxed);
        result
    })
}
