//! Commands and what they print: each behind a `$`, on a store that was made for it.

use std::process::{Child, Output};

use super::{Kind, owned};
use crate::bench::{Bench, eventually, stderr, stdout};
use crate::looking::stage::{NIGHTLY, Stage};
use crate::looking::{nightly, under_way};

/// A store in which a command prints what is shown, and a process that waits there.
struct Scene {
    bench: Bench,
    waiter: Option<Child>,
}

impl From<Stage> for Scene {
    fn from(stage: Stage) -> Self {
        Self { bench: stage.bench, waiter: None }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if let Some(waiter) = &mut self.waiter {
            waiter.kill().and_then(|()| waiter.wait()).expect("it waits for ever");
        }
    }
}

fn scene(command: &str) -> Scene {
    match command {
        "windlass show 3fa9c" => {
            let mut stage = Stage::new();
            nightly(&mut stage);
            stage.into()
        }
        "windlass ps" => two_runs().into(),
        _ if command.starts_with("windlass why last/") => under_way().into(),
        "windlass holders" => holders(),
        _ => panic!("there is no scene for: {command}"),
    }
}

/// Returns a run that was interrupted, and one under way.
fn two_runs() -> Stage {
    let mut stage = Stage::live();
    stage.submit("1111aaaa", "deploy", "[step.pack]\nrun = 'a'\n[step.push]\nrun = 'b'\n");
    stage.journal("0 start pack\n300 success pack");
    stage.abandon();
    stage.submit("2222bbbb", "nightly", NIGHTLY);
    stage.journal(
        "0 start fetch\n0 start lint\n0 success fetch\n0 success lint\n\
         0 start test[linux]\n0 start test[macos]",
    );
    stage
}

/// Returns a lock with a waiter, and slots of a semaphore.
fn holders() -> Scene {
    let bench = Bench::new();
    for arguments in [
        &["lock", "acquire", "deploy", "--holder", "build-17"][..],
        &["sem", "acquire", "build", "-n", "2", "--capacity", "4", "--holder", "build-17"],
    ] {
        assert!(bench.call(arguments).status.success());
    }
    let wait = ["lock", "acquire", "deploy", "--holder", "build-18", "--wait", "1h"];
    let waiter = Some(bench.start(&wait));
    eventually("it waits", || stdout(&bench.call(&["holders"])).contains("wanted by"));
    Scene { bench, waiter }
}

fn call(bench: &Bench, command: &str) -> Output {
    let arguments: Vec<_> = command.split(' ').skip(1).collect();
    let mut command = bench.command(&arguments);
    command.env("TZ", "UTC").env("LC_ALL", "C.UTF-8").env("COLUMNS", "80");
    command.output().expect("the binary runs")
}

#[test]
fn every_console_shows_what_its_command_prints() {
    for block in owned(Kind::Console, 4) {
        for shown in block.text.split("$ ").filter(|shown| !shown.trim().is_empty()) {
            let (command, lines) = shown.split_once('\n').expect("it prints something");
            let scene = scene(command);
            let output = call(&scene.bench, command);
            let printed = stdout(&output);
            assert!(output.status.success(), "{}: {}", block.place, stderr(&output));
            assert_eq!(
                lines.lines().map(timeless).collect::<Vec<_>>(),
                printed.lines().map(timeless).collect::<Vec<_>>(),
                "{}: {command} prints\n{printed}",
                block.place
            );
        }
    }
}

/// Returns a line without times, and without the blanks that align it.
fn timeless(line: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        let unit = word.trim_end_matches([',', ':', ';', ')']);
        let last = words.last().map_or("", String::as_str);
        let number = last.trim_start_matches('(');
        if matches!(unit, "ms" | "s" | "min" | "h" | "d") && number.parse::<f64>().is_ok() {
            let time = format!("{}TIME{}", &last[..last.len() - number.len()], &word[unit.len()..]);
            words.pop();
            // One time may be of several units: 2 h 3 min.
            if words.last().is_some_and(|before| before.trim_start_matches('(') == "TIME") {
                let before = words.pop().unwrap_or_default();
                words.push(before + &word[unit.len()..]);
            } else {
                words.push(time);
            }
        } else {
            words.push(word.to_owned());
        }
    }
    words.join(" ")
}
