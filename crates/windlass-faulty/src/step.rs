//! The program that the steps of the killed runs execute. It keeps records of its own for the checks.
//!
//! While it runs, a step holds a file lock for its own name, and one for every lock, slot and item that the run
//! has given it. The kernel releases a file lock with the last process that has the file open. So
//! overlapping attempts, and two holders of one name, are detected exactly and without a clock. All files
//! are in the current directory.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getpgid, getppid, kill_process, setpgid, setrlimit, setsid,
};

/// How often a process of a chain starts the next one, so that no chain outlives its test for long.
const HOPS: usize = 10_000;
/// The argument of a process of a chain, before how many follow.
const HOPS_LEFT: &str = "hops=";

/// The argument of a process that joins a group, before its number.
const GROUP: &str = "group=";

/// One attempt of a step.
struct Attempt {
    name: String,
    /// The locked files.
    held: Vec<File>,
    /// The processes that it leaves behind.
    left: Vec<Child>,
}

fn main() -> ExitCode {
    let argument = env::args().nth(1).unwrap_or_default();
    if let Some(group) = argument.strip_prefix(GROUP) {
        join(group.parse().expect("a number"));
        return ExitCode::SUCCESS;
    }
    if let Some(hops) = argument.strip_prefix(HOPS_LEFT) {
        hop(hops.parse().expect("a number"));
        return ExitCode::SUCCESS;
    }
    let variable = |name: &str| env::var(name).expect("the coordinator sets it for each step");
    let step = variable("WINDLASS_STEP");
    let name = format!("{step} {}", variable("WINDLASS_ATTEMPT"));
    let mut attempt = Attempt { name, held: Vec::new(), left: Vec::new() };
    attempt.hold(&format!("step-{step}"), 1, 1);
    if argument == "finally" {
        attempt.record("finally");
        return ExitCode::SUCCESS;
    }
    attempt.record(&format!("start {}", variable("WINDLASS_FENCE")));
    let code = attempt.act(&step);
    attempt.record(&format!("end {code}"));
    ExitCode::from(code)
}

impl Attempt {
    /// Carries out the arguments in order, and returns the exit code.
    fn act(&mut self, step: &str) -> u8 {
        for argument in env::args().skip(1) {
            let (verb, value) = argument.split_once('=').expect("a verb and a value");
            match verb {
                "lock" => self.hold(&format!("lock-{value}"), 1, 1),
                "slots" => {
                    let (weight, capacity) = value.split_once('/').expect("weight/capacity");
                    let number = |text: &str| text.parse().expect("a number");
                    self.hold("slots", number(weight), number(capacity));
                }
                "items" => {
                    let items = env::var(value).expect("the store has items");
                    items.split(',').for_each(|item| self.hold(&format!("item-{item}"), 1, 1));
                }
                "child" => self.left.push(child(value)),
                "kill" => {
                    let parent = getppid().expect("it has one");
                    kill_process(parent, Signal::KILL).expect("it is ours");
                }
                "millis" => thread::sleep(Duration::from_millis(value.parse().expect("a number"))),
                "write" => {
                    let path = env::var_os("WINDLASS_OUTPUT").expect("the coordinator sets it");
                    fs::write(path, format!("word={value}\n")).expect("it can be written");
                }
                "expect" => {
                    let (word, expected) = value.split_once(':').expect("two words");
                    assert_eq!(word, expected, "the output of the step before");
                }
                "fails" if failed_before(step) < value.parse().expect("a number") => return 1,
                "fails" => {}
                other => panic!("unknown argument: {other}"),
            }
        }
        0
    }

    /// Locks `weight` of the `capacity` slots of a name. Records an overlap if another attempt has one.
    fn hold(&mut self, name: &str, weight: usize, capacity: usize) {
        // One attempt at a time looks for slots, so that two cannot take each other's.
        let search = open(&format!("held/{name}.looking"));
        flock(&search, FlockOperation::LockExclusive).expect("it can be locked");
        let mut slots: Vec<_> =
            (0..capacity).map(|slot| open(&format!("held/{name}.{slot}"))).collect();
        for _ in 0..weight {
            match slots.iter().position(take) {
                Some(at) => self.keep(slots.swap_remove(at)),
                None => self.record(&format!("overlap {name}")),
            }
        }
    }

    /// Keeps a slot locked until every process of this attempt has ended: children inherit the file.
    fn keep(&mut self, slot: File) {
        fcntl_setfd(&slot, FdFlags::empty()).expect("it is open");
        self.held.push(slot);
    }

    /// Appends one line to the record, with one write.
    fn record(&self, what: &str) {
        let line = format!("{} {} {what}\n", self.name, std::process::id());
        open("record").write_all(line.as_bytes()).expect("it can be written");
    }
}

/// Locks a slot and returns whether that succeeded.
fn take(slot: &File) -> bool {
    flock(slot, FlockOperation::NonBlockingLockExclusive).is_ok()
}

fn open(path: &str) -> File {
    let opened = OpenOptions::new().create(true).append(true).open(path);
    opened.unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Counts a failure of this step, and returns how many there were before.
fn failed_before(step: &str) -> usize {
    let path = format!("held/failed-{step}");
    let before = fs::read(&path).map_or(0, |marks| marks.len());
    open(&path).write_all(b"x").expect("it can be written");
    before
}

/// Starts a process that does not end by itself, in this process group or in a session of its own, or a chain
/// of processes.
fn child(place: &str) -> Child {
    let mut command = match place {
        "group" => Command::new("sleep"),
        "session" => Command::new("setsid"),
        "chain" => next_hop(HOPS),
        "unmarked" => {
            let none = Rlimit { current: None, maximum: None };
            setrlimit(Resource::Locks, none).expect("there is no hard limit");
            next_hop(HOPS)
        }
        "joined" => {
            let group = getpgid(getppid()).expect("the parent runs");
            let mut command = Command::new("/proc/self/exe");
            command.arg(format!("{GROUP}{}", group.as_raw_nonzero()));
            command
        }
        other => panic!("unknown place: {other}"),
    };
    match place {
        "group" => command.arg("600"),
        "session" => command.args(["sleep", "600"]),
        _ => &mut command,
    };
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if place != "joined" {
        return command.spawn().expect("it runs");
    }
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it runs");
    let joined = child.stdout.take().expect("a pipe").read(&mut [0]).expect("it says so");
    assert_eq!(joined, 1, "it has joined the group");
    child
}

/// Joins the group of the leader, and does not end by itself before its test does.
fn join(group: i32) {
    setpgid(None, Pid::from_raw(group)).expect("it is in the same session");
    print!(".");
    std::io::stdout().flush().expect("the parent listens");
    while fs::exists("held").is_ok_and(|exists| exists) {
        thread::sleep(Duration::from_millis(50));
    }
}

/// One process of a chain: leaves its session, starts the next process, and ends.
#[expect(clippy::zombie_processes, reason = "it does not outlive its child")]
fn hop(hops: usize) {
    // It leads no group, so it can always lead a session.
    setsid().expect("it is no leader");
    if hops > 0 && fs::exists("held").is_ok_and(|exists| exists) {
        next_hop(hops - 1).spawn().expect("it runs");
    }
}

/// Returns the next process of a chain, which carries nothing in its environment.
fn next_hop(hops: usize) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg(format!("{HOPS_LEFT}{hops}")).env_clear();
    command
}
