//! The primitives, for scripts that outlive one command.

use crate::bench::{Bench, stderr, stdout};

/// Calls the binary with words, and expects what it prints and how it ends.
fn check(bench: &Bench, words: &str, printed: &str, code: i32) {
    let output = bench.call(&words.split_whitespace().collect::<Vec<_>>());
    assert_eq!(stdout(&output).trim(), printed, "{words}: {}", stderr(&output));
    assert_eq!(output.status.code(), Some(code), "{words}: {}", stderr(&output));
}

#[test]
fn a_lock_is_held_between_calls_by_whoever_has_its_token() {
    let bench = Bench::new();
    check(&bench, "lock acquire x --holder a", "Acquired 1", 0);
    check(&bench, "lock acquire x --holder a", "Extended 1", 0);
    check(&bench, "lock acquire x --holder b", "Busy", 75);
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
    check(&bench, "sem acquire s --holder b -n 2", "Full", 75);
    check(&bench, "sem acquire s --holder a -n 3", "Upgraded 1", 0);
    check(&bench, "sem check s --token 1", "Valid 1", 0);
    check(&bench, "sem heartbeat s --holder b --token 1", "NotHolder 1", 75);
    check(&bench, "sem release s --holder a --token 1", "Released 1", 0);
    check(&bench, "sem release s --holder a --token 1", "NotHolder 1", 75);
    check(&bench, "sem acquire s --holder b --capacity 5 -n 5", "Acquired 2", 0);
    check(&bench, "sem acquire s --holder c --capacity 4", "", 2);
}

#[test]
fn a_hold_goes_with_the_process_that_it_names() {
    let bench = Bench::new();
    let mut process = std::process::Command::new("sleep").arg("600").spawn().expect("sleep runs");
    let pid = process.id();
    check(&bench, &format!("lock acquire x --holder a --pid {pid}"), "Acquired 1", 0);
    check(&bench, "lock acquire x --holder b", "Busy", 75);
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
            let why = format!("for process {pid}: there is no such process\n");
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
