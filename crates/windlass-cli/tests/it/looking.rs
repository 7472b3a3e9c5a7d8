//! The output of verbs that look at runs, word for word: `tests/looking/*.trycmd`, each on a store of its
//! own. `TRYCMD=overwrite cargo test -p windlass-cli looking` writes the current output, for you to read.

pub(crate) mod json;
pub(crate) mod shells;
pub(crate) mod stage;
mod steering;

use std::path::Path;
use std::process::Command;

use trycmd::TestCases;

use self::stage::{LIVE, NIGHTLY, Stage};
use crate::bench::repository;
use crate::surroundings;

/// Compares everything in `tests/looking/NAME.trycmd` with what the binary says on this stage.
fn check(stage: &Stage, name: &str, more: &[(&str, &str)]) {
    let cases = TestCases::new();
    let path = |path: std::path::PathBuf| path.to_str().expect("a plain path").to_owned();
    let file = repository().join(format!("crates/windlass-cli/tests/looking/{name}.trycmd"));
    cases.register_bin("windlass", Path::new(env!("CARGO_BIN_EXE_windlass")));
    cases.env("WINDLASS_STATE", path(stage.bench.path("state")));
    cases.env(surroundings::VARIABLE, surroundings::mark());
    cases.env("PATH", surroundings::path().to_str().expect("a plain path"));
    for (name, value) in [("TZ", "UTC"), ("LC_ALL", "C.UTF-8"), ("COLUMNS", "80")] {
        cases.env(name, value);
    }
    for (name, value) in more {
        cases.env(*name, *value);
    }
    cases.insert_var("[STATE]", path(stage.bench.path("state"))).expect("it is a name");
    cases.case(file).run();
}

#[test]
fn a_store_without_runs_is_reported() {
    check(&Stage::new(), "empty", &[]);
}

#[test]
fn runs_that_have_ended() {
    let mut stage = Stage::new();
    nightly(&mut stage);
    check(&stage, "ended", &[]);
}

#[test]
fn attempts_that_follow_each_other_closely_share_a_column() {
    let mut stage = Stage::new();
    stage.submit("5555eeee", "quick", "[step.a]\nrun = 'a'\nretry = { count = 2 }\n");
    stage.journal("0 start a\n3000 retry a 1\n4001 start a\n1000000 success a");
    stage.end(1_000_000, "succeeded");
    for columns in ["80", "40", "20", "1"] {
        let output = stage.bench.command(&["show", "last"]).env("COLUMNS", columns).output();
        let output = output.expect("the binary runs");
        let said = crate::bench::stdout(&output);
        assert!(output.status.success(), "{columns}: {}", crate::bench::stderr(&output));
        let bar = said.lines().find(|line| line.contains("##")).expect("a bar");
        assert!(!bar.contains('.'), "nothing lies between: {bar}");
    }
}

#[test]
fn attempts_without_a_limit_are_counted_without_one() {
    let check = |mut stage: Stage, journal: &str, verb: &[&str], said: &str| {
        let flow = "[step.a]\nrun = 'a'\nretry = { count = 4294967295 }\n";
        stage.submit("5555eeee", "patient", flow);
        stage.journal(journal);
        stage.log("a", 1, "no answer\n");
        let output = crate::bench::stdout(&stage.bench.call(verb));
        assert!(output.contains(said), "{verb:?}: {output}");
    };
    let retried = "0 retry a 7";
    check(Stage::live(), retried, &["why", "last/a"], "\n  - attempt 2 starts in ");
    check(Stage::live(), retried, &["log", "last"], "==> a (attempt 1): retry");
    check(Stage::live(), retried, &["show", "last"], "retrying  1      ");
    let failed = "0 retry a 7\n2000 start a\n3000 failed a 1";
    check(Stage::new(), failed, &["why", "last/a"], "after 1.0 s (attempt 2): exit code 1\n");
}

#[test]
fn a_history_has_as_many_runs_as_were_asked_for() {
    let mut stage = Stage::new();
    nightly(&mut stage);
    for run in ["6666aaaa", "6666bbbb"] {
        stage.submit(run, "nightly", NIGHTLY);
        stage.abandon();
    }
    for (number, shown) in [("0", 0), ("1", 1), ("2", 2), ("3", 3), ("9", 3)] {
        let output = stage.bench.call(&["history", "-n", number, "--json"]);
        assert_eq!(crate::bench::stdout(&output).lines().count(), shown, "-n {number}");
    }
    let output = stage.bench.call(&["history", "-n", "0"]);
    let said = (crate::bench::stdout(&output), crate::bench::stderr(&output));
    assert_eq!((output.status.code(), said), (Some(0), Default::default()));
}

#[test]
fn a_long_critical_path_is_named_by_its_ends() {
    let check = |count: usize, line: &str| {
        let mut stage = Stage::new();
        let step = |n: usize| match n {
            1 => "[step.s1]\nrun = 'a'\n".to_owned(),
            n => format!("[step.s{n}]\nrun = 'a'\nafter = ['s{}']\n", n - 1),
        };
        stage.submit("5555eeee", "chain", &(1..=count).map(step).collect::<String>());
        let second = |n| format!("{} start s{n}\n{} success s{n}", (n - 1) * 1000, n * 1000);
        stage.journal(&(1..=count).map(second).collect::<Vec<_>>().join("\n"));
        stage.end(1_000_000, "succeeded");
        let said = crate::bench::stdout(&stage.bench.call(&["show", "last"]));
        assert!(said.ends_with(&format!(": {line}\n")), "{count}: {said}");
        let told = crate::bench::stdout(&stage.bench.call(&["show", "last", "--json"]));
        let path = told.lines().last().expect("a line");
        let path: serde_json::Value = serde_json::from_str(path).expect("JSON");
        assert_eq!(path["steps"].as_array().map(Vec::len), Some(count));
    };
    let named = |steps: std::ops::RangeInclusive<usize>| {
        steps.map(|n| format!("s{n} (1.0 s)")).collect::<Vec<_>>().join(" -> ")
    };
    check(9, &named(1..=9));
    check(10, &format!("{} -> ... 2 more ... -> {}", named(1..=4), named(7..=10)));
    check(60, &format!("{} -> ... 52 more ... -> {}", named(1..=4), named(57..=60)));
}

#[test]
fn times_are_those_of_the_time_zone_of_the_caller() {
    let mut stage = Stage::new();
    nightly(&mut stage);
    // Without a database of zones, all times are in UTC.
    let known =
        ["/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/etc/zoneinfo", "/usr/share/lib/zoneinfo"];
    let known = known.iter().any(|dir| Path::new(dir).join("Asia/Tokyo").exists());
    let (greenwich, tokyo) = ("3 Jan 2024 17:45:00", "4 Jan 2024 02:45:00");
    let named = if known { tokyo } else { greenwich };
    for (zone, time) in [
        ("Asia/Tokyo", named),
        (":Asia/Tokyo", named),
        ("JST-9", tokyo),
        ("UTC", greenwich),
        ("", greenwich),
        ("No/Such_Place", greenwich),
    ] {
        let mut show = stage.bench.command(&["show", "3fa9c2d1"]);
        let output = show.env("TZ", zone).output().expect("the binary runs");
        let (said, began) = (crate::bench::stdout(&output), format!("  began   {time}\n"));
        assert!(said.contains(&began), "TZ={zone:?}, zones by name: {known}: {said}");
    }
}

#[test]
fn times_are_those_of_the_machine_where_no_zone_is_named() {
    let mut stage = Stage::new();
    nightly(&mut stage);
    let mut date = Command::new("date");
    date.args(["-d", "@1704303900", "+%-d %b %Y %H:%M:%S"]).env_remove("TZ").env("LC_ALL", "C");
    let here = crate::bench::stdout(&date.output().expect("there is a date"));
    let mut show = stage.bench.command(&["show", "3fa9c2d1"]);
    let output = show.env_remove("TZ").output().expect("the binary runs");
    let said = crate::bench::stdout(&output);
    assert!(said.contains(&format!("  began   {here}")), "{here}: {said}");
}

#[test]
fn colours_where_they_are_asked_for_and_ascii_where_nothing_else_is_spoken() {
    let mut stage = Stage::new();
    nightly(&mut stage);
    check(&stage, "colours", &[("CLICOLOR_FORCE", "1")]);
    check(&stage, "ascii", &[("LC_ALL", "C"), ("COLUMNS", "40")]);
}

#[test]
fn hostile_names_do_nothing_to_a_terminal() {
    let mut stage = Stage::new();
    let flow = "[step.a]\neach = { v = [\"<x>\"] }\nrun = 'true'\n";
    stage.submit("bad00001", "ev\u{1b}il\u{202e}\n", flow);
    stage.journal("0 start a[<x>]\n10 failed a[<x>] 1 wo\u{1b}r\u{2028}se");
    stage.end(20, "failed");
    check(&stage, "hostile", &[]);
}

#[test]
fn a_run_that_was_interrupted() {
    let mut stage = Stage::new();
    stage.submit("1111aaaa", "nightly", NIGHTLY);
    stage.journal("0 start fetch\n10 start lint\n300 success lint");
    stage.abandon();
    check(&stage, "interrupted", &[]);
}

#[test]
fn a_run_that_is_under_way() {
    check(&under_way(), "under_way", &[]);
}

#[test]
fn a_step_that_waits_for_an_approval() {
    let mut stage = Stage::live();
    let flow = "[guard.approved]\ncondition = 'test -f ok.txt'\n\
                [step.ask]\nguard = ['approved']\nrun = 'true'\n";
    stage.submit("2222bbbb", "asking", flow);
    check(&stage, "gate", &[]);
    stage.wait_for_guard("ask", "approved", "no ok.txt yet");
    check(&stage, "guard", &[]);
}

#[test]
fn an_impossible_journal_is_not_reported_as_bad_usage() {
    let mut stage = Stage::new();
    stage.submit("4444dddd", "nightly", NIGHTLY);
    stage.journal("0 start deploy");
    let output = stage.bench.call(&["show", "last"]);
    assert_eq!(output.status.code(), Some(70), "{}", crate::bench::stderr(&output));
}

#[test]
fn a_run_that_this_version_cannot_read() {
    let mut stage = Stage::new();
    stage.submit_text("3333cccc", "old", "[step.a]\nrun = 'true'\nfuture = 1\n");
    stage.abandon();
    check(&stage, "unreadable", &[]);
}

#[test]
fn holders_and_waiters_are_gone_after_a_boot() {
    let mut stage = Stage::before_boot();
    stage.submit("5555eeee", "early", "[step.a]\nrun = 'a'\nlock = 'deploy'\n");
    stage.refuse("a", "deploy");
    let said = crate::bench::stdout(&stage.bench.call(&["holders"]));
    let gone = |line: &&str| line.ends_with("; its process has ended");
    assert_eq!((said.lines().count(), said.lines().filter(gone).count()), (4, 4), "{said}");
}

#[test]
fn verbs_that_look_wait_for_no_writer() {
    let mut stage = Stage::new();
    nightly(&mut stage);
    let gate = std::fs::File::open(stage.bench.path("state/gate")).expect("it is there");
    gate.lock().expect("no process holds it");
    for verb in ["ps", "history", "show last", "log 3fa9c", "why last/only", "holders", "events"] {
        let output = stage.bench.call(&verb.split(' ').collect::<Vec<_>>());
        assert!(output.status.success(), "{verb}: {}", crate::bench::stderr(&output));
    }
}

/// Returns a run that failed, one that succeeded after it, and one of another workflow.
pub(crate) fn nightly(stage: &mut Stage) {
    stage.submit("3fa9c2d1", "nightly", NIGHTLY);
    stage.journal(
        "0 start fetch\n10 start lint\n300 success lint\n4000 retry fetch 7 no route to host\n\
         6000 start fetch\n10000 success fetch\n10000 start test[linux]\n10010 start test[macos]\n\
         70000 success test[linux]\n72000 failed test[macos] 1\n72000 start report\n\
         75000 success report\n72001 blocked deploy",
    );
    stage.end(75_000, "failed");
    stage.log("fetch", 1, "connecting\n");
    stage.log("fetch", 2, "connecting\nfetched\n");
    stage.log("test[macos]", 1, "assertion failed\n");
    stage.later(86_400_000);
    stage.submit("3fa90000", "nightly", NIGHTLY);
    stage.journal(
        "0 start fetch\n5000 success fetch\n5000 start lint\n5300 success lint\n\
         5300 start test[linux]\n5300 start test[macos]\n55300 success test[linux]\n\
         61000 success test[macos]\n61000 start deploy\n61000 start report\n64000 success report\n\
         65000 success deploy",
    );
    stage.end(65_000, "succeeded");
    stage.later(3_600_000);
    stage.submit("41af22c0", "other", "[step.only]\nrun = 'true'\n");
    stage.journal("0 start only\n1500 cancelled only");
    stage.end(1_500, "cancelled");
}

/// Returns a run whose steps wait for all kinds of things, after a run from which their times are
/// estimated.
pub(crate) fn under_way() -> Stage {
    let mut stage = Stage::live();
    stage.submit("1111aaaa", "live", LIVE);
    stage.journal(
        "0 start build\n600000 success build\n600000 start link\n1200000 success link\n\
         0 start flaky\n600000 success flaky",
    );
    stage.end(1_200_000, "failed");
    stage.submit("2222bbbb", "live", LIVE);
    stage.journal("0 start build\n1 start stuck\n2 retry flaky 7 no answer");
    stage.refuse("deploy", "deploy");
    stage
}

#[test]
fn a_run_killed_after_its_last_step_ends_with_the_result_of_its_steps_when_resumed() {
    // All of them are past their deadline by now; one was when its step ended.
    for (at, step, run, code) in [
        (1000, "success", "succeeded", 0),
        (1000, "failed", "failed", 1),
        (1000, "cancelled", "cancelled", 3),
        (3000, "failed", "too late", 124),
    ] {
        let mut stage = Stage::new();
        stage.submit("7777aaaa", "killed", "deadline = '2s'\n[step.a]\nrun = 'a'\n");
        stage.journal(&format!("0 start a\n{at} {step} a"));
        stage.abandon();
        let said = |verb: &str| crate::bench::stdout(&stage.bench.call(&[verb]));
        assert!(said("ps").contains("killed    interrupted"), "{step}: {}", said("ps"));
        assert!(!said("history").contains("killed"), "{step}: {}", said("history"));
        let resumed = stage.bench.call(&["resume", "last"]);
        let told = crate::bench::stderr(&resumed);
        assert_eq!(resumed.status.code(), Some(code), "{step}: {told}");
        let ended = format!("killed    {run}");
        assert!(said("history").contains(&ended), "{step}: {}", said("history"));
        assert!(!said("ps").contains("killed"), "{step}: {}", said("ps"));
    }
}

#[test]
fn of_many_waiting_steps_those_are_explained_that_wait_for_something_else() {
    let mut stage = Stage::live();
    let flow = "concurrency = 1\n[guard.ok]\ncondition = 'false'\n[step.first]\nrun = 'a'\n\
        [step.many]\nafter = ['first']\neach = { n = 300 }\nrun = 'a {n}'\n\
        [step.ready]\neach = { n = 300 }\nrun = 'a {n}'\n\
        [step.ask]\nguard = ['ok']\nrun = 'a'\n";
    let numbers = format!("{:?}", (0..300).collect::<Vec<_>>());
    stage.submit("6666ffff", "many", &flow.replace("300", &numbers));
    stage.journal("0 start first");
    stage.wait_for_guard("ask", "ok", "exit code 1");
    let said = crate::bench::stdout(&stage.bench.call(&["why"]));
    assert_eq!(said.lines().filter(|line| line.ends_with(" waits")).count(), 50, "{said}");
    assert!(said.contains("ask waits\n  - guard ok has not passed"), "{said}");
    assert!(!said.contains("many["), "{said}");
    let rest = "\nand 551 more steps; explain one with: windlass why 6666ffff/STEP\n";
    assert!(said.ends_with(rest), "{said}");
    let all = crate::bench::stdout(&stage.bench.call(&["why", "--json"]));
    assert_eq!(all.lines().count(), 601);
    let group = crate::bench::stdout(&stage.bench.call(&["why", "last/many"]));
    assert_eq!(group.lines().filter(|line| line.ends_with(" waits")).count(), 300);
}
