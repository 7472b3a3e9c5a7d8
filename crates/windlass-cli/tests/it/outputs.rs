//! What steps hand on to those after them.

use std::fs;

use crate::bench::{Bench, stderr, stdout};

#[test]
fn a_value_arrives_unchanged_in_every_context() {
    let (bench, output) = Bench::run(
        r#"
[step.writes]
run = "printf '%s\n' \"text=a 'b' \\\"c\\\" \\$(touch owned); touch owned = *\" > \"$WINDLASS_OUTPUT\""

[step.between]
after = ["writes"]
run   = "true"

[step.shell]
after = ["between"]
run   = "printf '%s' {writes.text} > bare; printf '%s' \"{writes.text}\" > quoted"

[step.list]
after = ["between"]
run   = ["sh", "-c", "printf '%s' \"$1\" > word; printf '%s' \"$V\" > variable", "x", "{writes.text}"]
env   = { V = "{writes.text}" }
"#,
    );
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let value = "a 'b' \"c\" $(touch owned); touch owned = *";
    for file in ["bare", "quoted", "word", "variable"] {
        assert_eq!(bench.read(file), value, "{file}");
    }
    assert!(!bench.path("owned").exists());
}

#[test]
fn a_step_finds_the_place_for_its_output_wherever_it_runs() {
    let bench = Bench::new();
    fs::create_dir_all(bench.path("sub/deep")).expect("a directory");
    let flow = "[step.a]\ndir = 'deep'\nrun = 'echo k=v > \"$WINDLASS_OUTPUT\"'\n\
        [step.b]\nafter = ['a']\nrun = 'test {a.k} = v'\n";
    bench.write("sub/flow.toml", flow);
    let output = bench.call(&["--state", "elsewhere", "run", "sub/flow.toml"]);
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
}

#[test]
fn a_windlass_command_inside_a_run_uses_the_store_of_the_run() {
    let bench = Bench::new();
    fs::create_dir_all(bench.path("sub/deep")).expect("a directory");
    let show = format!("{} show $WINDLASS_RUN", env!("CARGO_BIN_EXE_windlass"));
    let flow = format!(
        "[step.a]\ndir = 'deep'\nwhen = '{show}'\nrun = '{show} > seen'\n\
         [on]\nsuccess = '{show} && touch told'\n"
    );
    bench.write("sub/flow.toml", &flow);
    let output = bench.call(&["--state", "elsewhere", "run", "sub/flow.toml"]);
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    assert!(bench.read("sub/deep/seen").contains("running"), "{}", bench.read("sub/deep/seen"));
    assert!(bench.path("sub/told").exists());
}

#[test]
fn the_output_of_the_attempt_that_succeeded_counts() {
    let (bench, _) = Bench::run_ends_with(
        0,
        r#"
[step.writes]
run   = "echo \"n=$WINDLASS_ATTEMPT\" > \"$WINDLASS_OUTPUT\"; test $WINDLASS_ATTEMPT = 3"
retry = { count = 5, delay = "1ms" }

[step.reads]
after = ["writes"]
lock  = "lock-{writes.n}"
run   = "echo {writes.n} > seen"
"#,
    );
    assert_eq!(bench.read("seen"), "3\n");
}

#[test]
fn what_a_step_wrote_that_then_failed_or_is_skipped_when_tried_again_does_not_count() {
    let (bench, output) = Bench::run_ends_with(
        1,
        r#"
[step.fails]
run = "echo k=1 > \"$WINDLASS_OUTPUT\"; exit 1"

[step.sometimes]
after = { fails = "done" }
when  = "test ! -e tried"
run   = "touch tried; echo k=1 > \"$WINDLASS_OUTPUT\""

[step.reads]
after = { fails = "done", sometimes = "done" }
run   = "touch never; echo {fails.k}"

[step.sees]
after = { sometimes = "done" }
run   = "echo {sometimes.k} >> seen"
"#,
    );
    let missing = |key: &str| format!("it needs {{{key}}}, but step ");
    assert!(stderr(&output).contains(&missing("fails.k")), "{}", stderr(&output));
    assert_eq!(bench.call(&["retry", "last"]).status.code(), Some(1));
    assert_eq!(bench.read("seen"), "1\n");
    let shown = stdout(&bench.call(&["show", "last"]));
    assert!(shown.contains(&missing("sometimes.k")), "{shown}");
    assert!(!bench.path("never").exists());
}

#[test]
fn what_a_step_wrote_can_be_what_it_has_to_ensure() {
    let (bench, _) = Bench::run_ends_with(
        0,
        r#"
[step.writes]
run    = "echo n=$WINDLASS_ATTEMPT > \"$WINDLASS_OUTPUT\""
ensure = ["enough"]
retry  = { count = 2, delay = "1ms" }

[guard.enough]
condition  = "echo {writes.n} >> seen; test {writes.n} = 2"
retry      = { max = 1, interval = "1ms" }
on_timeout = "fail"
"#,
    );
    assert_eq!(bench.read("seen").replace("1\n1\n", "1\n"), "1\n2\n", "of each attempt its own");
}

#[test]
fn what_was_not_written_fails_the_step_that_needs_it() {
    let (bench, output) = Bench::run_ends_with(
        1,
        r#"
[step.writes]
run = "echo '{\"a\": 1}' > \"$WINDLASS_OUTPUT\""

[step.runs]
after = ["writes"]
run   = "echo {writes.b} > never"

[step.locks]
after = ["writes"]
lock  = "x-{writes.b}"
run   = "touch never"

[step.reads]
after = ["writes"]
run   = "echo {writes.a} > seen"
"#,
    );
    let told = stdout(&output) + &stderr(&output);
    let why = "the step cannot be started: it needs {writes.b}, but step \"writes\" has not written \
               the output \"b\"; have it write a line b=VALUE to the file $WINDLASS_OUTPUT";
    assert_eq!(told.matches(&format!("windlass: {why}")).count(), 2, "in the logs: {told}");
    assert_eq!(told.matches(&format!("ms: {why}")).count(), 4, "and wherever it is told: {told}");
    assert!(!bench.path("never").exists());
    assert_eq!(bench.read("seen"), "1\n");
}

#[test]
fn an_output_that_cannot_be_read_fails_the_step_that_wrote_it() {
    let (bench, output) = Bench::run_ends_with(
        1,
        r#"
[step.writes]
run   = "echo nonsense > \"$WINDLASS_OUTPUT\""
retry = { count = 1, on_exit = [1] }

[step.reads]
after = ["writes"]
run   = "touch never"
"#,
    );
    let told = stdout(&output) + &stderr(&output);
    let why = "invalid $WINDLASS_OUTPUT: line 1 is not of the form key=value";
    assert!(told.contains(&format!("ms: {why}\n")), "{told}");
    let shown = stdout(&bench.call(&["show", "last", "--json"]));
    assert!(shown.contains(r#""end":"failed","code":0"#) && shown.contains(why), "{shown}");
    assert!(!bench.path("never").exists());
}

#[test]
fn what_was_written_before_a_kill_is_there_after_it() {
    let bench = Bench::new();
    bench.write(
        "flow.toml",
        r#"
[step.writes]
run = "echo v=kept > \"$WINDLASS_OUTPUT\""

[step.waits]
after = ["writes"]
run   = "touch begun; test -e go || sleep 600"

[step.reads]
after = ["waits"]
run   = "echo {writes.v} > seen"
"#,
    );
    let mut child = bench.start(&["run", "flow.toml"]);
    bench.await_file("begun");
    child.kill().expect("it can be killed");
    child.wait().expect("it was killed");
    bench.write("go", "");
    bench.ends_with(0, &["resume", &bench.run_id()]);
    assert_eq!(bench.read("seen"), "kept\n");
}

#[test]
fn a_lock_that_cannot_be_called_so_fails_its_step_alone() {
    let (bench, output) = Bench::run_ends_with(
        1,
        r#"
[step.writes]
run = "printf 'tab=a\\tb\\nnone=\\n' > \"$WINDLASS_OUTPUT\""

[step.tab]
after = ["writes"]
lock  = "{writes.tab}"
run   = "touch never"

[step.none]
after = ["writes"]
lock  = ["x", "{writes.none}"]
run   = "touch never"

[step.other]
after = { tab = "failed", none = "failed" }
run   = "echo well > seen"
"#,
    );
    let told = stdout(&output) + &stderr(&output);
    let why = "the step cannot be started: invalid lock name: ";
    assert_eq!(told.matches(&format!("windlass: {why}")).count(), 2, "in the logs: {told}");
    assert_eq!(told.matches(&format!("ms: {why}")).count(), 4, "and wherever it is told: {told}");
    assert!(!bench.path("never").exists());
    assert_eq!(bench.read("seen"), "well\n");
}
