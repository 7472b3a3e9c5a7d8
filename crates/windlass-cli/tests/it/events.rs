//! Events: numbered, in order, and none missed.

use std::io::{BufRead, BufReader};

use rustix::process::Signal;

use crate::bench::{Bench, signal, stderr, stdout};

#[test]
fn events_are_shown_in_order_and_by_pattern() {
    let bench = Bench::new();
    for (event, number) in [("build:web:done", "1\n"), ("build:api:done", "2\n"), ("other", "3\n")]
    {
        assert_eq!(stdout(&bench.call(&["emit", event])), number);
    }
    let shown = |arguments: &[&str]| stdout(&bench.call(arguments));
    assert_eq!(shown(&["events"]), "1\tbuild:web:done\n2\tbuild:api:done\n3\tother\n");
    assert_eq!(shown(&["events", "build:*:done", "--after", "1"]), "2\tbuild:api:done\n");
    assert_eq!(shown(&["events", "build:*"]), "");
    for event in ["", "a::b", "a:*", "a\nb"] {
        let output = bench.call(&["emit", event]);
        assert_eq!(output.status.code(), Some(2), "{event:?}: {}", stderr(&output));
    }
    assert_eq!(bench.call(&["events", "a:b*"]).status.code(), Some(2));
}

#[test]
fn whoever_follows_sees_each_event_once() {
    let bench = Bench::new();
    bench.call(&["emit", "before"]);
    let mut follower = bench.start(&["events", "-f"]);
    let mut lines = BufReader::new(follower.stdout.take().expect("a pipe")).lines();
    let mut next = || lines.next().expect("there is more").expect("it can be read");
    assert_eq!(next(), "1\tbefore");
    for number in 2..12 {
        bench.call(&["emit", &format!("event:{number}")]);
        assert_eq!(next(), format!("{number}\tevent:{number}"));
    }
    signal(&follower, Signal::INT);
    let status = follower.wait().expect("it ends");
    assert_eq!(status.code(), Some(130));
}
