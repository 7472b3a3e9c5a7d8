//! Processes that start another one and end, all the time, in a session of their own and without an
//! environment: between two looks at `/proc`, there is always another one.
//!
//! Each attempt and each holder locks a file that its chain keeps open, so the kernel tells whether two
//! overlap.
//! `WINDLASS_STORM=1` repeats everything many times.

use std::fs::{self, File};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

use crate::random::rounds;
use crate::surroundings;

const STEP: &str = env!("CARGO_BIN_EXE_windlass-step");

/// A directory with a store, in which steps leave chains.
struct Chains {
    dir: TempDir,
}

impl Chains {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join("held")).expect("a directory");
        Self { dir }
    }

    fn with_flow(flow: &str) -> Self {
        let chains = Self::new();
        fs::write(chains.dir.path().join("flow.toml"), flow).expect("a file");
        chains
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass-faulty"));
        command.args(arguments).current_dir(self.dir.path());
        let stderr = File::options().create(true).append(true).open(self.dir.path().join("stderr"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr.expect("a file"));
        command.env("WINDLASS_STATE", self.dir.path().join("state")).env_remove("WINDLASS_LEASES");
        command.env(surroundings::VARIABLE, surroundings::mark()).env("PATH", surroundings::path());
        command
    }

    fn call(&self, arguments: &[&str]) -> ExitStatus {
        self.command(arguments).status().expect("the binary runs")
    }

    /// Starts a command under a lock or a semaphore, which does what a step does.
    fn hold(&self, holder: usize, name: &[&str], acts: &[&str]) -> Child {
        let mut command = self.command(name);
        command.arg("--").arg(STEP).args(acts);
        command.env("WINDLASS_STEP", format!("holder{holder}")).env("WINDLASS_ATTEMPT", "1");
        command.spawn().expect("the binary runs")
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join(name)).unwrap_or_default()
    }

    /// Checks that so many attempts or holders have begun, each after the end of the one before.
    #[track_caller]
    fn check(&self, begun: usize) {
        self.check_overlaps();
        let record = self.read("record");
        let starts = record.lines().filter(|line| line.contains(" start ")).count();
        assert_eq!(starts, begun, "{record}\n{}", self.read("stderr"));
    }

    #[track_caller]
    fn check_overlaps(&self) {
        let record = self.read("record");
        assert!(!record.contains(" overlap "), "{record}\n{}", self.read("stderr"));
    }

    /// Checks that no process has the file locked that stands for a name.
    #[track_caller]
    fn check_free(&self, name: &str) {
        let path = self.dir.path().join(format!("held/{name}.0"));
        let file = File::options().create(true).append(true).open(path).expect("a file");
        let locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
        assert_eq!(locked, Ok(()), "{}", self.read("stderr"));
    }
}

/// Steps one after the other, each of which leaves a chain, and a step beside them if `other` says so.
fn one_after_the_other(steps: usize, chain: &str, other: &str) -> String {
    let mut flow = format!("[defaults]\nlinger = '0s'\ngrace = '0s'\n{other}");
    for number in 0..steps {
        let after = number.checked_sub(1).map(|before| format!("after = ['s{before}']\n"));
        flow += &format!("[step.s{number}]\n{}", after.unwrap_or_default());
        flow += &format!("run = ['{STEP}', 'lock=x', 'child={chain}']\n");
    }
    flow
}

#[test]
fn a_step_begins_after_the_chain_of_the_one_before_while_another_step_runs() {
    let steps = rounds(20, 1000);
    let other = "[step.other]\nrun = 'until test -e stop; do sleep 0.05; done'\n";
    let flow = one_after_the_other(steps, "chain", other);
    let last = format!("[step.last]\nafter = ['s{}']\nrun = 'touch stop'\n", steps - 1);
    let chains = Chains::with_flow(&(flow + &last));
    let status = chains.call(&["run", "flow.toml"]);
    chains.check(steps);
    assert!(status.success(), "{}", chains.read("stderr"));
}

/// Only its leader, whose orphans they become, can find such processes.
#[test]
fn a_step_begins_after_a_chain_without_any_mark_while_no_other_step_runs() {
    let steps = rounds(20, 1000);
    let chains = Chains::with_flow(&one_after_the_other(steps, "unmarked", ""));
    let status = chains.call(&["run", "flow.toml"]);
    chains.check(steps);
    assert!(status.success(), "{}", chains.read("stderr"));
}

#[test]
fn a_step_begins_after_a_process_that_has_joined_the_group_of_the_leader() {
    let steps = rounds(3, 100);
    let chains = Chains::with_flow(&one_after_the_other(steps, "joined", ""));
    let status = chains.call(&["run", "flow.toml"]);
    chains.check(steps);
    assert!(status.success(), "{}", chains.read("stderr"));
}

#[test]
fn a_retry_begins_after_the_chain_of_the_last_attempt_though_it_ignores_sigterm() {
    let attempts = rounds(10, 300);
    let flow = format!(
        "[defaults]\nlinger = '5ms'\ngrace = '5ms'\n[step.a]\n\
         retry = {{ count = {attempts}, delay = '0s' }}\n\
         run = \"trap '' TERM; exec {STEP} child=chain fails={}\"\n",
        attempts - 1
    );
    let chains = Chains::with_flow(&flow);
    let status = chains.call(&["run", "flow.toml"]);
    chains.check(attempts);
    assert!(status.success(), "{}", chains.read("stderr"));
}

#[test]
fn a_run_whose_leader_was_killed_goes_on_after_the_chains_of_its_steps() {
    let times = rounds(6, 300);
    let flow = format!("[step.a]\nrun = ['{STEP}', 'lock=x', 'child=chain', 'kill=leader']\n");
    let chains = Chains::with_flow(&flow);
    chains.call(&["run", "flow.toml"]);
    for time in 0..times {
        match time % 3 {
            2 => {
                let status = chains.call(&["cancel", "last"]);
                assert!(status.success(), "{}", chains.read("stderr"));
                chains.check_free("lock-x");
                chains.call(&["retry", "last"]);
            }
            _ => drop(chains.call(&["resume", "last"])),
        }
        chains.check(time + 2);
    }
}

#[test]
fn a_lock_is_taken_over_after_the_chain_of_a_killed_holder() {
    let holders = rounds(10, 500);
    let chains = Chains::new();
    for holder in 0..holders {
        let acts = ["lock=x", "child=chain", "kill=wrapper", "millis=600000"];
        let status = chains.hold(holder, &["lock", "x"], &acts).wait().expect("it ends");
        assert_eq!(status.code(), None, "it was killed: {}", chains.read("stderr"));
        chains.check(holder + 1);
    }
    assert!(chains.call(&["lock", "x", "--", "true"]).success(), "{}", chains.read("stderr"));
    chains.check_free("lock-x");
}

#[test]
fn a_lock_that_was_held_for_too_long_is_released_after_the_chain() {
    let holders = rounds(10, 300);
    let chains = Chains::new();
    for holder in 0..holders {
        let acts = ["lock=x", "child=chain", "millis=600000"];
        let mut held = chains.hold(holder, &["lock", "x", "--max-hold", "200ms"], &acts);
        assert!(!held.wait().expect("it ends").success(), "it was ended");
        chains.check_free("lock-x");
    }
    chains.check_overlaps();
}

#[test]
fn slots_are_taken_over_after_the_chains_of_killed_holders() {
    let times = rounds(4, 100);
    let chains = Chains::new();
    for time in 0..times {
        let semaphore = ["sem", "s", "--capacity", "2"];
        let acts = ["slots=1/2", "child=chain", "kill=wrapper"];
        let crowd = [0, 1, 2].map(|one| chains.hold(time * 3 + one, &semaphore, &acts));
        for mut holder in crowd {
            holder.wait().expect("it ends");
        }
        chains.check(time * 3 + 3);
    }
}

#[test]
fn a_worker_begins_after_the_chains_of_its_killed_life() {
    let times = rounds(6, 300);
    let flow = format!(
        "[step.a]\ncrash_limit = {times}\nrun = ['{STEP}', 'lock=x', 'child=chain', 'kill=worker']\n"
    );
    let chains = Chains::with_flow(&flow);
    let mut scheduler = chains.command(&["serve", "--no-worker"]).spawn().expect("it runs");
    assert!(chains.call(&["submit", "flow.toml"]).success(), "{}", chains.read("stderr"));
    for time in 0..times {
        let status = chains.call(&["worker", "--name", "one", "--slots", "1"]);
        assert_eq!(status.code(), None, "it was killed: {}", chains.read("stderr"));
        chains.check(time + 1);
    }
    scheduler.kill().expect("it runs");
    scheduler.wait().expect("it was killed");
}
