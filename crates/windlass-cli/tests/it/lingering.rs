//! Processes that outlive the process of their step: they have `linger` to end by themselves, and are
//! ended after that.

use std::process::{Child, Output};

use rustix::process::Signal;

use crate::bench::{Bench, eventually, runs, signal, stderr, stdout};
use crate::users::{ALICE, Users};

/// A process that says which it is, and ends when it is asked to.
const POLITE: &str = "trap 'touch asked; exit' TERM; echo $$ > pid; while :; do sleep 0.01; done";
/// A process that says which it is, and ends only by SIGKILL.
const DEAF: &str = "trap '' TERM; echo $$ > pid; while :; do sleep 0.01; done";
/// Starts one of these in the background, and waits until it says which it is.
const LEAVE: &str = "sh rest.sh & until test -s pid; do sleep 0.01; done";

fn with_rest(rest: &str, flow: &str) -> Bench {
    let bench = Bench::new();
    bench.write("rest.sh", rest);
    bench.write("flow.toml", &flow.replace("LEAVE", LEAVE));
    bench
}

/// Starts a run whose step has ended but for a process that it left.
fn lingering(rest: &str, keys: &str) -> (Bench, Child) {
    let bench = with_rest(rest, &format!("[step.a]\nrun = 'LEAVE; echo $$ > main'\n{keys}"));
    let child = bench.start(&["run", "flow.toml"]);
    bench.await_file("main");
    eventually("its own process has ended", || !runs(&bench.read("main")));
    (bench, child)
}

#[track_caller]
fn rest_is_gone(bench: &Bench) {
    assert!(!bench.read("pid").is_empty() && !runs(&bench.read("pid")));
}

#[test]
fn what_a_step_leaves_running_may_finish_before_the_next_step_begins() {
    let (_, output) = Bench::run(
        r#"
[defaults]
linger = "60s"

[step.a]
run = "(sleep 0.3; echo end) & echo begin"

[step.b]
run = "(setsid env -i sh -c 'sleep 0.3; touch done') & true"

[step.c]
after = ["a", "b"]
run   = "test -e done"
"#,
    );
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("a | end\n"), "{}", stdout(&output));
    assert!(!stderr(&output).contains("ended what"), "{}", stderr(&output));
}

#[test]
fn a_process_substitution_of_bash_is_waited_for() {
    let flow = "[defaults]\nlinger = '60s'\nshell = 'bash'\n[step.a]\nrun = 'RUN'\n";
    let flow = flow.replace("RUN", "seq 1 20000 > >(sleep 0.2; sort -n > data)");
    let (bench, _) = Bench::run_ends_with(0, &flow);
    assert_eq!(bench.read("data").lines().count(), 20_000);
}

#[test]
fn what_lingers_for_too_long_is_asked_to_end_and_named() {
    let flow = "[step.a]\nrun = 'LEAVE'\nlinger = '10ms'\ngrace = '1h'";
    let bench = with_rest(POLITE, flow);
    let output = bench.ends_with(0, &["run", "flow.toml"]);
    assert!(bench.path("asked").exists(), "it was asked before it was killed");
    rest_is_gone(&bench);
    let note = format!("ended what it left running: sh ({})", bench.read("pid").trim());
    let said = stderr(&output);
    assert!(said.contains("a: succeeded in ") && said.contains(&format!(": {note}")), "{said}");
    let shown = stdout(&bench.call(&["show", "last"]));
    assert!(shown.contains("ended what it left running: sh ("), "{shown}");
    let shown = stdout(&bench.call(&["show", "last", "--json"]));
    assert!(shown.contains(&format!("\"why\":\"{note}")), "{shown}");
}

#[test]
fn a_failed_step_reports_its_exit_code_and_what_it_left_running() {
    let flow = "[step.a]\nrun = 'LEAVE; exit 3'\nlinger = '0s'\ngrace = '10ms'";
    let bench = with_rest(DEAF, flow);
    let output = bench.ends_with(1, &["run", "flow.toml"]);
    let said = "exit code 3; ended what it left running: sh (";
    assert!(stderr(&output).contains(said), "{}", stderr(&output));
    rest_is_gone(&bench);
}

#[test]
fn a_step_holds_its_lock_while_something_of_it_lingers() {
    let rest = "echo $$ > pid; until test -e go; do sleep 0.01; done";
    let (bench, child) = lingering(rest, "lock = 'x'\nlinger = '1h'");
    let refused = bench.call(&["lock", "x", "--wait", "0s", "--", "true"]);
    assert!(!refused.status.success());
    bench.write("go", "");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", stderr(&output));
    bench.ends_with(0, &["lock", "x", "--wait", "0s", "--", "true"]);
}

#[test]
fn whatever_ends_a_step_also_ends_what_lingers_of_it() {
    let (bench, child) = lingering(POLITE, "linger = '1h'\ngrace = '1h'");
    signal(&child, Signal::INT);
    child.wait_with_output().expect("it ends");
    assert!(bench.path("asked").exists());
    rest_is_gone(&bench);

    let (bench, child) = lingering(POLITE, "linger = '1h'\ngrace = '1h'");
    bench.ends_with(0, &["cancel", "last"]);
    child.wait_with_output().expect("it ends");
    assert!(bench.path("asked").exists());
    rest_is_gone(&bench);

    let (bench, child) = lingering(DEAF, "linger = '1h'\ntimeout = '2s'\ngrace = '10ms'");
    let output = child.wait_with_output().expect("it ends");
    assert!(stderr(&output).contains("timed out after 2s"), "{}", stderr(&output));
    rest_is_gone(&bench);
}

#[test]
fn what_hooks_and_finally_leave_running_may_finish_too() {
    let late = |name: &str| format!("(trap \"\" TERM; sleep 0.3; touch {name}) & true");
    let flow = format!(
        "[step.a]\nrun = 'true'\nlinger = '60s'\nfinally = '{}'\n[on]\nsuccess = '{}'\n",
        late("cleaned"),
        late("hooked"),
    );
    let (bench, _) = Bench::run_ends_with(0, &flow);
    assert!(bench.path("cleaned").exists() && bench.path("hooked").exists());
}

#[test]
fn what_finally_leaves_running_is_named_too() {
    let flow = "[step.a]\nrun = 'true'\nlinger = '0s'\ngrace = '10ms'\nfinally = 'LEAVE'";
    let bench = with_rest(DEAF, flow);
    let output = bench.ends_with(0, &["run", "flow.toml"]);
    let said = "finally: ended what it left running: sh (";
    assert!(stderr(&output).contains(said), "{}", stderr(&output));
    rest_is_gone(&bench);
}

/// Runs a workflow as root, but without the right to signal the processes of others.
fn without_right_to_kill(bench: &Bench, arguments: &str) -> Output {
    let script = format!("exec setpriv --bounding-set=-kill \"$WINDLASS\" {arguments}");
    bench.script(&script).output().expect("sh runs")
}

/// Has a step leave a process of Alice's, and sees that it is executed once.
#[track_caller]
fn is_not_tried_again(keys: &str, end: &str) {
    let Some(users) = Users::new() else { return };
    let bench = &users.bench;
    let leave = format!(
        "setpriv --reuid={ALICE} --clear-groups sh -c 'echo $$ > pid; exec sleep 600' & \
         until test -s pid; do sleep 0.01; done"
    );
    let run = format!("echo $WINDLASS_ATTEMPT >> begun; {leave}; {end}");
    let keys =
        format!("retry = {{ count = 2, delay = '0s' }}\nlinger = '0s'\ngrace = '0s'\n{keys}");
    bench.write("flow.toml", &format!("[step.a]\nrun = \"{run}\"\n{keys}"));
    let output = without_right_to_kill(bench, "run flow.toml");
    let retried = without_right_to_kill(bench, "retry last");
    let pid = bench.read("pid");
    assert!(runs(&pid), "it is another user's: {}", stderr(&output));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let said = format!("processes [{}] ", pid.trim());
    assert!(stderr(&output).contains(&said), "{}", stderr(&output));
    assert_eq!(retried.status.code(), Some(69), "{}", stderr(&retried));
    assert_eq!(bench.read("begun"), "1\n", "{}{}", stderr(&output), stderr(&retried));

    let killed = std::process::Command::new("kill").args(["-9", pid.trim()]).status();
    assert!(killed.is_ok_and(|status| status.success()));
    eventually("it has ended", || !runs(&pid));
}

#[test]
fn a_step_is_not_tried_again_beside_what_it_has_left_to_another_user() {
    is_not_tried_again("", "exit 0");
    is_not_tried_again("timeout = '2s'", "sleep 600");
}

#[test]
fn a_step_is_tried_again_once_what_could_not_be_ended_has_ended_by_itself() {
    let Some(users) = Users::new() else { return };
    let bench = &users.bench;
    let run = format!("echo $$ >> begun; exec setpriv --reuid={ALICE} --clear-groups sleep 3");
    let keys = "retry = { count = 1, delay = '0s' }\ntimeout = '500ms'\ngrace = '0s'\n";
    bench.write("flow.toml", &format!("[step.a]\nrun = \"{run}\"\n{keys}"));
    let output = without_right_to_kill(bench, "run flow.toml");
    assert_eq!(bench.read("begun").lines().count(), 2, "{}", stderr(&output));
    assert!(!stderr(&output).contains("processes ["), "{}", stderr(&output));
}
