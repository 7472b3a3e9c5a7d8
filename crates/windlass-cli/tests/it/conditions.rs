//! What steps wait for, what they have to ensure, and what follows them in any case.

use std::process::Output;

use crate::bench::{Bench, eventually, runs, signal, stderr, stdout};
use rustix::process::Signal;

/// Runs a workflow, and checks that its messages contain these words in this order.
#[track_caller]
fn check(flow: &str, code: i32, told: &[&str]) -> Bench {
    let (bench, output) = Bench::run_ends_with(code, flow);
    check_told(&output, told);
    bench
}

#[track_caller]
fn check_told(output: &Output, told: &[&str]) {
    let said = stderr(output);
    let mut rest = said.as_str();
    for words in told {
        let at = rest.find(words).unwrap_or_else(|| panic!("{words:?} is missing in\n{said}"));
        rest = &rest[at + words.len()..];
    }
}

#[test]
fn a_step_that_is_not_needed_is_skipped_and_those_after_it_run() {
    let flow = "[step.a]\nrun = 'touch a'\nwhen = 'false'\n\
        [step.b]\nafter = ['a']\nrun = 'touch b'\nwhen = 'true'\n\
        [step.c]\nafter = { a = 'failed' }\nrun = 'touch c'";
    let bench = check(flow, 0, &["a: skipped", "b: succeeded", "succeeded in"]);
    assert!(!bench.path("a").exists() && bench.path("b").exists() && !bench.path("c").exists());
}

#[test]
fn whether_a_step_is_needed_may_depend_on_what_came_before() {
    let flow = "[step.a]\nrun = 'echo go=no > \"$WINDLASS_OUTPUT\"'\n\
        [step.b]\nafter = ['a']\nrun = 'touch b'\nwhen = 'test {a.go} = yes'\n\
        [step.c]\nafter = ['a']\nrun = 'touch c'\nwhen = 'test {a.go} = no'";
    let bench = check(flow, 0, &["b: skipped"]);
    assert!(!bench.path("b").exists() && bench.path("c").exists());
}

#[test]
fn a_when_that_cannot_be_carried_out_fails_the_step() {
    let flow = "[step.a]\nrun = 'touch a'\nwhen = 'no-such-command'";
    let bench = check(flow, 1, &["a: failed: when: command not found"]);
    assert!(!bench.path("a").exists());
    let killed = "[step.a]\nrun = 'touch a'\nwhen = 'kill -9 $$'";
    check(killed, 1, &["a: failed: when: ended by signal 9"]);
}

#[test]
fn a_guard_passes_when_its_event_comes() {
    let bench = Bench::new();
    bench.write(
        "flow.toml",
        "[step.a]\nrun = 'touch a'\nguard = 'ok'\n\
         [guard.ok]\ncondition = 'echo no guest; test -f ok'\nwake_on = ['came:*']\n\
         retry = { max = 1, interval = '1h' }",
    );
    let child = bench.start(&["run", "flow.toml"]);
    eventually("it waits", || waiting(&bench) == 1);
    bench.write("ok", "");
    assert!(bench.call(&["emit", "came:guest"]).status.success());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", stderr(&output));
    check_told(&output, &["a: waits for guard ok: exit code 1: no guest", "a: succeeded"]);
    assert_eq!(waiting(&bench), 0);
}

/// Returns the number of steps that wait for guards.
fn waiting(bench: &Bench) -> usize {
    let Ok(mut store) = windlass_server::Store::open(&bench.path("state")) else { return 0 };
    let Ok(runs) = std::fs::read_dir(bench.path("state/runs")) else { return 0 };
    let ids = runs.filter_map(|run| run.ok()?.file_name().into_string().ok());
    let waits = |id: String| {
        store.read(|transaction| transaction.steps().guard_waits(&id)).unwrap_or_default()
    };
    ids.map(waits).map(|waits| waits.iter().filter(|wait| wait.checks > 0).count()).sum()
}

#[test]
fn approve_and_reject_decide_about_the_guard_of_a_step() {
    let flow = "[on]\nescalate = 'echo \"$WINDLASS_GUARD $WINDLASS_STEP\" >> asked'\n\
        [step.a]\nrun = 'touch a'\nguard = 'ok'\n[step.b]\nrun = 'touch b'\nguard = 'ok'\n\
        [guard.ok]\ncondition = 'false'\ntimeout = '1ms'\non_timeout = 'escalate'";
    let bench = Bench::new();
    bench.write("flow.toml", flow);
    let child = bench.start(&["run", "flow.toml"]);
    eventually("both wait", || bench.read("asked").lines().count() == 2);
    let run = bench.run_id();
    assert!(bench.call(&["approve", &format!("{}/a", &run[..4])]).status.success());
    assert!(bench.call(&["reject", &format!("{run}/b")]).status.success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let asks = format!("decide with: windlass approve {run}/a, or windlass reject {run}/a");
    assert!(stderr(&output).contains(&asks), "{}", stderr(&output));
    check_told(&output, &["b: failed: guard ok: rejected"]);
    assert!(bench.path("a").exists() && !bench.path("b").exists());
    let mut asked: Vec<_> = bench.read("asked").lines().map(str::to_owned).collect();
    asked.sort();
    assert_eq!(asked, ["ok a", "ok b"]);
    let again = stderr(&bench.ends_with(0, &["approve", &format!("{run}/a")]));
    assert!(again.starts_with(&format!("already approved in run {run}: a (guard ok")), "{again}");
    let other = stderr(&bench.ends_with(2, &["reject", &format!("{run}/a")]));
    assert!(other.contains("approved"), "{other}");
}

#[test]
fn a_guard_with_on_timeout_fail_fails_the_step() {
    let flow = "[step.a]\nrun = 'true'\nguard = 'g'\n[step.b]\nafter = ['a']\nrun = 'true'\n\
        [guard.g]\ncondition = 'echo no; false'\nretry = { max = 2, interval = '5ms' }\non_timeout = 'fail'";
    let why = "a: failed: guard g: did not pass in 3 checks; last check: exit code 1: no";
    check(flow, 1, &[why, "b: blocked: a failed"]);
}

#[test]
fn waiting_for_a_guard_takes_no_slot() {
    let flow = "concurrency = 1\n\
        [step.waits]\nrun = 'true'\nguard = 'g'\npriority = 9\n[step.opens]\nrun = 'touch open'\n\
        [guard.g]\ncondition = 'test -f open'\nretry = { max = 1000, interval = '5ms' }";
    check(flow, 0, &["opens: succeeded", "waits: started"]);
}

#[test]
fn what_a_step_has_to_ensure_holds_before_it_has_succeeded() {
    let flow = "concurrency = 1\n\
        [step.a]\nrun = 'touch begun'\nensure = ['up']\nlock = 'x'\n\
        [step.other]\nrun = 'touch up'\nafter = []\n\
        [step.b]\nafter = ['a']\nrun = 'test -f up'\n\
        [guard.up]\ncondition = 'test -f up'\nretry = { max = 1000, interval = '5ms' }";
    check(flow, 0, &["a: started", "a: succeeded", "b: started"]);
    let fails = "[step.a]\nrun = 'echo x >> ran'\nensure = 'no'\nretry = { count = 2, delay = '1ms' }\n\
        [guard.no]\ncondition = 'false'\nretry = { max = 1, interval = '1ms' }\non_timeout = 'fail'";
    let bench = check(fails, 1, &[", attempt 3 of 3: guard no: did not pass in 2 checks"]);
    assert_eq!(bench.read("ran"), "x\nx\nx\n", "it is a failure like any other");
}

#[test]
fn finally_follows_the_last_attempt_and_no_other() {
    let flow = "[step.a]\nrun = 'exit 1'\nretry = { count = 2, delay = '1ms' }\n\
        finally = 'echo \"a $WINDLASS_ATTEMPT\" >> record'\n\
        [step.b]\nrun = 'true'\nfinally = 'echo b >> record'\n\
        [step.c]\nafter = ['a']\nrun = 'true'\nfinally = 'echo never >> record'";
    let bench = check(flow, 1, &[", attempt 3 of 3: exit code 1"]);
    let mut record: Vec<_> = bench.read("record").lines().map(str::to_owned).collect();
    record.sort();
    assert_eq!(record, ["a 3", "b"]);
}

#[test]
fn dependents_wait_for_finally_and_a_bad_one_fails_the_step() {
    let flow = "[step.a]\nrun = 'true'\nfinally = 'sleep 0.05; touch done'\nlock = 'x'\n\
        [step.b]\nafter = ['a']\nrun = 'test -f done'\n\
        [step.c]\nrun = 'true'\nfinally = 'exit 4'";
    check(flow, 1, &[": finally: exit code 4"]);
}

#[test]
fn finally_runs_when_a_step_times_out_is_cancelled_or_interrupted() {
    let late = "[step.a]\nrun = 'sleep 100'\ntimeout = '50ms'\nfinally = 'echo once >> record'";
    let bench = check(late, 1, &[": timed out after 50ms"]);
    assert_eq!(bench.read("record"), "once\n");

    let flow = "[step.a]\nrun = 'touch begun; sleep 100'\nfinally = 'echo once >> record'";
    for cancel in [true, false] {
        let bench = Bench::new();
        bench.write("flow.toml", flow);
        let child = bench.start(&["run", "flow.toml"]);
        bench.await_file("begun");
        if cancel {
            assert!(bench.call(&["cancel", &bench.run_id()]).status.success());
        } else {
            signal(&child, Signal::INT);
        }
        let output = child.wait_with_output().expect("it ends");
        let code = if cancel { 3 } else { 130 };
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert_eq!(bench.read("record"), "once\n");
        // Nothing is left to do for a step that was cleaned up after.
        let again = bench.call(&["cancel", &bench.run_id()]);
        assert_eq!(again.status.code(), Some(if cancel { 2 } else { 0 }), "{}", stderr(&again));
        assert_eq!(bench.read("record"), "once\n");
    }
}

/// Returns a run of `flow` that was killed once a step had made `begun`.
fn killed(flow: &str) -> Bench {
    let bench = Bench::new();
    bench.write("flow.toml", flow);
    let mut child = bench.start(&["run", "flow.toml"]);
    bench.await_file("begun");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    bench.write("go", "");
    bench
}

const COMMAND_HANGS: &str = "[step.a]\n\
    run = 'echo ran >> record; test -f go || { touch begun; sleep 100; }'\n\
    finally = 'echo cleaned >> record'\n\
    [step.b]\nafter = ['a']\nrun = 'true'";

#[test]
fn a_step_that_was_killed_runs_again_before_what_follows_in_any_case() {
    let bench = killed(COMMAND_HANGS);
    assert!(bench.call(&["resume", &bench.run_id()]).status.success());
    assert_eq!(bench.read("record"), "ran\nran\ncleaned\n");
}

#[test]
fn a_killed_run_makes_up_for_what_follows_in_any_case() {
    let flow = "[step.a]\nrun = 'echo ran >> record'\n\
        finally = 'echo cleaning >> record; test -f go || { touch begun; sleep 100; }; echo cleaned >> record'";
    let bench = killed(flow);
    bench.ends_with(0, &["resume", &bench.run_id()]);
    assert_eq!(bench.read("record"), "ran\ncleaning\ncleaning\ncleaned\n");
}

#[test]
fn cancelling_one_step_of_a_killed_run_leaves_the_others_alone() {
    let bench = killed(COMMAND_HANGS);
    let run = bench.run_id();
    bench.ends_with(0, &["cancel", &format!("{run}/b")]);
    assert_eq!(bench.read("record"), "ran\n", "a is not over, and was not interrupted");
    bench.ends_with(0, &["cancel", &run]);
    assert_eq!(bench.read("record"), "ran\ncleaned\n");
}

#[test]
fn hooks_are_called_once_at_the_end() {
    let flow = "[on]\nsuccess = 'echo \"won $WINDLASS_OUTCOME\" >> record'\n\
        failure = 'echo \"lost $WINDLASS_OUTCOME: $WINDLASS_FAILED\" >> record'\n\
        [step.a]\nrun = 'test -f good'\n[step.b]\nafter = ['a']\nrun = 'true'";
    let bench = check(flow, 1, &[]);
    assert_eq!(bench.read("record"), "lost failed: a\n");
    bench.write("good", "");
    assert!(bench.call(&["retry", &bench.run_id()]).status.success());
    assert_eq!(bench.read("record"), "lost failed: a\nwon succeeded\n");
    let broken = "[on]\nsuccess = 'exit 7'\n[step.a]\nrun = 'true'";
    check(broken, 0, &["on.success: exit code 7"]);
}

#[test]
fn a_hook_that_exceeds_its_timeout_is_terminated_and_reported() {
    let deaf = r#"trap "touch asked; exit" TERM; while :; do sleep 0.01; done"#;
    let flow = format!("[on]\ntimeout = '1s'\nsuccess = '{deaf}'\n[step.a]\nrun = 'true'");
    let (bench, output) = Bench::run_ends_with(0, &flow);
    assert!(bench.path("asked").exists());
    let said = "on.success: timed out after 1s; its output: ";
    assert!(stderr(&output).contains(said), "{}", stderr(&output));
}

#[test]
fn timeouts_are_reported_in_the_form_of_all_durations() {
    let flow = "[on]\ntimeout = '1234ms'\nfailure = 'sleep 600'\n\
        [step.a]\nrun = 'sleep 600'\ntimeout = '1234ms'";
    check(flow, 1, &["a: failed", ": timed out after 1.23s", "on.failure: timed out after 1.23s;"]);
}

#[test]
fn hooks_see_the_variables_of_the_file() {
    let flow = "[params]\nv = 'x'\n[env]\nTARGET = 'to-{v} of {name}'\nOWN = '{step}'\n\
        [defaults]\nenv = { ONLY = 'steps' }\n\
        [on]\nsuccess = 'echo \"$TARGET ${OWN-none} ${ONLY-none}\" >> record'\n\
        [step.a]\nrun = 'echo \"$TARGET $OWN $ONLY\" >> record'";
    let bench = check(flow, 0, &[]);
    assert_eq!(bench.read("record"), "to-x of flow a steps\nto-x of flow none none\n");
}

#[test]
fn a_hook_that_runs_is_named_by_ps_and_why() {
    for (key, code, hook) in [("success", 0, "on.success"), ("failure", 1, "on.failure")] {
        let bench = Bench::new();
        let hold = "touch called; until test -e go; do sleep 0.01; done";
        let flow = format!("[on]\n{key} = '{hold}'\n[step.a]\nrun = 'exit {code}'\n");
        bench.write("flow.toml", &flow);
        let child = bench.start(&["run", "flow.toml"]);
        bench.await_file("called");
        let (ps, why) = (bench.call(&["ps"]), bench.call(&["why", "last"]));
        bench.write("go", "");
        assert!(stdout(&ps).trim_end().ends_with(&format!("hook {hook}")), "{}", stdout(&ps));
        let told = format!("no step of run {} waits; running: hook {hook}\n", bench.run_id());
        assert_eq!(stderr(&why), told, "{}", stdout(&why));
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
    }
}

#[test]
fn a_cancel_ends_a_hook_that_does_not_end() {
    let bench = Bench::new();
    let hook = "[on]\ntimeout = '1h'\nsuccess = 'touch called; sleep 600'\n";
    bench.write("flow.toml", &format!("{hook}[step.a]\nrun = 'true'"));
    let child = bench.start(&["run", "flow.toml"]);
    bench.await_file("called");
    bench.ends_with(0, &["cancel", "last"]);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "its steps had succeeded: {}", stderr(&output));
    check_told(&output, &["on.success: ended by signal 15"]);
}

#[test]
fn a_guard_that_fails_at_once_is_not_waited_for() {
    let flow = "[step.a]\nrun = 'true'\nguard = 'g'\n\
        [guard.g]\ncondition = 'false'\nretry = { max = 0, interval = '1h' }\non_timeout = 'fail'";
    let (_, output) = Bench::run(flow);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    check_told(
        &output,
        &["a: failed: guard g: did not pass its only check; last check: exit code 1"],
    );
    assert!(!stderr(&output).contains("waits for"), "{}", stderr(&output));
}

#[test]
fn steps_find_their_items_in_a_variable() {
    let flow = "concurrency = 8\n[resource]\ngpu = { items = ['a', 'b'], env = 'GPU' }\n\
        [step.one]\neach = { n = [1, 2, 3, 4, 5, 6] }\nuse = { gpu = 1 }\n\
        run = 'mkdir \"$GPU\"; sleep 0.02; rmdir \"$GPU\"'\n\
        [step.both]\nuse = { gpu = 2 }\nrun = 'echo \"$GPU\"'";
    let (_, output) = Bench::run(flow);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("both | a,b\n"), "{}", stdout(&output));
}

#[test]
fn a_check_that_is_given_up_does_not_outlive_the_run() {
    for side in ["ensure", "guard"] {
        for cancel in [true, false] {
            let flow = format!(
                "[step.a]\nrun = 'true'\n{side} = 'g'\n\
                 [guard.g]\ncondition = 'sleep 600 & echo $! > new; mv new pid; wait'\n"
            );
            let bench = Bench::new();
            bench.write("flow.toml", &flow);
            let mut run = bench.start(&["run", "flow.toml"]);
            bench.await_file("pid");
            match cancel {
                true => assert!(bench.call(&["cancel", &bench.run_id()]).status.success()),
                false => signal(&run, Signal::INT),
            }
            let code = run.wait().expect("it can be waited for").code();
            assert_eq!(code, Some(if cancel { 3 } else { 130 }), "{side}");
            assert!(!runs(&bench.read("pid")), "{side}, cancelled: {cancel}");
        }
    }
}
