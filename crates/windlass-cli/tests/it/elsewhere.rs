//! A service whose scheduler, worker and users have nothing in common but a store in PostgreSQL: each has a
//! local directory of its own.

use std::fs;
use std::process::{Child, Command, Output, Stdio};

use windlass_sim::postgres::Server;

use crate::bench::{Bench, eventually, stderr, stdout};

/// A store in a database, and processes at places that share no files with each other.
struct Fleet {
    bench: Bench,
    url: String,
    processes: Vec<Child>,
}

impl Fleet {
    /// Starts a scheduler and a worker, each at a place of its own, if PostgreSQL is installed.
    fn with(flow: &str) -> Option<Self> {
        let url = Server::shared()?.new_store();
        let bench = Bench::new();
        bench.write("flow.toml", flow);
        let mut fleet = Self { bench, url, processes: Vec::new() };
        fleet.says("user", &["store", "init"]);
        fleet.start("scheduler", &["serve", "--no-worker"]);
        fleet.start("worker", &["worker", "--name", "one", "--slots", "4"]);
        Some(fleet)
    }

    fn command(&self, place: &str, arguments: &[&str]) -> Command {
        let mut command = self.bench.command(arguments);
        let home = self.bench.path(place);
        command.env("XDG_STATE_HOME", home).env("WINDLASS_STATE", &self.url);
        command
    }

    fn start(&mut self, place: &str, arguments: &[&str]) {
        let said = fs::File::create(self.bench.path(&format!("{place}.said"))).expect("a file");
        let mut command = self.command(place, arguments);
        let child = command.stdout(Stdio::null()).stderr(said).spawn().expect("the binary runs");
        self.processes.push(child);
    }

    fn call(&self, place: &str, arguments: &[&str]) -> Output {
        self.command(place, arguments).output().expect("the binary runs")
    }

    /// Calls a verb that succeeds, and returns what it prints.
    #[track_caller]
    fn says(&self, place: &str, arguments: &[&str]) -> String {
        let output = self.call(place, arguments);
        assert!(output.status.success(), "{arguments:?}: {}{}", stderr(&output), self.said());
        stdout(&output)
    }

    fn submit(&self) -> String {
        self.says("user", &["submit", "flow.toml"]).trim().to_owned()
    }

    fn said(&self) -> String {
        ["scheduler", "worker"].map(|place| self.bench.read(&format!("{place}.said"))).concat()
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // It may have ended.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

#[test]
fn values_reach_steps_whoever_leads_them() {
    let flow = "[step.a]\nrun = 'echo x=7 >> \"$WINDLASS_OUTPUT\"; echo \"$WINDLASS_OUTPUT\" > path'\n\
        [step.b]\nafter = ['a']\nrun = 'until test -e go; do sleep 0.01; done; test {a.x} = 7'\n\
        [step.c]\nafter = ['b']\nrun = 'test {a.x} = 7'\n";
    let Some(mut fleet) = Fleet::with(flow) else { return };
    let run = fleet.submit();
    eventually("a has ended", || fleet.bench.read("path").ends_with('\n'));
    eventually("b runs", || fleet.says("user", &["ps"]).contains(" b"));
    let own = fleet.bench.path("worker").display().to_string();
    assert!(fleet.bench.read("path").starts_with(&own), "{}", fleet.bench.read("path"));
    fleet.processes[0].kill().expect("it can be killed");
    fleet.processes[0].wait().expect("it was killed");
    fleet.start("successor", &["serve", "--no-worker"]);
    fleet.bench.write("go", "");
    fleet.says("user", &["wait", &run]);
}
