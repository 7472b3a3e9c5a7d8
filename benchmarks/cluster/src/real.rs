//! Steps that run `true`, with a real worker: with the store in a database, and in the foreground with its own.

use windlass_bench_report::Table;
use windlass_bench_service::{Extent, Windlass, time_in_foreground, time_submitted};

use crate::database::server;
use crate::steps::per_second;

const SLOTS: usize = 16;

pub(crate) fn run(windlass: &Windlass, extent: Extent, table: &mut Table) {
    let steps = extent.of(100, 1000);
    let (mut led, mut served) = (Vec::new(), Vec::new());
    for _ in 0..extent.of(2, 5) {
        led.push(per_second(time_in_foreground(&windlass.place(), steps, SLOTS), steps));
        let place = windlass.place_on(server().new_store());
        served.push(per_second(time_submitted(&place, steps, SLOTS), steps));
    }
    let work = format!("a run of {steps} × `true`, {SLOTS} at a time");
    table.add(&work, "windlass run, on files", "steps/s", led);
    let contender = "windlass submit, on PostgreSQL";
    table.add(&work, contender, "steps/s", served).goal("≥ 70 % of it");
}
