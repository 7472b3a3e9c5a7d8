//! Answers to newcomers: unknown names, waits, and verbs that come too late.

use rustix::process::Signal;
use serde_json::Value;

use crate::bench::{Bench, eventually, signal, stderr, stdout};

/// Two of three steps of a name fail until there is a file `good`.
const FANNED: &str = "[step.part]\neach = { n = [1, 2, 3] }\nrun = 'echo part {n} said; test {n} = 1 || test -e good'\n\
    [step.whole]\nafter = ['part']\nrun = 'true'\n";

#[track_caller]
fn check_said(bench: &Bench, arguments: &[&str], code: i32, said: &str) {
    let output = bench.call(arguments);
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {told}");
    assert!(told.contains(said), "{arguments:?}: {told}");
}

#[test]
fn an_unknown_name_is_answered_with_the_known_ones() {
    let bench = Bench::new();
    bench.write(
        "flow.toml",
        &format!("[params]\ndepth = 3\nwidth = 4\n{FANNED}").replace("said", "{depth} {width}"),
    );
    check_said(&bench, &["show", "last"], 2, "start one with: windlass run FILE");
    assert_eq!(bench.call(&["run", "flow.toml"]).status.code(), Some(1));
    check_said(
        &bench,
        &["run", "flow.toml", "x"],
        2,
        "has no step \"x\"; its steps are part, whole",
    );
    check_said(&bench, &["why", "last/x"], 2, "has no step \"x\"; its steps are part, whole");
    check_said(&bench, &["cancel", "last/part"], 2, "has ended");
    for verb in ["approve", "reject"] {
        check_said(&bench, &[verb, "last/wohle"], 2, "has no step \"wohle\"; did you mean whole?");
        check_said(&bench, &[verb, "last/whole"], 2, "step \"whole\" of run");
    }
    check_said(&bench, &["run", "flow.toml", "-p", "x=1"], 2, "its parameters are depth, width");
    for verb in ["show", "resume", "retry", "cancel"] {
        check_said(&bench, &[verb, "nobody"], 2, "list runs with: windlass ps, windlass history");
    }
    check_said(&bench, &["resume", "last"], 1, "to retry: windlass retry");
    let why = stdout(&bench.call(&["why", "last/whole"]));
    assert!(why.contains("to retry: windlass retry"), "{why}");
    let help = bench.call(&["help", "run"]);
    assert!(stdout(&help).contains("Run a workflow"), "{}", stderr(&help));
    check_said(&bench, &["holders"], 0, "no locks or semaphores are held or waited for");
}

#[test]
fn the_history_of_an_unknown_workflow_names_the_known_ones() {
    let bench = Bench::new();
    check_said(&bench, &["history"], 0, "no finished runs");
    check_said(&bench, &["history", "x"], 2, "no run of a workflow \"x\"\n");
    for name in ["nightly", "release"] {
        bench.write("flow.toml", &format!("name = '{name}'\n[step.a]\nrun = 'true'\n"));
        assert!(bench.call(&["run", "flow.toml"]).status.success());
    }
    let known = "no run of a workflow \"nosuchflow\"; there are runs of release, nightly\n";
    check_said(&bench, &["history", "nosuchflow"], 2, known);
    check_said(&bench, &["history", "nosuchflow", "--json"], 2, known);
    check_said(&bench, &["history", "nihgtly"], 2, "did you mean nightly?");
    check_said(&bench, &["history", "flows/nightly.toml"], 2, "did you mean nightly?");
}

#[test]
fn a_workflow_whose_runs_have_not_ended_is_known() {
    let bench = Bench::new();
    bench.write("flow.toml", "[step.a]\nrun = 'touch begun; sleep 600'\n");
    let mut child = bench.start(&["run", "flow.toml"]);
    bench.await_file("begun");
    check_said(&bench, &["history", "flow"], 0, "no finished runs of \"flow\"\n");
    signal(&child, Signal::TERM);
    child.wait().expect("it ends");
}

#[test]
fn a_step_in_place_of_a_run_is_answered_with_the_right_command() {
    let bench = Bench::new();
    check_said(&bench, &["retry", "last/x"], 2, "windlass retry last --step x");
    check_said(&bench, &["resume", "last/x"], 2, "windlass resume last");
}

#[test]
fn a_retry_of_a_name_takes_all_of_it_that_failed_and_shows_nothing_old() {
    let bench = Bench::new();
    bench.write("flow.toml", FANNED);
    assert_eq!(bench.call(&["run", "flow.toml"]).status.code(), Some(1));
    let again = bench.ends_with(1, &["retry", "last", "--step", "part", "--output", "prefix"]);
    let shown = stdout(&again);
    let mut lines: Vec<_> = shown.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["part[2] | part 2 said", "part[3] | part 3 said"], "once each");
    bench.write("good", "");
    assert!(bench.call(&["retry", "last", "--step", "part"]).status.success());
    check_said(&bench, &["retry", "last", "--step", "part"], 2, "has neither failed");
}

#[test]
fn a_run_is_shown_though_a_step_was_tried_again_and_again_in_no_time() {
    let bench = Bench::new();
    let retry = "retry = { count = 9, delay = '1ms' }";
    let flow = format!("[step.a]\nrun = 'false'\n{retry}\n[step.b]\nrun = 'sleep 0.5'\n");
    bench.write("flow.toml", &flow);
    assert_eq!(bench.call(&["run", "flow.toml"]).status.code(), Some(1));
    let shown = bench.command(&["show", "last"]).env("COLUMNS", "20").output().expect("it runs");
    assert!(shown.status.success(), "{}", stderr(&shown));
    assert!(stdout(&shown).contains("10/10"), "{}", stdout(&shown));
}

#[test]
fn an_ended_step_of_a_running_run_cannot_be_cancelled() {
    let bench = Bench::new();
    bench.write(
        "flow.toml",
        "[step.a]\nrun = 'true'\n[step.b]\nafter = ['a']\nrun = 'touch begun; sleep 600'\n",
    );
    let child = bench.start(&["run", "flow.toml"]);
    bench.await_file("begun");
    check_said(&bench, &["cancel", "last/a"], 2, "step \"a\" of run");
    check_said(&bench, &["cancel", "last/b"], 0, "asked run");
    child.wait_with_output().expect("it ends");
}

#[test]
fn why_says_that_a_step_was_cancelled_before_its_next_attempt() {
    let bench = Bench::new();
    let flow = "[step.a]\nrun = 'exit 7'\nretry = { count = 1, delay = '1h' }\n";
    bench.write("flow.toml", flow);
    let child = bench.start(&["run", "flow.toml"]);
    eventually("it waits for its retry", || {
        stdout(&bench.call(&["why"])).contains("attempt 2 of 2 starts in ")
    });
    check_said(&bench, &["cancel", "last/a"], 0, "to cancel a\n");
    child.wait_with_output().expect("it ends");
    let why = stdout(&bench.call(&["why"]));
    assert!(why.starts_with("a was cancelled before its next attempt; attempt 1 of 2 ended "));
    assert!(why.contains(": exit code 7\n"), "{why}");
}

#[test]
fn a_waiting_guard_names_the_commands_that_decide_and_its_time_is_on_the_critical_path() {
    let bench = Bench::new();
    let guard = "[guard.ok]\ncondition = 'touch checked; false'\n";
    bench.write("flow.toml", &format!("[step.a]\nguard = ['ok']\nrun = 'true'\n{guard}"));
    let child = bench.start(&["run", "flow.toml"]);
    let told = |verb: &[&str]| stdout(&bench.call(verb));
    eventually("ps tells of it", || told(&["ps"]).contains("waiting: a (guard ok)"));
    eventually("why tells of it", || {
        told(&["why", "last/a"]).contains("to decide it now: windlass approve")
    });
    let since = std::time::Instant::now();
    eventually("it has waited a while", || since.elapsed().as_millis() > 150);
    check_said(&bench, &["approve", "last/a"], 0, "approved in run");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("to decide it now: windlass approve"), "{}", stderr(&output));
    let shown = told(&["show", "last", "--json"]);
    let path: Value = serde_json::from_str(shown.lines().last().expect("a path")).expect("JSON");
    assert!(path["guarded_ms"].as_i64().expect("a time") >= 150, "{path}");
    assert!(path["ms"].as_i64() >= path["guarded_ms"].as_i64(), "{path}");
    assert!(told(&["show", "last"]).contains(" at its guards"), "{}", told(&["show", "last"]));
}

#[test]
fn why_estimates_from_earlier_runs_when_a_lock_is_released() {
    let bench = Bench::new();
    let flow = "name = 'holds'\n[step.h]\nlock = 'shared'\nrun = 'touch begun; test ! -e long || sleep 600; sleep 0.3'\n";
    bench.write("holds.toml", flow);
    bench.write("waits.toml", "[step.w]\nlock = 'shared'\nrun = 'true'\n");
    assert!(bench.call(&["run", "holds.toml"]).status.success());
    // The next one takes longer than usual only after its first 300 ms, so it is asked soon.
    std::fs::remove_file(bench.path("begun")).expect("it was made");
    bench.write("long", "");
    let holder = bench.start(&["run", "holds.toml"]);
    bench.await_file("begun");
    let waiter = bench.start(&["run", "waits.toml"]);
    let why = || stdout(&bench.call(&["why", "last/w"]));
    eventually("the holder is told", || why().contains("/h (pid ") && why().contains(", usually "));
    let refused = bench.ends_with(75, &["lock", "shared", "--wait", "0s", "--", "true"]);
    let said = stderr(&refused);
    assert!(
        said.contains(&format!("/h (pid {})\n", holder.id())) && !said.contains("epoch"),
        "{said}"
    );
    for child in [waiter, holder] {
        signal(&child, Signal::TERM);
        child.wait_with_output().expect("it ends");
    }
}

#[test]
fn why_names_no_lock_that_is_free() {
    let bench = Bench::new();
    bench.write("flow.toml", "[step.w]\nlock = ['kept', 'let-go']\nrun = 'true'\n");
    let hold = |name: &str| {
        let command = format!("touch {name}; exec sleep 600");
        let holder = bench.start(&["lock", name, "--", "sh", "-c", &command]);
        bench.await_file(name);
        holder
    };
    let (keeps, lets_go) = (hold("kept"), hold("let-go"));
    let waiter = bench.start(&["run", "flow.toml"]);
    let why = || stdout(&bench.call(&["why", "last/w"]));
    eventually("both are held", || {
        why().contains("\"kept\" is held by") && why().contains("\"let-go\" is held by")
    });
    signal(&lets_go, Signal::TERM);
    lets_go.wait_with_output().expect("it ends");
    assert!(why().contains("\"kept\" is held by") && !why().contains("let-go"), "{}", why());
    for child in [waiter, keeps] {
        signal(&child, Signal::TERM);
        child.wait_with_output().expect("it ends");
    }
}
