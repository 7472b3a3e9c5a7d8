//! Names of runs, steps, locks, holders, events, parameters and guards that no user would choose.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::{GOOD, call, check};
use crate::bench::Bench;

fn words() -> Vec<OsString> {
    let long = "a".repeat(65_536);
    let mut words: Vec<OsString> = [
        "",
        "a\u{7}b",
        "\u{1b}[31mred",
        "\u{202e}abc",
        "a\nb",
        "-rf",
        "--",
        "../../etc",
        "/",
        "a/b",
        "last/",
        "last/a@0",
        "last/a@99999999999999999999",
        "*",
        "**",
        "::",
        "guard/",
        "\u{1f600}",
        "'; rm -rf /",
        "$(id)",
        "=",
        "0",
        "..",
        &long,
    ]
    .map(OsString::from)
    .to_vec();
    words.push(OsString::from_vec(vec![b'a', 0xff, 0xfe]));
    words
}

/// What takes a word, in the place of `@`.
const VERBS: [&[&str]; 24] = [
    &["lock", "--wait", "0s", "@", "--", "true"],
    &["sem", "@", "--capacity", "1", "--wait", "0s", "--", "true"],
    &["lock", "acquire", "@", "--holder", "h"],
    &["lock", "acquire", "l", "--holder", "@"],
    &["sem", "release", "@", "--holder", "h", "--token", "1"],
    &["emit", "@"],
    &["events", "@"],
    &["show", "@"],
    &["log", "@"],
    &["why", "@"],
    &["cancel", "@"],
    &["resume", "@"],
    &["retry", "@"],
    &["retry", "last", "--step", "@"],
    &["approve", "@"],
    &["history", "@"],
    &["run", "flow.toml", "--output", "quiet", "@"],
    &["run", "flow.toml", "-p", "@"],
    &["guard", "flow.toml", "@"],
    &["graph", "flow.toml", "--format", "@"],
    &["completions", "@"],
    &["show", "last", "--svg", "@"],
    &["--output", "@", "ps"],
    &["@"],
];

fn check_words(verbs: &[&[&str]]) {
    let bench = Bench::new();
    bench.write("flow.toml", GOOD);
    assert_eq!(check("run", &call(&bench, &["run", "flow.toml"])), 0);
    for word in words() {
        for verb in verbs {
            let put = |part: &&str| if *part == "@" { word.clone() } else { OsString::from(part) };
            let arguments: Vec<_> = verb.iter().map(put).collect();
            let mut what = format!("{verb:?} with {word:?}");
            what.truncate(200);
            check(&what, &call(&bench, &arguments));
        }
    }
}

#[test]
fn coordination_verbs_survive_hostile_arguments() {
    check_words(&VERBS[..7]);
}

#[test]
fn verbs_that_look_and_steer_survive_hostile_arguments() {
    check_words(&VERBS[7..16]);
}

#[test]
fn verbs_that_read_files_survive_hostile_arguments() {
    check_words(&VERBS[16..]);
}

/// An empty argument, from a variable that a script forgot to set, must not select any run.
#[test]
fn no_name_is_the_name_of_no_run() {
    let bench = Bench::new();
    bench.write("flow.toml", "[step.a]\nrun = 'false'\n");
    assert_eq!(check("run", &call(&bench, &["run", "flow.toml"])), 1);
    for verb in ["cancel", "resume", "retry", "show", "log"] {
        assert_eq!(check(verb, &call(&bench, &[verb, ""])), 2, "{verb}");
    }
    assert_eq!(check("approve", &call(&bench, &["approve", "/a"])), 2);
}
