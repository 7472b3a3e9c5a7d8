//! `windlass guard`.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::bench::{Bench, eventually, rounds, runs, signal, stderr, stdout};

fn bench(guard: &str) -> Bench {
    let bench = Bench::new();
    let file =
        format!("[params]\nv = 'x'\n[step.a]\nrun = 'true'\nguard = 'g'\n[guard.g]\n{guard}\n");
    bench.write("flow.toml", &file);
    bench
}

fn check(guard: &str, code: i32, said: &str) {
    let bench = bench(guard);
    let output = bench.call(&["guard", "flow.toml", "g", "--wait", "0s"]);
    assert_eq!(output.status.code(), Some(code), "{guard}: {}", stderr(&output));
    assert!(stderr(&output).contains(said), "{guard}: {}", stderr(&output));
}

#[test]
fn a_check_passes_is_not_yet_or_is_broken() {
    check("condition = 'true'", 0, "g: passed");
    check("condition = 'echo too early >&2; exit 3'", 75, "exit code 3: too early");
    check("condition = 'kill -KILL $$'", 75, "ended by signal 9");
    check("condition = 'no-such-command-anywhere'", 127, "command not found");
    check("condition = './flow.toml'", 126, "cannot execute a command");
    check(
        "condition = 'exit 1'\nretry = { max = 0, interval = '1s' }\non_timeout = 'fail'",
        124,
        "g: did not pass its only check",
    );
    check("condition = 'test {step} = a'", 2, "which has a value only in a step of a run");
}

#[test]
fn a_file_with_guards_alone_is_enough() {
    let bench = Bench::new();
    bench.write(
        "guards.toml",
        "[guard.up]\ncondition = 'true'\n[guard.down]\ncondition = 'false'\n",
    );
    bench.ends_with(0, &["guard", "guards.toml", "up"]);
    let output = bench.ends_with(0, &["check", "guards.toml"]);
    assert_eq!(stderr(&output), "guards.toml: 2 guards, no errors\n");
    for verb in ["run", "graph"] {
        let output = bench.call(&[verb, "guards.toml"]);
        assert_eq!(output.status.code(), Some(2), "{verb}");
        let said = stderr(&output);
        assert!(said.starts_with("error: this workflow has no steps\n"), "{verb}: {said}");
        assert!(!bench.path("state/runs").exists(), "{verb} stores no run");
    }
}

#[test]
fn a_guard_and_its_hook_see_the_variables_of_the_file() {
    let guard = "condition = 'test \"$TARGET\" = to-x'\n[env]\nTARGET = 'to-{v}'\nWHOSE = '{run}'";
    check(guard, 0, "g: passed");
    let asked = "condition = 'false'\nretry = { max = 0, interval = '1s' }\non_timeout = 'escalate'\n\
        [env]\nTARGET = 'to-{v}'\n[on]\nescalate = 'echo \"$TARGET\" > asked.new; mv asked.new asked'";
    let bench = bench(asked);
    let waiting = bench.start(&["guard", "flow.toml", "g"]);
    bench.await_file("asked");
    assert!(bench.call(&["approve", "guard/g"]).status.success());
    assert!(waiting.wait_with_output().expect("it ends").status.success());
    assert_eq!(bench.read("asked"), "to-x\n");
}

#[test]
fn an_unknown_guard_is_answered_with_the_known_ones() {
    let bench = bench("condition = 'true'");
    let output = bench.ends_with(2, &["guard", "flow.toml", "h"]);
    assert!(stderr(&output).contains("it has g"), "{}", stderr(&output));
}

#[test]
fn a_value_never_becomes_a_command() {
    let bench = bench(r#"condition = "test {v} = 'a;touch owned' && test -n '{v}'""#);
    let output = bench.call(&["guard", "flow.toml", "g", "-p", "v=a;touch owned", "--wait", "0s"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!bench.path("owned").exists());
}

#[test]
fn a_check_that_outlives_its_time_is_ended_with_all_its_children() {
    let condition = r#"condition = "trap '' TERM; setsid sleep 600 & echo $! > daemon; sleep 600 & echo $! > child; echo $$ > itself; wait""#;
    let bench = bench(&format!("{condition}\ntimeout = '1s'\non_timeout = 'fail'"));
    bench.ends_with(124, &["guard", "flow.toml", "g"]);
    for name in ["daemon", "child", "itself"] {
        assert!(!runs(&bench.read(name)), "{name}");
    }
}

#[test]
fn what_a_check_leaves_behind_does_not_hold_it_up() {
    let bench = bench(r#"condition = "yes | head -c 20000000; sleep 600 & echo $! > child""#);
    bench.ends_with(0, &["guard", "flow.toml", "g"]);
    assert!(!runs(&bench.read("child")));
}

#[test]
fn a_check_ends_with_the_wait_for_it() {
    let bench = bench("condition = 'echo $$ > itself; exec sleep 600'");
    let began = Instant::now();
    let output = bench.ends_with(75, &["guard", "flow.toml", "g", "--wait", "500ms"]);
    assert!(began.elapsed() < Duration::from_secs(30), "a check by itself may take 60 s");
    assert!(!runs(&bench.read("itself")));
    let said = stderr(&output);
    let (_, limit) = said.split_once("g: not yet: not done within ").expect("it says how long");
    let millis = limit.lines().next().and_then(|limit| limit.strip_suffix("ms"));
    let is_whole = |millis: &str| millis.parse::<u64>().is_ok();
    assert!(millis.is_some_and(is_whole), "a whole number: {said}");
}

#[test]
fn an_escalated_guard_runs_its_hook_once_and_waits_for_a_decision() {
    for (verb, code) in [("approve", 0), ("reject", 1)] {
        let guard = "condition = 'false'\nretry = { max = 0, interval = '1s' }\non_timeout = 'escalate'\n[on]\nescalate = 'echo \"$WINDLASS_GUARD\" >> asked'";
        let bench = bench(guard);
        bench.call(&[verb, "guard/g"]);
        let waiting = bench.start(&["guard", "flow.toml", "g"]);
        bench.await_file("asked");
        let events = stdout(&bench.call(&["events"]));
        assert!(events.starts_with("1\t") && events.ends_with("\tguard:g:escalated\n"), "{events}");
        assert!(bench.call(&[verb, "guard/g"]).status.success());
        let output = waiting.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert_eq!(bench.read("asked"), "g\n", "what was decided before it asked does not count");
    }
}

#[test]
fn a_wait_for_a_guard_ends_with_a_signal() {
    let bench = bench("condition = 'touch begun; false'");
    let waiting = bench.start(&["guard", "flow.toml", "g"]);
    bench.await_file("begun");
    signal(&waiting, Signal::INT);
    let output = waiting.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
}

#[test]
fn no_event_is_lost_between_a_check_and_a_wait() {
    // The guard is not checked again by itself, so only the event can let it pass in time.
    let guard = "condition = 'test -e \"ready-{v}\"'\nwake_on = ['ready:{v}']\nretry = { max = 0, interval = '1h' }";
    let bench = bench(guard);
    let race = |round: usize| {
        let value = format!("v={round}");
        let waiting = bench.start(&["guard", "flow.toml", "g", "-p", &value, "--wait", "50s"]);
        // Sooner or later than its first check, as the machine likes.
        for _ in 0..round % 7 {
            std::thread::yield_now();
            bench.call(&["check", "flow.toml"]);
        }
        bench.write(&format!("ready-{round}"), "");
        bench.ends_with(0, &["emit", &format!("ready:{round}")]);
        let output = waiting.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{round}: {}", stderr(&output));
    };
    (0..rounds(30, 200)).for_each(race);
    eventually("no wake-up is left", || {
        let wakeups = std::fs::read_dir(bench.path("state/wakeups/events")).expect("a directory");
        wakeups.count() == 0
    });
}

#[test]
fn the_hook_of_a_guard_has_a_time_limit() {
    let guard = "condition = 'false'\ntimeout = '50ms'\non_timeout = 'escalate'\n\
        [on]\ntimeout = '1s'\nescalate = 'exec sleep 600'";
    let bench = bench(guard);
    let output = bench.ends_with(75, &["guard", "flow.toml", "g", "--wait", "2s"]);
    let said = "on.escalate: timed out after 1s";
    assert!(stderr(&output).contains(said), "{}", stderr(&output));
}

#[test]
fn a_guard_that_no_process_waits_for_cannot_be_decided() {
    let bench = bench("condition = 'touch begun; false'\nretry = { max = 9, interval = '1h' }");
    let refused = |target: &str, said: &str| {
        for verb in ["approve", "reject"] {
            let output = bench.call(&[verb, target]);
            assert_eq!(output.status.code(), Some(2), "{verb} {target}: {}", stderr(&output));
            assert!(stderr(&output).contains(said), "{verb} {target}: {}", stderr(&output));
        }
    };
    refused("guard/g", "no `windlass guard` waits for \"g\"; decide about the guard of a step");
    bench.write("other.toml", "[guard.site_up]\ncondition = 'false'\n");
    let waiting = bench.start(&["guard", "flow.toml", "g"]);
    let other = bench.start(&["guard", "other.toml", "site_up"]);
    eventually("both wait", || {
        std::fs::read_dir(bench.path("state/guards")).is_ok_and(|dir| dir.count() == 2)
    });
    refused(
        "guard/nobody",
        "no `windlass guard` waits for \"nobody\"; processes wait for g, site_up",
    );
    refused("guard/siteup", "did you mean guard/site_up?");
    signal(&other, Signal::KILL);
    assert_eq!(other.wait_with_output().expect("it was killed").status.code(), None);
    refused("guard/site_up", "processes wait for g");
    assert!(bench.call(&["approve", "guard/g"]).status.success());
    assert!(waiting.wait_with_output().expect("it ends").status.success());
    refused("guard/g", "no `windlass guard` waits for \"g\"");
}
