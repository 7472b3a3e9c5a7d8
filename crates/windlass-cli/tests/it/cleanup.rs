//! What `finally` does to a run that is interrupted, killed, resumed or cancelled.

use std::process::{Child, Output};

use crate::bench::{Bench, signal, stderr, stdout};
use rustix::process::Signal;

/// The first `finally` of its step waits until it is killed, unless there is a file `fast`.
const HANGS: &str = "[step.pay]\nrun = 'echo paid >> record'\ngrace = '10ms'\n\
    finally = 'echo cleaning >> record; test -f fast || { touch begun; sleep 100; }'\n\
    [step.ship]\nafter = ['pay']\nrun = 'echo shipped >> record'\n\
    [on]\nfailure = 'echo failed >> record'\n";

/// Returns a run of `flow` that has made `begun`.
fn begun(flow: &str) -> (Bench, Child) {
    let bench = Bench::new();
    bench.write("flow.toml", flow);
    let child = bench.start(&["run", "flow.toml"]);
    bench.await_file("begun");
    (bench, child)
}

#[track_caller]
fn interrupt(child: Child, with: Signal, code: i32) -> Output {
    signal(&child, with);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
    output
}

/// Resumes the run of `bench`, until it has made `begun` again.
fn resume_until_begun(bench: &Bench) -> Child {
    std::fs::remove_file(bench.path("begun")).expect("it was made");
    let child = bench.start(&["resume", &bench.run_id()]);
    bench.await_file("begun");
    child
}

#[track_caller]
fn check_resumes(bench: &Bench, code: i32, record: &str) {
    bench.write("fast", "");
    bench.ends_with(code, &["resume", &bench.run_id()]);
    assert_eq!(bench.read("record"), record);
}

#[test]
fn a_finally_that_a_signal_ends_is_repeated_by_resume_and_its_command_is_not() {
    for (with, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let (bench, child) = begun(HANGS);
        interrupt(child, with, code);
        assert_eq!(bench.read("record"), "paid\ncleaning\n");
        check_resumes(&bench, 0, "paid\ncleaning\ncleaning\nshipped\n");
    }
}

#[test]
fn a_finally_that_was_killed_and_then_interrupted_is_repeated_again() {
    let (bench, mut child) = begun(HANGS);
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    interrupt(resume_until_begun(&bench), Signal::TERM, 143);
    check_resumes(&bench, 0, "paid\ncleaning\ncleaning\ncleaning\nshipped\n");
}

#[test]
fn an_interrupted_finally_gives_back_the_locks_of_its_step() {
    let (bench, child) = begun(&HANGS.replace("grace", "lock = 'till'\ngrace"));
    interrupt(child, Signal::TERM, 143);
    bench.ends_with(0, &["lock", "till", "--wait", "0s", "--", "true"]);
}

#[test]
fn a_finally_that_fails_after_resume_fails_its_step() {
    let (bench, child) = begun(&HANGS.replace("}'", "}; exit 4'"));
    interrupt(child, Signal::TERM, 143);
    check_resumes(&bench, 1, "paid\ncleaning\ncleaning\nfailed\n");
}

#[test]
fn a_failed_step_whose_finally_was_interrupted_fails_after_resume() {
    let (bench, child) = begun(&HANGS.replace(">> record'\ngrace", ">> record; exit 3'\ngrace"));
    interrupt(child, Signal::TERM, 143);
    check_resumes(&bench, 1, "paid\ncleaning\ncleaning\nfailed\n");
}

#[test]
fn a_finally_that_runs_is_named_by_ps_why_and_show() {
    let (bench, child) = begun(HANGS);
    let looks = [&["ps"][..], &["show"], &["why", "last/pay"]];
    let [ps, show, why] = looks.map(|arguments| stdout(&bench.call(arguments)));
    interrupt(child, Signal::TERM, 143);
    assert!(ps.trim_end().ends_with("pay (finally)"), "{ps}");
    assert!(
        show.lines().any(|line| line.starts_with("pay") && line.ends_with("finally runs")),
        "{show}"
    );
    assert!(
        why.starts_with("pay has been running for ") && why.contains("; its finally runs"),
        "{why}"
    );
    let ps = stdout(&bench.call(&["ps"]));
    assert!(!ps.contains("finally"), "it does not run any more: {ps}");
}

/// Of a step whose command and whose `finally` have printed something.
#[test]
fn a_failure_because_of_finally_is_reported_with_the_log_of_finally() {
    let flow = "[step.a]\nrun = 'echo ordinary'\nfinally = 'echo disaster; exit 4'\n";
    for mode in ["prefix", "group", "raw", "quiet", "live"] {
        let bench = Bench::new();
        bench.write("flow.toml", flow);
        let output = bench.ends_with(1, &["run", "flow.toml", "--output", mode]);
        let log = bench.path(&format!("state/runs/{}/1-a.1.finally.log", bench.run_id()));
        let report = format!("finally: exit code 4\n    log: {}\n    disaster\n", log.display());
        assert!(stderr(&output).contains(&report), "{mode}: {}", stderr(&output));
        assert!(!stdout(&output).contains("disaster"), "{mode}: {}", stdout(&output));
    }
    let bench = Bench::new();
    bench.write("flow.toml", flow);
    let told = stdout(&bench.call(&["run", "flow.toml", "--json"]));
    let failed = told.lines().find(|line| line.contains(r#""state":"failed""#));
    assert!(failed.is_some_and(|line| line.contains("/1-a.1.finally.log\"")), "{told}");
}

#[test]
fn finally_follows_an_attempt_once_however_often_its_run_is_interrupted_afterwards() {
    let flow = "concurrency = 2\n[step.a]\nrun = 'exit 1'\nretry = { count = 2, delay = '1h' }\n\
        finally = 'echo cleaned >> record'\n\
        [step.b]\ngrace = '10ms'\nrun = '''\n\
        until \"$WINDLASS\" show --json $WINDLASS_RUN | grep -q retry; do sleep 0.01; done\n\
        touch begun; sleep 100'''\n";
    let (bench, child) = begun(flow);
    interrupt(child, Signal::INT, 130);
    assert_eq!(bench.read("record"), "cleaned\n");
    interrupt(resume_until_begun(&bench), Signal::INT, 130);
    interrupt(resume_until_begun(&bench), Signal::TERM, 143);
    assert_eq!(bench.read("record"), "cleaned\n", "no attempt has run since");
    let shown = bench.call(&["show", &bench.run_id(), "--json"]);
    let shown = stdout(&shown);
    assert!(shown.contains(r#""end":"retry""#), "{shown}");
    bench.ends_with(0, &["cancel", &bench.run_id()]);
    assert_eq!(bench.read("record"), "cleaned\n");
}
