//! Kills at any moment: of a run, in the middle of a write, and while a store is made.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::dice::{Dice, rounds};
use crate::flow::Names;
use crate::lives::Lives;
use crate::surroundings;

/// How long a life may be at most, to begin with. A machine that gets nothing done in that time is
/// given more.
const LIFE: Duration = Duration::from_millis(100);

#[test]
fn a_run_that_is_killed_at_any_moment_goes_on() {
    let mut dice = Dice::thrown();
    let (wanted, mut kills, mut runs) = (rounds(12, 1000), 0, 0);
    while kills < wanted {
        let mut lives = Lives::new(Names::thrown(&mut dice));
        let mut longest = LIFE;
        while !lives.is_complete() && kills < wanted {
            let before = lives.progress();
            let micros = u64::try_from(longest.as_micros()).expect("it is not that long");
            let moment = Duration::from_micros(dice.below(micros));
            kills += usize::from(lives.die_by(format!("after {moment:?}"), |child| {
                thread::sleep(moment);
                child.kill().expect("it can be killed");
            }));
            longest = if lives.progress() == before { longest.mul_f64(1.5) } else { LIFE };
        }
        lives.end();
        runs += 1;
    }
    println!("{runs} runs, {kills} kills at random");
}

/// From now on, whoever makes a file longer than this dies in the middle of it.
fn limit_files(child: &Child, bytes: u64) {
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a child has a number");
    let most = |bytes| Rlimit { current: Some(bytes), maximum: None };
    // It may have ended already.
    let _ = prlimit(Some(pid), Resource::Core, most(0));
    let _ = prlimit(Some(pid), Resource::Fsize, most(bytes));
}

/// The kernel writes as much as the limit allows, and kills the process that goes on: so a commit is
/// torn at a byte that nothing in SQLite or here has chosen.
#[test]
fn a_run_that_is_killed_in_the_middle_of_a_commit_goes_on() {
    let mut dice = Dice::thrown();
    let (wanted, mut kills, mut runs) = (rounds(6, 200), 0, 0);
    while kills < wanted {
        let mut lives = Lives::new(Names::thrown(&mut dice));
        while !lives.is_complete() && kills < wanted {
            let long = |name: &str| fs::metadata(lives.path(name)).map_or(0, |file| file.len());
            let log = long("state/store.db-wal").max(long("state/store.db"));
            // The steps die by it, too, if they have written more.
            let limit = log.max(long("record") + (64 << 10)) + dice.below(64 << 10);
            kills += usize::from(lives.die_by(format!("at byte {limit}"), |child| {
                limit_files(child, limit);
            }));
        }
        lives.end();
        runs += 1;
    }
    println!("{runs} runs, {kills} kills in the middle of a write");
}

#[test]
fn a_store_that_was_killed_while_it_was_made_can_be_used() {
    let mut dice = Dice::thrown();
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
        thread::sleep(Duration::from_micros(dice.below(20_000)));
        child.kill().expect("it can be killed");
        kills += usize::from(child.wait().expect("it can be waited for").signal().is_some());
        let output = command(&["emit", "second"]).output().expect("the binary runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        let output = command(&["events"]).output().expect("the binary runs");
        let events = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(events.contains("second") && events.lines().count() <= 2, "{events}");
    }
    println!("{rounds} stores, {kills} kills while they were made");
}
