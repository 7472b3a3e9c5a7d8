//! Commands of plain words, which need no shell.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::bench::{Bench, stderr, stdout};

/// Returns a place where `sh` leaves a mark each time it is started.
fn bench() -> Bench {
    let bench = Bench::new();
    fs::create_dir(bench.path("bin")).expect("it can be made");
    write_program(&bench, "bin/sh", "echo \"$*\" >> \"$MARKS\"; exec /bin/sh \"$@\"");
    bench
}

fn write_program(bench: &Bench, name: &str, text: &str) {
    bench.write(name, &format!("#!/bin/sh\n{text}\n"));
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(bench.path(name), mode).expect("it can be made executable");
}

/// Checks how the command ends, and how often it starts a shell.
fn check(run: &str, code: i32, shells: usize) -> String {
    let bench = bench();
    bench.write("flow.toml", &format!("[step.a]\nrun = {run:?}\n"));
    let path = format!("{}:/usr/bin:/bin", bench.path("bin").display());
    let mut command = bench.command(&["run", "flow.toml"]);
    command.env("PATH", path).env("MARKS", bench.path("marks"));
    let output = command.output().expect("it runs");
    let said = stdout(&output) + &stderr(&output);
    match code {
        0 => assert!(output.status.success(), "{run}: {said}"),
        code => assert!(said.contains(&format!("exit code {code}")), "{run}: {said}"),
    }
    assert_eq!(bench.read("marks").lines().count(), shells, "{run}: {}", bench.read("marks"));
    stdout(&output)
}

#[test]
fn a_program_that_is_in_the_path_is_started_without_a_shell() {
    check("sleep 0", 0, 0);
    check("sleep 0.001", 0, 0);
    check("true", 0, 0);
    check("false", 1, 0);
    check("sleep many", 1, 0);
}

#[test]
fn a_program_is_found_in_the_path_of_its_step_without_a_shell() {
    let bench = bench();
    write_program(&bench, "bin/tool", "echo that of the step");
    fs::create_dir(bench.path("other")).expect("it can be made");
    write_program(&bench, "other/tool", "echo that of the run");
    let paths = ["other", "bin"].map(|dir| format!("{}:/usr/bin:/bin", bench.path(dir).display()));
    let [path, own] = &paths;
    bench.write("flow.toml", &format!("[step.a]\nrun = 'tool'\nenv = {{ PATH = '{own}' }}\n"));
    let mut command = bench.command(&["run", "flow.toml"]);
    command.env("PATH", path).env("MARKS", bench.path("marks"));
    let output = command.output().expect("it runs");
    assert_eq!(stdout(&output), "a | that of the step\n", "{}", stderr(&output));
    assert!(!bench.path("marks").exists(), "no shell was started");
}

#[test]
fn what_a_shell_does_itself_keeps_its_meaning() {
    assert_eq!(check(r"echo 'a b'", 0, 1), "a | a b\n");
    check("test 1 = 2", 1, 1);
    check("kill -0 0", 0, 1);
    check("sleep 0; sleep 0", 0, 1);
}

#[test]
fn commands_that_cannot_be_started_fail_with_126_or_127() {
    check("no-such-program-anywhere", 127, 1);
    check("sleeep 1", 127, 1);
}
