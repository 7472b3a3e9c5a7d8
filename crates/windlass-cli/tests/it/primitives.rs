//! The primitives, for scripts that outlive one command.

use crate::bench::{Bench, eventually, stderr, stdout};

/// Calls the binary with words, and expects what it prints and how it ends.
fn check(bench: &Bench, words: &str, printed: &str, code: i32) {
    let output = bench.call(&words.split_whitespace().collect::<Vec<_>>());
    assert_eq!(stdout(&output).trim(), printed, "{words}: {}", stderr(&output));
    assert_eq!(output.status.code(), Some(code), "{words}: {}", stderr(&output));
}

#[test]
fn a_lock_is_held_between_calls_by_the_holder_of_its_token() {
    let bench = Bench::new();
    check(&bench, "lock acquire x --holder a", "Acquired 1", 0);
    check(&bench, "lock acquire x --holder a", "Extended 1", 0);
    check(&bench, "lock acquire x --holder b", "Busy a", 75);
    check(&bench, "lock x --wait 0s -- true", "", 75);
    check(&bench, "lock check x --token 1", "Valid 1", 0);
    check(&bench, "lock check x --holder b --token 1", "NotOwner 1", 75);
    check(&bench, "lock check x --token 7", "NotOwner 7", 75);
    check(&bench, "lock heartbeat x --holder a --token 1", "Refreshed 1", 0);
    check(&bench, "lock heartbeat x --holder b --token 1", "NotOwner 1", 75);
    check(&bench, "lock release x --holder b --token 1", "NotOwner 1", 75);
    check(&bench, "lock release x --holder a --token 9", "NotOwner 9", 75);
    check(&bench, "lock release x --holder a --token 1", "Released 1", 0);
    check(&bench, "lock release x --holder a --token 1", "AlreadyFree 1", 75);
    check(&bench, "lock check x --token 1", "AlreadyFree 1", 75);
    check(&bench, "lock acquire x --holder b", "Acquired 2", 0);
}

#[test]
fn slots_are_held_between_calls() {
    let bench = Bench::new();
    check(&bench, "sem acquire s --holder a", "", 2);
    check(&bench, "sem acquire s --holder a --capacity 3 -n 2", "Acquired 1", 0);
    check(&bench, "sem acquire s --holder a -n 1", "AlreadyHeld 1", 0);
    check(&bench, "sem acquire s --holder b -n 2", "Full a", 75);
    check(&bench, "sem acquire s --holder a -n 3", "Upgraded 1", 0);
    check(&bench, "sem check s --token 1", "Valid 1", 0);
    check(&bench, "sem heartbeat s --holder b --token 1", "NotHolder 1", 75);
    check(&bench, "sem release s --holder a --token 1", "Released 1", 0);
    check(&bench, "sem release s --holder a --token 1", "NotHolder 1", 75);
    check(&bench, "sem acquire s --holder b --capacity 5 -n 5", "Acquired 2", 0);
    check(&bench, "sem acquire s --holder c --capacity 4", "", 2);
}

/// Waits until `windlass holders` lists a hold in this state.
fn await_state(bench: &Bench, name: &str, state: &str) {
    let shown = || stdout(&bench.call(&["holders", name, "--json"]));
    let told = format!(r#""state":"{state}""#);
    eventually(&format!("{name} is {state}"), || shown().contains(&told));
}

#[test]
fn a_hold_whose_lease_has_expired_is_shown_as_stale() {
    let bench = Bench::new();
    check(&bench, "lock acquire x --holder a --heartbeat-timeout 100ms", "Acquired 1", 0);
    check(&bench, "lock acquire y --holder b", "Acquired 1", 0);
    await_state(&bench, "x", "stale");
    let shown = stdout(&bench.call(&["holders"]));
    let stale = |line: &str| line.starts_with("lock \"x\": held by a") && line.contains("; stale");
    assert!(shown.lines().any(stale), "{shown}");
    assert!(shown.contains("lock \"y\": held by b"), "{shown}");
    let one = stdout(&bench.call(&["holders", "y"]));
    assert!(!one.contains("\"x\"") && one.contains("\"y\""), "{one}");
    let none = bench.call(&["holders", "z"]);
    assert!(none.status.success() && none.stdout.is_empty());
    assert!(stderr(&none).contains("\"z\" is not held"), "{}", stderr(&none));
}

#[test]
fn a_process_that_is_seen_alive_needs_no_heartbeats() {
    let bench = Bench::new();
    let mut process = bench.script("exec sleep 600").spawn().expect("sleep runs");
    let pid = process.id();
    let short = "--heartbeat-timeout 100ms";
    check(&bench, &format!("lock acquire x --holder a {short} --pid {pid}"), "Acquired 1", 0);
    check(&bench, &format!("lock acquire y --holder a {short}"), "Acquired 1", 0);
    await_state(&bench, "y", "stale");
    await_state(&bench, "x", "held");
    check(&bench, "lock acquire x --holder b", "Busy a", 75);
    check(&bench, "lock check x --token 1", "Valid 1", 0);
    process.kill().expect("it can be killed");
    process.wait().expect("it was killed");
    check(&bench, "lock acquire x --holder b", "Reclaimed 2", 0);
}

#[test]
fn flags_of_flock_mean_what_they_mean_there() {
    let bench = Bench::new();
    check(&bench, "lock acquire x --holder a", "Acquired 1", 0);
    check(&bench, "lock -n x -- echo had", "", 75);
    check(&bench, "lock -n -E 9 x -- echo had", "", 9);
    check(&bench, "lock -w 0.05 x -E 0 -- echo had", "", 0);
    check(&bench, "lock -w 5 y -- echo had", "had", 0);
    check(&bench, "lock -n y -E 9 -- sh -c false", "", 1);
    check(&bench, "lock -w soon y -- echo had", "", 2);
    check(&bench, "lock -n -w 1 y -- echo had", "", 2);
}

#[test]
fn a_hold_with_pid_ends_with_that_process() {
    let bench = Bench::new();
    let mut process = bench.script("exec sleep 600").spawn().expect("sleep runs");
    let pid = process.id();
    check(&bench, &format!("lock acquire x --holder a --pid {pid}"), "Acquired 1", 0);
    check(&bench, "lock acquire x --holder b", "Busy a", 75);
    process.kill().expect("it can be killed");
    process.wait().expect("it was killed");
    check(&bench, "lock check x --token 1", "NotOwner 1", 75);
    check(&bench, "lock acquire x --holder b", "Reclaimed 2", 0);
}

#[test]
fn nothing_is_held_for_a_process_that_is_not_there() {
    let bench = Bench::new();
    let mut process = std::process::Command::new("true").spawn().expect("true runs");
    process.wait().expect("it ends");
    // The largest number is above any that the kernel gives out.
    for pid in [process.id(), 0, u32::MAX] {
        for verb in ["lock acquire x", "sem acquire s --capacity 1"] {
            let words = format!("{verb} --holder a --pid {pid}");
            let output = bench.call(&words.split_whitespace().collect::<Vec<_>>());
            assert_eq!(output.status.code(), Some(2), "{words}: {}", stderr(&output));
            let why = format!("for process {pid}: no such process\n");
            assert!(stderr(&output).ends_with(&why), "{}", stderr(&output));
        }
    }
    check(&bench, "lock acquire x --holder b", "Acquired 1", 0);
}

#[test]
fn a_hold_without_heartbeats_is_reclaimed() {
    let bench = Bench::new();
    check(&bench, "lock acquire x --holder a --heartbeat-timeout 100ms", "Acquired 1", 0);
    check(&bench, "lock acquire x --holder b --wait 50s", "Reclaimed 2", 0);
    check(&bench, "lock heartbeat x --holder a --token 1", "NotOwner 1", 75);
}

#[test]
fn answers_have_a_form_for_programs() {
    let bench = Bench::new();
    let json = |words: &str| -> serde_json::Value {
        let output = bench.call(&words.split_whitespace().collect::<Vec<_>>());
        serde_json::from_slice(&output.stdout).expect("one object")
    };
    let answer = json("--json lock acquire x --holder a");
    assert_eq!((&answer["schema"], &answer["result"]), (&1.into(), &"Acquired".into()));
    assert_eq!(answer["token"], 1);
    let answer = json("lock acquire x --holder b --json");
    assert_eq!((&answer["result"], &answer["holder"]), (&"Busy".into(), &"a".into()));
    let holder = json("holders --json");
    assert_eq!((&holder["kind"], &holder["name"]), (&"lock".into(), &"x".into()));
    assert_eq!((&holder["holder"], &holder["state"]), (&"a".into(), &"held".into()));
}
