//! A submitted run whose scheduler and worker are killed again and again.
//!
//! A scheduler that is killed interrupts nothing: no attempt of any step may be lost. A worker that is killed
//! loses what it executes, which is tried again.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use windlass_core::{Ending, Happening};
use windlass_server::fault::{self, FAULT_VARIABLE, Point};
use windlass_store::{RunOutcome, Store};

use crate::flow::{self, Flow, Names};
use crate::journal::Journal;
use crate::random::{Random, rounds};
use crate::record;
use crate::surroundings;

/// How long a run may take, with all its kills.
const LONGEST: Duration = Duration::from_secs(120);

/// A process of the service.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Scheduler,
    Worker,
}

impl Role {
    const BOTH: [Self; 2] = [Self::Scheduler, Self::Worker];

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Role::Scheduler => &["serve", "--no-worker"],
            Role::Worker => &["worker", "--name", "only", "--slots", "6"],
        }
    }
}

/// A submitted run with the processes that serve it.
struct ServedRun {
    dir: TempDir,
    flow: Flow,
    id: String,
    processes: [Option<Child>; 2],
}

impl ServedRun {
    fn new(names: Names) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let flow = Flow::of_a_hundred(names);
        let text = flow.text(env!("CARGO_BIN_EXE_windlass-step"));
        fs::write(dir.path().join("flow.toml"), text).expect("a file");
        fs::create_dir(dir.path().join("held")).expect("a directory");
        flow::set_limit(&dir.path().join("state"));
        Self { dir, flow, id: String::new(), processes: [None, None] }
    }

    /// Starts a run in the foreground, and kills its leader once some steps have begun.
    fn begun_in_the_foreground(names: Names, random: &mut Random) -> Self {
        let mut run = Self::new(names);
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

    fn submit(names: Names) -> Self {
        let mut run = Self::new(names);
        let output = run.command(&["submit", "flow.toml"]).output().expect("the binary runs");
        run.id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        assert_eq!(run.id.len(), 8, "{}", String::from_utf8_lossy(&output.stderr));
        run
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass-faulty"));
        command.args(arguments).current_dir(self.dir.path()).stdin(Stdio::null());
        command.env("WINDLASS_STATE", self.path("state")).env_remove("WINDLASS_LEASES");
        command.env(surroundings::VARIABLE, surroundings::mark()).env("PATH", surroundings::path());
        command
    }

    /// Starts the processes that do not run.
    fn start(&mut self) {
        for role in Role::BOTH {
            if self.processes[role as usize].is_some() {
                continue;
            }
            let log = File::options().create(true).append(true).open(self.path("said"));
            let mut command = self.command(role.arguments());
            command.stderr(log.expect("a file")).stdout(Stdio::null());
            self.processes[role as usize] = Some(command.spawn().expect("the binary runs"));
        }
    }

    fn kill(&mut self, role: Role) {
        let mut process = self.processes[role as usize].take().expect("it was started");
        let ended = process.try_wait().expect("it can be asked");
        assert!(ended.is_none(), "it ended by itself: {ended:?}\n{}", self.read("said"));
        process.kill().expect("it can be killed");
        process.wait().expect("it was killed");
    }

    /// Lets everything continue that was paused.
    fn unpause(&self, paused: &mut Vec<String>) {
        for target in paused.drain(..) {
            // The run or the step may have ended.
            let _ = self.command(&["unpause", &target]).stderr(Stdio::null()).status();
        }
    }

    fn is_over(&self) -> bool {
        self.journal().end().is_some()
    }

    fn journal(&self) -> Journal {
        Journal::open(&self.path("state")).expect("it was submitted")
    }

    /// Returns how many attempts were interrupted, according to the journal.
    fn interrupted(&self) -> usize {
        let mut store = Store::open(&self.path("state")).expect("the store can be opened");
        let facts = fault::journal(&mut store, &self.id).expect("it can be read");
        let is_lost =
            |what: &Happening| matches!(what, Happening::Ended { ending: Ending::Interrupted, .. });
        facts.iter().filter(|fact| is_lost(&fact.what)).count()
    }

    /// Checks that the run has ended well, and that the steps' own records agree with the journal.
    fn check_end(&mut self) {
        let began = Instant::now();
        self.start();
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
        for process in self.processes.iter_mut().flatten() {
            // It may have ended.
            let _ = process.kill();
            let _ = process.wait();
        }
        if thread::panicking() {
            eprintln!("the service said:\n{}", self.read("said"));
            for verb in ["show", "why"] {
                let output = self.command(&[verb, &self.id]).output().expect("the binary runs");
                eprintln!("{}", String::from_utf8_lossy(&output.stdout));
            }
        }
    }
}

#[test]
fn a_run_that_is_paused_while_the_service_is_killed_starts_nothing_and_ends_well() {
    let mut random = Random::from_env();
    let (wanted, mut kills, mut runs) = (rounds(20, 1000), 0, 0);
    while kills < wanted {
        let mut run = ServedRun::submit(Names::random(&mut random));
        let steps: Vec<_> = run.flow.steps.keys().cloned().collect();
        let mut paused = Vec::new();
        for _ in 0..20.min(wanted - kills) {
            if run.is_over() {
                break;
            }
            let step = &steps[usize::try_from(random.below(steps.len() as u64)).expect("small")];
            let target = match random.below(3) {
                0 => run.id.clone(),
                _ => format!("{}/{step}", run.id),
            };
            // A step that runs or has ended cannot be paused.
            if run
                .command(&["pause", &target])
                .stderr(Stdio::null())
                .status()
                .expect("it runs")
                .success()
            {
                paused.push(target);
            }
            kills += kill_at_random(&mut run, &mut random, &Role::BOTH, 1);
            if random.below(2) == 0 {
                run.unpause(&mut paused);
            }
        }
        run.unpause(&mut paused);
        // Its replays fail if an attempt has begun in a pause.
        run.check_end();
        runs += 1;
    }
    println!("{runs} runs, {kills} kills of scheduler or worker");
}

#[test]
fn a_run_whose_hand_over_is_killed_at_any_point_is_handed_over_by_the_next_one() {
    let mut random = Random::from_env();
    let points = [
        Point::AfterTakeOver,
        Point::AfterLeftovers,
        Point::BeforeCommit,
        Point::AfterCommit,
        Point::AfterStepDown,
    ];
    for _ in 0..rounds(1, 20) {
        let mut run = ServedRun::begun_in_the_foreground(Names::random(&mut random), &mut random);
        let id = run.id.clone();
        // So that the verb does not start a scheduler.
        run.start();
        for point in points {
            let mut resume = run.command(&["resume", "--detach", &id]);
            let status = resume.env(FAULT_VARIABLE, format!("{}:1", point.name())).status();
            assert_eq!(status.expect("it runs").signal(), Some(9), "{point:?} was not reached");
        }
        let resumed = run.command(&["resume", "--detach", &id]).status().expect("it runs");
        assert!(resumed.success());
        run.check_end();
    }
}

/// Kills processes of `roles` at random moments until the run is over. Returns how many were killed.
fn kill_at_random(run: &mut ServedRun, random: &mut Random, roles: &[Role], most: usize) -> usize {
    let mut kills = 0;
    while !run.is_over() && kills < most {
        run.start();
        thread::sleep(Duration::from_micros(20_000 + random.below(150_000)));
        let role = roles[usize::try_from(random.below(roles.len() as u64)).expect("it is small")];
        run.kill(role);
        kills += 1;
    }
    kills
}

#[test]
fn a_scheduler_that_is_killed_interrupts_no_attempt() {
    let mut random = Random::from_env();
    let (wanted, mut kills, mut runs) = (rounds(20, 1000), 0, 0);
    while kills < wanted {
        let mut run = ServedRun::submit(Names::random(&mut random));
        kills += kill_at_random(&mut run, &mut random, &[Role::Scheduler], wanted - kills);
        run.check_end();
        assert_eq!(run.interrupted(), 0, "every attempt has gone on");
        runs += 1;
    }
    println!("{runs} runs, {kills} kills of the scheduler");
}

#[test]
fn a_service_that_is_killed_loses_nothing_and_repeats_only_what_was_interrupted() {
    let mut random = Random::from_env();
    let (wanted, mut kills, mut runs) = (rounds(20, 1000), 0, 0);
    while kills < wanted {
        let mut run = ServedRun::submit(Names::random(&mut random));
        // A worker that is killed all the time would never end a step.
        kills += kill_at_random(&mut run, &mut random, &Role::BOTH, 40.min(wanted - kills));
        run.check_end();
        runs += 1;
    }
    println!("{runs} runs, {kills} kills of scheduler or worker");
}
