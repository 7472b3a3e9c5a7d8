//! A submitted run with the processes that serve it, which are killed and suspended again and again.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use windlass_core::{Ending, Happening};
use windlass_server::fault::{self, FAULT_VARIABLE, Point, REPORT_VARIABLE};
use windlass_store::{RunOutcome, Store};

use crate::flow::{self, Flow, Names};
use crate::journal::Journal;
use crate::random::Random;
use crate::record;
use crate::surroundings;

/// How long a run may take, with all its kills.
const LONGEST: Duration = Duration::from_secs(120);

/// A process of the service.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    Scheduler,
    Standby,
    Worker,
    OtherWorker,
}

impl Role {
    /// A scheduler and a worker.
    pub(crate) const ONE_OF_EACH: [Self; 2] = [Self::Scheduler, Self::Worker];
    /// Two of each.
    pub(crate) const ALL: [Self; 4] =
        [Self::Scheduler, Self::Standby, Self::Worker, Self::OtherWorker];

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Role::Scheduler | Role::Standby => &["serve", "--no-worker"],
            Role::Worker => &["worker", "--name", "one", "--slots", "6"],
            Role::OtherWorker => &["worker", "--name", "other", "--slots", "6"],
        }
    }

    /// Returns the file in which it reports the fault point at which it dies.
    fn report(self) -> &'static str {
        match self {
            Role::Scheduler => "report-scheduler",
            Role::Standby => "report-standby",
            Role::Worker => "report-worker",
            Role::OtherWorker => "report-other-worker",
        }
    }
}

/// A submitted run with the processes that serve it.
pub(crate) struct ServedRun {
    dir: TempDir,
    flow: Flow,
    id: String,
    /// The lease of schedulers and workers.
    lease: &'static str,
    processes: BTreeMap<Role, Child>,
    /// What was done to the processes, for the report of a failure.
    done: Vec<String>,
}

impl ServedRun {
    fn new(names: Names, lease: &'static str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let flow = Flow::of_a_hundred(names);
        let text = flow.text(env!("CARGO_BIN_EXE_windlass-step"));
        fs::write(dir.path().join("flow.toml"), text).expect("a file");
        fs::create_dir(dir.path().join("held")).expect("a directory");
        flow::set_limit(&dir.path().join("state"));
        let (id, processes, done) = (String::new(), BTreeMap::new(), Vec::new());
        Self { dir, flow, id, lease, processes, done }
    }

    /// Starts a run in the foreground, and kills its leader once some steps have begun.
    pub(crate) fn begun_in_the_foreground(
        names: Names,
        lease: &'static str,
        random: &mut Random,
    ) -> Self {
        let mut run = Self::new(names, lease);
        let mut leader = run.command(&["run", "flow.toml", "--output", "quiet"]);
        let mut leader = leader.stderr(Stdio::null()).spawn().expect("the binary runs");
        while run.read("record").is_empty() {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_micros(random.below(300_000)));
        leader.kill().expect("it can be killed");
        leader.wait().expect("it was killed");
        let runs = fs::read_dir(run.path("state/runs")).expect("it was stored");
        let ids = runs.map(|run| run.expect("it can be listed").file_name());
        run.id = ids.last().expect("there is one").into_string().expect("it is a number");
        run
    }

    pub(crate) fn submit(names: Names, lease: &'static str) -> Self {
        let mut run = Self::new(names, lease);
        let output = run.command(&["submit", "flow.toml"]).output().expect("the binary runs");
        run.id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        assert_eq!(run.id.len(), 8, "{}", String::from_utf8_lossy(&output.stderr));
        run
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Returns the names of the steps.
    pub(crate) fn steps(&self) -> Vec<String> {
        self.flow.steps.keys().cloned().collect()
    }

    /// Lets everything continue that was paused.
    pub(crate) fn unpause(&self, paused: &mut Vec<String>) {
        for target in paused.drain(..) {
            // The run or the step may have ended.
            let _ = self.command(&["unpause", &target]).stderr(Stdio::null()).status();
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass-faulty"));
        command.args(arguments).current_dir(self.dir.path()).stdin(Stdio::null());
        command.env("WINDLASS_STATE", self.path("state")).env_remove("WINDLASS_LEASES");
        command.env(surroundings::VARIABLE, surroundings::mark()).env("PATH", surroundings::path());
        command
    }

    /// Starts those of the processes that do not run.
    pub(crate) fn start(&mut self, roles: &[Role]) {
        for role in roles {
            if !self.processes.contains_key(role) {
                self.start_with(*role, "");
            }
        }
    }

    /// Starts a process with faults.
    pub(crate) fn start_with(&mut self, role: Role, faults: &str) {
        self.done.push(format!("{} with {faults:?}", role.report()));
        let _ = fs::remove_file(self.path(role.report()));
        let log = File::options().create(true).append(true).open(self.path("said"));
        let mut command = self.command(role.arguments());
        command.args(["--lease", self.lease]).stdout(Stdio::null());
        command.stderr(log.expect("a file")).env(FAULT_VARIABLE, faults);
        command.env(REPORT_VARIABLE, self.path(role.report()));
        self.processes.insert(role, command.spawn().expect("the binary runs"));
    }

    pub(crate) fn runs(&self, role: Role) -> bool {
        self.processes.contains_key(&role)
    }

    /// Kills a process, which may be suspended.
    pub(crate) fn kill(&mut self, role: Role) {
        self.expect_alive(role);
        self.done.push(format!("kill {}", role.report()));
        let mut process = self.processes.remove(&role).expect("it was started");
        process.kill().expect("it can be killed");
        process.wait().expect("it was killed");
    }

    /// Suspends a process, or has it go on.
    pub(crate) fn signal(&mut self, role: Role, signal: Signal) {
        self.expect_alive(role);
        self.done.push(format!("{signal:?} {}", role.report()));
        let pid = Pid::from_raw(self.processes[&role].id().cast_signed()).expect("a pid");
        kill_process(pid, signal).expect("it runs");
    }

    fn expect_alive(&mut self, role: Role) {
        let process = self.processes.get_mut(&role).expect("it was started");
        let ended = process.try_wait().expect("it can be asked");
        assert!(ended.is_none(), "it ended by itself: {ended:?}\n{}", self.read("said"));
    }

    /// Returns how a process has ended, if it has.
    pub(crate) fn take_ended(&mut self, role: Role) -> Option<ExitStatus> {
        let process = self.processes.get_mut(&role)?;
        let status = process.try_wait().expect("it can be asked")?;
        self.processes.remove(&role);
        Some(status)
    }

    /// Returns the fault point that the last process of a role, or its guardian, has reached.
    pub(crate) fn reached(&self, role: Role) -> Option<Point> {
        let report = self.read(role.report());
        let name = report.lines().next()?;
        Point::all().find(|point| point.name() == name)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.journal().end().is_some()
    }

    fn journal(&self) -> Journal {
        Journal::open(&self.path("state")).expect("it was submitted")
    }

    /// Returns how many attempts were interrupted, according to the journal.
    pub(crate) fn interrupted(&self) -> usize {
        let mut store = Store::open(&self.path("state")).expect("the store can be opened");
        let facts = fault::journal(&mut store, &self.id).expect("it can be read");
        let is_lost =
            |what: &Happening| matches!(what, Happening::Ended { ending: Ending::Interrupted, .. });
        facts.iter().filter(|fact| is_lost(&fact.what)).count()
    }

    pub(crate) fn said(&self) -> String {
        self.read("said")
    }

    /// Checks that the run ends well, and that the steps' own records agree with the journal.
    pub(crate) fn check_end(&mut self) {
        let began = Instant::now();
        self.start(&Role::ONE_OF_EACH);
        while !self.is_over() {
            assert!(began.elapsed() < LONGEST, "it does not end:\n{}", self.read("said"));
            thread::sleep(Duration::from_millis(10));
        }
        let mut journal = self.journal();
        assert_eq!(journal.end(), Some(RunOutcome::Succeeded), "{}", self.read("said"));
        let record = self.read("record");
        record::check(&self.flow, &record);
        let finished = journal.finished();
        assert_eq!(finished.len(), self.flow.steps.len(), "every step has succeeded");
        let succeeded = record::succeeded(&record);
        for (step, attempt) in &finished {
            assert!(succeeded.contains(&(step.as_str(), *attempt)), "{step}@{attempt} has run");
        }
        record::check_cleaned(&self.flow, &record, &finished);
        assert_eq!(journal.reported(), finished, "the attempts are recorded");
        assert_eq!(self.read("hooked").lines().count(), 1, "the hook has run once");
    }
}

impl Drop for ServedRun {
    fn drop(&mut self) {
        for process in self.processes.values_mut() {
            // It may have ended.
            let _ = process.kill();
            let _ = process.wait();
        }
        if thread::panicking() {
            eprintln!("this was done: {}", self.done.join(", "));
            eprintln!("the service said:\n{}", self.read("said"));
            for verb in ["show", "why"] {
                let output = self.command(&[verb, &self.id]).output().expect("the binary runs");
                eprintln!("{}", String::from_utf8_lossy(&output.stdout));
            }
        }
    }
}
