use std::process::{Child, Output};

use rustix::process::Signal;

use crate::bench::{Bench, eventually, runs, signal, stderr, stdout};

/// The second step stops in the middle until there is a file `go`.
const FLOW: &str = r#"
[step.first]
run = "echo first >> record"

[step.second]
after = ["first"]
lock  = "x"
run   = "echo second $WINDLASS_ATTEMPT $WINDLASS_FENCE >> record; echo $$ > pid; touch begun; test -e go || sleep 600"

[step.third]
after = ["second"]
run   = "echo third >> record"
"#;

fn begun(bench: &Bench) -> Child {
    bench.write("flow.toml", FLOW);
    let child = bench.start(&["run", "flow.toml"]);
    bench.await_file("begun");
    child
}

fn resume(bench: &Bench) -> Output {
    bench.write("go", "");
    bench.call(&["resume", &bench.run_id()[..3]])
}

#[test]
fn a_killed_run_resumes_without_repeating_finished_steps() {
    let bench = Bench::new();
    let mut child = begun(&bench);
    child.kill().expect("it can be killed");
    child.wait().expect("it was killed");
    let old = bench.read("pid");
    assert!(runs(&old), "the step itself was not killed");

    let output = resume(&bench);
    assert!(
        output.status.success(),
        "{:?} {} {}",
        output.status,
        stderr(&output),
        bench.read("record")
    );
    assert_eq!(bench.read("record"), "first\nsecond 1 1\nsecond 2 2\nthird\n");
    assert!(!runs(&old), "the old attempt's process was ended first");
}

#[test]
fn a_resumed_step_names_the_interrupted_attempt_that_still_holds_its_lock() {
    let bench = Bench::new();
    let mut child = begun(&bench);
    child.kill().expect("it can be killed");
    child.wait().expect("it was killed");
    let output = resume(&bench);
    assert!(output.status.success(), "{}", stderr(&output));
    let waits = format!(
        "second: waits for lock \"x\", held by attempt 1 of step {}/second, which was interrupted\n",
        bench.run_id()
    );
    assert!(stderr(&output).contains(&waits), "{}", stderr(&output));
}

#[test]
fn an_interrupted_run_ends_its_steps_and_can_be_resumed() {
    let bench = Bench::new();
    let child = begun(&bench);
    signal(&child, Signal::INT);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).contains(&format!("windlass resume {}", bench.run_id())));
    eventually("the step has ended", || !runs(&bench.read("pid")));

    assert!(resume(&bench).status.success());
    assert_eq!(bench.read("record"), "first\nsecond 1 1\nsecond 2 2\nthird\n");
}

#[test]
fn a_run_has_one_leader_at_a_time() {
    let bench = Bench::new();
    let child = begun(&bench);
    let output = bench.ends_with(2, &["resume", &bench.run_id()]);
    assert!(stderr(&output).contains("is still running, led by"), "{}", stderr(&output));
    signal(&child, Signal::TERM);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(143), "{}", stderr(&output));
}

#[test]
fn a_run_that_has_ended_can_be_resumed_and_does_nothing() {
    let bench = Bench::new();
    bench.write("flow.toml", "[step.only]\nrun = 'echo once >> record'\n");
    assert!(bench.call(&["run", "flow.toml"]).status.success());
    assert!(bench.call(&["resume", &bench.run_id()]).status.success());
    assert_eq!(bench.read("record"), "once\n");
}

/// Kills the leader as soon as what was printed is in the log.
const MURDER: &str = "echo from $WINDLASS_ATTEMPT; \
    until test -s ${WINDLASS_OUTPUT%.out}.log; do sleep 0.02; done; \
    test -e go || { kill -9 $PPID; sleep 600; }";

#[test]
fn what_was_logged_before_a_kill_stays_in_the_log() {
    let bench = Bench::new();
    bench.write(
        "flow.toml",
        &format!("[step.quiet]\nrun = 'true'\n[step.only]\nafter = 'quiet'\nrun = '{MURDER}'\n"),
    );
    assert!(!bench.call(&["run", "flow.toml"]).status.success());
    let log =
        |attempt: u32| stdout(&bench.call(&["log", &format!("{}/only@{attempt}", bench.run_id())]));
    assert_eq!(log(1), "from 1\n", "before the run goes on");

    assert!(resume(&bench).status.success());
    assert_eq!((log(1).as_str(), log(2).as_str()), ("from 1\n", "from 2\n"));
    let quiet = bench.call(&["log", &format!("{}/quiet", bench.run_id())]);
    assert_eq!((stdout(&quiet).as_str(), stderr(&quiet).as_str()), ("", ""));
    let run = bench.path("state/runs").join(bench.run_id());
    let mut logs: Vec<_> = std::fs::read_dir(run)
        .expect("it is there")
        .map(|entry| entry.expect("it can be listed").file_name().into_string().expect("plain"))
        .collect();
    logs.sort();
    assert_eq!(logs, ["2-only.1.log", "2-only.2.log", "leader"]);
}

#[test]
fn a_run_that_was_killed_during_its_hook_is_interrupted_until_it_is_resumed() {
    let bench = Bench::new();
    let hook = "echo called >> record; touch begun; test -e go || sleep 600";
    let flow = format!("[on]\nfailure = '{hook}'\n[step.a]\nrun = 'echo ran >> record; exit 3'\n");
    bench.write("flow.toml", &flow);
    let mut child = bench.start(&["run", "flow.toml"]);
    bench.await_file("begun");
    child.kill().expect("it can be killed");
    child.wait().expect("it was killed");
    let run = bench.run_id();
    let listed = stdout(&bench.call(&["ps"]));
    assert!(listed.contains(&run) && listed.contains("interrupted"), "{listed}");
    let shown = stdout(&bench.call(&["show", &run]));
    assert!(shown.contains(&format!("windlass resume {run}")), "{shown}");
    assert!(!stdout(&bench.call(&["history"])).contains(&run));
    let refused = bench.call(&["retry", &run]);
    assert!(stderr(&refused).contains(&format!("windlass resume {run}")), "{}", stderr(&refused));

    bench.write("go", "");
    bench.ends_with(1, &["resume", &run]);
    assert_eq!(bench.read("record"), "ran\ncalled\ncalled\n", "only the hook is called again");
    assert!(stdout(&bench.call(&["history"])).contains(&run));
    assert!(!stdout(&bench.call(&["ps"])).contains(&run));
}

#[test]
fn last_is_the_run_that_was_started_by_hand_and_none_of_its_steps() {
    let bench = Bench::new();
    bench.write("inner.toml", "name = 'inner'\n[step.deep]\nrun = 'true'\n");
    let nested = "[step.a]\nrun = '\"$WINDLASS\" run inner.toml'\n";
    bench.write("flow.toml", &format!("name = 'outer'\n{nested}"));
    bench.ends_with(0, &["run", "flow.toml"]);
    let shown = stdout(&bench.call(&["show", "last"]));
    assert!(shown.contains(": outer succeeded"), "{shown}");
    assert_eq!(stdout(&bench.call(&["history"])).matches("succeeded").count(), 2);

    // A run in another store, or one whose caller only says that it belongs to another, is part of no run.
    let mut alone = bench.command(&["run", "inner.toml"]);
    let output = alone.env("WINDLASS_RUN", "12345678").output().expect("the binary runs");
    assert!(output.status.success(), "{}", stderr(&output));
    let shown = stdout(&bench.call(&["show", "last"]));
    assert!(shown.contains(": inner succeeded"), "{shown}");
}

/// Returns a workflow in which two steps are skipped, and one then kills the leader of its run until there
/// is a file `go`.
fn with_skipped_steps() -> Bench {
    let bench = Bench::new();
    bench.write(
        "flow.toml",
        &format!(
            "[step.ok]\nrun = 'echo fine'\n[step.maybe]\nafter = 'ok'\nwhen = 'false'\nrun = 'true'\n\
             [step.page]\nafter = {{ ok = 'failed' }}\nrun = 'true'\n\
             [step.only]\nafter = ['maybe', 'page']\nrun = '{MURDER}'\n\
             [step.bad]\nafter = 'only'\nrun = 'echo bad; test -e good'\n"
        ),
    );
    assert!(!bench.call(&["run", "flow.toml"]).status.success());
    bench
}

#[test]
fn steps_that_were_skipped_before_are_counted_as_skipped() {
    let bench = with_skipped_steps();
    let resumed = resume(&bench);
    let told = stderr(&resumed);
    assert!(told.contains(": 2 succeeded, 2 skipped, 1 failed\n"), "{told}");
    let retried = bench.call(&["retry", "last", "--json"]);
    let counts = r#""counts":{"succeeded":2,"skipped":2,"failed":0,"blocked":0,"cancelled":0}"#;
    assert!(stdout(&retried).lines().next().is_some_and(|first| first.contains(counts)));
    bench.write("good", "");
    let told = stderr(&bench.call(&["retry", "last"]));
    assert!(told.contains(": 3 succeeded, 2 skipped\n"), "{told}");
}

#[test]
fn output_of_an_attempt_that_was_interrupted_is_not_printed_again() {
    for (mode, expected) in [
        ("prefix", "only | from 2\nbad | bad\n"),
        ("group", "from 2\nbad\n"),
        ("raw", "from 2\nbad\n"),
    ] {
        let bench = with_skipped_steps();
        bench.write("go", "");
        let resumed = bench.call(&["resume", "last", "--output", mode]);
        assert_eq!(stdout(&resumed), expected, "{mode}");
        let told = "only: will run again: attempt 1 was interrupted\n";
        assert_eq!(stderr(&resumed).contains(told), mode != "raw", "{}", stderr(&resumed));
        let retried = bench.call(&["retry", "last", "--output", mode]);
        let of_bad = expected.lines().last().expect("a line");
        assert_eq!(stdout(&retried), format!("{of_bad}\n"), "{mode}");
        assert_eq!(stdout(&bench.call(&["log", "last/only@1"])), "from 1\n", "it is in its log");
    }
}

#[test]
fn a_lost_step_whose_deadline_has_passed_fails_with_that_reason() {
    let bench = Bench::new();
    let flow = format!("deadline = '1s'\n[step.only]\nrun = '{MURDER}'\n");
    bench.write("flow.toml", &flow);
    assert!(!bench.call(&["run", "flow.toml"]).status.success());
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let resumed = resume(&bench);
    assert_eq!(resumed.status.code(), Some(124), "{}", stderr(&resumed));
    assert!(stderr(&resumed).contains("only: failed: past the deadline"), "{}", stderr(&resumed));
    let shown = stdout(&bench.call(&["show", "last"]));
    assert!(shown.contains("past the deadline of the run"), "{shown}");
}
