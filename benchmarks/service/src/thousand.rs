//! A run of a thousand steps that run `true`, eight at a time: submitted, and in the foreground.

use std::time::Duration;

use windlass_bench_report::Table;
use windlass_bench_service::{Extent, Windlass, time_in_foreground, time_submitted};

/// How many steps run at a time.
pub(crate) const SLOTS: usize = 8;

pub(crate) fn run(windlass: &Windlass, extent: Extent, table: &mut Table) {
    let steps = extent.of(100, 1000);
    let (mut led, mut served) = (Vec::new(), Vec::new());
    for _ in 0..extent.of(2, 7) {
        led.push(per_step(time_in_foreground(&windlass.place(), steps, SLOTS), steps));
        served.push(per_step(time_submitted(&windlass.place(), steps, SLOTS), steps));
    }
    let work = format!("a run of {steps} × `true`, {SLOTS} at a time, per step");
    table.add(&work, "windlass run", "ms", led);
    table.add(&work, "windlass submit, until it has ended", "ms", served);
}

pub(crate) fn per_step(took: Duration, steps: usize) -> f64 {
    took.as_secs_f64() * 1e3 / steps as f64
}
