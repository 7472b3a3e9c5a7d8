//! Steps that run `true`, with a real worker: with the store in a database, and in the foreground with its own.

use std::time::{Duration, Instant};

use windlass_bench_report::Table;
use windlass_bench_service::{Extent, Service, Windlass, flow_of_true};

use crate::database::server;
use crate::steps::per_second;

const SLOTS: usize = 16;

pub(crate) fn run(windlass: &Windlass, extent: Extent, table: &mut Table) {
    let steps = extent.of(100, 1000);
    let (mut led, mut served) = (Vec::new(), Vec::new());
    for _ in 0..extent.of(2, 5) {
        led.push(per_second(in_foreground(windlass, steps), steps));
        served.push(per_second(submitted(windlass, steps), steps));
    }
    let work = format!("a run of {steps} × `true`, {SLOTS} at a time");
    table.add(&work, "windlass run, on files", "steps/s", led);
    let contender = "windlass submit, on PostgreSQL";
    table.add(&work, contender, "steps/s", served).goal("≥ 70 % of it");
}

fn in_foreground(windlass: &Windlass, steps: usize) -> Duration {
    let place = windlass.place();
    place.write("flow.toml", &flow_of_true(steps, SLOTS));
    let began = Instant::now();
    place.expect(&["run", "flow.toml"]);
    let took = began.elapsed();
    place.first_start("last", steps);
    took
}

fn submitted(windlass: &Windlass, steps: usize) -> Duration {
    let place = windlass.place_on(server().new_store());
    place.write("flow.toml", &flow_of_true(steps, SLOTS));
    let _service = Service::start(&place, SLOTS);
    let began = Instant::now();
    let run = place.submit();
    place.expect(&["wait", &run]);
    let took = began.elapsed();
    place.first_start(&run, steps);
    took
}
