//! The tests themselves: what they start does not depend on how they were started, nor outlive them.

use std::env;
use std::process::{Command, Stdio};

use crate::bench::{Bench, eventually, runs, stderr, stdout};

/// Names the file to which the test that is to be killed writes what it has started.
const TO_BE_KILLED: &str = "WINDLASS_TEST_TO_BE_KILLED";

#[test]
fn no_child_ignores_a_signal_that_should_end_it() {
    let bench = Bench::new();
    let status = bench.script("grep SigIgn /proc/self/status").output().expect("sh runs");
    let bits = stdout(&status).split_whitespace().last().map(str::to_owned).expect("a number");
    let ignored = u64::from_str_radix(&bits, 16).expect("a number");
    let ending = [1, 2, 3, 15].map(|signal| 1 << (signal - 1)).iter().sum::<u64>();
    assert_eq!(ignored & ending, 0, "{bits}");
}

#[test]
fn children_handle_signals_that_the_tests_ignore() {
    let tests = env::current_exe().expect("it has a path");
    let ignoring = "trap '' HUP INT QUIT TERM; exec \"$0\" --exact \"$1\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", ignoring]).arg(tests);
    let output = shell.arg("started::no_child_ignores_a_signal_that_should_end_it").output();
    let output = output.expect("sh runs");
    assert!(stdout(&output).contains("1 passed"), "{}{}", stdout(&output), stderr(&output));
}

#[test]
fn what_a_test_has_started_is_killed_with_it() {
    let bench = Bench::new();
    let tests = env::current_exe().expect("it has a path");
    let mut killed = Command::new(tests);
    killed.args(["--exact", "started::a_test_that_waits_to_be_killed"]);
    killed.env(TO_BE_KILLED, bench.path("pid")).stdout(Stdio::null()).stderr(Stdio::null());
    let mut killed = killed.spawn().expect("the tests run");
    eventually("it has started something", || bench.read("pid").ends_with('\n'));
    let pid = bench.read("pid");
    assert!(runs(&pid));
    killed.kill().expect("it can be killed");
    killed.wait().expect("it was killed");
    eventually("nothing is left", || !runs(&pid));
}

/// Ends at once, unless the test above has started it.
#[test]
fn a_test_that_waits_to_be_killed() {
    let Some(file) = env::var_os(TO_BE_KILLED) else { return };
    let bench = Bench::new();
    let mut left = bench.script("setsid sh -c 'echo $$ > \"$0\"; exec sleep 600' \"$FILE\"");
    left.env("FILE", file).status().expect("sh runs");
}
