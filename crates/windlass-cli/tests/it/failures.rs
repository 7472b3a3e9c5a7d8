//! What becomes of the other steps when one has failed.

use crate::bench::{Bench, runs, stderr};

/// One fails while another runs and a third waits for its turn.
const FLOW: &str = r#"
concurrency = 2

[step.fails]
run = "until test -e begun; do sleep 0.01; done; exit 1"

[step.runs]
run = "echo $$ > pid; touch begun; trap 'exit 1' TERM; for i in $(seq 60); do test -e failed && break; sleep 0.05; done; echo ran >> record"

[step.waits]
priority = -1
run      = "echo waited >> record"

[step.follows]
after = ["fails"]
run   = "touch never"

[step.cleans]
after = { fails = "failed" }
run   = "touch failed; echo cleaned >> record"
"#;

fn check(on_failure: &str, code: i32, record: &str) {
    let bench = Bench::new();
    bench.write("flow.toml", &format!("on_failure = '{on_failure}'\n{FLOW}"));
    bench.write("record", "");
    let output = bench.call(&["run", "flow.toml"]);
    assert_eq!(output.status.code(), Some(code), "{on_failure}: {}", stderr(&output));
    let mut seen: Vec<_> = bench.read("record").lines().map(str::to_owned).collect();
    seen.sort();
    assert_eq!(seen.join(" "), record, "{on_failure}");
    assert!(!bench.path("never").exists() && !runs(&bench.read("pid")), "{on_failure}");
}

#[test]
fn independent_steps_go_on_unless_said() {
    check("finish", 1, "cleaned ran waited");
}

#[test]
fn nothing_new_starts_after_a_failure_if_it_is_to_stop() {
    check("stop", 1, "ran");
}

#[test]
fn everything_ends_after_a_failure_if_it_is_to_be_cancelled() {
    check("cancel", 1, "");
}

#[test]
fn a_run_that_cannot_go_on_says_how_to() {
    let bench = Bench::new();
    let flow = r#"
[semaphore.slots]
capacity = 2

[step.shrinks]
run = "\"$WINDLASS\" sem slots --capacity 1 -- true"

[step.needs]
after     = ["shrinks"]
semaphore = { slots = 2 }
run       = "true"
"#;
    bench.write("flow.toml", flow);
    let output = bench.call(&["run", "flow.toml"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("go on with: windlass resume "), "{}", stderr(&output));
}
