//! A queue whose adders, scheduler and worker are killed again and again, at fault points and at random
//! moments, while it forgets steps and compacts its journal.
//!
//! Every command whose number was printed runs under that number; every other one at most once. No attempt
//! runs twice, and while no worker is killed, no step has two attempts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use windlass_server::fault::{FAULT_VARIABLE, Point};
use windlass_server::queue::{self, Addition};
use windlass_store::Store;

use crate::random::{Random, rounds};
use crate::surroundings;

/// How long a queue may take to end what it has, once nothing is killed any more.
const LONGEST: Duration = Duration::from_secs(120);

/// A process of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Scheduler,
    Worker,
}

impl Role {
    const BOTH: [Self; 2] = [Self::Scheduler, Self::Worker];

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Role::Scheduler => &["serve", "--no-worker"],
            Role::Worker => &["worker", "--name", "only", "--slots", "4"],
        }
    }
}

/// A queue with the processes that serve it.
struct Queue {
    dir: TempDir,
    processes: [Option<Child>; 2],
    /// The numbers that were printed, by the marks of their commands.
    acknowledged: BTreeMap<u64, u64>,
    marks: u64,
}

impl Queue {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        Self { dir, processes: [None, None], acknowledged: BTreeMap::new(), marks: 0 }
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

    /// Starts the processes that do not run. The scheduler kills itself at a point of `fault`, if there is one.
    fn start(&mut self, fault: Option<&str>) {
        for role in Role::BOTH {
            let process = &mut self.processes[role as usize];
            let ended = process.as_mut().map(|child| child.try_wait().expect("it can be asked"));
            if ended == Some(None) {
                continue;
            }
            let log = File::options().create(true).append(true).open(self.path("said"));
            let mut command = self.command(role.arguments());
            if let Some(fault) = fault.filter(|_| role == Role::Scheduler) {
                command.env(FAULT_VARIABLE, fault);
            }
            command.stderr(log.expect("a file")).stdout(Stdio::null());
            self.processes[role as usize] = Some(command.spawn().expect("the binary runs"));
        }
        // Otherwise an adder would start a service of its own.
        let began = Instant::now();
        while !self.is_led() {
            assert!(began.elapsed() < LONGEST, "nothing leads:\n{}", self.read("said"));
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn is_led(&mut self) -> bool {
        let state = self.path("state");
        let ended = self.processes[0].as_mut().and_then(|child| child.try_wait().ok().flatten());
        // One that has killed itself has led.
        ended.is_some()
            || Store::open(&state).is_ok_and(|mut store| {
                windlass_server::service::live_scheduler(&mut store)
                    .is_ok_and(|process| process.is_some())
            })
    }

    fn kill(&mut self, role: Role) {
        if let Some(mut process) = self.processes[role as usize].take() {
            // It may have killed itself.
            let _ = process.kill();
            process.wait().expect("it was killed");
        }
    }

    /// Adds a command in this process, which starts no service if none runs.
    fn add_here(&mut self) {
        self.marks += 1;
        let script = "echo $WINDLASS_STEP $WINDLASS_ATTEMPT $0 >> record";
        let command = ["sh", "-c", script, &self.marks.to_string()].map(str::to_owned).into();
        let dir = self.dir.path().to_owned();
        let addition = Addition { command, dir, ..Addition::default() };
        let mut store = Store::open(&self.path("state")).expect("the store can be opened");
        let added = queue::add(&mut store, "q", 4, &addition).expect("it is added");
        self.acknowledged.insert(self.marks, added.get());
    }

    /// Adds a command. Its process is killed at a fault point, or `after` a while, if that is given.
    fn add(&mut self, fault: Option<&str>, after: Option<Duration>) {
        self.marks += 1;
        let mark = self.marks.to_string();
        let script = "echo $WINDLASS_STEP $WINDLASS_ATTEMPT $0 >> record";
        let mut add = self.command(&["add", "-q", "q", "--", "sh", "-c", script, &mark]);
        if let Some(fault) = fault {
            add.env(FAULT_VARIABLE, fault);
        }
        let added = add.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut added = added.expect("the binary runs");
        if let Some(after) = after {
            thread::sleep(after);
            // It may have ended.
            let _ = added.kill();
        }
        let output = added.wait_with_output().expect("it ends");
        if output.status.success() {
            let printed = String::from_utf8_lossy(&output.stdout);
            let number = printed.trim().strip_prefix("q/").expect("a step of the queue");
            self.acknowledged.insert(self.marks, number.parse().expect("a number"));
        } else {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(fault.is_some() || after.is_some(), "it was refused: {said}");
        }
    }

    /// Adds a command that waits. Returns its name.
    fn add_waiting(&self) -> String {
        let added = self.ends_well(&["add", "-q", "q", "--in", "1h", "--", "false"]);
        added.trim().to_owned()
    }

    /// Returns the words that edit a step, so that it runs a command under the mark.
    fn edit(name: &str, mark: u64) -> Vec<String> {
        let script = "echo $WINDLASS_STEP $WINDLASS_ATTEMPT $0 >> record";
        let words = ["edit", name, "--", "sh", "-c", script, &mark.to_string()];
        words.map(str::to_owned).into()
    }

    /// Lets an edited step start, which has to run under its number.
    fn open(&mut self, name: &str, mark: u64) {
        self.ends_well(&["edit", name, "--in", "0s"]);
        let number = name.strip_prefix("q/").expect("a step of the queue");
        self.acknowledged.insert(mark, number.parse().expect("a number"));
    }

    fn ends_well(&self, arguments: &[impl AsRef<str>]) -> String {
        let arguments: Vec<_> = arguments.iter().map(AsRef::as_ref).collect();
        let output = self.command(&arguments).output().expect("the binary runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Edits and moves a step by processes that die at `point`, and lets it start. What was not committed has
    /// changed nothing.
    fn change(&mut self, point: Point) {
        let fault = format!("{}:1", point.name());
        self.marks += 1;
        let (name, mark) = (self.add_waiting(), self.marks);
        let edit = Self::edit(&name, mark);
        let edit: Vec<_> = edit.iter().map(String::as_str).collect();
        for change in [&edit[..], &["move", &name, "--last"]] {
            let died = self.command(change).env(FAULT_VARIABLE, &fault).output();
            assert!(!died.expect("the binary runs").status.success(), "it dies at {fault}");
        }
        if point == Point::BeforeChange {
            let shown = self.ends_well(&["queue", "q", "--json"]);
            assert!(shown.contains("\"command\":\"false\""), "it is as it was:\n{shown}");
            self.ends_well(&edit);
        }
        self.open(&name, mark);
    }

    /// Returns how many commands were added, according to the store.
    fn added(&self) -> u64 {
        let mut store = Store::open(&self.path("state")).expect("the store can be opened");
        let found = store.read(|transaction| transaction.queues().find("q"));
        found.expect("it can be read").map_or(0, |queue| queue.added)
    }

    /// Waits until the queue has nothing left to do, and checks what has run.
    fn check_end(&mut self, most: Attempts) {
        self.start(None);
        let mut wait = self.command(&["wait", "q"]);
        let mut wait = wait.stderr(Stdio::null()).spawn().expect("the binary runs");
        let began = Instant::now();
        while wait.try_wait().expect("it can be asked").is_none() {
            assert!(began.elapsed() < LONGEST, "it does not end:\n{}", self.read("said"));
            thread::sleep(Duration::from_millis(10));
        }
        let (mut ran, mut runs) = (BTreeMap::new(), BTreeSet::new());
        let record = self.read("record");
        for line in record.lines() {
            let words: Vec<u64> =
                line.split(' ').map(|word| word.parse().expect("a number")).collect();
            let [step, attempt, mark] = words[..] else { panic!("{line}") };
            assert!(runs.insert((step, attempt)), "attempt {attempt} of {step} ran twice");
            let before = ran.insert(mark, step);
            assert!(before.is_none_or(|before| before == step), "{mark} ran as two steps");
            if most == Attempts::One {
                assert!(before.is_none() && attempt == 1, "{step} was interrupted:\n{record}");
            }
        }
        for (mark, number) in &self.acknowledged {
            assert_eq!(ran.get(mark), Some(number), "command {mark} runs under its number");
        }
        let steps: BTreeSet<_> = ran.values().copied().collect();
        assert_eq!(steps.len(), ran.len(), "no two commands have one number");
        assert!(steps.into_iter().eq(1..=self.added()), "every step that was added has run");
    }
}

/// How many attempts a step may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attempts {
    One,
    Several,
}

impl Drop for Queue {
    fn drop(&mut self) {
        Role::BOTH.into_iter().for_each(|role| self.kill(role));
        if thread::panicking() {
            eprintln!("the service said:\n{}", self.read("said"));
        }
    }
}

#[test]
fn a_command_whose_number_was_printed_runs_once_whichever_process_is_killed() {
    let mut random = Random::from_env();
    for (roles, attempts) in [(&Role::BOTH[..1], Attempts::One), (&Role::BOTH, Attempts::Several)] {
        let mut queue = Queue::new();
        queue.start(None);
        let mut kills = 0;
        while kills < rounds(12, 500) {
            let after = (random.below(3) == 0).then(|| Duration::from_micros(random.below(15_000)));
            queue.add(None, after);
            if random.below(4) == 0 {
                let place = usize::try_from(random.below(roles.len() as u64)).expect("small");
                queue.kill(roles[place]);
                queue.start(None);
                kills += 1;
            }
        }
        queue.check_end(attempts);
    }
}

#[test]
fn a_command_whose_number_was_printed_runs_once_if_processes_die_at_the_fault_points_of_queues() {
    let mut random = Random::from_env();
    let mut queue = Queue::new();
    queue.start(None);
    // Bases take the place of the journal while it waits.
    queue.marks += 1;
    let (waiting, mark) = (queue.add_waiting(), queue.marks);
    queue.ends_well(&Queue::edit(&waiting, mark));
    for _ in 0..rounds(3, 60) {
        for point in Point::OF_QUEUES {
            let fault = format!("{}:{}", point.name(), 1 + random.below(2));
            if matches!(point, Point::BeforeChange | Point::AfterChange) {
                queue.change(point);
                continue;
            }
            if matches!(point, Point::BeforeAdd | Point::AfterAdd) {
                queue.add(Some(&format!("{}:1", point.name())), None);
                queue.add_here();
                continue;
            }
            queue.kill(Role::Scheduler);
            queue.start(Some(&fault));
            let began = Instant::now();
            while queue.processes[0]
                .as_mut()
                .is_some_and(|child| child.try_wait().expect("it can be asked").is_none())
            {
                queue.add_here();
                // A base comes the later, the more steps wait.
                thread::sleep(Duration::from_millis(5));
                assert!(began.elapsed() < LONGEST, "no base was written at {fault}");
            }
            queue.kill(Role::Scheduler);
            queue.start(None);
        }
    }
    queue.open(&waiting, mark);
    queue.check_end(Attempts::One);
}
