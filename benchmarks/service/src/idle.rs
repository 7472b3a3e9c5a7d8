//! What a service uses that has nothing to do, or only waits for the end of a step.

use std::thread;
use std::time::Duration;

use windlass_bench_report::Table;
use windlass_bench_service::{Extent, Service, Windlass};

use crate::channel::Channel;
use crate::usage::{Usage, resident_mib};

/// How long after its last work a service is idle.
const SETTLE: Duration = Duration::from_secs(3);

pub(crate) fn run(windlass: &Windlass, extent: Extent, table: &mut Table) {
    let place = windlass.place();
    let (mut begun, mut stop) =
        (Channel::new(&place.path("begun")), Channel::new(&place.path("stop")));
    place.write("flow.toml", "[step.a]\nrun = 'echo > begun; read line < stop'\n");
    let service = Service::start(&place, 8);
    for (work, stays) in [("idle service", false), ("service while one step runs", true)] {
        let run = place.submit();
        begun.heard();
        if !stays {
            stop.tell();
            place.expect(&["wait", &run]);
        }
        watch(&service, work, extent, table);
        if stays {
            stop.tell();
            place.expect(&["wait", &run]);
        }
    }
}

/// Adds what both processes use for some minutes.
fn watch(service: &Service, work: &str, extent: Extent, table: &mut Table) {
    let time = extent.of(Duration::from_secs(3), Duration::from_secs(60));
    let processes =
        [("windlass serve", service.scheduler.id()), ("windlass worker", service.worker.id())];
    let mut samples = [Vec::new(), Vec::new()];
    thread::sleep(SETTLE);
    for _ in 0..extent.of(1, 3) {
        let before = processes.map(|(_, id)| Usage::of(id));
        thread::sleep(time);
        for (((_, id), before), samples) in processes.iter().zip(before).zip(&mut samples) {
            samples.push((Usage::of(*id) - before, resident_mib(*id)));
        }
    }
    let seconds = time.as_secs_f64();
    for ((name, _), samples) in processes.iter().zip(samples) {
        let of = |figure: fn(&(Usage, f64), f64) -> f64| -> Vec<f64> {
            samples.iter().map(|sample| figure(sample, seconds)).collect()
        };
        let rows = [
            ("processor", "% of a CPU", of(|(usage, _), s| usage.cpu_ns as f64 / s / 1e7), "0"),
            ("memory", "MiB", of(|(_, resident), _| *resident), "≤ 30"),
            ("waits that end", "per s", of(|(usage, _), s| usage.waits as f64 / s), "≤ 1"),
            ("reads of files", "per s", of(|(usage, _), s| usage.reads as f64 / s), ""),
        ];
        for (what, unit, figures, goal) in rows {
            table.add(&format!("{work}: {what}"), name, unit, figures).goal(goal);
        }
    }
}
