//! Choosing steps, trying again, cancelling.

use crate::bench::{Bench, eventually, stderr, stdout};

const CHAIN: &str = "[step.a]\nrun = 'echo a >> record'\n\
    [step.b]\nafter = ['a']\nrun = 'echo b >> record; test -f good'\n\
    [step.c]\nafter = ['b']\nrun = 'echo c >> record'\n\
    [step.d]\nrun = 'echo d >> record'\n";

#[test]
fn chosen_steps_run_with_what_they_need_and_nothing_else() {
    let bench = Bench::new();
    bench.write("flow.toml", CHAIN);
    bench.write("good", "");
    assert!(bench.call(&["run", "flow.toml", "b"]).status.success());
    assert_eq!(bench.read("record"), "a\nb\n");
}

#[test]
fn so_many_steps_run_at_once_as_was_asked_for() {
    let bench = Bench::new();
    let flow = "concurrency = 8\n[step.a]\neach = { n = [1, 2, 3, 4] }\n\
        run = 'mkdir busy; sleep 0.02; rmdir busy'";
    bench.write("flow.toml", flow);
    bench.ends_with(0, &["run", "flow.toml", "-j", "1"]);
    assert_eq!(bench.call(&["run", "flow.toml", "-j", "0"]).status.code(), Some(2));
}

#[test]
fn a_retry_does_again_what_failed_and_what_follows_it() {
    let bench = Bench::new();
    bench.write("flow.toml", CHAIN);
    assert_eq!(bench.call(&["run", "flow.toml", "-j", "1"]).status.code(), Some(1));
    let run = bench.run_id();
    let ran: Vec<_> = bench.read("record").lines().map(str::to_owned).collect();
    assert_eq!(ran.len(), 3, "a, b and d: {ran:?}");
    bench.write("good", "");
    bench.write("record", "");
    let refused = bench.ends_with(2, &["retry", &run, "--step", "a"]);
    assert!(stderr(&refused).contains("has neither failed nor was it cancelled"));
    bench.ends_with(0, &["retry", &run[..5]]);
    assert_eq!(bench.read("record"), "b\nc\n");
    let done = bench.call(&["retry", &run]);
    assert!(stderr(&done).contains("nothing in run"), "{}", stderr(&done));
    assert_eq!(bench.call(&["resume", &run]).status.code(), Some(0), "it has ended well again");
}

#[test]
fn a_step_that_follows_several_that_are_tried_again_changes_its_state_once() {
    let bench = Bench::new();
    let flow = "[step.a]\neach = { n = [1, 2, 3] }\nrun = 'test -f good'\n\
        [step.b]\nafter = ['a']\nrun = 'true'\n";
    bench.write("flow.toml", flow);
    assert_eq!(bench.call(&["run", "flow.toml"]).status.code(), Some(1));
    bench.write("good", "");
    let output = bench.call(&["retry", "last"]);
    let told = stderr(&output);
    let of_b: Vec<_> = told.lines().filter(|line| line.starts_with("b: ")).collect();
    assert_eq!(of_b[..2], ["b: will run again", "b: started"], "{told}");
    assert_eq!(told.matches("will run again").count(), 4, "{told}");
    assert!(output.status.success(), "{told}");
}

#[test]
fn a_retried_run_restores_all_retries_and_counts_its_attempts_with_the_earlier_ones() {
    let bench = Bench::new();
    bench.write("flow.toml", "[step.a]\nrun = 'exit 3'\nretry = { count = 1, delay = '1ms' }\n");
    let attempts = |arguments: &[&str]| {
        let told = stderr(&bench.call(arguments));
        let started = told.lines().filter_map(|line| line.strip_prefix("a: started, attempt "));
        let started: Vec<_> = started.map(str::to_owned).collect();
        assert!(
            told.contains(&format!("attempt {}: exit code 3", started.last().unwrap())),
            "{told}"
        );
        started
    };
    assert_eq!(attempts(&["run", "flow.toml"]), ["2 of 2"]);
    assert_eq!(attempts(&["retry", "last"]), ["3 of 4", "4 of 4"]);
    let shown = stdout(&bench.call(&["show"]));
    assert!(shown.contains("failed  4/4"), "{shown}");
    let why = stdout(&bench.call(&["why", "last/a"]));
    assert!(why.contains("(attempt 4 of 4): exit code 3"), "{why}");
}

/// All changes are shown at once.
#[test]
fn a_retried_step_that_is_blocked_again_names_the_reason() {
    let bench = Bench::new();
    let flow = "[step.a]\nrun = 'true'\ndir = 'none'\n[step.b]\nafter = ['a']\nrun = 'true'";
    bench.write("flow.toml", flow);
    assert_eq!(bench.call(&["run", "flow.toml"]).status.code(), Some(1));
    let output = bench.call(&["retry", "last"]);
    let told = stderr(&output);
    assert!(told.contains("b: will run again\n"), "{told}");
    assert!(told.contains("b: blocked: a failed\n"), "{told}");
}

#[test]
fn a_cancelled_run_ends_its_steps_and_can_be_tried_again() {
    let bench = Bench::new();
    let flow = "[step.a]\nrun = 'test -f go || { touch begun; sleep 100; }'\n\
        [step.b]\nafter = ['a']\nrun = 'touch b'";
    bench.write("flow.toml", flow);
    let child = bench.start(&["run", "flow.toml"]);
    bench.await_file("begun");
    let run = bench.run_id();
    bench.ends_with(0, &["cancel", &run[..6]]);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert_eq!(bench.call(&["resume", &run]).status.code(), Some(3), "it has ended");
    bench.write("go", "");
    assert!(bench.call(&["retry", &run]).status.success());
    assert!(bench.path("b").exists());
}

#[test]
fn one_step_can_be_cancelled_and_the_others_run() {
    let bench = Bench::new();
    let flow = "[step.a]\nrun = 'touch begun; sleep 100'\n\
        [step.b]\nafter = { a = 'done' }\nrun = 'touch b'";
    bench.write("flow.toml", flow);
    let child = bench.start(&["run", "flow.toml"]);
    bench.await_file("begun");
    let run = bench.run_id();
    let unknown = bench.ends_with(2, &["cancel", &format!("{run}/aa")]);
    assert!(stderr(&unknown).contains("no step \"aa\""), "{}", stderr(&unknown));
    assert!(bench.call(&["cancel", &format!("{run}/a")]).status.success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(bench.path("b").exists());
}

/// A step that follows the failed one may be under way in a run that was killed.
#[test]
fn a_run_that_has_not_ended_is_not_retried_but_resumed() {
    let bench = Bench::new();
    let flow = "[step.a]\nrun = 'test -f good'\n\
        [step.b]\nafter = { a = 'failed' }\nrun = 'true'\n\
        finally = 'test -f good || { touch begun; sleep 100; }'";
    bench.write("flow.toml", flow);
    let mut child = bench.start(&["run", "flow.toml"]);
    bench.await_file("begun");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    bench.write("good", "");
    let run = bench.run_id();
    let refused = bench.ends_with(2, &["retry", &run]);
    assert!(stderr(&refused).contains(&format!("windlass resume {run}")), "{}", stderr(&refused));
    assert_eq!(bench.call(&["resume", &run]).status.code(), Some(1), "a has failed");
    bench.ends_with(0, &["retry", &run]);
}

#[test]
fn an_interrupted_run_is_cancelled_by_the_caller() {
    let bench = Bench::new();
    let flow = "[step.a]\nrun = 'touch begun; sleep 100'\n[step.b]\nafter = ['a']\nrun = 'true'";
    bench.write("flow.toml", flow);
    let mut child = bench.start(&["run", "flow.toml"]);
    bench.await_file("begun");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let run = bench.run_id();
    assert_eq!(bench.call(&["cancel", &format!("{run}/c")]).status.code(), Some(2));
    let output = bench.ends_with(0, &["cancel", &format!("{run}/b")]);
    assert!(stderr(&output).contains("2 steps\n"), "none has ended before: {}", stderr(&output));
    assert!(stderr(&output).contains("b: cancelled"), "{}", stderr(&output));
    let output = bench.ends_with(0, &["cancel", &run]);
    assert!(stderr(&output).contains("2 steps, 1 done before\n"), "{}", stderr(&output));
    assert!(stderr(&output).contains("a: cancelled"), "{}", stderr(&output));
    assert_eq!(bench.call(&["resume", &run]).status.code(), Some(3));
}

#[test]
fn a_step_that_waits_for_a_lock_names_the_holder() {
    let bench = Bench::new();
    bench.write("flow.toml", "[step.a]\nlock = 'x'\nrun = 'true'");
    let script = "touch held; until test -f go; do sleep 0.01; done";
    let holder = bench.start(&["lock", "x", "--", "sh", "-c", script]);
    bench.await_file("held");
    let child = bench.script("\"$WINDLASS\" run flow.toml 2>told").spawn().expect("sh runs");
    eventually("it says so", || bench.read("told").contains("a: waits for lock"));
    bench.write("go", "");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", bench.read("told"));
    let command = format!("command \"sh -c {script}\" (pid {})", holder.id());
    let waits = format!("a: waits for lock \"x\", held by {command}\n");
    assert_eq!(bench.read("told").matches(&waits).count(), 1, "{}", bench.read("told"));
    assert!(holder.wait_with_output().expect("it ends").status.success());
}

/// A group of three steps: one ends at once, and two run until there is a file `go`.
const GROUP: &str = "concurrency = 4\n[step.test]\neach = { os = ['linux', 'macos', 'plan9'] }\n\
    run = 'echo on {os}; test {os} = plan9 || { touch begun-{os}; \
    while ! test -e go; do sleep 0.01; done; }'\n\
    [step.after]\nafter = { test = 'done' }\nrun = 'true'\n";

fn begun_group() -> (Bench, std::process::Child) {
    let bench = Bench::new();
    bench.write("flow.toml", GROUP);
    let child = bench.start(&["run", "flow.toml"]);
    bench.await_file("begun-linux");
    bench.await_file("begun-macos");
    eventually("the third has ended", || {
        stdout(&bench.call(&["show", "last/test[plan9]", "--json"])).contains("\"success\"")
    });
    (bench, child)
}

#[test]
fn a_group_of_steps_is_cancelled_by_its_name() {
    let (bench, child) = begun_group();
    let output = bench.call(&["cancel", "last/test"]);
    let asked = format!("asked run {} to cancel test[linux], test[macos]\n", bench.run_id());
    assert_eq!((stderr(&output), output.status.code()), (asked, Some(0)));
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains(": 2 succeeded, 2 cancelled\n"), "{}", stderr(&output));
    bench.ends_with(2, &["cancel", "last/test"]);
}

#[test]
fn a_group_of_an_interrupted_run_is_cancelled_by_its_name() {
    let (bench, mut child) = begun_group();
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let output = bench.ends_with(0, &["cancel", "last/test"]);
    for step in ["test[linux]: cancelled", "test[macos]: cancelled"] {
        assert!(stderr(&output).contains(step), "{}", stderr(&output));
    }
    let over = bench.ends_with(2, &["cancel", "last/test"]);
    assert!(stderr(&over).contains("has ended already"), "{}", stderr(&over));
    assert!(bench.call(&["resume"]).status.code() == Some(3), "after runs, two were cancelled");
}

#[test]
fn the_logs_of_a_group_are_followed_until_all_of_it_has_ended() {
    let (bench, mut child) = begun_group();
    let log = bench.start(&["log", "last/test", "-f"]);
    bench.write("go", "");
    let output = log.wait_with_output().expect("it ends");
    let told = stdout(&output);
    let mut lines: Vec<_> = told.lines().collect();
    lines.sort_unstable();
    let on = |os: &str| format!("test[{os}] | on {os}");
    assert_eq!(lines, ["linux", "macos", "plan9"].map(on));
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn without_a_name_the_last_interrupted_run_is_resumed() {
    let bench = Bench::new();
    let none = bench.ends_with(2, &["resume"]);
    assert!(stderr(&none).contains("no run is interrupted"), "{}", stderr(&none));
    let flow =
        "[step.a]\nrun = 'echo $WINDLASS_RUN > run; test -e go || { kill -9 $PPID; sleep 99; }'\n";
    bench.write("flow.toml", flow);
    bench.call(&["run", "flow.toml"]);
    let interrupted = bench.read("run");
    bench.write("go", "");
    assert!(bench.call(&["run", "flow.toml"]).status.success(), "a newer one that has ended");
    assert_ne!(bench.read("run"), interrupted);
    bench.ends_with(0, &["resume"]);
    assert_eq!(bench.read("run"), interrupted);
    assert_eq!(bench.call(&["resume"]).status.code(), Some(2), "none is left");
}

/// Two steps wait for a person behind a step that waits for `go`, and one has no guard.
const GUARDED: &str = "concurrency = 4\n[guard.ok]\ncondition = 'false'\n\
    [step.first]\nrun = 'touch begun; while ! test -e go; do sleep 0.01; done'\n\
    [step.ship]\nafter = ['first']\neach = { to = ['eu', 'us'] }\nguard = ['ok']\n\
    run = 'echo {to} >> shipped'\n";

#[test]
fn an_approval_before_the_guard_is_refused_with_the_state_of_the_step() {
    let bench = Bench::new();
    bench.write("flow.toml", GUARDED);
    let mut child = bench.start(&["run", "flow.toml"]);
    bench.await_file("begun");
    let run = bench.run_id();
    let refused = |target: &str, why: &str| {
        for verb in ["approve", "reject"] {
            let output = bench.ends_with(2, &[verb, target]);
            assert_eq!(stderr(&output), format!("windlass: {why}\n"));
        }
    };
    let early = format!(
        "step \"ship[eu]\" of run {run} is not at its guard ok yet; what it waits for: \
         windlass why '{run}/ship[eu]'"
    );
    refused("last/ship", &early);
    refused("last/ship[eu]", &early);
    refused("last/first", &format!("step \"first\" of run {run} has no guard"));

    bench.write("go", "");
    eventually("both are at their guard", || {
        stdout(&bench.call(&["ps"])).contains("ship[eu] (guard ok), ship[us] (guard ok)")
    });
    let why = stdout(&bench.call(&["why"]));
    for step in ["ship[eu] waits\n", "ship[us] waits\n"] {
        assert!(why.contains(step), "{why}");
    }
    let output = bench.ends_with(0, &["approve", "last/ship"]);
    assert_eq!(
        stderr(&output),
        format!("approved in run {run}: ship[eu] (guard ok), ship[us] (guard ok)\n")
    );
    assert!(child.wait().expect("it ends").success());
    let again = stderr(&bench.ends_with(0, &["approve", "last/ship"]));
    assert!(
        again.starts_with(&format!("already approved in run {run}: ship[eu] (guard ok")),
        "{again}"
    );
}

#[test]
fn a_decision_about_an_interrupted_run_is_refused_instead_of_being_lost() {
    let bench = Bench::new();
    let flow = "[guard.ok]\ncondition = 'false'\n[step.before]\nguard = ['ok']\nrun = 'true'\n\
        [step.behind]\nensure = ['ok']\nrun = 'true'\n";
    bench.write("flow.toml", flow);
    let wait = || {
        eventually("both wait", || {
            let now = stdout(&bench.call(&["ps"]));
            now.contains("waiting: before (guard ok), behind (guard ok)")
        });
    };
    let mut child = bench.start(&["run", "flow.toml"]);
    wait();
    child.kill().expect("it runs");
    child.wait().expect("it was killed");
    let run = bench.run_id();
    for step in ["before", "behind"] {
        let output = bench.ends_with(2, &["approve", &format!("last/{step}")]);
        let why = format!("the run is interrupted; to resume: windlass resume {run}\n");
        assert!(stderr(&output).ends_with(&why), "{}", stderr(&output));
    }
    let why = stdout(&bench.call(&["why"]));
    assert!(why.contains("guard ok has not passed") && !why.contains("approve"), "{why}");

    let child = bench.start(&["resume"]);
    wait();
    for step in ["before", "behind"] {
        assert!(bench.call(&["approve", &format!("last/{step}")]).status.success());
    }
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", stderr(&output));
}
