//! What every verb says, word for word, in each form and to each mistake: `tests/verbs/*.trycmd`,
//! each on a store of its own. `TRYCMD=overwrite cargo test -p windlass-cli verbs` writes what they
//! say now, for you to read; ids and times are `[..]` there.

use std::path::Path;

use trycmd::TestCases;

use crate::bench::{Bench, repository};
use crate::surroundings;

/// Compares everything in `tests/verbs/NAME.trycmd` with what the binary says in `NAME.in`.
fn check(name: &str) {
    let bench = Bench::new();
    let state = bench.path("state").to_str().expect("a plain path").to_owned();
    let cases = TestCases::new();
    cases.register_bin("windlass", Path::new(env!("CARGO_BIN_EXE_windlass")));
    for (name, value) in [
        ("WINDLASS_STATE", state.as_str()),
        ("TZ", "UTC"),
        ("LC_ALL", "C.UTF-8"),
        ("COLUMNS", "100"),
        (surroundings::VARIABLE, surroundings::mark()),
    ] {
        cases.env(name, value);
    }
    cases.env("PATH", surroundings::path().to_str().expect("a plain path"));
    cases.insert_var("[STATE]", state.clone()).expect("it is a name");
    cases.case(repository().join(format!("crates/windlass-cli/tests/verbs/{name}.trycmd"))).run();
}

#[test]
fn planning_before_anything_runs() {
    check("plan");
}

#[test]
fn a_first_file_to_learn_from() {
    check("init");
}

#[test]
fn running_in_every_form() {
    check("run");
}

#[test]
fn going_on_and_trying_again() {
    check("steer");
}

#[test]
fn holding_locks_and_slots() {
    check("hold");
}

#[test]
fn limits_that_all_share() {
    check("limits");
}

#[test]
fn guards_decisions_and_events() {
    check("ask");
}

#[test]
fn what_can_be_asked_for_at_all() {
    check("usage");
}
