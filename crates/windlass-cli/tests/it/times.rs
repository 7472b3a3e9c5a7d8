//! Timeouts, grace, deadlines and slots of semaphores in a run.

use std::time::Duration;

use crate::bench::{Bench, runs, stderr, stdout};

#[test]
fn a_step_that_takes_too_long_is_ended_and_tried_again() {
    let (bench, _) = Bench::run_ends_with(
        0,
        r#"
[step.slow]
run     = "echo $WINDLASS_ATTEMPT >> record; echo $$ > pid; test $WINDLASS_ATTEMPT = 2 || sleep 600"
timeout = "300ms"
retry   = { count = 1, delay = "1ms", jitter = true }
"#,
    );
    assert_eq!(bench.read("record"), "1\n2\n");
    assert!(!runs(&bench.read("pid")));
}

#[test]
fn a_step_that_does_not_end_when_asked_is_killed_after_its_grace() {
    let (bench, _) = Bench::run_ends_with(
        1,
        r#"
[step.deaf]
run     = "trap 'echo asked >> record' TERM; echo $$ > pid; while :; do sleep 0.05; done"
timeout = "200ms"
grace   = "300ms"

[step.seen]
after = { deaf = "failed" }
run   = "echo killed >> record"

[step.clock]  # much longer than its grace, much shorter than the usual one
run = "sleep 3; echo clock >> record"

[step.after]
after = ["deaf"]
run   = "touch never"
"#,
    );
    assert_eq!(bench.read("record"), "asked\nkilled\nclock\n");
    assert!(!runs(&bench.read("pid")) && !bench.path("never").exists());
}

#[test]
fn a_run_that_misses_its_deadline_ends_with_124() {
    let (bench, output) = Bench::run_ends_with(
        124,
        r#"
deadline    = "400ms"
concurrency = 1

[step.slow]
run   = "sleep 600"
grace = "0s"

[step.waits]
run = "touch never"
"#,
    );
    assert!(!bench.path("never").exists(), "it failed while it waited");
    assert!(stderr(&output).contains(" missed its deadline: 2 failed\n"), "{}", stderr(&output));
}

#[test]
fn steps_that_wait_when_the_deadline_passes_have_failed_and_can_be_tried_again() {
    let flow = r#"
deadline = "300ms"

[step.guarded]
guard = ["open"]
run   = "true"

[step.delayed]
retry = { count = 1, delay = "1h" }
run   = "test -e open"

[guard.open]
condition = "test -e open"
"#;
    let (bench, output) = Bench::run_ends_with(124, flow);
    let why = "past the deadline of the run";
    let shown = stdout(&bench.call(&["show", "last"]));
    for step in ["guarded", "delayed"] {
        let told = stderr(&output);
        let line = told.lines().find(|line| line.starts_with(&format!("{step}: failed")));
        assert!(line.is_some_and(|line| line.ends_with(why)), "{told}");
        let row = shown.lines().find(|line| line.starts_with(step)).expect("it has a row");
        assert!(row.contains("failed") && row.contains(why), "{row}");
        let told = stdout(&bench.call(&["why", &format!("last/{step}")]));
        assert!(told.contains(why), "{told}");
    }
    bench.write("open", "");
    bench.ends_with(0, &["retry", "last"]);
    let shown = stdout(&bench.call(&["show", "last"]));
    assert!(!shown.contains(why), "that is past: {shown}");
}

#[test]
fn a_run_that_missed_its_deadline_can_be_retried() {
    let bench = Bench::new();
    let flow = "deadline = '2s'\n[step.a]\nrun = 'touch begun; test -e again || sleep 600'\n";
    bench.write("flow.toml", flow);
    let mut run = bench.start(&["run", "flow.toml"]);
    bench.await_file("begun");
    run.kill().expect("it runs");
    run.wait().expect("it was killed");
    // The rest of its time.
    std::thread::sleep(Duration::from_secs(2));
    bench.ends_with(124, &["resume", "last"]);
    bench.write("again", "");
    bench.ends_with(0, &["retry", "last"]);
}

#[test]
fn a_step_finds_its_deadline_in_a_variable() {
    let told = "test $WINDLASS_DEADLINE -ge $(($(date +%s) + LEAST)) && test $WINDLASS_DEADLINE -le $(($(date +%s) + MOST))";
    let check = |keys: &str, least: u32, most: u32| {
        let run_line = told.replace("LEAST", &least.to_string()).replace("MOST", &most.to_string());
        let (_, output) =
            Bench::run(&format!("deadline = '1h'\n[step.a]\nrun = '{run_line}'\n{keys}"));
        assert!(output.status.success(), "{keys}: {}", stderr(&output));
    };
    check("", 3500, 3600);
    check("timeout = '10m'", 500, 600);
    check("timeout = '5h'", 3500, 3600);
}

#[test]
fn steps_share_the_slots_of_a_semaphore_with_the_whole_machine() {
    let flow = r#"
concurrency = 8

[semaphore.slots]
capacity = 2

[step.work]
each      = { n = [1, 2, 3, 4, 5, 6] }
semaphore = { slots = 1 }
run       = "mkdir in-{n}; ls -d in-* | wc -l >> seen; sleep 0.1; rmdir in-{n}"
"#;
    let (bench, _) = Bench::run_ends_with(0, flow);
    let seen: Vec<u32> =
        bench.read("seen").lines().map(|n| n.trim().parse().expect("a number")).collect();
    assert_eq!(seen.len(), 6);
    assert!(seen.iter().all(|n| *n <= 2), "{seen:?}");
}

#[test]
fn an_attempt_that_was_interrupted_has_not_timed_out_meanwhile() {
    let bench = Bench::new();
    bench.write(
        "flow.toml",
        r#"
[step.slow]
run     = "touch begun-$WINDLASS_ATTEMPT; test -e go || sleep 600"
timeout = "600ms"
"#,
    );
    let mut child = bench.start(&["run", "flow.toml"]);
    bench.await_file("begun-1");
    child.kill().expect("it can be killed");
    child.wait().expect("it was killed");
    std::thread::sleep(Duration::from_millis(700));
    bench.write("go", "");
    bench.ends_with(0, &["resume", &bench.run_id()]);
    assert!(bench.path("begun-2").exists(), "it was tried again without a retry");
}
