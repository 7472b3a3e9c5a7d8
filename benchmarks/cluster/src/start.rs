//! From a submission until the step's process has begun, on an idle service.

use std::thread;
use std::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

use windlass_bench_report::Table;
use windlass_bench_service::{Extent, Service, Windlass};

use crate::database::server;

/// How long the service has nothing to do before a sample.
const SETTLE: Duration = Duration::from_millis(30);

pub(crate) fn run(windlass: &Windlass, extent: Extent, table: &mut Table) {
    let place = windlass.place_on(server().new_store());
    place.write("flow.toml", "[step.a]\nrun = 'date +%s%N > began'\n");
    let _service = Service::start(&place, 8);
    let (mut whole, mut submitted) = (Vec::new(), Vec::new());
    for round in 0..=extent.of(10, 150) {
        thread::sleep(SETTLE);
        let before = now();
        let run = place.submit();
        let after = now();
        place.expect(&["wait", &run]);
        let began = std::fs::read_to_string(place.path("began")).expect("it has begun");
        let began = Duration::from_nanos(began.trim().parse().expect("a time"));
        // The first round fills caches.
        if round > 0 {
            whole.push(began.saturating_sub(before));
            submitted.push(after.saturating_sub(before));
        }
    }
    let work = "until the process of a submitted step has begun, idle service";
    table.add_delays(work, "from the start of `windlass submit`", &whole).goal("≤ 5");
    table.add_delays(work, "of which: `windlass submit` itself", &submitted);
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970")
}
