//! Submitted runs: scheduled, executed by workers, and followed from any terminal.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, ChildStderr, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::bench::{Bench, eventually, signal, stderr, stdout};
use crate::looking::json::check_line;
use crate::stalled::{block, told, unblock};

mod attached;
mod broken_logs;
mod changing;
mod crashes;
mod crowd;
mod disk;
mod fencing;
mod full;
mod handing_over;
mod idle;
mod pausing;
mod placing;
mod queue;
mod store_loss;
mod submitting;
mod taking_over;
mod turns;
mod units;

/// A bench with the processes of a service, which end with it.
struct Service {
    bench: Bench,
    processes: Vec<Child>,
}

impl Service {
    /// Starts no process so far.
    fn new(flow: &str) -> Self {
        let bench = Bench::new();
        bench.write("flow.toml", flow);
        Self { bench, processes: Vec::new() }
    }

    /// Starts a scheduler and a worker.
    fn with(flow: &str, slots: &str) -> Self {
        let mut service = Self::new(flow);
        service.start(&["serve", "--no-worker"]);
        service.start(&["worker", "--name", "one", "--slots", slots]);
        service
    }

    /// Starts a process and returns its place among them.
    fn start(&mut self, arguments: &[&str]) -> usize {
        let said = self.bench.path(&format!("said-{}", self.processes.len()));
        let said = fs::File::create(said).expect("a file");
        let mut command = self.bench.command(arguments);
        let child = command.stdout(Stdio::null()).stderr(said).spawn().expect("the binary runs");
        self.processes.push(child);
        self.processes.len() - 1
    }

    fn submit(&self, arguments: &[&str]) -> String {
        let output = self.bench.ends_with(0, &[&["submit", "flow.toml"], arguments].concat());
        stdout(&output).trim().to_owned()
    }

    /// Waits for the end of a run, which ends with this exit code.
    fn wait(&self, run: &str, code: i32) {
        let output = self.bench.call(&["wait", run]);
        assert_eq!(output.status.code(), Some(code), "{}\n{}", stderr(&output), self.said());
    }

    fn said(&self) -> String {
        (0..self.processes.len()).map(|place| self.bench.read(&format!("said-{place}"))).collect()
    }

    fn shown(&self, arguments: &[&str]) -> String {
        stdout(&self.bench.call(arguments))
    }

    /// Suspends a process while it does not write to the store: all others would wait for it.
    fn suspend(&self, place: usize) {
        let process = &self.processes[place];
        loop {
            signal(process, Signal::STOP);
            eventually("it stands still", || is_suspended(process.id()));
            if !self.is_writing(process.id()) {
                return;
            }
            signal(process, Signal::CONT);
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns whether a process has a lock that keeps others from writing to the store.
    fn is_writing(&self, pid: u32) -> bool {
        let inode =
            |file: &&str| fs::metadata(self.bench.path("state").join(file)).map(|of| of.ino());
        let files: Vec<_> = ["gate", "store.db-shm"].iter().flat_map(inode).collect();
        let locks = fs::read_to_string("/proc/locks").expect("Linux lists them");
        locks.lines().any(|line| {
            // "1: POSIX  ADVISORY  WRITE 4711 00:19:815 120 120"; a wait for it has an arrow.
            let words: Vec<_> = line.split_whitespace().collect();
            let [_, kind, _, "WRITE", owner, file, ..] = words[..] else { return false };
            let inode = file.rsplit(':').next().and_then(|inode| inode.parse().ok());
            kind != "->" && owner == pid.to_string() && inode.is_some_and(|of| files.contains(&of))
        })
    }

    fn kill(&mut self, place: usize) {
        self.processes[place].kill().expect("it can be killed");
        self.processes[place].wait().expect("it was killed");
    }
}

/// Returns whether all threads of a process are stopped.
fn is_suspended(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("it is there");
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_none_or(|rest| rest.is_empty() || rest.starts_with('T'))
    })
}

impl Drop for Service {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // It may have ended.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

#[test]
fn a_submitted_run_ends_as_it_does_in_the_foreground() {
    let flow = "[step.a]\nrun = 'echo out; echo x=7 >> \"$WINDLASS_OUTPUT\"'\n\
        [step.b]\nafter = ['a']\nrun = 'test {a.x} = 7'\nlock = 'deploy'\nfinally = 'echo cleaned >> log'\n\
        [step.c]\nafter = ['b']\nwhen = 'false'\nrun = 'exit 1'\n\
        [step.d]\nafter = ['b']\nrun = 'exit 3'\nretry = { count = 1, delay = '1ms' }\n\
        [on]\nfailure = 'echo $WINDLASS_FAILED >> log'\n";
    let service = Service::with(flow, "2");
    let run = service.submit(&[]);
    service.wait(&run, 1);
    let shown = service.shown(&["show", &run]);
    for (step, state) in [("a", "success"), ("b", "success"), ("c", "skipped"), ("d", "failed")] {
        let line =
            shown.lines().find(|line| line.starts_with(&format!("{step} "))).expect("a line");
        assert!(line.contains(state), "{shown}");
    }
    assert_eq!(service.bench.read("log"), "cleaned\nd\n");
    assert_eq!(service.shown(&["log", &format!("{run}/a")]), "out\n");
    let holders = service.shown(&["holders", "--json"]);
    assert!(!holders.contains("deploy"), "the lock was given back: {holders}");
}

#[test]
fn a_decision_survives_the_scheduler_that_has_not_taken_it() {
    let flow = "[step.a]\nguard = 'ok'\nrun = 'touch ran'\n\
        [guard.ok]\ncondition = 'false'\nretry = { max = 9, interval = '1h' }\n";
    let mut service = Service::with(flow, "1");
    let run = service.submit(&[]);
    eventually("it waits", || service.shown(&["why", &run]).contains("to decide it now"));
    service.suspend(0);
    let step = format!("{run}/a");
    assert!(service.bench.call(&["approve", &step]).status.success());
    let refused = service.bench.call(&["reject", &step]);
    assert!(stderr(&refused).contains("was approved already, by "), "{}", stderr(&refused));
    service.kill(0);
    service.start(&["serve", "--no-worker"]);
    service.wait(&run, 0);
    assert!(service.bench.path("ran").exists());
}

#[test]
fn a_service_waits_for_a_suspended_writer_and_its_steps_go_on() {
    let flow = "[step.a]\nrun = 'touch begun; until test -e go; do sleep 0.01; done; seq 1 100000; touch printed'\n\
        [step.b]\nafter = ['a']\nrun = 'touch ran'\n";
    let mut service = Service::with(flow, "2");
    let run = service.submit(&[]);
    service.bench.await_file("begun");
    let blocker = block(&service.bench);
    service.bench.write("go", "");
    // That is ten times what a pipe holds.
    service.bench.await_file("printed");
    let said = |place: usize| service.bench.read(&format!("said-{place}"));
    eventually("the worker tells it", || said(1).contains(&told(&blocker)));
    // The scheduler has nothing to write before another process asks it for something.
    let standby = service.start(&["serve", "--no-worker"]);
    let said = |place: usize| service.bench.read(&format!("said-{place}"));
    eventually("a scheduler tells it", || said(standby).contains(&told(&blocker)));
    signal(&service.processes[standby], Signal::TERM);
    assert!(service.processes[standby].wait().expect("it ends").success(), "{}", service.said());
    unblock(blocker);
    service.wait(&run, 0);
    assert!(service.bench.path("ran").exists());
    assert_eq!(service.shown(&["log", &format!("{run}/a")]).lines().count(), 100_000);
    assert!(service.said().contains("the store can be used again"), "{}", service.said());
}

#[test]
fn a_worker_that_cannot_write_ends_with_a_second_signal_and_its_steps_are_tried_again() {
    let flow = "[step.a]\nrun = 'touch begun; until test -e go; do sleep 0.01; done'\n\
        [step.b]\nrun = 'echo $$ >> pids; touch waits; until test -e again; do sleep 0.01; done'\n";
    let mut service = Service::with(flow, "2");
    let run = service.submit(&[]);
    service.bench.await_file("begun");
    service.bench.await_file("waits");
    let blocker = block(&service.bench);
    service.bench.write("go", "");
    let said = || service.bench.read("said-1");
    eventually("the worker tells it", || said().contains(&told(&blocker)));
    signal(&service.processes[1], Signal::TERM);
    eventually("it drains", || said().contains("takes no new"));
    signal(&service.processes[1], Signal::TERM);
    assert_eq!(
        service.processes[1].wait().expect("it ends").code(),
        Some(69),
        "{}",
        service.said()
    );
    unblock(blocker);
    service.bench.write("again", "");
    service.start(&["worker", "--name", "one", "--slots", "2"]);
    service.wait(&run, 0);
    let pids = service.bench.read("pids");
    assert_eq!(pids.lines().count(), 2, "only what was interrupted ran again: {pids}");
}

#[test]
fn a_run_that_no_scheduler_leads_waits_with_that_reason() {
    let mut service = Service::new("[step.a]\nrun = 'true'\n");
    let output = service.bench.call(&["submit", "flow.toml"]);
    assert!(stderr(&output).contains("no scheduler is running"), "{}", stderr(&output));
    let run = stdout(&output).trim().to_owned();
    assert!(service.shown(&["ps"]).contains("queued"), "{}", service.shown(&["ps"]));
    let why = service.shown(&["why", &run]);
    assert!(why.contains("no scheduler is running; start one with: windlass serve"), "{why}");
    service.start(&["serve", "--no-worker"]);
    eventually("led", || service.said().contains(&format!("leads run {run}")));
    let why = service.shown(&["why", &run]);
    assert!(why.contains("no worker is running; start one with: windlass worker"), "{why}");
    service.start(&["worker", "--name", "one"]);
    service.wait(&run, 0);
}

#[test]
fn steps_take_the_environment_of_their_submission_along_and_nothing_else() {
    let flow = "pass_env = ['OF_FILE', 'UNSET']\n\
        [step.a]\nrun = 'echo $HOME/$NAMED/$OF_FILE/${UNSET-}/${OTHER-} > seen'\n";
    let service = Service::with(flow, "1");
    let mut submit = service.bench.command(&["submit", "flow.toml", "--env", "NAMED"]);
    submit.env("HOME", "/home/of/submitter").env("NAMED", "named").env("OTHER", "other");
    submit.env("OF_FILE", "of the file").env_remove("UNSET");
    let output = submit.output().expect("the binary runs");
    service.wait(stdout(&output).trim(), 0);
    assert_eq!(service.bench.read("seen"), "/home/of/submitter/named/of the file//\n");
}

#[test]
fn a_scheduler_that_is_killed_interrupts_no_step() {
    let flow =
        "[step.a]\nrun = 'echo $$ > pid; until test -e go; do sleep 0.02; done; echo $$ >> pid'\n";
    let mut service = Service::with(flow, "1");
    let run = service.submit(&[]);
    service.bench.await_file("pid");
    service.kill(0);
    service.bench.write("go", "");
    assert!(service.shown(&["ps"]).contains("queued"), "{}", service.shown(&["ps"]));
    service.start(&["serve", "--no-worker"]);
    service.wait(&run, 0);
    let pids = service.bench.read("pid");
    let pids: Vec<_> = pids.lines().collect();
    assert!(pids.len() == 2 && pids[0] == pids[1], "one process went on: {pids:?}");
}

#[test]
fn a_worker_that_is_killed_loses_its_step_which_is_tried_again_without_using_up_a_retry() {
    let flow = "[step.a]\nrun = 'echo $WINDLASS_ATTEMPT >> tries; until test -e go; do sleep 0.02; done'\n";
    let mut service = Service::with(flow, "1");
    let run = service.submit(&[]);
    service.bench.await_file("tries");
    service.kill(1);
    service.start(&["worker", "--name", "one", "--slots", "1"]);
    eventually("tried again", || service.bench.read("tries").lines().count() == 2);
    service.bench.write("go", "");
    service.wait(&run, 0);
    assert_eq!(service.bench.read("tries"), "1\n2\n");
    let said = service.said();
    assert!(said.contains("1 step of its last life was lost"), "{said}");
}

#[test]
fn one_scheduler_leads_and_another_takes_over_when_it_ends() {
    let flow = "[step.a]\nrun = 'touch began; until test -e go; do sleep 0.02; done'\n";
    let mut service = Service::with(flow, "1");
    let run = service.submit(&[]);
    service.bench.await_file("began");
    let standby = service.start(&["serve", "--no-worker"]);
    let said = |service: &Service, place: usize| service.bench.read(&format!("said-{place}"));
    eventually("standing by", || said(&service, standby).contains("stands by"));
    service.kill(0);
    eventually("taken over", || said(&service, standby).contains(&format!("leads run {run}")));
    service.bench.write("go", "");
    service.wait(&run, 0);
}

#[test]
fn a_worker_that_gets_a_signal_ends_once_its_steps_have() {
    let flow = "[step.a]\nrun = 'touch began; until test -e go; do sleep 0.02; done; echo done > end'\n\
        [step.b]\nafter = ['a']\nrun = 'true'\n";
    let mut service = Service::with(flow, "1");
    let run = service.submit(&[]);
    service.bench.await_file("began");
    signal(&service.processes[1], Signal::TERM);
    eventually("draining", || service.shown(&["workers"]).contains("draining"));
    service.bench.write("go", "");
    let ended = service.processes[1].wait().expect("it can be waited for");
    assert!(ended.success(), "{ended}\n{}", service.said());
    assert_eq!(service.bench.read("end"), "done\n");
    eventually("taken in", || service.shown(&["ps"]).contains("1/2"));
    assert!(!service.shown(&["workers"]).contains("one"), "{}", service.shown(&["workers"]));
    service.start(&["worker", "--name", "two"]);
    service.wait(&run, 0);
}

#[test]
fn a_second_worker_of_the_same_name_is_refused() {
    let service = Service::with("[step.a]\nrun = 'true'\n", "1");
    eventually("ready", || service.shown(&["workers"]).contains("up"));
    let second = service.bench.ends_with(75, &["worker", "--name", "one"]);
    assert!(
        stderr(&second).contains("a worker named one is already running"),
        "{}",
        stderr(&second)
    );
    service.bench.ends_with(2, &["worker", "--name", "../one"]);
}

/// A display of a run, of which standard error is read.
struct Attached {
    process: Child,
    stderr: BufReader<ChildStderr>,
    said: String,
}

impl Attached {
    /// Attaches to a run, and waits until `line` is shown.
    fn until(service: &Service, run: &str, line: &str) -> Self {
        let mut command = service.bench.command(&["attach", run]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("the binary runs");
        let mut stderr = BufReader::new(process.stderr.take().expect("it is piped"));
        let mut said = String::new();
        while !said.contains(line) {
            assert!(stderr.read_line(&mut said).expect("it is text") > 0, "{said}");
        }
        Self { process, stderr, said }
    }

    /// Waits for its end. Returns its exit code, what it has printed, and what it has said.
    fn end(mut self) -> (Option<i32>, String, String) {
        self.stderr.read_to_string(&mut self.said).expect("it is text");
        let output = self.process.wait_with_output().expect("it ends");
        (output.status.code(), stdout(&output), self.said)
    }
}

#[test]
fn attach_shows_a_run_until_it_ends_and_ends_as_it_does() {
    let flow = "[step.a]\nrun = 'echo hello; until test -e go; do sleep 0.02; done'\n\
        [step.b]\nafter = ['a']\nrun = 'exit 4'\n";
    let service = Service::with(flow, "1");
    let run = service.submit(&[]);
    let attached = Attached::until(&service, &run, "a: started");
    service.bench.write("go", "");
    let (code, printed, said) = attached.end();
    assert_eq!((code, printed.as_str()), (Some(1), "a | hello\n"), "{said}");
    for line in ["a: succeeded", "b: failed", "exit code 4", "1 succeeded, 1 failed"] {
        assert!(said.contains(line), "{line}: {said}");
    }
    service.bench.ends_with(1, &["attach", &run]);
}

#[test]
fn a_signal_ends_attach_and_not_the_run() {
    let flow = "[step.a]\nrun = 'until test -e go; do sleep 0.02; done'\n";
    let service = Service::with(flow, "1");
    let run = service.submit(&[]);
    let attached = Attached::until(&service, &run, "a: started");
    signal(&attached.process, Signal::INT);
    let (code, _, said) = attached.end();
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains(&format!("to attach: windlass attach {run}")), "{said}");
    service.bench.write("go", "");
    service.wait(&run, 0);
}

#[test]
fn the_json_of_the_service_matches_the_schema() {
    let service = Service::with("[step.a]\nrun = 'true'\n", "1");
    let submitted = service.shown(&["submit", "flow.toml", "--json"]);
    eventually("ready", || service.shown(&["workers"]).contains("up"));
    let lines = [
        ("submitted", submitted),
        ("worker", service.shown(&["workers", "--json"])),
        ("ended", service.shown(&["wait", "last", "--json"])),
    ];
    for (event, line) in lines {
        assert!(line.contains(&format!(r#""event":"{event}""#)), "{line}");
        check_line(&line);
    }
}

#[test]
fn a_submitted_run_is_cancelled_approved_and_retried_from_any_terminal() {
    let flow = "[guard.ok]\ncondition = 'false'\n[step.a]\nguard = 'ok'\nrun = 'test -e fixed'\n\
        [step.b]\nrun = 'touch began; sleep 600'\n";
    let service = Service::with(flow, "2");
    let run = service.submit(&[]);
    eventually("at the guard", || {
        service.shown(&["why", &run]).contains("guard ok has not passed")
    });
    service.bench.await_file("began");
    service.bench.ends_with(0, &["approve", &format!("{run}/a")]);
    eventually("it failed", || service.shown(&["show", &run]).contains("failed"));
    service.bench.ends_with(0, &["resume", "--detach", &run]);
    service.bench.ends_with(0, &["cancel", &format!("{run}/b")]);
    service.wait(&run, 1);
    service.bench.write("fixed", "");
    let retried = service.bench.start(&["retry", &run, "--step", "a"]);
    eventually("at the guard again", || {
        service.shown(&["why", &run]).contains("guard ok has not passed")
    });
    service.bench.call(&["approve", &format!("{run}/a")]);
    let output = retried.wait_with_output().expect("it ends");
    assert!(stderr(&output).contains("a: succeeded"), "{}", stderr(&output));
    assert!(service.shown(&["show", &run]).contains("cancelled"), "b stays as it was");
}

#[test]
fn runs_share_the_slots_of_the_workers_in_turn() {
    let flow =
        "[step.s]\neach.n = ['1', '2', '3']\nrun = 'flock -n slot sleep 0.05 || touch overlap'\n";
    let service = Service::with(flow, "1");
    let runs: Vec<_> = (0..3).map(|_| service.submit(&[])).collect();
    for run in &runs {
        service.wait(run, 0);
    }
    assert!(!service.bench.path("overlap").exists(), "one slot was used by two steps at once");
}

#[test]
fn a_lock_is_held_across_a_submitted_step_and_a_script() {
    let flow = "[step.a]\nlock = 'x'\nrun = 'touch began; until test -e go; do sleep 0.02; done; echo a >> order'\n";
    let service = Service::with(flow, "1");
    let run = service.submit(&[]);
    service.bench.await_file("began");
    service.bench.ends_with(75, &["lock", "-n", "x", "--", "true"]);
    let waiting = service.bench.start(&["lock", "x", "--", "sh", "-c", "echo script >> order"]);
    eventually("it waits", || service.shown(&["holders", "x"]).contains("wanted"));
    service.bench.write("go", "");
    assert!(waiting.wait_with_output().expect("it ends").status.success());
    service.wait(&run, 0);
    assert_eq!(service.bench.read("order"), "a\nscript\n");
}

#[test]
fn run_detach_starts_a_scheduler_and_a_worker_that_outlive_it() {
    let bench = Bench::new();
    bench.write("flow.toml", "[step.a]\nrun = 'echo done > end'\n");
    let output = bench.ends_with(0, &["run", "--detach", "flow.toml"]);
    let run = stdout(&output).trim().to_owned();
    bench.ends_with(0, &["wait", &run]);
    assert_eq!(bench.read("end"), "done\n");
    bench.ends_with(0, &["run", "--detach", "flow.toml"]);
    assert!(bench.call(&["wait", "last"]).status.success());
    let log = bench.read("state/serve.log");
    assert_eq!(log.matches("schedules the submitted runs").count(), 1, "one scheduler: {log}");
    end_background_service(&bench);
}

/// Ends a scheduler that a verb has started, and its worker. Both would end by themselves after ten minutes.
pub(crate) fn end_background_service(bench: &Bench) {
    for pid in pids_of(&bench.read("state/serve.log")) {
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

/// Returns the processes that a background scheduler names in its log, and its own.
fn pids_of(log: &str) -> Vec<rustix::process::Pid> {
    let named = log.split("(process ").skip(1).filter_map(|rest| rest.split(')').next());
    named.filter_map(|pid| rustix::process::Pid::from_raw(pid.parse().ok()?)).collect()
}
