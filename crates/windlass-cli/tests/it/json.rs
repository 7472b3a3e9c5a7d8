//! What `--json` means for every verb: lines of JSON, one document, or a refusal.

use std::process::{Child, Output};

use jsonschema::Validator;
use serde_json::Value;

use crate::bench::{Bench, eventually, repository, stderr, stdout};

/// What a verb does with the flag.
enum Expected {
    /// It prints lines, and these are their events, each at least once.
    Events(&'static [&'static str]),
    /// It prints one document.
    Document,
    /// It has nothing of its own to print.
    Refusal,
}

use Expected::{Document, Events, Refusal};

const FLOW: &str = "[guard.g]\ncondition = 'test -e ok'\nretry = { max = 9, interval = '1h' }\n\
    [step.a]\nrun = 'echo said'\n[step.b]\nguard = 'g'\nrun = 'true'\n[step.c]\nguard = 'g'\nrun = 'true'\n";

fn schema() -> Validator {
    let text = std::fs::read_to_string(repository().join("docs/json.schema.json"));
    let schema: Value = serde_json::from_str(&text.expect("it is there")).expect("JSON");
    jsonschema::validator_for(&schema).expect("a schema")
}

fn check(bench: &Bench, schema: &Validator, arguments: &[&str], expected: &Expected) {
    let output = bench.call(&[&["--json"], arguments].concat());
    let (out, err) = (stdout(&output), stderr(&output));
    match expected {
        Events(expected) => {
            let events: Vec<Value> = out
                .lines()
                .map(|line| serde_json::from_str(line).expect("an object per line"))
                .collect();
            for event in &events {
                assert!(schema.is_valid(event), "{arguments:?}: {event}");
            }
            for kind in *expected {
                let found = events.iter().any(|event| event["event"] == *kind);
                assert!(found, "{arguments:?} prints no {kind}: {out}{err}");
            }
            // A step may be seen at its guard before that passes.
            let known = |event: &Value| {
                event["event"] == "waits" || expected.iter().any(|kind| event["event"] == *kind)
            };
            assert!(events.iter().all(known), "{arguments:?}: {out}");
        }
        Document => drop(serde_json::from_str::<Value>(&out).expect("one document")),
        Refusal => {
            assert_eq!(output.status.code(), Some(2), "{arguments:?}: {out}{err}");
            assert!(out.is_empty() && err.contains("--json has no meaning here"), "{err}");
        }
    }
}

/// Returns a store with a run that waits at two guards, and a `windlass guard` that waits.
fn stage() -> (Bench, [Child; 2]) {
    let bench = Bench::new();
    bench.write("flow.toml", FLOW);
    bench.write("wrong.toml", "[step.a]\nrun = 1\n");
    assert!(bench.call(&["emit", "e"]).status.success());
    bench.ends_with(0, &["lock", "acquire", "held", "--holder", "h"]);
    let children = [bench.start(&["run", "flow.toml"]), bench.start(&["guard", "flow.toml", "g"])];
    eventually("both steps wait", || {
        stdout(&bench.call(&["ps"])).contains("waiting: b (guard g), c (guard g)")
    });
    eventually("the guard waits", || {
        std::fs::read_dir(bench.path("state/guards")).is_ok_and(|dir| dir.count() == 1)
    });
    (bench, children)
}

#[test]
fn every_verb_prints_json_or_refuses_the_flag() {
    let (bench, children) = stage();
    let schema = schema();
    let token = ["--holder", "h", "--token", "1"];
    for (arguments, expected) in [
        (&["check", "flow.toml"][..], Events(&["checked"])),
        (&["check", "wrong.toml"], Events(&["mistake"])),
        (&["graph", "flow.toml"], Document),
        (&["schema"], Document),
        (&["init"], Events(&["written"])),
        (&["emit", "f"], Events(&["emitted"])),
        (&["events"], Events(&["emitted"])),
        (&["ps"], Events(&["run_view"])),
        (&["show"], Events(&["run_view", "step_view", "critical_path"])),
        (&["log", "last/a"], Events(&["log_line"])),
        (&["why"], Events(&["why"])),
        (&["holders"], Events(&["holder"])),
        (&["lock", "acquire", "x", "--holder", "h"], Events(&["answer"])),
        (&[&["lock", "heartbeat", "held"], &token[..]].concat(), Events(&["answer"])),
        (&[&["lock", "check", "held"], &token[..]].concat(), Events(&["answer"])),
        (&[&["lock", "release", "held"], &token[..]].concat(), Events(&["answer"])),
        (&["sem", "acquire", "s", "--capacity", "1", "--holder", "h"], Events(&["answer"])),
        (&["store", "init"], Events(&["store"])),
        (&["approve", "last/b"], Events(&["decided"])),
        (&["cancel", "last/c"], Events(&["cancel_asked"])),
        (&["reject", "guard/g"], Events(&["decided"])),
    ] {
        check(&bench, &schema, arguments, &expected);
    }
    let codes = children.map(|child| child.wait_with_output().expect("it ends").status.code());
    assert_eq!(codes, [Some(3), Some(1)], "what was asked for was done");
    for (arguments, expected) in [
        (&["history"][..], Events(&["run_view"])),
        (&["resume", "last"], Events(&["run_view"])),
        (&["retry", "last", "--step", "c"], Events(&["run", "step"])),
        (&["run", "wrong.toml"], Events(&["mistake"])),
        (&["guard", "flow.toml", "g", "--wait", "0s"], Events(&["guard"])),
        (&["prune", "--keep", "0"], Events(&["pruned"])),
        (&["lock", "x", "--", "true"], Refusal),
        (&["sem", "s", "--", "true"], Refusal),
        (&["completions", "bash"], Refusal),
        (&["man"], Refusal),
    ] {
        if arguments[0] == "retry" {
            // So that the retried step does not wait for its guard.
            bench.write("ok", "");
        }
        check(&bench, &schema, arguments, &expected);
        if arguments[0] == "retry" {
            std::fs::remove_file(bench.path("ok")).expect("it was written");
        }
    }
}

#[test]
fn the_variable_for_json_does_not_stop_verbs_that_have_none() {
    let bench = Bench::new();
    for arguments in
        [&["lock", "x", "--", "echo", "--json"][..], &["man"], &["completions", "fish"]]
    {
        let output: Output =
            bench.command(arguments).env("WINDLASS_JSON", "1").output().expect("runs");
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        assert!(!stdout(&output).is_empty(), "{arguments:?}");
    }
}

#[test]
fn decisions_and_cancellations_are_printed_with_their_fields() {
    let (bench, children) = stage();
    let run = bench.run_id();
    let line = |arguments: &[&str]| stdout(&bench.call(&[arguments, &["--json"]].concat()));
    let head = r#"{"schema":1,"event":"#;
    let decided = format!(
        "{head}\"decided\",\"decision\":\"approved\",\"already\":false,\"guard\":null,\"run\":\"{run}\",\"steps\":[\"b\"]}}\n"
    );
    assert_eq!(line(&["approve", "last/b"]), decided);
    let decided = format!(
        "{head}\"decided\",\"decision\":\"rejected\",\"already\":false,\"guard\":\"g\",\"run\":null,\"steps\":[]}}\n"
    );
    assert_eq!(line(&["reject", "guard/g"]), decided);
    let asked = format!("{head}\"cancel_asked\",\"run\":\"{run}\",\"steps\":null}}\n");
    assert_eq!(line(&["cancel", "last"]), asked);
    for child in children {
        child.wait_with_output().expect("it ends");
    }
}
