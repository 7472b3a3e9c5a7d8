//! Several answers to one question: the first counts, and the others are told.

use std::process::Child;

use rustix::process::Signal;
use serde_json::Value;

use crate::bench::{Bench, eventually, rounds, signal, stderr, stdout};
use crate::users::{ALICE, BOB, Users};

const GUARDED: &str = "[step.a]\nguard = 'ok'\nrun = 'touch ran; until test -e go; do sleep 0.01; done'\n\
    [guard.ok]\ncondition = 'false'\nretry = { max = 9, interval = '1h' }\n";

/// Waits until the guard was checked once.
fn await_guard(bench: &Bench) {
    eventually("it waits", || {
        stdout(&bench.call(&["why", "last/a"])).contains("to decide it now: windlass approve")
    });
}

/// A run of which a step waits at a guard.
fn waiting(bench: &Bench) -> Child {
    bench.write("flow.toml", GUARDED);
    let run = bench.start(&["run", "flow.toml"]);
    await_guard(bench);
    run
}

#[track_caller]
fn check(bench: &Bench, arguments: &[&str], code: i32, said: &str) {
    let output = bench.call(arguments);
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {told}");
    assert!(told.contains(said), "{arguments:?}: {told}");
}

#[test]
fn the_first_decision_about_a_step_counts_and_the_second_is_told_of_it() {
    for (first, second, word, code) in
        [("approve", "reject", "approved", 0), ("reject", "approve", "rejected", 1)]
    {
        let bench = Bench::new();
        let run = waiting(&bench);
        let id = bench.run_id();
        // The process that leads the run learns of neither before both are made.
        signal(&run, Signal::STOP);
        check(&bench, &[first, "last/a"], 0, &format!("{word} in run {id}: a (guard ok)\n"));
        let refused = format!("step \"a\" of run {id} was {word} already, by ");
        check(&bench, &[second, "last/a"], 2, &refused);
        let again = format!("already {word} in run {id}: a (guard ok, by ");
        check(&bench, &[first, "last/a"], 0, &again);
        signal(&run, Signal::CONT);
        if first == "approve" {
            bench.await_file("ran");
            check(&bench, &[second, "last/a"], 2, &refused);
            check(&bench, &[first, "last/a"], 0, &again);
        }
        bench.write("go", "");
        let output = run.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert_eq!(bench.path("ran").exists(), first == "approve");
        check(&bench, &[second, "last/a"], 2, &refused);
        check(&bench, &[first, "last/a"], 0, &again);
    }
}

#[test]
fn of_many_that_decide_at_once_all_learn_the_same() {
    let bench = Bench::new();
    let run = waiting(&bench);
    let verbs = ["approve", "reject"].into_iter().cycle().take(rounds(6, 30));
    let children: Vec<_> = verbs.map(|verb| (verb, bench.start(&[verb, "last/a"]))).collect();
    let mut won = Vec::new();
    for (verb, child) in children {
        let output = child.wait_with_output().expect("it ends");
        match output.status.code() {
            Some(0) => won.push((verb, stderr(&output))),
            code => assert_eq!(code, Some(2), "{}", stderr(&output)),
        }
    }
    assert!(won.iter().all(|(verb, _)| *verb == won[0].0), "{won:?}");
    assert_eq!(won.iter().filter(|(_, said)| !said.contains("already")).count(), 1, "{won:?}");
    bench.write("go", "");
    let ended = run.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(i32::from(won[0].0 == "reject")), "{}", stderr(&ended));
}

#[test]
fn a_decision_survives_the_process_that_leads_the_run() {
    for (verb, code) in [("approve", 0), ("reject", 1)] {
        let bench = Bench::new();
        let mut run = waiting(&bench);
        signal(&run, Signal::STOP);
        check(&bench, &[verb, "last/a"], 0, "in run");
        run.kill().expect("it can be killed");
        run.wait().expect("it was killed");
        bench.write("go", "");
        let resumed = bench.call(&["resume"]);
        assert_eq!(resumed.status.code(), Some(code), "{}", stderr(&resumed));
        assert_eq!(bench.path("ran").exists(), verb == "approve");
    }
}

#[test]
fn a_step_that_is_tried_again_waits_for_another_decision() {
    let bench = Bench::new();
    let run = waiting(&bench);
    check(&bench, &["reject", "last/a"], 0, "rejected in run");
    assert_eq!(run.wait_with_output().expect("it ends").status.code(), Some(1));
    let again = bench.start(&["retry", "last"]);
    await_guard(&bench);
    bench.write("go", "");
    check(&bench, &["approve", "last/a"], 0, "approved in run");
    assert!(again.wait_with_output().expect("it ends").status.success());
}

/// Returns how many processes have announced that they wait for a guard.
fn waiters(bench: &Bench) -> usize {
    let entries = std::fs::read_dir(bench.path("state/guards")).into_iter().flatten().flatten();
    entries.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b".")).count()
}

#[test]
fn the_first_decision_about_a_guard_without_a_run_counts() {
    let bench = Bench::new();
    bench.write("flow.toml", GUARDED);
    let waits = bench.start(&["guard", "flow.toml", "ok"]);
    eventually("it waits", || waiters(&bench) == 1);
    signal(&waits, Signal::STOP);
    check(&bench, &["reject", "guard/ok"], 0, "rejected guard \"ok\"\n");
    check(&bench, &["approve", "guard/ok"], 2, "guard \"ok\" was rejected already");
    check(&bench, &["reject", "guard/ok"], 0, "already rejected guard \"ok\"\n");
    let again = bench.call(&["reject", "guard/ok", "--json"]);
    let again: Value = serde_json::from_slice(&again.stdout).expect("JSON");
    assert_eq!((&again["decision"], &again["already"]), (&"rejected".into(), &true.into()));
    signal(&waits, Signal::CONT);
    assert_eq!(waits.wait_with_output().expect("it ends").status.code(), Some(1));
}

#[test]
fn each_of_two_that_wait_for_a_guard_gets_a_decision_of_its_own() {
    let bench = Bench::new();
    bench.write("flow.toml", GUARDED);
    let first = bench.start(&["guard", "flow.toml", "ok"]);
    eventually("one waits", || waiters(&bench) == 1);
    signal(&first, Signal::STOP);
    check(&bench, &["approve", "guard/ok"], 0, "approved");
    // One that comes later neither takes the decision nor deletes it.
    let second = bench.start(&["guard", "flow.toml", "ok"]);
    eventually("two wait", || waiters(&bench) == 2);
    signal(&first, Signal::CONT);
    assert!(first.wait_with_output().expect("it ends").status.success());
    check(&bench, &["reject", "guard/ok"], 0, "rejected");
    assert_eq!(second.wait_with_output().expect("it ends").status.code(), Some(1));
}

#[test]
fn a_decision_of_another_user_is_told_with_its_user() {
    let Some(users) = Users::sharing() else { return };
    users.bench.write("flow.toml", GUARDED);
    let run = users.command(ALICE, &["run", "flow.toml"]).spawn().expect("it starts");
    await_guard(&users.bench);
    assert!(users.call(BOB, &["reject", "last/a"]).status.success());
    let refused = users.call(ALICE, &["approve", "last/a"]);
    assert_eq!(refused.status.code(), Some(2));
    let told = format!("was rejected already, by user {BOB}, ");
    assert!(stderr(&refused).contains(&told), "{}", stderr(&refused));
    assert_eq!(run.wait_with_output().expect("it ends").status.code(), Some(1));
}
