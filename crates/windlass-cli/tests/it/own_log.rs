//! `windlass log` inside a run: it never reads what it writes itself.

use std::process::Output;

use crate::bench::{Bench, stderr, stdout};

/// Runs a workflow whose processes can write little, for little time.
fn run(flow: &str) -> (Bench, Output) {
    let bench = Bench::new();
    bench.write("flow.toml", flow);
    let bounded = "ulimit -f 20000; exec timeout 50 \"$WINDLASS\" run flow.toml";
    let output = bench.script(bounded).output().expect("sh runs");
    (bench, output)
}

/// Returns the text of one of the run's logs.
fn log(bench: &Bench, name: &str) -> String {
    bench.read(&format!("state/runs/{}/{name}", bench.run_id()))
}

#[test]
fn a_hook_prints_the_log_of_its_run_once() {
    for call in ["\"$WINDLASS\" log \"$WINDLASS_RUN\"", "\"$WINDLASS\" log last | tee copy"] {
        let flow =
            "[step.a]\nrun = 'echo hello'\n[step.b]\nrun = 'exit 3'\n[on]\nfailure = 'CALL'\n";
        let (bench, output) = run(&flow.replace("CALL", call));
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        let printed = log(&bench, "on.failure.log");
        let expected = "==> a: success <==\nhello\n\n==> b: failed: exit code 3 <==\n";
        assert_eq!(printed, expected, "{call}");
    }
}

#[test]
fn a_hook_can_follow_its_run_and_ends() {
    let flow = "[step.a]\nrun = 'echo hello'\n[on]\nsuccess = '\"$WINDLASS\" log -f last'\n";
    let (bench, output) = run(flow);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(log(&bench, "on.success.log"), "a | hello\n");
}

#[test]
fn finally_prints_the_log_of_its_own_step() {
    let flow = "[step.a]\nrun = 'echo hello'\nfinally = '\"$WINDLASS\" log last/a'\n";
    let (bench, output) = run(flow);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(log(&bench, "1-a.1.finally.log"), "hello\n");
}

#[test]
fn a_step_prints_the_logs_of_the_others() {
    let flow = "[step.a]\nrun = 'echo hello'\n[step.b]\nafter = 'a'\nrun = 'RUN'\n";
    let run_text = "echo mine; sleep 0.3; \"$WINDLASS\" log last; \"$WINDLASS\" log last/b";
    let (_, output) = run(&flow.replace("RUN", run_text));
    assert!(output.status.success(), "{}", stderr(&output));
    let none = "there is no other log than the one that this command prints to";
    let expected = format!("a | hello\nb | mine\nb | ==> a: success <==\nb | hello\nb | {none}\n");
    assert_eq!(stdout(&output), expected);
}

#[test]
fn a_step_of_a_nested_run_does_not_print_the_log_of_the_step_above_it() {
    let bench = Bench::new();
    bench.write("inner.toml", "[step.deep]\nrun = 'timeout 5 \"$WINDLASS\" log -f \"$OUTER\"'\n");
    let nested = "echo said; OUTER=$WINDLASS_RUN \"$WINDLASS\" run inner.toml || true";
    bench.write("flow.toml", &format!("[step.a]\nrun = '{nested}'\n"));
    let output = bench.script("ulimit -f 20000; exec \"$WINDLASS\" run flow.toml").output();
    let output = output.expect("sh runs");
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stdout(&output).matches("said").count();
    assert_eq!(said, 1, "{}", stdout(&output));
}
