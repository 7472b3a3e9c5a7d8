//! What a wrapper does for its command, and to it.

use std::process::{Child, Stdio};

use rustix::process::Signal;

use crate::bench::{Bench, eventually, runs, signal, stderr, stdout};

/// Starts `windlass lock x` around a script, and waits until that has made the file `held`.
fn holding(bench: &Bench, options: &[&str], script: &str) -> Child {
    let mut arguments = vec!["lock", "x"];
    arguments.extend(options);
    arguments.extend(["--", "sh", "-c", script]);
    let child = bench.start(&arguments);
    bench.await_file("held");
    child
}

/// Leaves three processes that run for long: itself, one in its group, one in another session.
const FAMILY: &str = "sleep 600 & echo $! > child; setsid sleep 600 & echo $! > daemon; \
    echo $$ > itself; touch held; wait";

fn family(bench: &Bench) -> Vec<String> {
    ["itself", "child", "daemon"].iter().map(|name| bench.read(name)).collect()
}

#[test]
fn whatever_a_killed_wrapper_left_is_ended_before_the_next_begins() {
    let bench = Bench::new();
    let mut holder = holding(&bench, &[], FAMILY);
    let family = family(&bench);
    holder.kill().expect("it can be killed");
    holder.wait().expect("it was killed");
    // One that only waits to be reaped has no command line any more.
    let look = |pid: &String| {
        format!("grep -q . /proc/{}/cmdline 2> /dev/null && echo alive;", pid.trim())
    };
    let alive = family.iter().map(look);
    let script = format!("{} echo $WINDLASS_FENCE", alive.collect::<String>());
    let output = bench.call(&["lock", "x", "--", "sh", "-c", &script]);
    assert_eq!(stdout(&output), "2\n", "{}", stderr(&output));
    assert!(family.iter().all(|pid| !runs(pid)));
}

#[test]
fn a_wrapper_that_is_stopped_for_too_long_loses_its_lock_and_its_command() {
    let bench = Bench::new();
    let holder = holding(&bench, &["--heartbeat-timeout", "500ms"], FAMILY);
    let family = family(&bench);
    signal(&holder, Signal::STOP);
    let output = bench.call(&["lock", "x", "--", "sh", "-c", "echo $WINDLASS_FENCE"]);
    assert_eq!(stdout(&output), "2\n", "{}", stderr(&output));
    assert!(family.iter().all(|pid| !runs(pid)), "all had ended before the next began");
    signal(&holder, Signal::CONT);
    let output = holder.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(75), "{}", stderr(&output));
    assert!(stderr(&output).contains("was lost"), "{}", stderr(&output));
}

#[test]
fn a_waiting_process_notices_at_once_that_a_holder_was_killed() {
    let bench = Bench::new();
    let mut holder = holding(&bench, &["--heartbeat-timeout", "1h"], FAMILY);
    let next = bench.start(&["lock", "x", "--wait", "50s", "--", "true"]);
    eventually("a process waits", || stdout(&bench.call(&["holders"])).contains("wanted by"));
    holder.kill().expect("it can be killed");
    holder.wait().expect("it was killed");
    let output = next.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn past_the_longest_hold_the_command_is_ended_with_all_it_started() {
    let bench = Bench::new();
    let holder = holding(&bench, &["--max-hold", "400ms"], FAMILY);
    let output = holder.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(124), "{}", stderr(&output));
    assert!(family(&bench).iter().all(|pid| !runs(pid)));
    assert!(bench.call(&["lock", "x", "--wait", "0s", "--", "true"]).status.success());
}

#[test]
fn signals_are_passed_on_and_the_command_decides() {
    let bench = Bench::new();
    let script =
        "trap 'exit 9' TERM; trap 'touch hup' HUP; touch held; while :; do sleep 0.01; done";
    let holder = holding(&bench, &[], script);
    signal(&holder, Signal::HUP);
    bench.await_file("hup");
    signal(&holder, Signal::TERM);
    let output = holder.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(9), "{}", stderr(&output));
}

#[test]
fn a_suspended_command_ends_with_a_signal_to_its_wrapper() {
    let bench = Bench::new();
    let mut holder = holding(&bench, &[], "touch held; kill -STOP $$");
    eventually("it is suspended", || {
        let holders = stdout(&bench.call(&["holders", "--json"]));
        let pid = holders.split("\"pid\":").nth(1).and_then(|rest| rest.split(',').next());
        let children = pid.map(|pid| format!("/proc/{pid}/task/{pid}/children"));
        let child = children.and_then(|path| std::fs::read_to_string(path).ok());
        let stat = child.map(|child| format!("/proc/{}/stat", child.trim()));
        stat.and_then(|path| std::fs::read_to_string(path).ok()).is_some_and(|s| s.contains(") T "))
    });
    signal(&holder, Signal::TERM);
    assert_eq!(holder.wait().expect("it ends").code(), Some(143));
}

#[test]
fn a_wait_ends_with_a_signal_and_leaves_no_place_in_line() {
    let bench = Bench::new();
    let mut holder = holding(&bench, &[], "touch held; while ! test -e go; do sleep 0.01; done");
    for (sent, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let waiter = bench.start(&["lock", "x", "--", "true"]);
        eventually("a process waits", || stdout(&bench.call(&["holders"])).contains("wanted by"));
        signal(&waiter, sent);
        let output = waiter.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert!(!stdout(&bench.call(&["holders"])).contains("wanted by"));
    }
    bench.write("go", "");
    holder.wait().expect("it ends");
}

/// A process that waits for signals on a thread of its own blocks them in all others, and processes that
/// these start inherit the mask.
#[test]
fn signals_blocked_by_the_parent_are_handled() {
    let bench = Bench::new();
    bench.write("flow.toml", "[step.a]\nrun = 'touch held; sleep 600'\n");
    let lock = "lock x -- sh -c 'touch held; sleep 600'";
    for what in ["run flow.toml", lock] {
        let blocked = format!("exec env --block-signal \"$WINDLASS\" {what}");
        let child = bench.script(&blocked).stderr(Stdio::piped()).spawn().expect("sh runs");
        bench.await_file("held");
        signal(&child, Signal::TERM);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(143), "{what}: {}", stderr(&output));
        std::fs::remove_file(bench.path("held")).expect("it was made");
    }
}

#[test]
fn a_command_killed_by_a_signal_ends_with_128_and_its_number() {
    let bench = Bench::new();
    bench.ends_with(137, &["lock", "x", "--", "sh", "-c", "kill -KILL $$"]);
    assert!(bench.call(&["lock", "x", "--wait", "0s", "--", "true"]).status.success());
}

#[test]
fn locks_within_locks_are_ended_with_the_outer_one() {
    let bench = Bench::new();
    let script = "exec \"$WINDLASS\" lock y -- sh -c 'echo $$ > inner; touch held; sleep 600'";
    let mut holder = holding(&bench, &[], script);
    holder.kill().expect("it can be killed");
    holder.wait().expect("it was killed");
    bench.ends_with(0, &["lock", "x", "--", "true"]);
    assert!(!runs(&bench.read("inner")), "it worked for the outer lock as well");
    bench.ends_with(0, &["lock", "y", "--", "true"]);
}

#[test]
fn bad_usage_is_reported_before_anything_runs() {
    let bench = Bench::new();
    for (arguments, said) in [
        (vec!["lock", "", "--", "true"], "cannot be empty"),
        (vec!["lock", "a\nb", "--", "true"], "contains U+000A, a character that ends the line"),
        (vec!["lock", "a", "release", "--", "true"], "verb"),
        (vec!["lock", "a", "a", "--", "true"], "is named twice"),
        (vec!["lock", "x", "--heartbeat-timeout", "1ms", "--", "true"], "too short"),
        (vec!["lock", "x", "--max-hold", "0s", "--", "true"], "too short"),
        (vec!["lock", "x"], "COMMAND"),
        (vec!["sem", "s", "--", "true"], "--capacity"),
        (vec!["sem", "s", "--capacity", "0", "--", "true"], "at least 1"),
        (
            vec!["sem", "s", "--capacity", "2", "-n", "0", "--", "true"],
            "the weight must be at least 1",
        ),
        (
            vec!["sem", "s", "--capacity", "2", "-n", "4294967295", "--", "true"],
            "exceeds the capacity",
        ),
        (vec!["sem", "s", "--capacity", "-1", "--", "true"], "-1"),
    ] {
        let output = bench.call(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{arguments:?}: {}", stderr(&output));
    }
    let long = "x".repeat(64 << 10);
    bench.ends_with(2, &["lock", &long, "--", "true"]);
    bench.ends_with(0, &["lock", "a/../b 🚀", "--", "true"]);
}

#[test]
fn a_command_under_a_lock_finds_the_store_of_that_lock() {
    let bench = Bench::new();
    let elsewhere = bench.path("elsewhere").display().to_string();
    let check = "exec \"$WINDLASS\" lock check x --token \"$WINDLASS_FENCE\"";
    let mut command = bench.command(&["--state", &elsewhere, "lock", "x", "--", "sh", "-c", check]);
    let output = command.env_remove("WINDLASS_STATE").output().expect("the binary runs");
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
}
