//! From the start of a command until the first process of its step has written a line, on an idle service.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use windlass_bench_report::Table;
use windlass_bench_service::{Extent, Place, Service, Windlass};

use crate::channel::Channel;

/// How long the service has nothing to do before a sample.
const SETTLE: Duration = Duration::from_millis(30);

struct Contender {
    name: &'static str,
    /// Its arguments; none for a bare shell.
    arguments: &'static [&'static str],
    /// It prints the id of a run that goes on without it.
    submits: bool,
}

const CONTENDERS: [Contender; 4] = [
    Contender { name: "sh -c", arguments: &[], submits: false },
    Contender { name: "windlass run", arguments: &["run", "flow.toml"], submits: false },
    Contender { name: "windlass submit", arguments: &["submit", "flow.toml"], submits: true },
    Contender {
        name: "windlass run --detach",
        arguments: &["run", "--detach", "flow.toml"],
        submits: true,
    },
];

pub(crate) fn run(windlass: &Windlass, extent: Extent, table: &mut Table) {
    let place = windlass.place();
    let mut began = Channel::new(&place.path("began"));
    place.write("flow.toml", "[step.a]\nrun = 'echo > began'\n");
    let _service = Service::start(&place, 8);
    let mut delays = vec![Vec::new(); CONTENDERS.len()];
    for round in 0..=extent.of(10, 150) {
        for (contender, delays) in CONTENDERS.iter().zip(&mut delays) {
            thread::sleep(SETTLE);
            let took = contender.sample(&place, &mut began);
            // The first round fills caches.
            if round > 0 {
                delays.push(took);
            }
        }
    }
    for (contender, delays) in CONTENDERS.iter().zip(&delays) {
        let work = "until the first process of one step has written a line, idle service";
        let goal = if contender.submits { "≤ 15" } else { "" };
        table.add_delays(work, contender.name, delays).goal(goal);
    }
}

impl Contender {
    fn sample(&self, place: &Place, began: &mut Channel) -> Duration {
        let mut command = match self.arguments {
            [] => shell(place),
            arguments => place.command(arguments),
        };
        let start = Instant::now();
        let child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let took = began.heard().duration_since(start);
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}: {}", self.name, output.status);
        if self.submits {
            place.expect(&["wait", String::from_utf8_lossy(&output.stdout).trim()]);
        }
        began.assert_silent();
        took
    }
}

fn shell(place: &Place) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "echo > began"]).current_dir(place.dir());
    command
}
