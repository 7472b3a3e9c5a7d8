//! Kills at random times: during a run, in the middle of a write, and while a store is created.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::flow::Names;
use crate::killed_run::KilledRun;
use crate::random::{Random, rounds};
use crate::surroundings;

/// The initial upper bound of the time before a kill. It grows while a run makes no progress.
const MAX_DELAY: Duration = Duration::from_millis(100);

#[test]
fn a_run_that_is_killed_at_random_times_can_be_resumed() {
    let mut random = Random::from_env();
    let (wanted, mut kills, mut runs) = (rounds(12, 1000), 0, 0);
    while kills < wanted {
        let mut run = KilledRun::new(Names::random(&mut random));
        let mut longest = MAX_DELAY;
        while !run.is_complete() && kills < wanted {
            let before = run.progress();
            let micros = u64::try_from(longest.as_micros()).expect("the delay is short");
            let delay = Duration::from_micros(random.below(micros));
            kills += usize::from(run.kill_with(format!("after {delay:?}"), |child| {
                thread::sleep(delay);
                child.kill().expect("it can be killed");
            }));
            longest = if run.progress() == before { longest.mul_f64(1.5) } else { MAX_DELAY };
        }
        run.end();
        runs += 1;
    }
    println!("{runs} runs, {kills} kills at random");
}

/// Limits the size of files: the kernel kills a process in the middle of the write that exceeds it.
fn limit_files(child: &Child, bytes: u64) {
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a child has a pid");
    let most = |bytes| Rlimit { current: Some(bytes), maximum: None };
    // It may have ended already.
    let _ = prlimit(Some(pid), Resource::Core, most(0));
    let _ = prlimit(Some(pid), Resource::Fsize, most(bytes));
}

/// The kernel writes up to the limit, and kills the process at the next write. So a commit is torn at a
/// byte that neither SQLite nor the test has chosen.
#[test]
fn a_run_that_is_killed_in_the_middle_of_a_commit_can_be_resumed() {
    let mut random = Random::from_env();
    let (wanted, mut kills, mut runs) = (rounds(6, 200), 0, 0);
    while kills < wanted {
        let mut run = KilledRun::new(Names::random(&mut random));
        while !run.is_complete() && kills < wanted {
            let long = |name: &str| fs::metadata(run.path(name)).map_or(0, |file| file.len());
            let log = long("state/store.db-wal").max(long("state/store.db"));
            // The limit kills steps, too, if their record is longer.
            let limit = log.max(long("record") + (64 << 10)) + random.below(64 << 10);
            kills += usize::from(run.kill_with(format!("at byte {limit}"), |child| {
                limit_files(child, limit);
            }));
        }
        run.end();
        runs += 1;
    }
    println!("{runs} runs, {kills} kills in the middle of a write");
}

#[test]
fn a_store_whose_creation_was_killed_can_be_used() {
    let mut random = Random::from_env();
    let (rounds, mut kills) = (rounds(20, 500), 0);
    for _ in 0..rounds {
        let dir = tempfile::tempdir().expect("a directory");
        let command = |arguments: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_windlass-faulty"));
            command.args(arguments).env("WINDLASS_STATE", dir.path().join("state"));
            command.env(surroundings::VARIABLE, surroundings::mark());
            command.env("PATH", surroundings::path());
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            command
        };
        let mut child = command(&["emit", "first"]).spawn().expect("the binary runs");
        thread::sleep(Duration::from_micros(random.below(20_000)));
        child.kill().expect("it can be killed");
        kills += usize::from(child.wait().expect("it can be waited for").signal().is_some());
        let output = command(&["emit", "second"]).output().expect("the binary runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        let output = command(&["events"]).output().expect("the binary runs");
        let events = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(events.contains("second") && events.lines().count() <= 2, "{events}");
    }
    println!("{rounds} stores, {kills} kills while they were created");
}
