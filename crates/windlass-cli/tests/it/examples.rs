//! Every file in `examples/` does what its comments promise.

use std::fs;
use std::process::Output;

use crate::bench::{Bench, eventually, repository, stderr, stdout};

/// Returns a place of its own with this example in it.
fn bench(example: &str) -> Bench {
    let bench = Bench::new();
    let file = repository().join("examples").join(example);
    fs::copy(file, bench.path(example)).expect("it can be copied");
    bench
}

/// Returns the example with one of its texts changed.
fn changed(example: &str, from: &str, to: &str) -> Bench {
    let bench = bench(example);
    let text = bench.read(example);
    assert_eq!(text.matches(from).count(), 1, "{from:?} in {example}");
    bench.write(example, &text.replace(from, to));
    bench
}

#[track_caller]
fn check(bench: &Bench, arguments: &[&str], code: i32) -> Output {
    let output = bench.call(arguments);
    let said = stdout(&output) + &stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    output
}

/// Returns how often these words were printed about this step.
fn told(output: &Output, step: &str, words: &str) -> usize {
    let said = stderr(output);
    let of_step = said.lines().filter_map(|line| line.strip_prefix(step)?.strip_prefix(": "));
    of_step.filter(|told| told.contains(words)).count()
}

/// Returns how many steps with this beginning of a name ran at once, at most.
fn most_at_once(output: &Output, beginning: &str) -> i32 {
    let said = stderr(output);
    let told = said.lines().filter(|line| line.starts_with(beginning));
    let changes = told.filter_map(|line| match line.split_once(": ")?.1 {
        told if told.starts_with("started") => Some(1),
        told if told.starts_with("succeeded") || told.contains("; retry in") => Some(-1),
        other => panic!("unexpected: {other}"),
    });
    running(changes)
}

/// Returns the maximum of the running sum of these changes.
fn running(changes: impl Iterator<Item = i32>) -> i32 {
    let sums = changes.scan(0, |sum, change| {
        *sum += change;
        Some(*sum)
    });
    sums.max().unwrap_or_default()
}

/// Returns +1 for a line that says `begin`, and -1 for others.
fn begun(line: &str) -> i32 {
    if line.starts_with("begin") { 1 } else { -1 }
}

#[test]
fn examples_have_neither_errors_nor_warnings_and_one_format() {
    let entries = fs::read_dir(repository().join("examples")).expect("there are examples");
    let files = entries.map(|entry| entry.expect("it can be listed").path());
    let files: Vec<_> = files.filter(|f| f.extension().is_some_and(|e| e == "toml")).collect();
    assert!(files.len() >= 8, "{files:?}");
    for file in files {
        let text = fs::read_to_string(&file).expect("it can be read");
        let name = file.file_name().and_then(|name| name.to_str()).expect("a plain name");
        check_form(name, &text);
        let output = check(&bench(name), &["check", name], 0);
        let said = stderr(&output);
        assert!(said.lines().count() == 1 && said.ends_with("no errors\n"), "{said}");
    }
}

/// Checks that a file begins with a comment, and has short lines and aligned equals signs.
fn check_form(name: &str, text: &str) {
    assert!(text.starts_with("# "), "{name} begins with what it is about");
    assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{name}: its end");
    let mut column = None;
    let mut script = false;
    for (number, line) in text.lines().enumerate() {
        let place = format!("{name}:{}: {line}", number + 1);
        let long = line.starts_with(['#', '[']) || script;
        assert!(line.chars().count() <= if long { 105 } else { 160 }, "{place}: too long");
        assert!(line.trim_end() == line && !line.contains('\t'), "{place}: blanks");
        let key = line.split(" = ").next().filter(|key| key.len() < line.len());
        match key {
            _ if script || line.starts_with('#') => {}
            Some(key) => {
                assert_eq!(*column.get_or_insert(key.len()), key.len(), "{place}: not in line");
            }
            None => column = None,
        }
        script ^= line.matches("'''").count() % 2 == 1;
    }
}

#[test]
fn hello_prints_its_lines_in_order() {
    let output = check(&bench("hello.toml"), &["run", "hello.toml"], 0);
    assert_eq!(stdout(&output), "greet | hello from greet\nwork | done\nfarewell | bye\n");
}

/// Returns once the release stands at its guard, which can be decided from then on.
fn await_approval(bench: &Bench) {
    let waits = || stdout(&bench.call(&["why", "last/publish"])).contains("has not passed");
    eventually("it waits to be approved", waits);
}

#[test]
fn a_release_waits_for_an_approval_and_publishes_what_was_built() {
    let bench = bench("release.toml");
    let child = bench.start(&["run", "release.toml", "-p", "version=1.4.0"]);
    await_approval(&bench);
    let asked = bench.read("out/release/inbox");
    assert!(asked.contains("publish waits"), "{asked}");
    assert!(!bench.path("out/release/staging").exists(), "no person has approved it");
    assert_eq!(stdout(&bench.call(&["holders"])).matches("release-staging").count(), 0);

    check(&bench, &["approve", &format!("{}/publish", bench.run_id())], 0);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), "publish | published 1.4.0 to staging\n");
    assert_eq!(bench.read("out/release/staging/app"), "the program, version 1.4.0\n");
    assert_eq!(bench.read("out/release/inbox").lines().count(), 1, "it asked once");
}

#[test]
fn a_script_approves_a_release_that_waits_by_a_file_and_an_event() {
    let bench = bench("release.toml");
    let child = bench.start(&["run", "release.toml", "-p", "version=1.4.0"]);
    await_approval(&bench);
    bench.write("out/release/approved-1.4.0", "");
    check(&bench, &["emit", "release:1.4.0:approved"], 0);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), "publish | published 1.4.0 to staging\n");
}

#[test]
fn a_release_that_was_rejected_publishes_nothing() {
    let bench = bench("release.toml");
    let child = bench.start(&["run", "release.toml"]);
    await_approval(&bench);
    check(&bench, &["reject", &format!("{}/publish", bench.run_id())], 0);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(told(&output, "publish", "guard approved: rejected"), 1);
    assert!(!bench.path("out/release/staging").exists());
}

#[test]
fn a_release_hands_on_a_token_that_grows_and_a_smaller_one_is_refused() {
    let bench = bench("release.toml");
    fs::create_dir_all(bench.path("out/release/staging")).expect("it can be made");
    bench.write("out/release/approved-1.0.0", "");
    for token in ["1\n", "2\n"] {
        check(&bench, &["run", "release.toml"], 0);
        assert_eq!(bench.read("out/release/staging/token"), token);
    }
    bench.write("out/release/staging/token", "1000000\n");
    fs::remove_file(bench.path("out/release/staging/app")).expect("it was published");
    let output = check(&bench, &["run", "release.toml"], 1);
    assert_eq!(stdout(&output), "publish | refused: token 3 comes after 1000000\n");
    assert!(!bench.path("out/release/staging/app").exists());
}

#[test]
fn a_release_with_two_locks_publishes_nothing_until_it_names_the_token_to_check() {
    let bench = bench("release.toml");
    let two = bench
        .read("release.toml")
        .replace("lock  = \"release-{channel}\"", "lock  = [\"release-{channel}\", \"other\"]");
    assert_ne!(two, bench.read("release.toml"), "the example has the line");
    bench.write("release.toml", &two);
    fs::create_dir_all(bench.path("out/release")).expect("it can be made");
    bench.write("out/release/approved-1.0.0", "");
    let output = check(&bench, &["run", "release.toml"], 1);
    assert_eq!(stdout(&output), "publish | refused: \"1 1\" is not one token\n");
    assert!(!bench.path("out/release/staging/token").exists());
}

#[test]
fn two_releases_to_one_channel_do_not_meet() {
    let bench = bench("release.toml");
    fs::create_dir_all(bench.path("out/release")).expect("it can be made");
    bench.write("out/release/approved-1.0.0", "");
    let hold = "touch held; while ! test -e go; do sleep 0.01; done";
    let holder = bench.start(&["lock", "release-staging", "--", "sh", "-c", hold]);
    bench.await_file("held");
    let child = bench.start(&["run", "release.toml"]);
    let waits = || stdout(&bench.call(&["holders"])).contains("\"release-staging\": wanted by");
    eventually("it waits for the lock", waits);
    assert!(!bench.path("out/release/staging").exists());
    // The other channel has a lock of its own.
    check(&bench, &["run", "release.toml", "-p", "channel=production"], 0);
    bench.write("go", "");
    assert!(holder.wait_with_output().expect("it ends").status.success());
    assert!(child.wait_with_output().expect("it ends").status.success());
    assert_eq!(bench.read("out/release/staging/token"), "2\n");
}

#[test]
fn etl_loads_every_region_within_what_there_is() {
    let bench = bench("etl.toml");
    let output = check(&bench, &["run", "etl.toml", "-p", "rows=20"], 0);
    // Three regions joined, and two tables of returns.
    assert_eq!(stdout(&output), "report | loaded 100 rows\n");
    assert_eq!(stderr(&output).matches(": succeeded").count(), 13, "{}", stderr(&output));
    assert!(most_at_once(&output, "extract[") <= 2, "connections: {}", stderr(&output));
    assert!(most_at_once(&output, "transform[") <= 2, "memory: {}", stderr(&output));
    let clean = bench.read("out/etl/clean/asia.csv");
    assert_eq!(clean.lines().next(), Some("000001,orders of asia,customers of asia"));
    assert_eq!(bench.read("out/etl/warehouse.csv").lines().count(), 100);
    assert!(!bench.path("out/etl/raw/returns-asia.csv").exists());
}

#[test]
fn etl_runs_one_region_and_only_what_it_needs() {
    let bench = bench("etl.toml");
    let output = check(&bench, &["run", "etl.toml", "transform[eu]"], 0);
    assert_eq!(stderr(&output).matches(": succeeded").count(), 3, "{}", stderr(&output));
    assert!(bench.path("out/etl/clean/eu.csv").exists());
    assert!(!bench.path("out/etl/raw/orders-us.csv").exists());
}

#[test]
fn downloads_that_were_refused_are_tried_again_until_all_files_are_whole() {
    let bench = bench("download.toml");
    let output = check(&bench, &["run", "download.toml"], 0);
    assert!(stdout(&output).ends_with("verify | 6 files are whole\n"), "{}", stdout(&output));
    assert!(most_at_once(&output, "fetch[") <= 3, "connections: {}", stderr(&output));
    for file in ["one", "two", "three", "four", "five", "six"] {
        let [here, there] = ["", "server/"].map(|dir| format!("out/download/{dir}{file}"));
        assert_eq!(bench.read(&here), bench.read(&there));
        let step = format!("fetch[{file}]");
        assert_eq!(told(&output, &step, "exit code 7; retry in"), 1);
        assert_eq!(told(&output, &step, "attempt 2 of 6"), 2, "it began and ended");
        assert!(!bench.path(&format!("{here}.part")).exists());
    }
}

#[test]
fn what_is_not_there_is_not_asked_for_again() {
    let bench = changed("download.toml", "for name in one", "for name in");
    let output = check(&bench, &["run", "download.toml"], 1);
    // Refused once as all of them are, then it is not there.
    assert_eq!(told(&output, "fetch[one]", "started"), 2, "{}", stderr(&output));
    assert_eq!(told(&output, "fetch[one]", "attempt 2 of 6: exit code 22"), 1);
    assert_eq!(told(&output, "verify", "blocked: fetch[one] failed"), 1);
    assert!(bench.path("out/download/two").exists(), "the others are brought");
}

#[test]
fn a_merge_queue_tests_on_two_workers_and_merges_one_at_a_time() {
    let bench = bench("merge-queue.toml");
    let branches = ["login", "search", "prices", "cart"];
    let start =
        |name: &str| bench.start(&["run", "merge-queue.toml", "-p", &format!("branch={name}")]);
    let children = branches.map(start);
    for child in children {
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(told(&output, "tell", "skipped"), 1);
    }
    let tests = bench.read("out/merge-queue/tests");
    assert_eq!(tests.lines().count(), 8);
    assert!(running(tests.lines().map(begun)) <= 2, "{tests}");

    let merged = bench.read("out/merge-queue/merged-main");
    let merged: Vec<Vec<_>> = merged.lines().map(|line| line.split(' ').collect()).collect();
    let tokens: Vec<_> = merged.iter().map(|line| line[0]).collect();
    assert_eq!(tokens, ["1", "2", "3", "4"], "each had the lock for itself");
    let main: Vec<_> = merged.iter().map(|line| format!("work on {}\n", line[1])).collect();
    assert_eq!(bench.read("out/merge-queue/main"), main.concat());
    let mut names: Vec<_> = merged.iter().map(|line| line[1]).collect();
    names.sort_unstable();
    assert_eq!(names, ["cart", "login", "prices", "search"]);
    assert!(merged.iter().all(|line| line[3] == "green"), "{merged:?}");
}

#[test]
fn a_branch_whose_tests_fail_is_not_merged() {
    let bench = bench("merge-queue.toml");
    fs::create_dir_all(bench.path("out/merge-queue/branches")).expect("it can be made");
    bench.write("out/merge-queue/branches/topic", "a bug\n");
    let output = check(&bench, &["run", "merge-queue.toml"], 1);
    assert_eq!(stdout(&output), "tell | topic stays out of main: its tests fail\n");
    assert_eq!(told(&output, "merge", "blocked: test failed"), 1);
    assert!(!bench.path("out/merge-queue/main").exists());
}

#[test]
fn an_ordinary_night_leaves_a_backup_and_out_the_weekly_part() {
    let bench = bench("nightly.toml");
    let output = check(&bench, &["run", "nightly.toml"], 0);
    assert_eq!((told(&output, "vacuum", "skipped"), told(&output, "clean", "skipped")), (1, 1));
    assert_eq!(bench.read("out/nightly/offsite/monday"), bench.read("out/nightly/database"));
    assert_eq!(bench.read("out/nightly/mail"), format!("{}: all well\n", bench.run_id()));
    assert!(!bench.read("out/nightly/report").contains("closed"));
    check(&bench, &["run", "nightly.toml", "-p", "day=sunday"], 0);
    assert_eq!(bench.read("out/nightly/vacuumed").lines().next(), Some("1000"));
    assert!(bench.path("out/nightly/offsite/sunday").exists());
}

#[test]
fn a_failed_backup_is_cleaned_up_and_reported() {
    let bench = bench("nightly.toml");
    let output = check(&bench, &["run", "nightly.toml", "-p", "disk=full"], 1);
    assert_eq!(told(&output, "backup", "started"), 2, "it was tried again");
    assert_eq!(told(&output, "upload", "blocked: backup failed"), 1);
    assert!(stdout(&output).contains("clean | the broken backup is gone\n"));
    assert_eq!(bench.read("out/nightly/logs/monday"), "rotated\n");
    assert_eq!(bench.read("out/nightly/report"), "database\nlogs\nreport\n", "and not closed");
    assert_eq!(bench.read("out/nightly/mail"), format!("{}: failed: backup\n", bench.run_id()));
}

#[test]
fn a_backup_that_is_not_whole_has_failed() {
    let bench = changed("nightly.toml", "cp database backup.new", "head database > backup.new");
    let output = check(&bench, &["run", "nightly.toml"], 1);
    let why = "attempt 2 of 2: guard backup_is_whole: did not pass in 6 checks";
    assert_eq!(told(&output, "backup", why), 1, "{}", stderr(&output));
    assert!(
        !bench.path("out/nightly/offsite").exists() && !bench.path("out/nightly/closed").exists()
    );
}

#[test]
fn a_night_that_takes_too_long_ends_and_the_site_is_open() {
    let bench = changed("nightly.toml", "cp database backup.new", "sleep 600");
    bench.write("nightly.toml", &bench.read("nightly.toml").replace("\"2h\"", "\"500ms\""));
    let output = check(&bench, &["run", "nightly.toml"], 124);
    assert!(!bench.path("out/nightly/closed").exists(), "{}", stderr(&output));
    assert!(!bench.path("out/nightly/offsite").exists());
}

#[test]
fn each_training_has_a_gpu_of_its_own() {
    let bench = bench("gpus.toml");
    let output = check(&bench, &["run", "gpus.toml"], 0);
    assert!(stdout(&output).starts_with("choose | score of rate 0.001, seed 1, on GPU "));
    let log = bench.read("out/gpus/log");
    assert_eq!(log.lines().count(), 14, "{log}");
    for gpu in ["0", "1"] {
        let has = |line: &&str| {
            line.split(' ').nth(1).is_some_and(|gpus| gpus.split(',').any(|g| g == gpu))
        };
        let users = log.lines().filter(has).map(begun);
        assert_eq!(running(users), 1, "{log}");
    }
    assert!(log.starts_with("begin 0,1 calibrate\nend 0,1 calibrate\n"), "{log}");
}

#[test]
fn runs_and_scripts_of_a_team_have_gpus_of_their_own() {
    let bench = bench("gpu-box.toml");
    check(&bench, &["run", "gpu-box.toml"], 2);
    check(&bench, &["limits", "set", "gpu", "--items", "0,1", "--env", "CUDA_VISIBLE_DEVICES"], 0);
    let runs = ["ada", "ben"]
        .map(|who| bench.start(&["run", "gpu-box.toml", "-p", &format!("who={who}")]));
    let inside = "echo begin $CUDA_VISIBLE_DEVICES by hand >> out/gpu-box/log; sleep 0.05; \
                  echo end $CUDA_VISIBLE_DEVICES by hand >> out/gpu-box/log";
    eventually("a run has begun", || bench.path("out/gpu-box").exists());
    check(&bench, &["sem", "shared.gpu", "--", "sh", "-c", inside], 0);
    for run in runs {
        assert!(run.wait_with_output().expect("it ends").status.success());
    }
    let log = bench.read("out/gpu-box/log");
    assert_eq!(log.lines().count(), 14, "{log}");
    for gpu in ["0", "1"] {
        let users = log.lines().filter(|line| line.split(' ').nth(1) == Some(gpu)).map(begun);
        assert_eq!(running(users), 1, "{log}");
    }
}
