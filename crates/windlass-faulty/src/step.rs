//! What the steps of the killed runs do: they keep records of their own, by which they are judged.
//!
//! A step holds a file lock of its own name while it runs, and one for every lock and slot that the
//! run has given it. The kernel gives file locks back with the last process that has the file open,
//! so two attempts that overlap, or two holders of one name, are seen exactly and without a clock.
//! Everything happens in the current directory.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::{FdFlags, fcntl_setfd};

/// The kernel's flag of a process that is on its way out and runs no more of its program.
const EXITING: u64 = 4;

/// Who acts: an attempt of a step.
struct Attempt {
    name: String,
    /// The files that show what it holds.
    held: Vec<File>,
    /// The processes that it leaves behind.
    left: Vec<Child>,
}

fn main() -> ExitCode {
    let variable = |name: &str| env::var(name).expect("a step is told about itself");
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
    /// Does what the arguments say, one after the other.
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
                    let path = env::var_os("WINDLASS_OUTPUT").expect("it is told where");
                    fs::write(path, format!("word={value}\n")).expect("it can be written");
                }
                "expect" => {
                    let (word, expected) = value.split_once(':').expect("two words");
                    assert_eq!(word, expected, "what the step before has written");
                }
                "fails" if failed_before(step) < value.parse().expect("a number") => return 1,
                "fails" => {}
                other => panic!("no such verb: {other}"),
            }
        }
        0
    }

    /// Takes `weight` of the `capacity` places of a name. Nobody else may stand on them.
    fn hold(&mut self, name: &str, weight: usize, capacity: usize) {
        // One at a time looks for places, so that those who look cannot pass each other.
        let looking = open(&format!("held/{name}.looking"));
        flock(&looking, FlockOperation::LockExclusive).expect("it can be locked");
        let mut places: Vec<_> =
            (0..capacity).map(|place| open(&format!("held/{name}.{place}"))).collect();
        for _ in 0..weight {
            match places.iter().position(take) {
                Some(at) => self.keep(places.swap_remove(at)),
                None => self.record(&format!("overlap {name}")),
            }
        }
    }

    /// Keeps a place until every process of this attempt has ended.
    fn keep(&mut self, place: File) {
        fcntl_setfd(&place, FdFlags::empty()).expect("it is open");
        self.held.push(place);
    }

    /// One line, in one piece.
    fn record(&self, what: &str) {
        let line = format!("{} {} {what}\n", self.name, std::process::id());
        open("record").write_all(line.as_bytes()).expect("it can be written");
    }
}

/// Whether a place was had. One that is still taken only because its owner has yet to be cleared
/// away by the kernel is worth waiting for.
fn take(place: &File) -> bool {
    flock(place, FlockOperation::NonBlockingLockExclusive).is_ok()
        || !has_living_user(place) && flock(place, FlockOperation::LockExclusive).is_ok()
}

fn open(path: &str) -> File {
    let opened = OpenOptions::new().create(true).append(true).open(path);
    opened.unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// How often this step has failed before; this is one more.
fn failed_before(step: &str) -> usize {
    let path = format!("held/failed-{step}");
    let before = fs::read(&path).map_or(0, |marks| marks.len());
    open(&path).write_all(b"x").expect("it can be written");
    before
}

/// Starts a process that does not end by itself, in our group or in a session of its own.
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

/// Whether another process has this file open and still runs its program.
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
    // The name in the second field may contain anything, also blanks and parentheses.
    let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let flags = fields.get(6).and_then(|flags| flags.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & EXITING == 0)
}
