//! Numbers and times that are too large, negative, or none.

use super::{GOOD, call, check};
use crate::bench::{Bench, stderr};

const NUMBERS: [&str; 12] = [
    "1000000000000000000",
    "18446744073709551615",
    "18446744073709551616",
    "4294967295",
    "4294967296",
    "-1",
    "0",
    "NaN",
    "inf",
    "1e9",
    "0x10",
    "١",
];

const TIMES: [&str; 14] = [
    "0s",
    "1ns",
    "99999999999999999999d",
    "18446744073709551615ms",
    "213503982334601d",
    "-1s",
    "1",
    "s",
    "1h1h",
    "9223372036854775807s",
    "1e3s",
    "NaNs",
    "106751991167d",
    "584942417y",
];

/// What takes a number or a time in the place of `@`.
const WITH_NUMBERS: [&[&str]; 8] = [
    &["sem", "a", "--capacity=@", "--wait", "0s", "--", "true"],
    &["sem", "b", "-n=@", "--capacity", "3", "--wait", "0s", "--", "true"],
    &["lock", "check", "x", "--token=@"],
    &["lock", "acquire", "y", "--holder", "@", "--pid=@"],
    &["run", "flow.toml", "-j=@"],
    &["history", "-n=@"],
    &["events", "--after=@"],
    &["prune", "--dry-run", "--keep=@"],
];
const WITH_TIMES: [&[&str]; 6] = [
    &["lock", "t", "--wait=@", "--", "true"],
    &["lock", "t", "--max-hold=@", "--", "true"],
    &["lock", "t", "--heartbeat-timeout=@", "--", "true"],
    &["sem", "t", "--capacity", "1", "--wait=@", "--", "true"],
    &["prune", "--dry-run", "--older-than=@"],
    &["guard", "flow.toml", "g", "--wait=@"],
];

fn check_all(verbs: &[&[&str]], values: &[&str]) {
    let bench = Bench::new();
    bench.write("flow.toml", &format!("{GOOD}[guard.g]\ncondition = 'true'\n"));
    for value in values {
        for verb in verbs {
            let arguments: Vec<_> = verb.iter().map(|part| part.replace('@', value)).collect();
            let what = arguments.join(" ");
            let output = call(&bench, &arguments);
            let said = stderr(&output);
            if check(&what, &output) == 2 {
                let (value, option) = (said.contains(value), said.contains("--"));
                assert!(value || option || said.contains("semaphore"), "{what}: {said}");
            }
        }
    }
}

#[test]
fn hostile_numbers_are_borne() {
    check_all(&WITH_NUMBERS, &NUMBERS);
}

#[test]
fn hostile_times_are_borne() {
    check_all(&WITH_TIMES, &TIMES);
}

#[test]
fn variables_that_are_empty_are_as_good_as_none() {
    let bench = Bench::new();
    bench.write("flow.toml", GOOD);
    let all = "HOME=$PWD XDG_STATE_HOME=$PWD/xdg WINDLASS_STATE= WINDLASS_JOBS= WINDLASS_JSON= WINDLASS_OUTPUT_MODE= \
        \"$WINDLASS\" run flow.toml && test -d xdg/windlass";
    assert_eq!(check("empty variables", &super::script(&bench, all)), 0);
    let output = call(&bench, &["--state", "", "ps"]);
    assert_eq!(check("an empty --state", &output), 2, "{}", stderr(&output));
    let jobs = super::script(&bench, "WINDLASS_JOBS=many \"$WINDLASS\" run flow.toml");
    assert_eq!(check("WINDLASS_JOBS=many", &jobs), 2);
    assert!(stderr(&jobs).contains("'many' for '--jobs <N>'"), "{}", stderr(&jobs));
}

/// What comes from a variable is nothing that has to be written.
#[test]
fn the_usage_below_an_error_shows_no_variables() {
    let bench = Bench::new();
    let called = "WINDLASS_JOBS=3 WINDLASS_JSON=1 \"$WINDLASS\" run --nothing";
    let said = stderr(&super::script(&bench, called));
    assert!(said.contains("Usage: windlass run [OPTIONS] [FILE] [STEP]..."), "{said}");
    let said = stderr(&call(&bench, &["lock", "deploy", "./deploy.sh"]));
    assert!(said.contains("put the command after `--`"), "{said}");
}

#[test]
fn a_large_parameter_fails_only_the_steps_that_use_it() {
    let bench = Bench::new();
    let large = "x".repeat(3 << 20);
    let flow = format!(
        "[params]\nblob = '{large}'\n\
         [step.other]\nrun = 'test -z \"${{WINDLASS_PARAM_blob-}}\"'\n\
         [step.text]\nrun = 'echo {{blob}} | wc -c'\n\
         [step.list]\nrun = ['echo', 'a{{blob}}']\n\
         [step.env]\nrun = 'true'\nenv = {{ X = '{{blob}}' }}\n\
         [step.when]\nrun = 'true'\nwhen = 'test -n {{blob}}'\n"
    );
    bench.write("flow.toml", &flow);
    let output = bench.call(&["run", "flow.toml"]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("other: succeeded"), "{said}");
    let why = "{blob} has 3145728 bytes, and Linux takes no more than 130816";
    for step in ["text", "list", "env", "when"] {
        let failed =
            |line: &str| line.starts_with(&format!("{step}: failed")) && line.contains(why);
        assert!(said.lines().any(failed), "{step}: {said}");
    }
}

#[test]
fn values_that_are_too_large_together_are_named() {
    let bench = Bench::new();
    let mut flow = String::from("[params]\n");
    for param in 0..40 {
        flow +=
            &format!("p{param} = '{}'\n", "x".repeat(if param == 7 { 125_000 } else { 100_000 }));
    }
    bench.write("flow.toml", &(flow + "[step.a]\nrun = 'true'\n"));
    let output = bench.script("ulimit -s 8192; exec \"$WINDLASS\" run flow.toml").output();
    let output = output.expect("sh runs");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let why = "the largest are $WINDLASS_PARAM_p7 (125000 bytes), ";
    assert!(said.contains("its arguments and environment have ") && said.contains(why), "{said}");
}
