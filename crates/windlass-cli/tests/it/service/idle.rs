//! A service with nothing to do: it sleeps, and leaves a database alone.

use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime};

use windlass_server::Store;
use windlass_server::queue::{self, Addition};
use windlass_sim::postgres::{Server, sql};

use super::*;

/// How long the service is watched.
const WATCHED: Duration = Duration::from_secs(6);

/// Returns how often a process has gone to sleep by itself, and its processor time in clock ticks.
fn effort(pid: u32) -> (u64, u64) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    let switches = line.and_then(|count| count.trim().parse().ok()).expect("a number");
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let fields: Vec<_> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
    let ticks = |place: usize| fields[place].parse::<u64>().expect("a number");
    (switches, ticks(11) + ticks(12))
}

#[test]
fn an_idle_service_sleeps() {
    let service = Service::with("[step.a]\nrun = 'true'\n", "1");
    let run = service.submit(&[]);
    service.wait(&run, 0);
    let worker = &service.processes[1];
    let guardian = fencing::guardian_of(worker).expect("it has one").parse().expect("a number");
    let pids = [service.processes[0].id(), worker.id(), guardian];
    // What follows from the run is over by then.
    thread::sleep(Duration::from_secs(1));
    let before = pids.map(effort);
    thread::sleep(WATCHED);
    for (pid, (switches, ticks)) in pids.into_iter().zip(before) {
        let (switches_now, ticks_now) = effort(pid);
        let woken = switches_now - switches;
        assert!(woken <= WATCHED.as_secs(), "process {pid} was woken {woken} times");
        assert!(ticks_now - ticks <= 6, "process {pid} took {} ticks", ticks_now - ticks);
    }
}

/// A service whose store is a database of its own, whose server logs every statement.
struct InDatabase {
    service: Service,
    server: &'static Server,
    url: String,
}

impl InDatabase {
    /// Starts a scheduler and a worker with this lease, if PostgreSQL is installed.
    fn start(lease: Duration) -> Option<Self> {
        let server = Server::shared()?;
        let (url, service) = (server.new_database(), Service::new("[step.a]\nrun = 'true'\n"));
        let mut this = Self { service, server, url };
        this.call(&["store", "init"]);
        let log =
            "EXECUTE format($x$ALTER DATABASE %I SET log_statement = 'all'$x$, current_database())";
        sql(&this.url, &format!("DO $$ BEGIN {log}; END $$"));
        let lease = format!("{}s", lease.as_secs());
        for role in [&["serve", "--no-worker"][..], &["worker", "--name", "one"]] {
            let mut command = this.command(&[role, &["--lease", &lease]].concat());
            let command = command.stdout(Stdio::null()).stderr(Stdio::null());
            this.service.processes.push(command.spawn().expect("the binary runs"));
        }
        Some(this)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.service.bench.command(arguments);
        command.env("WINDLASS_STATE", &self.url);
        command.env("XDG_STATE_HOME", self.service.bench.path("home"));
        command
    }

    fn call(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().expect("the binary runs");
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        stdout(&output).trim().to_owned()
    }

    /// Returns the statements that the server has executed so far.
    fn statements(&self) -> Vec<String> {
        let log = self.server.log();
        let is_statement = |line: &&str| {
            ["LOG:  statement: ", "LOG:  execute "].iter().any(|kind| line.contains(kind))
        };
        log.lines().filter(is_statement).map(str::to_owned).collect()
    }
}

#[test]
fn an_idle_service_asks_a_database_rarely() {
    let lease = Duration::from_secs(6);
    let Some(service) = InDatabase::start(lease) else { return };
    let run = service.call(&["submit", "flow.toml"]);
    service.call(&["wait", &run]);
    // What follows from the run is over by then.
    thread::sleep(lease / 2);
    let before = service.statements().len();
    thread::sleep(lease);
    let statements = service.statements().split_off(before);
    let count = |what: &str| statements.iter().filter(|said| said.contains(what)).count();
    // Scheduler and worker send six heartbeats each, and look once.
    let (beats, commits) = (count("INSERT INTO lease"), count("COMMIT"));
    assert!((10..=14).contains(&beats), "{beats} heartbeats: {statements:#?}");
    assert!(commits <= beats + 4, "{commits} transactions: {statements:#?}");
    assert!(statements.len() <= 100, "{} statements: {statements:#?}", statements.len());
}

#[test]
fn a_service_that_ends_when_it_is_idle_stays_for_a_command_that_waits_for_its_time() {
    let mut service = Service::new("");
    let mut store = Store::open(&service.bench.path("state")).expect("it can be created");
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is later");
    // That is longer than either process stays with nothing to do.
    let start = u64::try_from(since.as_millis()).expect("it is sooner") + 4_000;
    let addition = Addition {
        command: vec!["touch".to_owned(), "ran".to_owned()],
        dir: service.bench.path("."),
        not_before_ms: Some(start),
        ..Addition::default()
    };
    queue::add(&mut store, "default", 1, &addition).expect("it is added");
    service.start(&["serve", "--no-worker", "--idle", "1s"]);
    service.start(&["worker", "--name", "one", "--slots", "1", "--idle", "1s"]);
    service.bench.await_file("ran");
    for process in &mut service.processes {
        assert!(process.wait().expect("it ends").success());
    }
    let said = service.said();
    assert!(said.contains("had no run to lead for long"), "{said}");
    assert!(said.contains("had nothing to do"), "{said}");
}
