//! Pausing runs and steps: what runs may end, nothing starts, and deadlines stand still.

use std::thread;
use std::time::{Duration, Instant};

use super::*;

/// `a` runs until the file `go` exists; `b` follows it; `c` waits for the only slot.
const FLOW: &str = "concurrency = 1\n\
    [step.a]\npriority = 1\nrun = 'touch began; until test -e go; do sleep 0.02; done'\n\
    [step.b]\nafter = ['a']\nrun = 'echo b >> order'\n\
    [step.c]\nrun = 'echo c >> order'\n";

impl Service {
    fn is_shown(&self, arguments: &[&str], text: &str) {
        eventually(&format!("{arguments:?}: {text}"), || self.shown(arguments).contains(text));
    }
}

#[test]
fn a_paused_run_lets_its_steps_end_and_stays_paused_over_a_kill_of_the_scheduler() {
    let mut service = Service::with(FLOW, "2");
    let run = service.submit(&[]);
    service.bench.await_file("began");
    let asked = service.bench.ends_with(0, &["pause", &run]);
    assert_eq!(stderr(&asked), format!("asked run {run} to pause all its steps\n"));
    service.is_shown(&["ps"], "paused");
    service.bench.write("go", "");
    service.is_shown(&["ps"], "1/3");
    service.kill(0);
    service.start(&["serve", "--no-worker"]);
    service.is_shown(&["ps"], &format!("windlass unpause {run}"));
    let shown = service.shown(&["show", &run]);
    for (step, state) in [("a", "success"), ("b", "paused"), ("c", "paused")] {
        let line = shown.lines().find(|line| line.starts_with(step)).expect("a line");
        assert!(line.contains(state), "{shown}");
    }
    let why = service.shown(&["why", &format!("{run}/b")]);
    let reason = format!("the run is paused; to continue: windlass unpause {run}");
    assert_eq!(why, format!("b is paused\n  - {reason}\n"));
    for arguments in [&["ps"][..], &["show", &run], &["why", &run]] {
        let lines = service.shown(&[arguments, &["--json"]].concat());
        assert!(lines.contains(r#""state":"paused""#), "{lines}");
        lines.lines().for_each(check_line);
    }
    assert_eq!(service.bench.read("order"), "", "nothing has started");
    let asked = service.shown(&["unpause", &run, "--json"]);
    assert!(asked.contains(r#""event":"unpause_asked""#), "{asked}");
    check_line(&asked);
    service.wait(&run, 0);
    assert_eq!(service.bench.read("order"), "c\nb\n", "in the order in which they were queued");
    let ended = service.bench.ends_with(2, &["pause", &run]);
    assert!(stderr(&ended).contains("has ended: succeeded"), "{}", stderr(&ended));
}

#[test]
fn a_step_is_paused_by_itself_unless_it_runs() {
    let service = Service::with(FLOW, "2");
    let run = service.submit(&[]);
    service.bench.await_file("began");
    let [a, b] = ["a", "b"].map(|step| format!("{run}/{step}"));
    let refused = service.bench.ends_with(2, &["pause", &a]);
    let why =
        format!("step \"a\" of run {run} is running, and only what has not begun can be paused");
    assert!(stderr(&refused).contains(&why), "{}", stderr(&refused));
    service.bench.ends_with(0, &["pause", &b]);
    service
        .is_shown(&["why", &b], &format!("the step is paused; to continue: windlass unpause {b}"));
    assert!(service.shown(&["why", &b]).contains("a has to succeed first"), "it waits for both");
    service.bench.write("go", "");
    service.is_shown(&["ps"], "2/3");
    assert!(service.shown(&["ps"]).contains("waiting: b (paused)"), "{}", service.shown(&["ps"]));
    service.bench.ends_with(0, &["unpause", &b]);
    service.wait(&run, 0);
    assert_eq!(service.bench.read("order"), "c\nb\n");
}

#[test]
fn a_run_in_the_foreground_is_paused_from_another_terminal() {
    let bench = Bench::new();
    bench.write("flow.toml", FLOW);
    let run_of = bench.start(&["run", "flow.toml"]);
    bench.await_file("began");
    let run = bench.run_id();
    bench.ends_with(0, &["pause", "last"]);
    bench.write("go", "");
    let ps = || stdout(&bench.call(&["ps"]));
    eventually("it is paused", || ps().contains(&format!("windlass unpause {run}")));
    signal(&run_of, Signal::INT);
    let output = run_of.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    let said = stderr(&output);
    assert!(said.contains(&format!("to continue: windlass unpause {run}")), "{said}");
    let refused = bench.ends_with(2, &["unpause", &run]);
    assert!(stderr(&refused).contains("is interrupted"), "{}", stderr(&refused));
    let resumed = bench.start(&["resume", &run]);
    eventually("it is paused again", || ps().contains(&format!("windlass unpause {run}")));
    assert_eq!(bench.read("order"), "");
    bench.ends_with(0, &["unpause", &run]);
    let output = resumed.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(bench.read("order"), "c\nb\n");
}

#[test]
fn the_deadline_of_a_paused_run_stands_still_for_what_runs_too() {
    const DEADLINE: Duration = Duration::from_secs(4);
    let flow = "deadline = '4s'\n[step.a]\nrun = 'touch began; until test -e go; do sleep 0.02; done'\n\
        [step.b]\nafter = ['a']\nrun = 'touch b; sleep 600'\n";
    let service = Service::with(flow, "1");
    let began = Instant::now();
    let run = service.submit(&[]);
    service.bench.await_file("began");
    service.bench.ends_with(0, &["pause", &run]);
    service.is_shown(&["ps"], "paused");
    // The passing of the deadline is what is tested.
    thread::sleep((DEADLINE + Duration::from_secs(1)).saturating_sub(began.elapsed()));
    service.bench.write("go", "");
    service.is_shown(&["ps"], "1/2");
    assert!(service.shown(&["show", &run]).contains("success"), "a was not ended");
    service.bench.ends_with(0, &["unpause", &run]);
    service.bench.await_file("b");
    service.wait(&run, 124);
}

#[test]
fn a_retry_of_a_run_that_ended_while_it_was_paused_starts() {
    let flow =
        "[step.a]\nrun = 'touch began; until test -e go; do sleep 0.02; done; test -e good'\n";
    let service = Service::with(flow, "1");
    let run = service.submit(&[]);
    service.bench.await_file("began");
    service.bench.ends_with(0, &["pause", &run]);
    service.is_shown(&["ps"], "paused");
    service.bench.write("go", "");
    service.wait(&run, 1);
    service.bench.write("good", "");
    service.bench.ends_with(0, &["retry", &run]);
}

/// A step that counts, in a process that its shell has started, in a session of its own.
const COUNTS: &str = "[step.a]\ntimeout = '3s'\n\
    run = 'setsid sh -c \"while ! test -e go; do echo x >> ticks; sleep 0.01; done\" & wait'\n\
    [step.b]\nafter = ['a']\nrun = 'true'\n";

/// Checks that the step counts no more, over a time that is longer than its timeout, and is shown as paused.
fn check_stopped(bench: &Bench, run: &str) {
    let ticks = || bench.read("ticks").lines().count();
    let is_still = || {
        let before = ticks();
        thread::sleep(Duration::from_millis(200));
        ticks() == before
    };
    eventually("it is stopped", is_still);
    let before = ticks();
    // The passing of the timeout is what is tested.
    thread::sleep(Duration::from_secs(4));
    assert_eq!(ticks(), before);
    let why = stdout(&bench.call(&["why", &format!("{run}/a")]));
    assert!(why.starts_with("a is paused\n  - the "), "{why}");
    assert!(stdout(&bench.call(&["ps"])).contains("0/2"), "it has not ended");
}

#[test]
fn a_stopped_run_continues_with_all_of_its_time() {
    let mut service = Service::with(COUNTS, "1");
    let run = service.submit(&[]);
    service.bench.await_file("ticks");
    service.bench.ends_with(0, &["pause", &run, "--stop"]);
    check_stopped(&service.bench, &run);
    // Another scheduler finds the step as it is.
    service.kill(0);
    service.start(&["serve", "--no-worker"]);
    eventually("it leads", || service.said().contains("schedules the submitted runs"));
    service.bench.ends_with(0, &["unpause", &run]);
    let ticks = service.bench.read("ticks");
    eventually("it counts", || service.bench.read("ticks") != ticks);
    service.bench.write("go", "");
    service.wait(&run, 0);
}

#[test]
fn a_stopped_step_is_ended_by_its_timeout_once_it_continues() {
    let service = Service::with(COUNTS, "1");
    let run = service.submit(&[]);
    service.bench.await_file("ticks");
    let step = format!("{run}/a");
    service.bench.ends_with(0, &["pause", &step, "--stop"]);
    check_stopped(&service.bench, &run);
    service.bench.ends_with(0, &["unpause", &step]);
    service.wait(&run, 1);
    assert!(
        service.shown(&["why", &step]).contains("timed out after 3s"),
        "{}",
        service.shown(&["why", &step])
    );
}

#[test]
fn stopped_steps_are_cancelled_and_interrupted_like_others() {
    let service = Service::with(COUNTS, "1");
    let run = service.submit(&[]);
    service.bench.await_file("ticks");
    service.bench.ends_with(0, &["pause", &run, "--stop"]);
    service.is_shown(&["why", &format!("{run}/a")], "a is paused");
    service.bench.ends_with(0, &["cancel", &run]);
    service.wait(&run, 3);

    let bench = Bench::new();
    bench.write("flow.toml", COUNTS);
    let leader = bench.start(&["run", "flow.toml"]);
    bench.await_file("ticks");
    bench.ends_with(0, &["pause", "last", "--stop"]);
    check_stopped(&bench, "last");
    signal(&leader, Signal::INT);
    assert_eq!(leader.wait_with_output().expect("it ends").status.code(), Some(130));
    let resumed = bench.start(&["resume"]);
    eventually("it is paused", || stdout(&bench.call(&["ps"])).contains("windlass unpause"));
    bench.write("go", "");
    bench.ends_with(0, &["unpause", "last"]);
    let output = resumed.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", stderr(&output));
}
