//! Steps through the scheduler and the store, with a worker that starts nothing.

use std::time::{Duration, Instant};

use windlass_bench_report::Table;
use windlass_bench_service::{Extent, Process, Windlass, flow_of_true};

use crate::database::server;
use crate::null_worker::NullWorker;

/// How many steps run at a time, how many there are, and how many a second there should be.
const CASES: [(usize, usize, &str); 4] =
    [(1, 500, "≥ 700"), (8, 4_000, "≥ 6,000"), (64, 10_000, "≥ 12,000"), (512, 20_000, "≥ 20,000")];

pub(crate) fn run(windlass: &Windlass, extent: Extent, table: &mut Table) {
    for (slots, steps, goal) in CASES {
        let steps = steps / extent.of(10, 1);
        let rounds =
            (0..extent.of(2, 5)).map(|_| per_second(served(windlass, steps, slots), steps));
        let work = format!("independent steps, {slots} at a time, through scheduler and store");
        let contender = "windlass, with a worker that starts nothing";
        table.add(&work, contender, "steps/s", rounds.collect()).goal(goal);
    }
}

pub(crate) fn per_second(took: Duration, count: usize) -> f64 {
    count as f64 / took.as_secs_f64()
}

/// Returns how long it takes from the first start of a step until the run has ended, with the worker's start in it.
fn served(windlass: &Windlass, steps: usize, slots: usize) -> Duration {
    let url = server().new_store();
    let place = windlass.place_on(url.clone());
    place.write("flow.toml", &flow_of_true(steps, slots));
    let mut scheduler = Process::scheduler(&place);
    scheduler.await_event("leading");
    let run = place.submit();
    let homes = place.path("worker");
    std::fs::create_dir(&homes).expect("a directory");
    let began = Instant::now();
    let worker = NullWorker::start(&url, &homes, u32::try_from(slots).expect("a small number"));
    place.expect(&["wait", &run]);
    let took = began.elapsed();
    drop(worker);
    place.first_start(&run, steps);
    took
}
