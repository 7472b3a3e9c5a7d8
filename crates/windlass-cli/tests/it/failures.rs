//! The other steps after a failure.

use crate::bench::{Bench, runs, stderr, stdout};

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
fn independent_steps_run_after_a_failure_by_default() {
    check("finish", 1, "cleaned ran waited");
}

#[test]
fn nothing_starts_after_a_failure_with_on_failure_stop() {
    check("stop", 1, "ran");
}

#[test]
fn running_steps_end_after_a_failure_with_on_failure_cancel() {
    check("cancel", 1, "");
}

#[test]
fn a_step_cancelled_by_on_failure_names_the_failed_step() {
    let flow = r#"
concurrency = 2

[step.fails]
run = "until test -e begun; do sleep 0.01; done; exit 3"

[step.runs]
run = "touch begun; exec sleep 600"

[step.waits]
after = ["runs"]
run   = "true"
"#;
    let bench = Bench::new();
    bench.write("flow.toml", &format!("on_failure = 'cancel'\n{flow}"));
    let output = bench.call(&["run", "flow.toml"]);
    let why = r#"fails failed, and on_failure is "cancel""#;
    for step in ["runs", "waits"] {
        let told = stderr(&output);
        let line = told.lines().find(|line| line.starts_with(&format!("{step}: cancelled")));
        assert!(line.is_some_and(|line| line.ends_with(why)), "{told}");
        let told = stdout(&bench.call(&["why", &format!("last/{step}")]));
        assert!(told.contains(why), "{told}");
    }
}

#[test]
fn a_failure_that_is_tried_again_has_its_reason_where_it_fails() {
    let (bench, output) = Bench::run("[step.a]\nrun = 'exit $((WINDLASS_ATTEMPT + 2))'\n");
    assert!(stderr(&output).contains("ms: exit code 3\n"), "{}", stderr(&output));
    let again = stderr(&bench.call(&["retry", "last"]));
    let lines: Vec<_> = again.lines().collect();
    assert_eq!(lines[1..3], ["a: will run again", "a: started, attempt 2 of 2"], "{again}");
    assert!(lines[3].ends_with("attempt 2 of 2: exit code 4"), "{again}");
}

#[test]
fn a_run_that_an_error_stops_says_how_to_resume() {
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
    let output = bench.ends_with(2, &["run", "flow.toml"]);
    assert!(stderr(&output).contains("to resume: windlass resume "), "{}", stderr(&output));
}

#[test]
fn a_step_without_output_that_its_guard_failed_has_no_log() {
    let flow = "[step.a]\nrun = 'true'\nensure = 'no'\n\
        [guard.no]\ncondition = 'false'\nretry = { max = 1, interval = '1ms' }\non_timeout = 'fail'";
    let (_, output) = Bench::run(flow);
    let told = stderr(&output);
    assert!(told.contains("a: failed") && !told.contains("log:"), "{told}");
}
