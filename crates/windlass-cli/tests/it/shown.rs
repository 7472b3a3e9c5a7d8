//! What a run shows where there is no terminal.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Output, Stdio};

use jsonschema::Validator;
use rustix::process::Signal;
use serde_json::Value;

use crate::bench::{Bench, repository, signal, stderr, stdout};
use crate::terminal::masked;

/// The first attempt of `a` fails, `b` fails, and `c` is blocked.
const FLOW: &str = r#"
name = "demo"

[step.a]
run   = "echo a $WINDLASS_ATTEMPT; test $WINDLASS_ATTEMPT = 2"
retry = { count = 1, delay = "1ms" }

[step.b]
after = ["a"]
run   = "echo out; printf 'err, no end' >&2; exit 3"

[step.c]
after = ["b"]
run   = "true"
"#;

fn run(bench: &Bench, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = bench.command(&["run", "flow.toml"]);
    command.args(arguments).envs(variables.iter().copied());
    command.output().expect("the binary runs")
}

/// Checks both streams of a run of `FLOW`, with everything masked that differs from run to run.
fn check(arguments: &[&str], variables: &[(&str, &str)], out: &str, err: &str) {
    let bench = Bench::new();
    bench.write("flow.toml", FLOW);
    let output = run(&bench, arguments, variables);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", stderr(&output));
    assert_eq!(stdout(&output), out, "{arguments:?} {variables:?}");
    let logs = bench.path("state/runs").display().to_string();
    let said = masked(&stderr(&output).replace(&logs, "LOGS"), &bench.run_id());
    assert_eq!(said, err, "{arguments:?} {variables:?}");
}

const TRANSITIONS: &str = "\
run RUN: 3 steps
a: started
a: attempt 1 of 2 failed after TIME: exit code 1; retry in TIME
a: started, attempt 2 of 2
a: succeeded in TIME, attempt 2 of 2
b: started
b: failed after TIME: exit code 3
c: blocked: b failed
x b: failed after TIME: exit code 3
log: LOGS/RUN/2-b.1.log
run RUN failed after TIME: 1 succeeded, 1 failed, 1 blocked
to retry: windlass retry RUN
";

#[test]
fn without_a_terminal_there_are_lines() {
    check(&[], &[], "a | a 1\na | a 2\nb | out\nb | err, no end\n", TRANSITIONS);
    let out = "a | a 1\na | a 2\nb | out\nb | err, no end\n";
    check(&["--output", "live"], &[], out, TRANSITIONS);
}

#[test]
fn a_group_is_the_output_of_one_step_in_one_piece() {
    check(&["--output", "group"], &[], "a 1\na 2\nout\nerr, no end\n", TRANSITIONS);
}

#[test]
fn raw_output_is_what_the_steps_wrote() {
    let said = "\
x b: failed after TIME: exit code 3
log: LOGS/RUN/2-b.1.log
run RUN failed after TIME: 1 succeeded, 1 failed, 1 blocked
to retry: windlass retry RUN
";
    let said = format!("run RUN: 3 steps\n{said}");
    check(&["--output", "raw"], &[], "a 1\na 2\nout\nerr, no end", &said);
}

#[test]
fn a_quiet_run_prints_failures_and_its_end() {
    let said = "
x b: failed after TIME: exit code 3
out
err, no end

run RUN failed after TIME: 1 succeeded, 1 failed, 1 blocked
to retry: windlass retry RUN
";
    check(&["--output", "quiet"], &[], "", said);
    check(&[], &[("WINDLASS_OUTPUT_MODE", "quiet")], "", said);
    check(&["--output", "quiet"], &[("WINDLASS_OUTPUT_MODE", "raw")], "", said);
}

#[test]
fn services_get_folds_and_annotations() {
    let bench = Bench::new();
    bench.write("flow.toml", FLOW);
    let output = run(&bench, &["--output", "group"], &[("GITHUB_ACTIONS", "true")]);
    let expected = "\
::group::a: attempt 1 of 2 failed after TIME: exit code 1; retry in TIME
a 1
::endgroup::
::group::a: succeeded in TIME, attempt 2 of 2
a 2
::endgroup::
::group::b: failed after TIME: exit code 3
out
err, no end
::endgroup::
::error title=b::exit code 3
";
    assert_eq!(masked(&stdout(&output), &bench.run_id()), expected);

    let output = run(&bench, &["--output", "group"], &[("GITLAB_CI", "true")]);
    let out = stdout(&output);
    let starts = out.matches("\x1b[0Ksection_start:").count();
    assert_eq!((starts, out.matches("\x1b[0Ksection_end:").count()), (3, 3), "{out:?}");
    assert!(out.contains(":windlass_2_1\r\x1b[0Kb: failed"), "{out:?}");
}

#[test]
fn colours_can_be_forced() {
    let bench = Bench::new();
    bench.write("flow.toml", "[step.a]\nrun = \"printf '\\\\033[31mred\\\\n\\\\033[2Jplain'\"\n");
    let coloured = run(&bench, &[], &[("CLICOLOR_FORCE", "1")]);
    assert!(stderr(&coloured).contains("\x1b[1ma: \x1b[0m"), "{:?}", stderr(&coloured));
    let output = run(&bench, &[], &[]);
    assert!(!stderr(&output).contains('\x1b'), "{:?}", stderr(&output));
    assert_eq!(stdout(&output), "a | \x1b[31mred\x1b[0m\na | plain\n");
    let output = run(&bench, &[], &[("NO_COLOR", "1")]);
    assert_eq!(stdout(&output), "a | red\na | plain\n");
}

#[test]
fn output_is_shown_while_the_step_runs() {
    for mode in ["prefix", "raw"] {
        let bench = Bench::new();
        let flow = "[step.a]\nrun = 'echo one; printf half; until test -e go; do sleep 0.01; done; echo . done'\n";
        bench.write("flow.toml", flow);
        let mut child = bench.start(&["run", "flow.toml", "--output", mode]);
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        out.read_line(&mut line).expect("text");
        bench.write("go", "");
        let mut rest = String::new();
        out.read_to_string(&mut rest).expect("text");
        let expected = match mode {
            "prefix" => ("a | one\n", "a | half. done\n"),
            _ => ("one\n", "half. done\n"),
        };
        assert_eq!((line.as_str(), rest.as_str()), expected);
        assert!(child.wait().expect("it ends").success());
    }
}

#[test]
fn a_line_may_be_as_long_as_it_likes() {
    let bench = Bench::new();
    let flow = "[step.a]\nrun = \"head -c 3000000 /dev/zero | tr '\\\\0' x; echo; echo end\"\n";
    bench.write("flow.toml", flow);
    let output = run(&bench, &["--output", "prefix"], &[]);
    let out = stdout(&output);
    let lengths: Vec<_> = out.lines().map(str::len).collect();
    assert_eq!(lengths, [3_000_004, 7], "{}", stderr(&output));
}

#[test]
fn a_run_continues_when_its_output_is_not_read() {
    for mode in ["prefix", "raw", "group", "quiet"] {
        let bench = Bench::new();
        let flow = "\
[step.a]
run = 'touch begun; until test -e go; do sleep 0.01; done; yes | head -c 300000'
[step.b]
after = ['a']
run = 'echo b >> record; exit 1'
";
        bench.write("flow.toml", flow);
        let mut child = bench.start(&["run", "flow.toml", "--output", mode]);
        bench.await_file("begun");
        drop((child.stdout.take(), child.stderr.take()));
        bench.write("go", "");
        assert_eq!(child.wait().expect("it ends").code(), Some(1), "{mode}");
        assert_eq!(bench.read("record"), "b\n", "{mode}");
    }
}

#[test]
fn a_reader_that_takes_nothing_holds_up_nothing_but_the_display() {
    let bench = Bench::new();
    let flow =
        "[step.a]\nrun = 'yes | head -c 1000000'\n[step.b]\nafter = ['a']\nrun = 'touch done'\n";
    bench.write("flow.toml", flow);
    let mut command = bench.command(&["run", "flow.toml"]);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the binary runs");
    bench.await_file("done");
    // The run has ended when its lease on itself is given back.
    crate::bench::eventually("the run has ended", || {
        !stdout(&bench.call(&["holders"])).contains("run ")
    });
    // The first one may still have come to the run.
    let ended = loop {
        signal(&child, Signal::TERM);
        if let Some(ended) = child.try_wait().expect("it is ours") {
            break ended;
        }
    };
    assert_eq!(ended.code(), Some(143));
}

#[test]
fn a_run_that_is_asked_to_stop_reports_it_in_every_mode() {
    for arguments in [&["--output", "quiet"][..], &["--output", "group"], &["--json"]] {
        let bench = Bench::new();
        let flow = "[step.a]\nrun = \"trap '' TERM; touch begun; until test -e go; do sleep 0.01; done\"\n";
        let flow = format!("{flow}[step.b]\nafter = ['a']\nrun = 'true'\n");
        bench.write("flow.toml", &flow);
        let mut child = bench.start(&[&["run", "flow.toml"], arguments].concat());
        bench.await_file("begun");
        signal(&child, Signal::TERM);
        let said = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut said = said.map(|line| line.expect("text"));
        let stopping =
            |line: &String| line == "stopping: waiting for 1 step to end; Ctrl-C again kills it";
        assert!(said.any(|line| stopping(&line)), "{arguments:?}");
        bench.write("go", "");
        assert_eq!(child.wait().expect("it ends").code(), Some(143), "{arguments:?}");
    }
}

#[test]
fn every_line_of_json_is_as_documented() {
    let validator = documented();
    let text = fs::read_to_string(repository().join("docs/command.md")).expect("it is there");
    let example = blocks(&text).find(|block| block.contains("took_ms")).expect("it is there");
    assert_eq!(valid(&validator, example).len(), 5);

    let bench = Bench::new();
    bench.write("flow.toml", FLOW);
    for (arguments, variables) in [(&["--json"][..], &[][..]), (&[], &[("WINDLASS_JSON", "1")])] {
        let output = run(&bench, arguments, variables);
        let events = valid(&validator, &stdout(&output));
        let told: Vec<_> =
            events.iter().map(|event| format!("{} {}", event["step"], event["state"])).collect();
        let expected = [
            r#"null "running""#,
            r#""a" "running""#,
            r#""a" "pending""#,
            r#""a" "running""#,
            r#""a" "success""#,
            r#""b" "running""#,
            r#""b" "failed""#,
            r#""c" "blocked""#,
            r#"null "failed""#,
        ];
        assert_eq!(told, expected);
        let log = events[6]["log"].as_str().expect("a path");
        assert_eq!(fs::read_to_string(log).expect("a log"), "out\nerr, no end");
        assert_eq!(events[8]["counts"]["failed"], 1);
    }
}

#[test]
fn waits_and_notices_are_printed_as_json() {
    let bench = Bench::new();
    let flow = r#"
[step.a]
guard = ["ready"]
run   = "true"

[guard.ready]
condition = "test -e tried || { touch tried; exit 1; }"
retry     = { max = 100, interval = "1ms" }

[on]
success = "exit 4"
"#;
    bench.write("flow.toml", flow);
    let output = run(&bench, &["--json"], &[]);
    let events = valid(&documented(), &stdout(&output));
    let of = |kind: &str| events.iter().find(|event| event["event"] == kind).cloned();
    let run = bench.run_id();
    let why =
        format!("waits for guard ready: exit code 1; to decide it now: windlass approve {run}/a");
    assert_eq!(of("waits").expect("it waits")["why"], why);
    let said = of("notice").expect("the hook failed")["said"].to_string();
    assert!(said.contains("on.success: exit code 4"), "{said}");
}

/// Returns the blocks of JSON in a page.
fn blocks(text: &str) -> impl Iterator<Item = &str> {
    text.split("```json\n").skip(1).map(|block| block.split("```").next().expect("it ends"))
}

/// Returns the documented schema of what is printed.
fn documented() -> Validator {
    let text = fs::read_to_string(repository().join("docs/json.schema.json")).expect("it is there");
    let schema: Value = serde_json::from_str(&text).expect("JSON");
    jsonschema::validator_for(&schema).expect("a schema")
}

fn valid(validator: &Validator, lines: &str) -> Vec<Value> {
    let events = lines.lines().map(|line| serde_json::from_str(line).expect("one object per line"));
    let events: Vec<Value> = events.collect();
    for event in &events {
        if let Err(error) = validator.validate(event) {
            panic!("{event}: {error}");
        }
    }
    events
}

#[test]
fn empty_variables_count_as_unset() {
    for (name, value) in
        [("WINDLASS_OUTPUT_MODE", ""), ("WINDLASS_JSON", ""), ("WINDLASS_JSON", "0")]
    {
        let bench = Bench::new();
        bench.write("flow.toml", "[step.a]\nrun = 'echo hello'\n");
        let output = run(&bench, &[], &[(name, value)]);
        assert_eq!(stdout(&output), "a | hello\n", "{name}={value}: {}", stderr(&output));
    }
    let bench = Bench::new();
    let output = run(&bench, &[], &[("WINDLASS_OUTPUT_MODE", "loud")]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains("[possible values: auto, live, prefix, group, raw, quiet]"), "{said}");
}

#[test]
fn variables_of_a_step_are_no_flags_of_a_windlass_inside_it() {
    let bench = Bench::new();
    bench.write("inner.toml", "[step.inner]\nrun = 'echo hello'\n");
    bench.write("flow.toml", "[step.outer]\nrun = '\"$WINDLASS\" --state other run inner.toml'\n");
    let output = run(&bench, &[], &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("outer | inner | hello\n"), "{}", stdout(&output));
}

#[test]
fn a_quiet_run_prints_nothing_if_it_succeeds() {
    let bench = Bench::new();
    bench.write("flow.toml", "[step.a]\nrun = 'echo hello'\n");
    let output = bench.ends_with(0, &["run", "flow.toml", "--output", "quiet"]);
    assert_eq!((stdout(&output), stderr(&output)), (String::new(), String::new()));
    bench.write("flow.toml", "[step.a]\nrun = 'echo the reason; exit 3'\n");
    let output = bench.ends_with(1, &["run", "flow.toml", "--output", "quiet"]);
    let told = stderr(&output);
    assert!(told.contains("exit code 3") && told.contains("the reason"), "{told}");
}
