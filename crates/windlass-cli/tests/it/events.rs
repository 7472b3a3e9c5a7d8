//! Events: numbered, in order, and none missed.

use std::io::{BufRead, BufReader};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;

use crate::bench::{Bench, eventually, runs, signal, stderr, stdout};

#[test]
fn events_are_shown_in_order_and_by_pattern() {
    let bench = Bench::new();
    for (event, number) in [("build:web:done", "1\n"), ("build:api:done", "2\n"), ("other", "3\n")]
    {
        assert_eq!(stdout(&bench.call(&["emit", event])), number);
    }
    let shown = |arguments: &[&str]| stdout(&bench.call(arguments));
    let shown = |arguments: &[&str]| untimed(&shown(arguments));
    assert_eq!(shown(&["events"]), ["1 build:web:done", "2 build:api:done", "3 other"]);
    assert_eq!(shown(&["events", "--all"]).len(), 3);
    assert_eq!(shown(&["events", "build:*:done", "--after", "1"]), ["2 build:api:done"]);
    assert_eq!(shown(&["events", "build:*"]), [""; 0]);
    for event in ["", "a::b", "a:*", "a\nb"] {
        let output = bench.call(&["emit", event]);
        assert_eq!(output.status.code(), Some(2), "{event:?}: {}", stderr(&output));
    }
    assert_eq!(bench.call(&["events", "a:b*"]).status.code(), Some(2));
}

/// Lines as `NUMBER NAME`, without the times, each of which is as long as the others.
fn untimed(lines: &str) -> Vec<String> {
    let line = |line: &str| {
        let columns: Vec<_> = line.split('\t').collect();
        let [number, time, name] = columns[..] else { panic!("{line:?}") };
        assert_eq!(time.len(), "2024-01-03 17:45:00".len(), "{line:?}");
        format!("{number} {name}")
    };
    lines.lines().map(line).collect()
}

#[test]
fn an_event_is_shown_with_its_time_in_the_zone_of_the_caller() {
    let bench = Bench::new();
    bench.call(&["emit", "build:done"]);
    let json = stdout(&bench.call(&["events", "--json"]));
    let event: serde_json::Value = serde_json::from_str(&json).expect("a line of JSON");
    let seconds = event["at"].as_i64().expect("it has a time") / 1000;
    for zone in ["UTC", "JST-9"] {
        let mut date = std::process::Command::new("date");
        date.args(["-d", &format!("@{seconds}"), "+%Y-%m-%d %H:%M:%S"]).env("TZ", zone);
        let time = stdout(&date.output().expect("there is a date"));
        let shown = bench.command(&["events"]).env("TZ", zone).output().expect("it runs");
        assert_eq!(stdout(&shown), format!("1\t{}\tbuild:done\n", time.trim()), "{zone}");
    }
}

/// Returns the lines of a child that follows events.
fn lines(follower: &mut Child) -> impl Iterator<Item = String> + use<> {
    let lines = BufReader::new(follower.stdout.take().expect("a pipe")).lines();
    lines.map(|line| untimed(&line.expect("it can be read")).remove(0))
}

#[test]
fn a_follower_sees_each_event_once() {
    let bench = Bench::new();
    bench.call(&["emit", "before"]);
    let mut follower = bench.start(&["events", "-f", "--all"]);
    let mut lines = lines(&mut follower);
    assert_eq!(lines.next().as_deref(), Some("1 before"));
    for number in 2..12 {
        bench.call(&["emit", &format!("event:{number}")]);
        assert_eq!(lines.next(), Some(format!("{number} event:{number}")));
    }
    signal(&follower, Signal::INT);
    let status = follower.wait().expect("it ends");
    assert_eq!(status.code(), Some(130));
}

#[test]
fn a_follower_begins_with_the_next_event_or_behind_a_number() {
    let bench = Bench::new();
    bench.call(&["emit", "one"]);
    bench.call(&["emit", "two"]);
    for (arguments, first) in
        [(&["events", "-f"][..], None), (&["events", "-f", "--after", "1"], Some("2 two"))]
    {
        let mut follower = bench.start(arguments);
        let seen = lines(&mut follower);
        let done = AtomicBool::new(false);
        let line = std::thread::scope(|scope| {
            // When it has begun to listen is known to itself alone.
            scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    bench.call(&["emit", "later"]);
                }
            });
            let line = { seen }.next();
            done.store(true, Ordering::SeqCst);
            line.expect("it goes on until it is ended")
        });
        match first {
            Some(first) => assert_eq!(line, first),
            None => assert!(line.ends_with(" later"), "{line}"),
        }
        signal(&follower, Signal::INT);
        follower.wait().expect("it ends");
    }
}

#[test]
fn a_follower_ends_with_the_reader_of_its_output() {
    let bench = Bench::new();
    bench.call(&["emit", "h:1"]);
    let mut follower = bench.start(&["events", "-f", "--all", "h:**"]);
    // As `head -1` does, this closes the pipe while no event comes.
    let first = lines(&mut follower).next();
    assert_eq!(first.as_deref(), Some("1 h:1"));
    eventually("it has ended", || !runs(&follower.id().to_string()));
    let output = follower.wait_with_output().expect("it has ended");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
}

#[test]
fn events_are_listed_with_their_times() {
    let bench = Bench::new();
    let emitted = stdout(&bench.call(&["--json", "emit", "h:1"]));
    let seen = stdout(&bench.call(&["--json", "events"]));
    assert!(emitted.contains("\"at\":"), "{emitted}");
    assert_eq!(emitted, seen);
}
