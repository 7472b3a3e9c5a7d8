//! Runs of steps that run `true`, and how long they take.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::{Place, Service};

/// Returns a workflow with so many independent steps that run `true`, of which `slots` run at a time.
#[must_use]
pub fn flow_of_true(steps: usize, slots: usize) -> String {
    let mut flow = format!("concurrency = {slots}\n");
    for step in 0..steps {
        let _ = writeln!(flow, "[step.s{step}]\nrun = 'true'");
    }
    flow
}

/// Returns how long such a run takes in the foreground.
///
/// # Panics
///
/// If it fails.
#[must_use]
pub fn time_in_foreground(place: &Place, steps: usize, slots: usize) -> Duration {
    place.write("flow.toml", &flow_of_true(steps, slots));
    let began = Instant::now();
    let status = place.command(&["run", "flow.toml"]).status().expect("it starts");
    let took = began.elapsed();
    assert!(status.success(), "{status}");
    place.first_start("last", steps);
    took
}

/// Returns how long such a run takes from its submission until it has ended, with a scheduler and a worker
/// that have nothing else to do.
///
/// # Panics
///
/// If it fails.
#[must_use]
pub fn time_submitted(place: &Place, steps: usize, slots: usize) -> Duration {
    place.write("flow.toml", &flow_of_true(steps, slots));
    let _service = Service::start(place, slots);
    let began = Instant::now();
    let run = place.submit();
    place.expect(&["wait", &run]);
    let took = began.elapsed();
    place.first_start(&run, steps);
    took
}
