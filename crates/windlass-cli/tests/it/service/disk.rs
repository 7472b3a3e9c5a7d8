//! The store of a running service: its disk fills, it is lost, or a newer version has migrated it.

use std::process::Command;

use super::*;
use crate::bench::runs;
use crate::damage::{change, in_namespace};

/// The second step fills the disk on which the store lies. The third one runs for longer than the lease
/// meanwhile.
const FILLING: &str = "[step.first]\nrun = 'echo first >> record'\n\
    [step.long]\nrun = 'echo $$ >> pids; until test -e go; do sleep 0.02; done; echo long >> record'\n\
    [step.fill]\nafter = ['first']\nrun = 'until test -e pids; do sleep 0.02; done; \
        test -e filled || { head -c 9000000 /dev/zero > disk/filler 2> /dev/null || true; touch filled; }; echo fill >> record'\n\
    [step.last]\nafter = ['fill', 'long']\nrun = 'echo last >> record'\n";

#[test]
fn a_service_waits_while_the_disk_is_full_and_goes_on_by_itself() {
    let bench = Bench::new();
    bench.write("flow.toml", FILLING);
    let script = r#"
        mkdir disk; mount -t tmpfs -o size=4m tmpfs disk; export WINDLASS_STATE=$PWD/disk/state
        "$WINDLASS" serve --no-worker --lease 2s 2> scheduler & scheduler=$!
        "$WINDLASS" worker --name one --slots 4 --lease 2s 2> worker & worker=$!
        run=$("$WINDLASS" submit flow.toml 2> submitted)
        until test -e filled; do sleep 0.02; done
        until grep -q 'the disk is full' worker scheduler; do sleep 0.02; done
        sleep 5
        rm disk/filler; touch go
        set +e; "$WINDLASS" wait "$run"; echo code $?
        "$WINDLASS" show "$run" > shown; kill $scheduler; kill -9 $worker; wait"#;
    let Some(output) = in_namespace(&bench, script) else {
        eprintln!("skipped: this user may not mount a file system");
        return;
    };
    let said = ["scheduler", "worker", "shown"].map(|name| bench.read(name)).concat();
    assert_eq!(stdout(&output), "code 0\n", "{said}{}", stderr(&output));
    assert!(bench.read("worker").contains("the store can be used again"), "{said}");
    assert_eq!(bench.read("pids").lines().count(), 1, "a step that ran went on: {said}");
    let mut record: Vec<_> = bench.read("record").lines().map(str::to_owned).collect();
    record.sort();
    assert_eq!(record, ["fill", "first", "last", "long"], "{said}");
}

/// Starts a service with a step that runs, has `act` do something to its store, and checks that the scheduler
/// and the worker end with this reason, and the step with them.
fn check_ends(what: &str, said: &str, act: impl FnOnce(&Bench)) {
    let mut service =
        Service::with("[step.a]\nrun = 'echo $$ > pid; touch begun; exec sleep 600'\n", "1");
    service.submit(&[]);
    service.bench.await_file("begun");
    act(&service.bench);
    for place in [0, 1] {
        let ended = service.processes[place].wait().expect("it ends");
        let told = service.bench.read(&format!("said-{place}"));
        assert_eq!(ended.code(), Some(69), "{what}: {told}");
        assert!(told.contains(said), "{what}: {told}");
    }
    eventually("its step ends", || !runs(&service.bench.read("pid")));
}

#[test]
fn a_service_whose_store_is_lost_ends_with_its_steps_and_says_so() {
    for what in [
        "rm -rf state",
        "mv state elsewhere",
        "rm state/store.db",
        "cp state/store.db x; mv x state/store.db",
        "truncate -s 0 state/store.db",
    ] {
        let said = if what.contains("truncate") { "was truncated" } else { "removed or replaced" };
        check_ends(what, said, |bench| {
            assert!(bench.script(what).status().expect("sh runs").success(), "{what}");
        });
    }
}

#[test]
fn a_service_ends_when_a_newer_version_has_migrated_its_store() {
    let python = Command::new("python3").args(["-c", "import sqlite3"]).status();
    if !python.is_ok_and(|status| status.success()) {
        eprintln!("skipped: there is no python3 with sqlite3");
        return;
    }
    check_ends("a newer version", "use a newer windlass", |bench| {
        assert!(change(bench, "PRAGMA user_version = 99"));
    });
}
