//! Many runs at once, and what is left of them for the next scheduler.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use windlass_bench_report::Table;
use windlass_bench_service::{
    Extent, Place, Process, Service, Windlass, flow_of_true, time_in_foreground,
};

use crate::restart;
use crate::thousand::{SLOTS, per_step};

/// What one pass over all runs has taken.
struct Pass {
    took: Duration,
    /// How long each run has waited until its first step began, in milliseconds.
    waits: Vec<f64>,
}

pub(crate) fn run(windlass: &Windlass, extent: Extent, table: &mut Table) {
    let (runs, steps) = (extent.of(10, 200), extent.of(10, 50));
    let (mut led, mut served, mut longest) = (Vec::new(), Vec::new(), Vec::new());
    let mut restarts = Vec::new();
    for _ in 0..extent.of(1, 3) {
        let all_in_one = time_in_foreground(&windlass.place(), runs * steps, SLOTS);
        led.push(per_step(all_in_one, runs * steps));
        let place = windlass.place();
        place.write("flow.toml", &flow_of_true(steps, SLOTS));
        let Pass { took, waits } = all(&place, runs, steps);
        served.push(per_step(took, runs * steps));
        longest.push(waits.into_iter().fold(0.0, f64::max));
        restarts.extend((0..extent.of(1, 5)).map(|_| restart::until_it_leads(&place)));
    }
    let work = format!("{runs} runs of {steps} × `true` at once, {SLOTS} at a time");
    let each = format!("{work}, per step");
    table.add(&each, "windlass submit, until all have ended", "ms", served);
    table.add(&each, "windlass run, all steps in one run", "ms", led);
    let first = format!("{work}, longest wait of a run for its first step");
    table.add(&first, "windlass submit", "ms", longest);
    let after = format!("restart of the scheduler after {runs} ended runs of {steps} steps");
    table.add_delays(&after, "until it leads", &restarts).goal("≤ 1000");
}

/// Has all runs wait for a worker, and measures from its start until all have ended.
fn all(place: &Place, runs: usize, steps: usize) -> Pass {
    let mut scheduler = Process::scheduler(place);
    scheduler.await_event("leading");
    let ids: Vec<_> = (0..runs).map(|_| place.submit()).collect();
    for _ in 0..runs {
        scheduler.await_event("began");
    }
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later");
    let began = Instant::now();
    let worker = Process::worker(place, SLOTS);
    let _service = Service { scheduler, worker };
    let wait: Vec<_> = std::iter::once("wait").chain(ids.iter().map(String::as_str)).collect();
    place.expect(&wait);
    let took = began.elapsed();
    let first = |id: &String| place.first_start(id, steps) as f64 - wall.as_millis() as f64;
    Pass { took, waits: ids.iter().map(first).collect() }
}
