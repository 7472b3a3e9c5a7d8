//! A scheduler that is killed and started again while steps run.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use windlass_bench_report::Table;
use windlass_bench_service::{Extent, PATIENCE, Place, Process, Service, Windlass, flow_of_true};

use crate::channel::Channel;
use crate::thousand::SLOTS;

/// How long a worker has to report the end of a step while no scheduler is there.
const REPORTING: Duration = Duration::from_millis(100);

/// How long a new scheduler takes.
struct Restart {
    leads: Duration,
    next_step: Duration,
}

pub(crate) fn run(windlass: &Windlass, extent: Extent, table: &mut Table) {
    let goal = "≤ 1000";
    for (ended, rounds) in [(0, extent.of(2, 21)), (extent.of(100, 10_000), extent.of(1, 5))] {
        let restarts: Vec<_> = (0..rounds).map(|_| killed(windlass, ended)).collect();
        let after = if ended == 0 { String::new() } else { format!(" after {ended} ended steps") };
        let work = format!("restart of the scheduler, killed while steps run{after}");
        let delays = |of: fn(&Restart) -> Duration| -> Vec<_> { restarts.iter().map(of).collect() };
        table.add_delays(&work, "until it leads", &delays(|restart| restart.leads)).goal(goal);
        let next = delays(|restart| restart.next_step);
        table.add_delays(&work, "until the next step begins, none interrupted", &next).goal(goal);
    }
}

/// Kills the scheduler of a run with `ended` steps that have ended. Of two others that run, one ends before the
/// next scheduler is there, and one goes on until after that. Checks that none was interrupted.
fn killed(windlass: &Windlass, ended: usize) -> Restart {
    let place = windlass.place();
    let channel = |name| Channel::new(&place.path(name));
    let [mut begun, mut end, mut next, mut stop] = ["begun", "end", "next", "stop"].map(channel);
    let steps = "[step.ends]\nrun = 'echo > begun; read line < end'\n\
        [step.next]\nafter = ['ends']\nrun = 'echo > next'\n\
        [step.stays]\nrun = 'echo > begun; read line < stop'\n";
    place.write("flow.toml", &(flow_of_true(ended, SLOTS) + steps));
    let mut service = Service::start(&place, 8);
    let run = place.submit();
    begun.heard();
    begun.heard();
    await_ended(&place, ended);
    service.scheduler.kill();
    end.tell();
    thread::sleep(REPORTING);
    next.assert_silent();
    let began = Instant::now();
    service.scheduler = Process::scheduler(&place);
    let next_step = next.heard().duration_since(began);
    let leads = service.scheduler.await_event("leading").duration_since(began);
    stop.tell();
    place.expect(&["wait", &run]);
    begun.assert_silent();
    next.assert_silent();
    place.first_start(&run, ended + 3);
    Restart { leads, next_step }
}

/// Waits until so many steps of the only run have ended.
fn await_ended(place: &Place, steps: usize) {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let shown = place.expect(&["ps", "--json"]);
        let view: Value = serde_json::from_str(shown.trim()).expect("there is one run");
        if view["steps"]["done"] == steps {
            return;
        }
        thread::sleep(Duration::from_millis(200));
    }
    panic!("{steps} steps have not ended");
}

/// Returns how long a scheduler takes to lead, which is killed then.
pub(crate) fn until_it_leads(place: &Place) -> Duration {
    let began = Instant::now();
    Process::scheduler(place).await_event("leading").duration_since(began)
}
