//! Every line of JSON matches `docs/json.schema.json`, and every event is documented.

use std::collections::BTreeSet;
use std::fs;

use jsonschema::Validator;
use serde_json::Value;
use windlass_store::{AttemptEnd, RunOutcome};

use super::nightly;
use super::stage::{LIVE, Stage};
use crate::bench::{Bench, eventually, repository, stderr, stdout};

fn schema() -> Value {
    let text = fs::read_to_string(repository().join("docs/json.schema.json")).expect("it is there");
    serde_json::from_str(&text).expect("it is JSON")
}

/// Lines that were held to the schema, by their events.
struct Lines {
    schema: Validator,
    seen: BTreeSet<String>,
}

impl Lines {
    fn new() -> Self {
        let schema = jsonschema::validator_for(&schema()).expect("it is a schema");
        Self { schema, seen: BTreeSet::new() }
    }

    /// Calls a verb with `--json`; all that it prints must be known.
    fn call(&mut self, bench: &Bench, arguments: &[&str]) {
        let (flag, arguments) = (["--json"], arguments);
        let output = bench.call(&[&flag, arguments].concat());
        let printed = stdout(&output);
        assert!(!printed.is_empty(), "{arguments:?}: {}", stderr(&output));
        for line in printed.lines() {
            let value = self.check(line);
            self.seen.insert(value["event"].as_str().expect("it has an event").to_owned());
        }
    }
}

impl Lines {
    fn check(&self, line: &str) -> Value {
        let value: Value = serde_json::from_str(line).expect("each line is JSON");
        if let Err(wrong) = self.schema.validate(&value) {
            panic!("{line}\n{wrong}");
        }
        value
    }
}

/// Checks that a line is as the schema says.
pub(crate) fn check_line(line: &str) {
    Lines::new().check(line);
}

#[test]
fn every_line_matches_the_schema() {
    let mut lines = Lines::new();
    let mut stage = Stage::new();
    nightly(&mut stage);
    stage.submit_text("3333cccc", "old", "future = 1\n");
    let bench = &stage.bench;
    for arguments in [
        &["ps"][..],
        &["history"],
        &["show", "3fa9c"],
        &["log", "3fa9c"],
        &["log", "3fa9c/fetch", "-f"],
        &["why", "3fa9c/deploy"],
        &["why", "3fa9c/fetch"],
        &["prune", "--dry-run"],
    ] {
        lines.call(bench, arguments);
    }
    let mut live = Stage::live();
    live.submit("2222bbbb", "live", LIVE);
    live.journal("0 start build\n1 start stuck\n2 retry flaky 7");
    live.refuse("deploy", "deploy");
    for step in ["build", "flaky", "ship", "large", "call", "deploy", "last"] {
        lines.call(&live.bench, &["why", &format!("last/{step}")]);
    }
    for arguments in [&["ps"][..], &["show", "last"], &["holders"]] {
        lines.call(&live.bench, arguments);
    }
    lines.call(bench, &["store", "init"]);
    lines.call(bench, &["doctor"]);
    other_verbs(&mut lines);
    // Seen elsewhere: what needs a run that waits is in `json.rs`.
    let rare = ["left_out", "notice", "waits", "cancel_asked", "decided"];
    // Those need a service: `service.rs`.
    let served = [
        "submitted",
        "ended",
        "worker",
        "worker_asked",
        "finding",
        "granted",
        "rights",
        "pause_asked",
        "unpause_asked",
    ];
    let rare: Vec<_> = rare.into_iter().chain(served).map(str::to_owned).collect();
    let queues = [
        "added",
        "edited",
        "moved",
        "remove_asked",
        "step_ended",
        "queue_idle",
        "queue",
        "queue_step",
    ];
    let queues = queues.map(str::to_owned);
    let rare: Vec<_> = rare.into_iter().chain(queues).collect();
    let told = events(&schema()).difference(&BTreeSet::from_iter(rare)).cloned().collect();
    let missing: BTreeSet<String> = &told - &lines.seen;
    assert!(missing.is_empty(), "no line was seen of {missing:?}");
}

/// Adds lines of the verbs that do not look at runs.
fn other_verbs(lines: &mut Lines) {
    let bench = Bench::new();
    bench.write("bad.toml", "[step.a]\nrun = 'echo {nam}'\n[step.b]\n");
    bench.write(
        "good.toml",
        "[guard.g]\ncondition = 'true'\n[step.a]\nguard = ['g']\nrun = 'true'\n",
    );
    let many = (0..101).map(|step| format!("[step.s{step}]\nrun = 1\n"));
    bench.write("many.toml", &many.collect::<String>());
    let cycle = "[step.a]\nrun = 'true'\nafter = ['b']\n[step.b]\nrun = 'true'\nafter = ['a']\n";
    bench.write("cycle.toml", cycle);
    fs::write(bench.path("bytes.toml"), b"name = '\xff'").expect("it can be written");
    for arguments in [
        &["check", "bad.toml", "many.toml", "cycle.toml", "bytes.toml"][..],
        &["check", "good.toml"],
        &["init"],
        &["run", "good.toml"],
        &["guard", "good.toml", "g"],
        &["emit", "a:b"],
        &["events"],
        &["lock", "acquire", "x", "--holder", "h"],
        &["lock", "acquire", "x", "--holder", "i"],
        &["lock", "check", "x", "--token", "7"],
        &["sem", "acquire", "s", "--capacity", "2", "--holder", "h"],
        &["limits", "set", "gpu", "--items", "0,1", "--env", "GPU"],
        &["sem", "acquire", "shared.gpu", "--holder", "h"],
        &["limits", "set", "memory=64G", "cpu=0.5"],
        &["limits"],
        &["holders"],
    ] {
        lines.call(&bench, arguments);
    }
    let wait = ["run", "step.toml"];
    bench.write("step.toml", "[step.a]\nrun = 'true'\nuse = { 'shared.gpu' = 2 }\n");
    let mut waiting = bench.start(&wait);
    eventually("it waits", || stdout(&bench.call(&["limits"])).contains("wanted by run"));
    for arguments in [&["why", "last"][..], &["limits"], &["holders"]] {
        lines.call(&bench, arguments);
    }
    waiting.kill().expect("it can be killed");
    waiting.wait().expect("it was killed");
}

#[test]
fn what_is_not_so_is_refused() {
    let lines = Lines::new();
    for line in [
        r#"{"event":"emitted","number":1,"name":"a"}"#,
        r#"{"schema":2,"event":"emitted","number":1,"name":"a"}"#,
        r#"{"schema":1,"event":"emitted","number":0,"name":"a"}"#,
        r#"{"schema":1,"event":"nothing"}"#,
        r#"{"schema":1,"event":"critical_path","run":"a","steps":"b","ms":1}"#,
    ] {
        let value = serde_json::from_str(line).expect("it is JSON");
        assert!(lines.schema.validate(&value).is_err(), "{line}");
    }
}

/// The words are those of the code: all of them, and no others. So none is added without its
/// place in the schema and in the docs.
#[test]
fn the_schema_and_the_docs_know_every_word_for_an_end() {
    let ends = AttemptEnd::ALL.iter().map(|end| end.word());
    let attempt = &properties("step_view")["attempts"]["items"]["properties"]["end"];
    assert_eq!(words(attempt), ends.clone().collect());

    let outcomes = RunOutcome::ALL.iter().map(|outcome| outcome.word());
    let others = ["running", "paused", "queued", "interrupted", "unreadable"];
    assert_eq!(words(&properties("run_view")["state"]), outcomes.clone().chain(others).collect());
    let others = ["running", "interrupted", "left", "stopped"];
    assert_eq!(words(&properties("run")["state"]), outcomes.clone().chain(others).collect());

    let docs = fs::read_to_string(repository().join("docs/command.md")).expect("it is there");
    for word in ends.chain(outcomes) {
        assert!(docs.contains(&format!("`{word}`")), "docs/command.md does not tell of {word}");
    }
}

/// Returns the schema of the fields of an event.
fn properties(event: &str) -> Value {
    let schema = schema();
    let kinds = schema["oneOf"].as_array().expect("there are several");
    let kind = kinds.iter().find(|kind| kind["properties"]["event"]["const"] == event);
    kind.expect("there is such an event")["properties"].clone()
}

/// Returns the texts that a field may be.
fn words(field: &Value) -> BTreeSet<&str> {
    let values = field["enum"].as_array().expect("its values are listed");
    values.iter().filter_map(Value::as_str).collect()
}

#[test]
fn every_event_is_documented() {
    let docs = fs::read_to_string(repository().join("docs/command.md")).expect("it is there");
    for event in events(&schema()) {
        assert!(docs.contains(&format!("`{event}`")), "docs/command.md does not tell of {event}");
    }
}

/// Returns the events that the schema knows.
fn events(schema: &Value) -> BTreeSet<String> {
    let kinds = schema["oneOf"].as_array().expect("there are several");
    let event = |kind: &Value| kind["properties"]["event"]["const"].as_str().map(str::to_owned);
    kinds.iter().map(|kind| event(kind).expect("each has a name")).collect()
}

#[test]
fn a_line_without_an_end_comes_in_parts() {
    let mut stage = Stage::new();
    stage.submit("5555eeee", "long", "[step.a]\nrun = 'a'\n");
    stage.journal("0 start a\n1000 success a");
    stage.end(1000, "succeeded");
    let lines = ["\0".repeat(200_000), "short".to_owned(), "é".repeat(200_000), "x".repeat(65_537)];
    stage.log("a", 1, &lines.join("\n"));
    let schema = Lines::new().schema;
    for flags in [&[][..], &["-f"]] {
        let output = stage.bench.call(&[&["log", "last", "--json"], flags].concat());
        let mut joined = vec![String::new()];
        for line in stdout(&output).lines() {
            assert!(line.len() < 6 * 65_536 + 200, "{} bytes in a line", line.len());
            let told: Value = serde_json::from_str(line).expect("each line is JSON");
            assert!(schema.validate(&told).is_ok(), "{flags:?}: it is known");
            *joined.last_mut().expect("one") += told["text"].as_str().expect("a text");
            if told["more"] != true {
                joined.push(String::new());
            }
        }
        assert_eq!(joined.pop().as_deref(), Some(""), "the last part says that it is");
        assert!(joined == lines, "{flags:?}: put together, the parts are what was printed");
    }
    let followed = stdout(&stage.bench.call(&["log", "last", "-f"]));
    let parts = followed.lines().map(|line| line.strip_prefix("a | ").expect("each says whose"));
    assert!(parts.clone().all(|part| part.len() <= 65_536), "no object has more of a line");
    assert!(parts.collect::<String>() == lines.concat(), "all of it was printed");
}
