//! A run of a thousand steps that run `true`, eight at a time: submitted, and in the foreground.

use std::time::{Duration, Instant};

use windlass_bench_report::Table;
use windlass_bench_service::{Extent, Service, Windlass, flow_of_true};

/// How many steps run at a time.
pub(crate) const SLOTS: usize = 8;

pub(crate) fn run(windlass: &Windlass, extent: Extent, table: &mut Table) {
    let steps = extent.of(100, 1000);
    let (mut led, mut served) = (Vec::new(), Vec::new());
    for _ in 0..extent.of(2, 7) {
        led.push(per_step(in_foreground(windlass, steps), steps));
        served.push(per_step(submitted(windlass, steps), steps));
    }
    let work = format!("a run of {steps} × `true`, {SLOTS} at a time, per step");
    table.add(&work, "windlass run", "ms", led);
    table.add(&work, "windlass submit, until it has ended", "ms", served);
}

pub(crate) fn per_step(took: Duration, steps: usize) -> f64 {
    took.as_secs_f64() * 1e3 / steps as f64
}

/// Returns how long a run in the foreground takes, in a store of its own.
pub(crate) fn in_foreground(windlass: &Windlass, steps: usize) -> Duration {
    let place = windlass.place();
    place.write("flow.toml", &flow_of_true(steps, SLOTS));
    let began = Instant::now();
    let status = place.command(&["run", "flow.toml"]).status().expect("it starts");
    let took = began.elapsed();
    assert!(status.success(), "{status}");
    place.first_start("last", steps);
    took
}

fn submitted(windlass: &Windlass, steps: usize) -> Duration {
    let place = windlass.place();
    place.write("flow.toml", &flow_of_true(steps, SLOTS));
    let _service = Service::start(&place, SLOTS);
    let began = Instant::now();
    let run = place.submit();
    place.expect(&["wait", &run]);
    let took = began.elapsed();
    place.first_start(&run, steps);
    took
}
