//! One store, many machines: what a fault of a machine, of the network or of the database does.
//!
//! A machine is a set of namespaces with a local directory of its own. All of them see the file system of the
//! test, so a file lock of the kernel tells whether two attempts or holders overlap, wherever they run.

mod clock;
mod database;
mod failover;
mod faults;
mod full;
mod history;
mod limits;
mod network;
mod suspended;

use std::fs::{self, File};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use self::clock::Clock;
use self::database::Database;
use self::network::{Machine, Network};
use crate::bench::{Bench, eventually, repository, stderr, stdout};
use crate::surroundings;

/// How long leases last here, for schedulers and workers alike.
const LEASE: &str = "2s";
/// How long it lasts for a worker that is to notice nothing, also on a busy machine.
const LONG_LEASE: &str = "30s";
/// A step that tells where it begins, and ends once the test wants it to. Two at a time leave a note.
const STEP: &str = r#"
[step.work]
run = '''
exec 9> overlap.lock
flock -n 9 || echo "$(hostname)" >> overlaps
me=$(cat /proc/sys/kernel/random/uuid)
note() { echo "step/1 $me $1 $(cut -d' ' -f1 /proc/uptime)" >> intervals; }
note begin
echo "$(hostname) $WINDLASS_ATTEMPT" >> begun
while [ ! -e go ]; do sleep 0.05; done
echo "$(hostname)" >> ended
note end
'''
"#;
/// A command that does the same under a lock, and tells its token.
const HOLD: &str = r#"
exec 9> overlap.lock
flock -n 9 || echo "$(hostname)" >> overlaps
me=$(cat /proc/sys/kernel/random/uuid)
note() { echo "lock/1 $me $1 $(cut -d' ' -f1 /proc/uptime)" >> intervals; }
note begin
echo "$(hostname) $WINDLASS_FENCE" >> held
while [ ! -e "go.$(hostname)" ]; do sleep 0.05; done
note end
"#;

fn skipped(why: &str) {
    let test = thread::current().name().unwrap_or_default().to_owned();
    let is_needed = std::env::var_os("WINDLASS_SKIP").is_some_and(|skip| skip == "never");
    assert!(!is_needed, "{test}: {why}");
    eprintln!("SKIPPED {test}: {why}");
}

/// A database on a machine of its own, and machines that use it.
struct Cluster {
    bench: Bench,
    network: Network,
    database: Database,
    url: String,
    /// How long the leases of schedulers and workers last.
    lease: &'static str,
    /// The clocks of the database, and of all other machines.
    clocks: Option<[Clock; 2]>,
    /// Whether the database has a store, and records what must be true of its past.
    is_recorded: bool,
    /// What was started, to be reaped.
    children: Vec<Child>,
}

/// A process on a machine.
struct Process(u32);

impl Process {
    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.0.cast_signed()).expect("not zero");
        kill_process(pid, signal).expect("it is there");
    }

    /// Kills the process, if it is there.
    fn kill(&self) {
        let pid = Pid::from_raw(self.0.cast_signed()).expect("not zero");
        let _ = kill_process(pid, Signal::KILL);
    }
}

impl Cluster {
    /// Returns none, and says so, if this user or system cannot have one.
    fn new() -> Option<Self> {
        Self::with_lease(LEASE)
    }

    fn with_lease(lease: &'static str) -> Option<Self> {
        let bench = Bench::new();
        Self::over(Network::new(&bench)?, bench, lease, None)
    }

    /// Returns one in which the test sets the clocks.
    fn with_clocks() -> Option<Self> {
        let bench = Bench::new();
        let network = Network::new(&bench)?;
        let clocks = [Clock::new(&bench, "db")?, Clock::new(&bench, "others")?];
        Self::over(network, bench, LEASE, Some(clocks))
    }

    fn over(
        mut network: Network,
        bench: Bench,
        lease: &'static str,
        clocks: Option<[Clock; 2]>,
    ) -> Option<Self> {
        let clock = clocks.as_ref().map(|[clock, _]| clock);
        let database = Database::new(network.machine("db"), clock)?;
        let url = url_of(&[&database]);
        bench.write("flow.toml", STEP);
        let (is_recorded, children) = (false, Vec::new());
        Some(Self { bench, network, database, url, lease, clocks, is_recorded, children })
    }

    /// Sets the clock of the database ahead, and those of all others back, by so many seconds.
    fn set_clocks(&self, ahead: i64) {
        let [database, others] = self.clocks.as_ref().expect("the cluster has some");
        database.set(ahead);
        others.set(-ahead);
    }

    /// Adds a machine that can use the store.
    fn machine(&mut self, name: &str) -> Machine {
        let machine = self.network.machine(name);
        self.says(&machine, &["store", "init"]);
        if !std::mem::replace(&mut self.is_recorded, true) {
            history::record(&self.database);
        }
        machine
    }

    fn command(&self, machine: &Machine, arguments: &[&str]) -> Command {
        let usual = self.bench.command(arguments);
        let dir = usual.get_current_dir().expect("the bench sets it");
        let mut command = machine.command(env!("CARGO_BIN_EXE_windlass"), dir);
        command.args(arguments);
        for (name, value) in usual.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let home = self.bench.path(&format!("home-{}", machine.name()));
        command.env("XDG_STATE_HOME", home).env("WINDLASS_STATE", &self.url);
        if let Some([_, clock]) = &self.clocks {
            command.envs(clock.variables());
        }
        command
    }

    fn call(&self, machine: &Machine, arguments: &[&str]) -> Output {
        self.command(machine, arguments).output().expect("the binary runs")
    }

    /// Calls a verb that succeeds, and returns what it prints.
    #[track_caller]
    fn says(&self, machine: &Machine, arguments: &[&str]) -> String {
        let output = self.call(machine, arguments);
        assert!(output.status.success(), "{arguments:?}: {}{}", stderr(&output), self.said());
        stdout(&output)
    }

    /// Starts a verb, and returns its process.
    fn start(&mut self, machine: &Machine, arguments: &[&str]) -> Process {
        let said = format!("{}.{}.said", machine.name(), self.children.len());
        let said = File::create(self.bench.path(&said)).expect("a file");
        let out = said.try_clone().expect("a handle");
        let mut command = self.command(machine, arguments);
        let child = command.stdout(out).stderr(said).spawn().expect("the binary runs");
        let path = format!("/proc/{0}/task/{0}/children", child.id());
        self.children.push(child);
        let first = || {
            let children = fs::read_to_string(&path).unwrap_or_default();
            children.split_whitespace().next().and_then(|pid| pid.parse().ok())
        };
        eventually("the verb starts", || first().is_some());
        Process(first().expect("it was there a moment ago"))
    }

    fn scheduler(&mut self, machine: &Machine) -> Process {
        self.start(machine, &["serve", "--no-worker", "--lease", self.lease])
    }

    fn worker(&mut self, machine: &Machine) -> Process {
        self.worker_with_lease(machine, self.lease)
    }

    fn worker_with_lease(&mut self, machine: &Machine, lease: &str) -> Process {
        self.start(machine, &["worker", "--slots", "4", "--lease", lease])
    }

    /// Starts a command that holds lock `x`, and waits until it does.
    fn hold(&mut self, machine: &Machine) -> Process {
        let holder = self.wait_for_lock(machine);
        let name = machine.name().to_owned();
        self.await_line("held", |line| line.starts_with(&name));
        holder
    }

    /// Starts a command that holds lock `x` once it is free.
    fn wait_for_lock(&mut self, machine: &Machine) -> Process {
        let lock = ["lock", "x", "--heartbeat-timeout", LEASE, "--", "sh", "-c", HOLD];
        self.start(machine, &lock)
    }

    /// Has what `machine` holds or executes end.
    fn finish(&self, machine: &Machine) {
        self.bench.write(&format!("go.{}", machine.name()), "");
    }

    /// Checks the history. Then forgets what steps and holders have written, for another round, once no holder is
    /// left.
    fn start_over(&self, machines: &[&Machine]) {
        self.eventually("no one holds a lock", || {
            !self.says(machines[0], &["holders"]).contains("lock")
        });
        self.check_history();
        let files =
            ["overlap.lock", "overlaps", "intervals", "begun", "ended", "held", "go", "other"];
        let gone = machines.iter().map(|machine| format!("go.{}", machine.name()));
        for file in files.iter().map(|file| (*file).to_owned()).chain(gone) {
            let _ = fs::remove_file(self.bench.path(&file));
        }
    }

    /// Waits until `holds`; a minute means never.
    #[track_caller]
    fn eventually(&self, what: &str, holds: impl Fn() -> bool) {
        let began = Instant::now();
        while !holds() {
            assert!(began.elapsed() < Duration::from_secs(60), "never: {what}{}", self.said());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until a file has a line, and returns it.
    #[track_caller]
    fn await_line(&self, file: &str, is_it: impl Fn(&str) -> bool) -> String {
        let found = || self.bench.read(file).lines().find(|line| is_it(line)).map(str::to_owned);
        self.eventually(file, || found().is_some());
        found().expect("lines are only added")
    }

    /// Returns what the verbs that were started have said.
    fn said(&self) -> String {
        self.said_in(|_| true)
    }

    /// Returns what the verbs have said that were started on machines with the name of this one.
    fn said_by(&self, machine: &Machine) -> String {
        let of_machine = format!("{}.", machine.name());
        self.said_in(|file| file.starts_with(&of_machine))
    }

    fn said_in(&self, is_it: impl Fn(&str) -> bool) -> String {
        let files = fs::read_dir(self.bench.path(".")).expect("it is there").filter_map(Result::ok);
        let named =
            files.map(|file| (file.file_name().to_string_lossy().into_owned(), file.path()));
        let said = named.filter(|(name, _)| name.ends_with(".said") && is_it(name));
        let text = |(name, path): (String, _)| {
            format!("\n--- {name}\n{}", fs::read_to_string(path).unwrap_or_default())
        };
        said.map(text).collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns the URL of a store in the first of these databases that can be written.
fn url_of(databases: &[&Database]) -> String {
    let hosts: Vec<_> =
        databases.iter().map(|database| format!("{}:5432", database.machine().address())).collect();
    format!("postgres://windlass@{}/postgres?sslmode=disable", hosts.join(","))
}

#[test]
fn a_lock_is_handed_over_from_machine_to_machine() {
    let Some(mut cluster) = Cluster::new() else { return };
    let (one, two) = (cluster.machine("one"), cluster.machine("two"));
    cluster.hold(&one);
    cluster.wait_for_lock(&two);
    cluster.eventually("the other waits", || {
        let said = cluster.says(&two, &["holders"]);
        let lines: Vec<_> = said.lines().collect();
        matches!(lines[..], [held, wanted] if held.contains(" on one") && wanted.contains("wanted"))
    });
    cluster.finish(&one);
    let second = cluster.await_line("held", |line| line.starts_with("two"));
    let first = cluster.await_line("held", |line| line.starts_with("one"));
    let token = |line: &str| line.rsplit(' ').next().and_then(|token| token.parse::<u64>().ok());
    assert!(token(&second) > token(&first), "{first} {second}");
    cluster.finish(&two);
    cluster.check_history();
}

#[test]
fn steps_run_on_the_workers_of_all_machines() {
    let Some(mut cluster) = Cluster::new() else { return };
    let step = |name: &str| {
        format!(
            "[step.{name}]\nrun = 'hostname > {name}; while [ ! -e go ]; do sleep 0.05; done'\n"
        )
    };
    cluster.bench.write("flow.toml", &(step("a") + &step("b")));
    let (one, two) = (cluster.machine("one"), cluster.machine("two"));
    cluster.scheduler(&one);
    for machine in [&one, &two] {
        cluster.start(machine, &["worker", "--slots", "1", "--lease", LEASE]);
    }
    let run = cluster.says(&two, &["submit", "flow.toml"]);
    let (a, b) = (cluster.await_line("a", |_| true), cluster.await_line("b", |_| true));
    let mut hosts = [a, b];
    hosts.sort();
    assert_eq!(hosts, ["one", "two"]);
    cluster.bench.write("go", "");
    cluster.says(&one, &["wait", run.trim()]);
    cluster.check_history();
}

#[test]
fn the_example_with_machines_in_namespaces_does_what_it_says() {
    let Some(cluster) = Cluster::new() else { return };
    let mut example = Command::new(repository().join("examples/cluster/run"));
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_windlass"));
    let dir = program.parent().expect("it is in a directory");
    let path = [dir.as_os_str(), &surroundings::path()].join(std::ffi::OsStr::new(":"));
    example.env("PATH", path).env(surroundings::VARIABLE, surroundings::mark());
    let output = example.stdin(Stdio::null()).output().expect("it can be started");
    let said = stdout(&output);
    assert!(output.status.success(), "{said}{}", stderr(&output));
    for line in ["one deploys with token 1", "two deploys with token 2", "the run has succeeded"] {
        assert!(said.contains(line), "{said}");
    }
    drop(cluster);
}
