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
