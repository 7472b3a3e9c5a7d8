//! Latencies: of a task, a cancellation and a deadline.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use windlass_bench_report::Report;
use windlass_pool::{cancelled, with_deadline_on, with_scope};

use crate::pools::Pools;

pub(crate) fn run(pools: &Pools, report: &mut Report) {
    let samples = report.rounds() * 40;
    wake(pools, report, samples);
    cancel(pools, report, samples);
    deadline(pools, report, samples);
}

/// Measures the time from the spawn of a task to its start, when all workers sleep.
fn wake(pools: &Pools, report: &mut Report, samples: usize) {
    const NAME: &str = "waking an idle pool";
    if !report.wants(NAME) {
        return;
    }
    let (mut windlass, mut rayon) = (Vec::new(), Vec::new());
    for _ in 0..samples {
        let (begun, beginning) = mpsc::channel();
        thread::sleep(Duration::from_millis(2));
        let asked = Instant::now();
        drop(pools.windlass.spawn(move || begun.send(Instant::now())));
        windlass.push(beginning.recv().expect("it runs") - asked);

        let (begun, beginning) = mpsc::channel();
        thread::sleep(Duration::from_millis(2));
        let asked = Instant::now();
        pools.rayon.spawn(move || begun.send(Instant::now()).expect("it is awaited"));
        rayon.push(beginning.recv().expect("it runs") - asked);
    }
    report.add_delays(NAME, "windlass", &windlass);
    report.add_delays(NAME, "rayon", &rayon);
}

/// Measures the time from a cancellation until the last task sees it, with every worker busy, compared
/// with a plain flag.
fn cancel(pools: &Pools, report: &mut Report, samples: usize) {
    const NAME: &str = "a cancel seen by the last of all busy workers";
    if !report.wants(NAME) {
        return;
    }
    let workers = pools.windlass.worker_count();
    let (mut windlass, mut flags) = (Vec::new(), Vec::new());
    for _ in 0..samples {
        let all_begun = Barrier::new(workers + 1);
        let spin = |stop: &dyn Fn() -> bool| {
            all_begun.wait();
            while !stop() {}
            Instant::now()
        };
        windlass.push(with_scope(&pools.windlass, |scope| {
            let spin = &spin;
            let tasks: Vec<_> =
                (0..workers).map(|_| scope.spawn(move || spin(&cancelled))).collect();
            all_begun.wait();
            let asked = Instant::now();
            scope.cancel();
            let seen = tasks.into_iter().map(|task| task.await_result().expect("it returns"));
            seen.max().expect("there are workers").saturating_duration_since(asked)
        }));

        let flag = AtomicBool::new(false);
        let (seen, all_seen) = mpsc::channel();
        let mut asked = Instant::now();
        pools.rayon.in_place_scope(|scope| {
            let (spin, flag) = (&spin, &flag);
            for _ in 0..workers {
                let seen = seen.clone();
                scope.spawn(move |_| {
                    seen.send(spin(&|| flag.load(Relaxed))).expect("it is awaited");
                });
            }
            all_begun.wait();
            asked = Instant::now();
            flag.store(true, Relaxed);
        });
        drop(seen);
        let last = all_seen.iter().max().expect("there are workers");
        flags.push(last.saturating_duration_since(asked));
    }
    report.add_delays(NAME, "windlass", &windlass);
    report.add_delays(NAME, "rayon and a flag of one's own", &flags);
}

/// Measures how long after its deadline a scope returns, with every worker busy in it.
fn deadline(pools: &Pools, report: &mut Report, samples: usize) {
    const NAME: &str = "overshoot of a deadline";
    const LIMIT: Duration = Duration::from_millis(2);
    if !report.wants(NAME) {
        return;
    }
    let workers = pools.windlass.worker_count();
    let overshoots: Vec<_> = (0..samples)
        .map(|_| {
            let began = Instant::now();
            let value = with_deadline_on(&pools.windlass, LIMIT, |scope| {
                for _ in 0..workers {
                    scope.spawn(|| while !cancelled() {});
                }
            });
            assert!(value.is_none());
            began.elapsed() - LIMIT
        })
        .collect();
    report.add_delays(NAME, "windlass", &overshoots);
}
