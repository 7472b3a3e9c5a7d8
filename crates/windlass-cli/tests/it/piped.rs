//! Workflows that lie in no file: standard input, pipes, descriptors.

use std::fs;
use std::io::Write;
use std::process::{Output, Stdio};

use crate::bench::{Bench, stderr, stdout};

const FLOW: &str = "name = 'piped'\n[step.a]\nrun = 'pwd -P'\n[step.b]\nafter = ['a']\n\
                    run = 'pwd -P; echo b >> record; test -e go'\n";

/// Calls the binary with this text to read.
fn given(bench: &Bench, arguments: &[&str], text: &str) -> Output {
    let mut command = bench.command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    child.stdin.take().expect("it is piped").write_all(text.as_bytes()).expect("it is read");
    child.wait_with_output().expect("it ends")
}

/// Returns what steps print that print their directory.
fn here(bench: &Bench, steps: &[&str]) -> String {
    let dir = fs::canonicalize(bench.path(".")).expect("it is there");
    steps.iter().map(|step| format!("{step} | {}\n", dir.display())).collect()
}

#[test]
fn steps_of_a_workflow_without_a_directory_run_in_that_of_the_caller() {
    for file in ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"] {
        let bench = Bench::new();
        bench.write("go", "");
        let output = given(&bench, &["run", file], FLOW);
        assert!(output.status.success(), "{file}: {}", stderr(&output));
        assert_eq!(stdout(&output), here(&bench, &["a", "b"]), "{file}");
    }
}

#[test]
fn a_redirected_file_has_no_directory() {
    let bench = Bench::new();
    fs::create_dir(bench.path("sub")).expect("it can be made");
    bench.write("sub/flow.toml", FLOW);
    bench.write("go", "");
    for file in ["-", "/dev/stdin"] {
        let script = format!("\"$WINDLASS\" run {file} < sub/flow.toml");
        let output = bench.script(&script).output().expect("it runs");
        assert!(output.status.success(), "{file}: {}", stderr(&output));
        assert_eq!(stdout(&output), here(&bench, &["a", "b"]), "{file}");
    }
}

#[test]
fn a_named_pipe_has_no_directory() {
    let bench = Bench::new();
    fs::create_dir(bench.path("sub")).expect("it can be made");
    bench.write("flow.toml", FLOW);
    bench.write("go", "");
    let script = "mkfifo sub/pipe; cat flow.toml > sub/pipe & \"$WINDLASS\" run sub/pipe; wait";
    let output = bench.script(script).output().expect("it runs");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), here(&bench, &["a", "b"]));
}

#[test]
fn a_run_that_came_through_a_pipe_is_tried_again_where_it_ran() {
    let bench = Bench::new();
    let output = given(&bench, &["run", "-"], FLOW);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    bench.write("go", "");
    fs::create_dir(bench.path("elsewhere")).expect("it can be made");
    let mut retry = bench.command(&["retry", "last"]);
    let output = retry.current_dir(bench.path("elsewhere")).output().expect("the binary runs");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), here(&bench, &["b"]));
    assert_eq!(bench.read("record"), "b\nb\n");
}

#[test]
fn standard_input_is_checked_and_drawn_and_called_so() {
    let bench = Bench::new();
    let output = given(&bench, &["check", "-"], FLOW);
    assert_eq!(stderr(&output), "standard input: 2 steps, no errors\n");
    assert_eq!(stdout(&given(&bench, &["graph", "-"], FLOW)), "* a\n`-* b\n");
    let output = given(&bench, &["check", "-"], "[step.a]\nrun = 1\n");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--> -:2:7"), "{}", stderr(&output));
    let output = given(&bench, &["guard", "-", "ready"], FLOW);
    assert_eq!(output.status.code(), Some(2));
    let said = "standard input has no guard \"ready\"; it has none";
    assert!(stderr(&output).contains(said), "{}", stderr(&output));
    assert!(!bench.path("state").exists() && !bench.path("record").exists());
}

#[test]
fn a_guard_of_standard_input_is_checked_where_the_command_was_called() {
    let bench = Bench::new();
    bench.write("here", "");
    let flow =
        "[guard.ready]\ncondition = 'test -e here'\n[step.a]\nguard = ['ready']\nrun = 'a'\n";
    let output = given(&bench, &["guard", "-", "ready", "--wait", "0s"], flow);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), "ready: passed\n"));
}

#[test]
fn a_run_from_a_pipe_resumes_in_its_first_directory() {
    let bench = Bench::new();
    let flow = "[step.a]\nrun = 'pwd -P >> record; touch begun; test -e go || sleep 600'\n";
    bench.write("flow.toml", flow);
    let mut command = bench.command(&["run", "-"]);
    command.stdin(fs::File::open(bench.path("flow.toml")).expect("it is there"));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
    bench.await_file("begun");
    child.kill().expect("it can be killed");
    child.wait().expect("it was killed");
    bench.write("go", "");
    fs::create_dir(bench.path("elsewhere")).expect("it can be made");
    let mut resume = bench.command(&["resume", "last"]);
    let output = resume.current_dir(bench.path("elsewhere")).output().expect("the binary runs");
    assert!(output.status.success(), "{}", stderr(&output));
    let dir = fs::canonicalize(bench.path(".")).expect("it is there");
    assert_eq!(bench.read("record"), format!("{0}\n{0}\n", dir.display()));
}
