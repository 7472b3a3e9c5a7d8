//! Workers that are killed or suspended: what they execute ends with them, and runs once at a time.
//!
//! Whether two attempts overlap is judged by locks of the kernel, which a step holds as long as any process of
//! it is left.

use rustix::process::{Pid, kill_process};

use super::*;
use crate::bench::runs;

/// A lease that is over soon, and still long enough for a busy machine.
const LEASE: [&str; 2] = ["--lease", "3s"];

/// Returns the guardian of a worker.
pub(super) fn guardian_of(worker: &Child) -> Option<String> {
    let children = format!("/proc/{0}/task/{0}/children", worker.id());
    let children = fs::read_to_string(children).unwrap_or_default();
    let is_guardian = |pid: &&str| {
        let words = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split('\0').any(|word| word == "--guardian")
    };
    children.split_whitespace().find(is_guardian).map(str::to_owned)
}

fn kill(pid: &str) {
    let pid = Pid::from_raw(pid.parse().expect("a number")).expect("a pid");
    kill_process(pid, Signal::KILL).expect("it is there");
}

fn all_end(bench: &Bench, pids: &str) {
    eventually("its processes have ended", || bench.read(pids).lines().all(|pid| !runs(pid)));
}

#[test]
fn the_processes_of_a_killed_worker_end_with_it() {
    // The second process has neither the environment nor the group nor a parent of the step.
    let flow = "[step.a]\nrun = 'echo $$ >> pids; (setsid env -i sh -c \"echo \\$\\$ >> pids; exec sleep 600\" &); \
        until test $(wc -l < pids) = 2; do sleep 0.01; done; touch begun; exec sleep 600'\n";
    let mut service = Service::with(flow, "1");
    service.submit(&[]);
    service.bench.await_file("begun");
    let guardian = guardian_of(&service.processes[1]).expect("it has one");
    service.kill(1);
    all_end(&service.bench, "pids");
    eventually("its guardian ends", || !runs(&guardian));
}

#[test]
fn a_guardian_ends_with_its_worker_and_ends_nothing_else() {
    let flow = "[step.a]\nrun = 'touch began; until test -e go; do sleep 0.02; done; touch done'\n";
    let mut service = Service::with(flow, "1");
    let run = service.submit(&[]);
    service.bench.await_file("began");
    let guardian = guardian_of(&service.processes[1]).expect("it has one");
    signal(&service.processes[1], Signal::TERM);
    eventually("draining", || service.shown(&["workers"]).contains("draining"));
    service.bench.write("go", "");
    assert!(service.processes[1].wait().expect("it ends").success(), "{}", service.said());
    assert!(service.bench.path("done").exists() && !runs(&guardian));
    service.start(&["worker", "--name", "one"]);
    service.wait(&run, 0);
}

#[test]
fn a_guardian_that_was_killed_is_replaced_and_no_step_notices() {
    let flow = "[step.a]\nrun = 'echo $$ >> pids; until test -e go; do sleep 0.02; done'\n";
    let mut service = Service::with(flow, "1");
    let run = service.submit(&[]);
    service.bench.await_file("pids");
    let first = guardian_of(&service.processes[1]).expect("it has one");
    kill(&first);
    let is_other = |pid: String| pid != first;
    eventually("replaced", || guardian_of(&service.processes[1]).is_some_and(is_other));
    service.bench.write("go", "");
    service.wait(&run, 0);
    assert_eq!(service.bench.read("pids").lines().count(), 1, "{}", service.said());
    service.kill(1);
}

/// A step that notes whether two of its attempts overlap, and ends once there is a file `go`. It would have more
/// time to end than its worker.
const ALONE: &str = "[step.a]\ngrace = '1h'\nfinally = 'echo $WINDLASS_ATTEMPT >> cleaned'\nrun = 'exec 9> lock; flock -n 9 || touch overlap; trap \"touch asked\" TERM; \
    echo $$ >> pids; until test -e go; do sleep 0.02; done; echo $WINDLASS_ATTEMPT >> ran'\n";

/// Starts a scheduler, and a worker whose lease is over soon, which executes the step.
fn with_lone_step() -> (Service, String) {
    let mut service = Service::new(ALONE);
    service.start(&[&["serve", "--no-worker"][..], &LEASE].concat());
    service.start(&[&["worker", "--name", "one", "--slots", "1"][..], &LEASE].concat());
    let run = service.submit(&[]);
    service.bench.await_file("pids");
    (service, run)
}

/// Checks that the step ran to its end in its second attempt, after its first.
fn check_second_attempt(service: &Service, run: &str) {
    service.wait(run, 0);
    assert_eq!(service.bench.read("ran"), "2\n", "{}", service.said());
    assert_eq!(service.bench.read("pids").lines().count(), 2, "{}", service.said());
    assert!(!service.bench.path("overlap").exists(), "{}", service.said());
    assert_eq!(service.bench.read("cleaned"), "2\n", "nothing follows what a guardian ends");
}

#[test]
fn the_steps_of_a_suspended_worker_end_and_it_begins_again() {
    let (service, run) = with_lone_step();
    service.suspend(1);
    all_end(&service.bench, "pids");
    assert!(service.bench.path("asked").exists(), "it was asked to end before it was killed");
    service.bench.write("go", "");
    signal(&service.processes[1], Signal::CONT);
    check_second_attempt(&service, &run);
    assert!(service.said().contains("begins again"), "{}", service.said());
}

#[test]
fn the_step_of_a_suspended_worker_runs_elsewhere_and_the_worker_reports_nothing_when_it_goes_on() {
    let (mut service, run) = with_lone_step();
    service.suspend(1);
    service.start(&["worker", "--name", "two", "--slots", "1"]);
    eventually("tried again", || service.bench.read("pids").lines().count() == 2);
    assert!(service.said().contains("worker one (life "), "{}", service.said());
    signal(&service.processes[1], Signal::CONT);
    eventually("it begins again", || service.said().contains("begins again"));
    eventually("it is back", || service.shown(&["workers"]).matches(" up ").count() == 2);
    service.bench.write("go", "");
    check_second_attempt(&service, &run);
}

#[test]
fn the_step_of_a_killed_worker_runs_elsewhere_without_a_new_worker_of_that_name() {
    let (mut service, run) = with_lone_step();
    service.start(&["worker", "--name", "two", "--slots", "1"]);
    service.kill(1);
    eventually("tried again", || service.bench.read("pids").lines().count() == 2);
    service.bench.write("go", "");
    check_second_attempt(&service, &run);
    assert!(!service.shown(&["workers"]).contains("one"), "{}", service.shown(&["workers"]));
}

#[test]
fn a_scheduler_ends_the_steps_of_a_worker_that_was_killed_with_its_guardian() {
    let (mut service, run) = with_lone_step();
    let guardian = guardian_of(&service.processes[1]).expect("it has one");
    service.suspend(1);
    kill(&guardian);
    service.kill(1);
    assert!(runs(&service.bench.read("pids")), "no process ended it so far");
    service.start(&["worker", "--name", "two", "--slots", "1"]);
    eventually("tried again", || service.bench.read("pids").lines().count() == 2);
    service.bench.write("go", "");
    check_second_attempt(&service, &run);
}

#[test]
fn a_suspended_scheduler_leads_no_more_when_another_has_taken_over() {
    let (mut service, run) = with_lone_step();
    service.suspend(0);
    let other = service.start(&[&["serve", "--no-worker"][..], &LEASE].concat());
    let said = |service: &Service, place| service.bench.read(&format!("said-{place}"));
    eventually("taken over", || said(&service, other).contains(&format!("leads run {run}")));
    service.bench.write("go", "");
    signal(&service.processes[0], Signal::CONT);
    service.wait(&run, 0);
    eventually("standing by", || said(&service, 0).contains("stands by"));
    assert_eq!(service.bench.read("ran"), "1\n", "no attempt was interrupted: {}", service.said());
}
