//! Many processes at once, some of them killed or stopped: never two inside, and order kept.

use std::collections::BTreeMap;
use std::process::Child;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::bench::{Bench, eventually, rounds, signal, stderr, stdout};

/// Reads a counter, and writes one more; says when it goes in and out, and under which token.
const INCREMENT: &str = "echo in $WINDLASS_FENCE >> record; n=$(cat counter); \
    echo $((n + 1)) > counter; echo out $WINDLASS_FENCE >> record";

/// Starts `processes` shells that do something under the lock x `times` times.
fn crowd(bench: &Bench, processes: usize, times: usize, options: &str, inside: &str) -> Vec<Child> {
    bench.write("inside.sh", inside);
    let script = format!(
        "i=0; while test $i -lt {times}; do \"$WINDLASS\" lock x {options} -- sh inside.sh || true; i=$((i + 1)); done"
    );
    (0..processes).map(|_| bench.script(&script).spawn().expect("sh runs")).collect()
}

/// Returns the entries and exits, in order.
fn record(bench: &Bench) -> Vec<(String, u64)> {
    let record = bench.read("record");
    let line = |line: &str| {
        let (word, token) = line.split_once(' ').expect("a word and a token");
        (word.to_owned(), token.parse().expect("a token"))
    };
    record.lines().map(line).collect()
}

/// Checks that no holder acts after a holder with a larger token has entered, and that tokens grow in the
/// order of entry.
fn check_record(record: &[(String, u64)]) {
    let mut latest = 0;
    for (word, token) in record {
        match word.as_str() {
            "in" => assert!(*token > latest, "{token} went in after {latest}"),
            _ => assert_eq!(*token, latest, "an overtaken one still acts"),
        }
        latest = *token;
    }
}

#[test]
fn increments_under_one_lock_are_all_counted() {
    let (processes, times) = (rounds(20, 200), rounds(5, 10));
    let bench = Bench::new();
    bench.write("counter", "0\n");
    for mut child in crowd(&bench, processes, times, "", INCREMENT) {
        assert!(child.wait().expect("it ends").success());
    }
    assert_eq!(bench.read("counter"), format!("{}\n", processes * times));
    let record = record(&bench);
    check_record(&record);
    assert_eq!(record.len(), 2 * processes * times);
}

/// Returns the processes that carry the state directory of this test and hold or wait right now.
fn wrappers(bench: &Bench) -> Vec<u32> {
    let output = bench.call(&["holders", "--json"]);
    let text = stdout(&output);
    let pid = |line: &str| {
        let row: serde_json::Value = serde_json::from_str(line).expect("one object per line");
        row["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok())
    };
    text.lines().filter_map(pid).collect()
}

#[test]
fn holders_that_are_killed_or_stopped_never_let_two_in() {
    let (processes, times) = (8, rounds(6, 40));
    let bench = Bench::new();
    bench.write("counter", "0\n");
    let slow = format!("{INCREMENT}; sleep 0.0$(($$ % 5))");
    let crowd = crowd(&bench, processes, times, "--heartbeat-timeout 400ms", &slow);
    let mut children = crowd;
    let mut dice = 0x2545_f491_4f6c_dd1d_u64;
    while children.iter_mut().any(|child| child.try_wait().expect("it can be asked").is_none()) {
        let wrappers = wrappers(&bench);
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        let Some(pid) = wrappers.get(dice as usize % wrappers.len().max(1)) else { continue };
        let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a process");
        let send = |signal| {
            // It may have ended a moment ago.
            let _ = rustix::process::kill_process(pid, signal);
        };
        if dice & 256 == 0 {
            send(Signal::KILL);
        } else {
            send(Signal::STOP);
            // Sometimes for longer than its heartbeats may stop, sometimes not.
            thread::sleep(Duration::from_millis(100 + dice % 600));
            send(Signal::CONT);
        }
    }
    check_record(&record(&bench));
    let output = bench.call(&["lock", "x", "--wait", "30s", "--", "true"]);
    assert!(output.status.success(), "it is free in the end: {}", stderr(&output));
}

#[test]
fn weights_are_never_above_capacity_and_the_heavy_are_not_starved() {
    let bench = Bench::new();
    assert!(bench.call(&["sem", "s", "--capacity", "5", "--", "true"]).status.success());
    bench.write("inside.sh", "echo +$1 >> record; sleep 0.01; echo -$1 >> record");
    let times = rounds(6, 40);
    let shell = |weight: u32| {
        let script = format!(
            "i=0; while test $i -lt {times}; do \"$WINDLASS\" sem s -n {weight} -- sh inside.sh {weight}; i=$((i + 1)); done"
        );
        bench.script(&script).spawn().expect("sh runs")
    };
    for mut child in [1, 1, 1, 2, 3, 5].map(shell) {
        assert!(child.wait().expect("it ends").success());
    }
    let (mut sum, mut entered) = (0, BTreeMap::new());
    for line in bench.read("record").lines() {
        let change: i32 = line.parse().expect("a number");
        sum += change;
        assert!((0..=5).contains(&sum), "{sum} slots in use");
        if change > 0 {
            *entered.entry(change).or_insert(0) += 1;
        }
    }
    let expected = BTreeMap::from([(1, 3 * times), (2, times), (3, times), (5, times)]);
    assert_eq!((sum, entered), (0, expected));
}

#[test]
fn two_names_in_either_order_never_deadlock() {
    let bench = Bench::new();
    let times = rounds(40, 1000);
    let shell = |names: &str| {
        let script = format!(
            "i=0; while test $i -lt {times}; do \"$WINDLASS\" lock {names} -- true; i=$((i + 1)); done"
        );
        bench.script(&script).spawn().expect("sh runs")
    };
    for mut child in ["a b", "b a"].map(shell) {
        assert!(child.wait().expect("it ends").success());
    }
}

#[test]
fn another_pid_namespace_sees_the_same_names_and_relies_on_heartbeats() {
    let mut unshare = std::process::Command::new("unshare");
    let allowed = unshare.args(["-Urpf", "--mount-proc", "true"]).status();
    if !allowed.is_ok_and(|status| status.success()) {
        return;
    }
    let bench = Bench::new();
    let mut inner = bench.script(
        "exec unshare -Urpf --kill-child --mount-proc \"$WINDLASS\" lock x --heartbeat-timeout 700ms -- sh -c 'touch held; sleep 600'",
    );
    let mut inner = inner.spawn().expect("unshare runs");
    bench.await_file("held");
    bench.ends_with(75, &["lock", "x", "--wait", "0s", "--", "true"]);
    signal(&inner, Signal::KILL);
    inner.wait().expect("it was killed");
    let output =
        bench.call(&["lock", "x", "--wait", "30s", "--", "sh", "-c", "echo $WINDLASS_FENCE"]);
    assert_eq!(stdout(&output), "2\n", "{}", stderr(&output));
}

#[test]
fn waiting_uses_no_processor_and_keeps_the_order() {
    let bench = Bench::new();
    let hold = "touch held; while ! test -e go; do sleep 0.02; done";
    let mut holder = bench.start(&["lock", "x", "--", "sh", "-c", hold]);
    bench.await_file("held");
    let mut waiters = Vec::new();
    for number in 0..6 {
        let inside = format!("echo {number} >> order");
        waiters.push(bench.start(&["lock", "x", "--", "sh", "-c", &inside]));
        eventually("it waits", || {
            stdout(&bench.call(&["holders"])).matches("wanted by").count() == waiters.len()
        });
    }
    let ticks = |child: &Child| -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("it runs");
        let fields: Vec<_> =
            stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        [11, 12].iter().map(|&field| fields[field].parse::<u64>().expect("a number")).sum()
    };
    let before: u64 = waiters.iter().map(ticks).sum();
    thread::sleep(Duration::from_secs(1));
    let used = waiters.iter().map(ticks).sum::<u64>() - before;
    assert!(used <= 3, "{used} ticks of 10 ms in a second, by all six");
    bench.write("go", "");
    assert!(holder.wait().expect("it ends").success());
    for waiter in waiters {
        let output = waiter.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", stderr(&output));
    }
    assert_eq!(bench.read("order"), "0\n1\n2\n3\n4\n5\n");
}

#[test]
fn a_waiter_that_is_stopped_is_passed_over_and_comes_later() {
    let bench = Bench::new();
    let hold = "touch held; while ! test -e go; do sleep 0.02; done";
    let mut holder = bench.start(&["lock", "x", "--", "sh", "-c", hold]);
    bench.await_file("held");
    let wait = |word: &str, waiters: usize| {
        let child = bench.start(&["lock", "x", "--", "sh", "-c", &format!("echo {word} >> order")]);
        eventually("it waits", || {
            stdout(&bench.call(&["holders"])).matches("wanted by").count() == waiters
        });
        child
    };
    let (first, second) = (wait("first", 1), wait("second", 2));
    signal(&first, Signal::STOP);
    bench.write("go", "");
    assert!(holder.wait().expect("it ends").success());
    let output = second.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", stderr(&output));
    signal(&first, Signal::CONT);
    let output = first.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(bench.read("order"), "second\nfirst\n");
}
