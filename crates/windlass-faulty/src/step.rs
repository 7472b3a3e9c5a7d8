//! The program that the steps of the killed runs execute. It keeps records of its own for the checks.
//!
//! While it runs, a step holds a file lock for its own name, and one for every lock and slot that the run
//! has given it. The kernel releases a file lock with the last process that has the file open. So
//! overlapping attempts, and two holders of one name, are detected exactly and without a clock. All files
//! are in the current directory.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::{FdFlags, fcntl_setfd};

/// The kernel's flag of a process that is exiting (`PF_EXITING`).
const EXITING: u64 = 4;

/// One attempt of a step.
struct Attempt {
    name: String,
    /// The locked files.
    held: Vec<File>,
    /// The processes that it leaves behind.
    left: Vec<Child>,
}

fn main() -> ExitCode {
    let variable = |name: &str| env::var(name).expect("the coordinator sets it for each step");
    let step = variable("WINDLASS_STEP");
    let name = format!("{step} {}", variable("WINDLASS_ATTEMPT"));
    let mut attempt = Attempt { name, held: Vec::new(), left: Vec::new() };
    attempt.hold(&format!("step-{step}"), 1, 1);
    if env::args().nth(1).is_some_and(|argument| argument == "finally") {
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
                "child" => self.left.push(child(value)),
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

/// Locks a slot and returns whether that succeeded. Waits for a lock whose holder is only exiting.
fn take(slot: &File) -> bool {
    flock(slot, FlockOperation::NonBlockingLockExclusive).is_ok()
        || !has_living_user(slot) && flock(slot, FlockOperation::LockExclusive).is_ok()
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

/// Starts a process that does not end by itself, in this process group or in a session of its own.
fn child(place: &str) -> Child {
    let mut command = match place {
        "group" => Command::new("sleep"),
        _ => Command::new("setsid"),
    };
    if place != "group" {
        command.arg("sleep");
    }
    command.arg("600").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("sleep runs")
}

/// Returns whether another process has this file open and is not exiting.
fn has_living_user(file: &File) -> bool {
    let own = file.metadata().expect("it is open");
    let same = |path: io::Result<fs::DirEntry>| {
        let other = path.and_then(|entry| fs::metadata(entry.path()));
        other.is_ok_and(|other| (other.dev(), other.ino()) == (own.dev(), own.ino()))
    };
    let processes = fs::read_dir("/proc").expect("this is Linux").flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut others = pids.filter(|pid| *pid != std::process::id());
    others.any(|pid| {
        let mut open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
        open.any(same) && runs(pid)
    })
}

fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name in the second field may contain blanks and parentheses.
    let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let flags = fields.get(6).and_then(|flags| flags.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & EXITING == 0)
}
