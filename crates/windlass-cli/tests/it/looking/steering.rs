//! Logs that are followed, and runs that are deleted.

use std::fs;

use crate::bench::{Bench, eventually, signal, stderr, stdout};
use rustix::process::Signal;

use super::stage::{NIGHTLY, Stage};

/// A step that writes, waits for `go`, and writes again.
const SLOW: &str = "\
[step.slow]
run = 'echo one; touch begun; while ! test -e go; do sleep 0.01; done; echo two'
[step.next]
after = ['slow']
run = 'printf three'
";

#[test]
fn a_log_is_followed_until_the_run_ends() {
    for (target, expected) in
        [("last", "slow | one\nslow | two\nnext | three\n"), ("last/slow", "one\ntwo\n")]
    {
        let bench = Bench::new();
        bench.write("flow.toml", SLOW);
        let mut run = bench.start(&["run", "flow.toml"]);
        bench.await_file("begun");
        let log = bench.start(&["log", target, "-f"]);
        bench.write("go", "");
        let output = log.wait_with_output().expect("it ends with the run");
        assert!(run.wait().expect("it ends").success());
        assert_eq!(stdout(&output), expected, "{target}: {}", stderr(&output));
        assert!(output.status.success());
    }
}

#[test]
fn following_a_run_reports_that_it_was_interrupted() {
    let bench = Bench::new();
    bench.write("flow.toml", SLOW);
    let mut run = bench.start(&["run", "flow.toml"]);
    bench.await_file("begun");
    let log = bench.start(&["log", "last", "-f"]);
    // What the leader has not logged is lost with it.
    eventually("it is logged", || stdout(&bench.call(&["log", "last/slow"])) == "one\n");
    signal(&run, Signal::KILL);
    run.wait().expect("it was killed");
    let output = log.wait_with_output().expect("it ends with the run");
    assert_eq!(stdout(&output), "slow | one\n", "{}", stderr(&output));
    let said = format!("to resume: windlass resume {}", bench.run_id());
    assert!(stderr(&output).contains(&said), "{}", stderr(&output));
    // The killed process has left its step running, and `resume` ends it.
    bench.write("go", "");
    assert!(bench.call(&["resume", "last"]).status.success());
}

#[test]
fn a_log_has_what_follows_a_step_in_any_case_and_the_hooks() {
    let (bench, _) = Bench::run(
        "[step.a]\nrun = 'echo a; exit 3'\nfinally = 'echo cleaned'\n[on]\nfailure = 'echo paged'\n",
    );
    let whole = stdout(&bench.call(&["log", "last"]));
    assert_eq!(
        whole,
        "==> a: failed: exit code 3 <==\na\n\n==> a, finally <==\ncleaned\n\n\
         ==> on.failure <==\npaged\n"
    );
    let step = stdout(&bench.call(&["log", "last/a", "-f"]));
    assert_eq!(step, "a\n==> a, finally <==\ncleaned\n");
    let json = stdout(&bench.call(&["log", "last", "--json"]));
    assert!(json.contains(r#""attempt":1,"part":"finally","text":"cleaned"}"#), "{json}");
    assert!(json.contains(r#""part":"on.failure","text":"paged"}"#), "{json}");
}

#[test]
fn an_unreadable_log_is_reported_and_the_other_logs_are_printed() {
    let (bench, _) =
        Bench::run("[step.a]\nrun = 'echo a'\n[step.b]\nafter = 'a'\nrun = 'echo b'\n");
    let log = bench.path("state/runs").join(bench.run_id()).join("1-a.1.log");
    let replaced = |replace: &dyn Fn()| {
        replace();
        for (arguments, printed) in [
            (&["log"][..], "==> a: success <==\n\n==> b: success <==\nb\n"),
            (&["log", "-f"], "b | b\n"),
        ] {
            let output = bench.call(arguments);
            assert_eq!(stdout(&output), printed, "{arguments:?}: {}", stderr(&output));
            assert!(stderr(&output).contains("not a regular file"), "{}", stderr(&output));
            assert_eq!(output.status.code(), Some(69));
        }
    };
    fs::remove_file(&log).expect("it is there");
    replaced(&|| fs::create_dir(&log).expect("it can be made"));
    fs::remove_dir(&log).expect("it is there");
    // It has no writer, so a process that opened it as a file would wait for ever.
    replaced(&|| {
        let made = std::process::Command::new("mkfifo").arg(&log).status();
        assert!(made.expect("there is a mkfifo").success());
    });
}

#[test]
fn a_skipped_step_names_the_reason() {
    let (bench, _) = Bench::run(
        "[step.a]\nrun = 'true'\n[step.page]\nafter = { a = 'failed' }\nrun = 'true'\n\
         [step.maybe]\nwhen = 'false'\nrun = 'true'\n",
    );
    let why = |step: &str| stdout(&bench.call(&["why", &format!("last/{step}")]));
    assert_eq!(why("page"), "page was skipped: a did not fail\n");
    assert_eq!(why("maybe"), "maybe was skipped: its `when` did not hold\n");
    assert_eq!(stdout(&bench.call(&["ps"])), "", "it has ended");
}

#[test]
fn a_closed_pipe_ends_a_log_that_is_followed() {
    let bench = Bench::new();
    let flow =
        "[step.a]\nrun = 'touch begun; while ! test -e go; do echo line; sleep 0.01; done'\n";
    bench.write("flow.toml", flow);
    let mut run = bench.start(&["run", "flow.toml"]);
    bench.await_file("begun");
    let head = bench.script("\"$WINDLASS\" log last/a -f | head -n 1").output().expect("it runs");
    assert_eq!(stdout(&head), "line\n");
    bench.write("go", "");
    assert!(run.wait().expect("it ends").success());
}

#[test]
fn only_what_has_ended_long_ago_is_forgotten() {
    let stage = three_runs();
    let bench = &stage.bench;
    let dry = bench.call(&["prune", "--dry-run"]);
    assert!(stdout(&dry).contains("aaaa0001") && stdout(&dry).contains("aaaa0002"));
    assert!(!stdout(&dry).contains("bbbb0003"), "it was interrupted: {}", stdout(&dry));
    assert!(stderr(&dry).contains("would delete 2 runs"), "{}", stderr(&dry));
    assert_eq!(logs(bench), ["aaaa0001", "aaaa0002", "bbbb0003"]);

    let output = bench.call(&["prune"]);
    assert_eq!(stdout(&output), stdout(&dry));
    assert!(stderr(&output).starts_with("deleted 2 runs, 0 events"), "{}", stderr(&output));
    assert_eq!(logs(bench), ["bbbb0003"]);
    assert_eq!(bench.call(&["show", "aaaa"]).status.code(), Some(2));

    let output = bench.call(&["prune", "--interrupted"]);
    assert!(stderr(&output).starts_with("deleted 1 run,"), "{}", stderr(&output));
    assert!(logs(bench).is_empty());
}

#[test]
fn the_newest_runs_can_be_kept_whatever_their_age() {
    let stage = three_runs();
    let output = stage.bench.call(&["prune", "--keep", "1"]);
    assert!(stdout(&output).contains("aaaa0001"), "{}", stdout(&output));
    assert_eq!(logs(&stage.bench), ["aaaa0002", "bbbb0003"]);
    let output = stage.bench.call(&["prune", "--keep", "1", "--older-than", "36500d"]);
    assert!(stderr(&output).starts_with("deleted 0 runs"), "{}", stderr(&output));
}

#[test]
fn logs_that_belong_to_no_run_are_removed_and_nothing_else_is() {
    let stage = three_runs();
    let runs = stage.bench.path("state/runs");
    for dir in ["0123abcd", "notes", "0123abcde"] {
        fs::create_dir(runs.join(dir)).expect("it can be made");
    }
    let output = stage.bench.call(&["prune", "--older-than", "36500d"]);
    let said = stderr(&output);
    assert!(said.contains("1 directory of logs that belonged to no run"), "{said}");
    assert_eq!(logs(&stage.bench), ["0123abcde", "aaaa0001", "aaaa0002", "bbbb0003", "notes"]);
}

#[test]
fn prune_never_deletes_a_running_run() {
    let bench = Bench::new();
    bench.write("flow.toml", SLOW);
    let mut run = bench.start(&["run", "flow.toml"]);
    bench.await_file("begun");
    let output = bench.call(&["prune", "--older-than", "0s", "--interrupted"]);
    assert!(stderr(&output).starts_with("deleted 0 runs"), "{}", stderr(&output));
    bench.write("go", "");
    assert!(run.wait().expect("it ends").success());
    // The store's clock counts in milliseconds, and what ends now is not older than now.
    eventually("it can be forgotten once it has ended", || {
        let output = bench.call(&["prune", "--older-than", "0s"]);
        stderr(&output).starts_with("deleted 1 run,")
    });
    assert!(logs(&bench).is_empty());
}

#[test]
fn old_events_are_forgotten_with_old_runs() {
    let bench = Bench::new();
    bench.call(&["emit", "a:b"]);
    eventually("it is older than nothing", || {
        stderr(&bench.call(&["prune", "--older-than", "0s"])).contains("1 event:")
    });
    assert_eq!(stdout(&bench.call(&["events"])), "");
    assert_eq!(stdout(&bench.call(&["emit", "a:c"])), "2\n", "numbers are not used again");
}

/// Returns two runs that have ended, and one that was interrupted, all in 2024.
fn three_runs() -> Stage {
    let mut stage = Stage::new();
    for id in ["aaaa0001", "aaaa0002", "bbbb0003"] {
        stage.submit(id, "nightly", NIGHTLY);
        stage.journal("0 start fetch");
        stage.log("fetch", 1, "connecting\n");
        match id {
            "bbbb0003" => stage.abandon(),
            _ => stage.end(1, "failed"),
        }
        stage.later(1000);
    }
    stage
}

fn logs(bench: &Bench) -> Vec<String> {
    let dirs = fs::read_dir(bench.path("state/runs")).expect("it is there");
    let name = |dir: std::io::Result<fs::DirEntry>| dir.expect("it is there").file_name();
    let mut dirs: Vec<_> = dirs.map(|dir| name(dir).to_string_lossy().into_owned()).collect();
    dirs.sort();
    dirs
}
