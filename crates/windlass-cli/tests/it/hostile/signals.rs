//! Signals of every kind at many moments.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Output};
use std::time::Duration;

use rustix::process::Signal;

use super::GOOD;
use crate::bench::{Bench, eventually, runs, signal, stderr};

/// After how many milliseconds a signal comes: before anything is ready, in the middle, and after.
const MOMENTS: [u64; 4] = [0, 4, 12, 40];

fn bench() -> Bench {
    let bench = Bench::new();
    let guard = "[guard.never]\ncondition = 'false'\n";
    bench
        .write("flow.toml", &format!("[step.a]\nrun = 'echo $$ >> pids; exec sleep 600'\n{guard}"));
    bench.write("short.toml", &GOOD.replace("true", "sleep 0.1"));
    bench
}

fn end(child: Child) -> Output {
    child.wait_with_output().expect("it ends")
}

/// Sends the signal at each moment; a process that was not ready yet is ended by it, others end with its
/// code.
fn check_ends(signal_sent: Signal, arguments: &[&str]) {
    let number = signal_sent.as_raw();
    for moment in MOMENTS {
        let bench = bench();
        let child = bench.start(arguments);
        std::thread::sleep(Duration::from_millis(moment));
        signal(&child, signal_sent);
        let output = end(child);
        let told = format!(
            "{arguments:?}, {number} after {moment} ms: {:?} {}",
            output.status,
            stderr(&output)
        );
        let ended = output.status.code() == Some(128 + number);
        assert!(ended || output.status.signal() == Some(number), "{told}");
        assert!(!stderr(&output).contains("panicked"), "{told}");
        if ended {
            let left = |pids: String| pids.lines().any(runs);
            assert!(!left(bench.read("pids")), "a step goes on: {told}");
        }
    }
}

const ENDING: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];

#[test]
fn a_run_is_interrupted_by_whatever_asks_it_to_end() {
    ENDING.into_iter().for_each(|signal| check_ends(signal, &["run", "flow.toml"]));
}

#[test]
fn holding_and_waiting_end_with_the_code_of_the_signal() {
    for signal in ENDING {
        check_ends(signal, &["lock", "x", "--", "sleep", "600"]);
        check_ends(signal, &["guard", "flow.toml", "never"]);
        check_ends(signal, &["events", "-f"]);
    }
}

#[test]
fn other_signals_change_nothing() {
    for sent in [Signal::PIPE, Signal::CONT, Signal::WINCH, Signal::CHILD, Signal::TSTP] {
        for moment in MOMENTS {
            let bench = bench();
            let child = bench.start(&["run", "short.toml"]);
            std::thread::sleep(Duration::from_millis(moment));
            // Some signals end a process that is not ready yet and has done nothing.
            signal(&child, sent);
            signal(&child, Signal::CONT);
            let output = end(child);
            let (code, by) = (output.status.code(), output.status.signal());
            let early = by == Some(Signal::PIPE.as_raw());
            assert!(code == Some(0) || early, "{sent:?} after {moment} ms: {}", stderr(&output));
        }
    }
}

/// Returns a run whose step has begun, and ends when there is a file `go`.
fn begun() -> (Bench, Child) {
    let bench = Bench::new();
    let wait = "echo $$ > pids; touch begun; until test -e go; do sleep 0.01; done";
    bench.write("flow.toml", &format!("[step.a]\nrun = '{wait}'\n"));
    let child = bench.start(&["run", "flow.toml"]);
    bench.await_file("begun");
    (bench, child)
}

#[test]
fn signals_that_mean_nothing_to_a_run_leave_it_alone() {
    use Signal as S;
    let (bench, child) = begun();
    for sent in [S::USR1, S::USR2, S::ALARM, S::VTALARM, S::PROF, S::IO, S::XFSZ] {
        signal(&child, sent);
    }
    bench.write("go", "");
    let output = end(child);
    assert_eq!(output.status.code(), Some(0), "{:?} {}", output.status, stderr(&output));
    for sent in ["USR1", "ALRM"] {
        let (_, output) = Bench::run(&format!("[step.a]\nrun = 'kill -{sent} $$'\n"));
        assert!(stderr(&output).contains("ended by signal"), "{sent}: {}", stderr(&output));
    }
}

#[test]
fn a_run_that_has_no_processor_time_left_is_interrupted() {
    let (bench, child) = begun();
    signal(&child, Signal::XCPU);
    let output = end(child);
    assert_eq!(output.status.code(), Some(128 + 24), "{:?} {}", output.status, stderr(&output));
    assert!(!runs(bench.read("pids").trim()), "no process of a step survives it");
}

/// A terminal that is closed takes its run with it, in good order; `nohup` says that it must not.
#[test]
fn a_closed_terminal_interrupts_a_run_and_nohup_keeps_it() {
    let bench = bench();
    let child = bench.start(&["run", "flow.toml"]);
    eventually("it runs", || bench.read("pids").ends_with('\n'));
    signal(&child, Signal::HUP);
    let output = end(child);
    assert_eq!(output.status.code(), Some(129), "{}", stderr(&output));
    assert!(!runs(bench.read("pids").trim()), "no process of a step survives it");
    assert!(stderr(&output).contains("to resume: windlass resume"), "{}", stderr(&output));

    let wait = "touch begun; until test -e go; do sleep 0.01; done";
    bench.write("long.toml", &format!("[step.a]\nrun = '{wait}'\n"));
    for held in [&format!("lock x -- sh -c \"{wait}\""), "run long.toml"] {
        let mut nohup = bench.script(&format!("rm -f begun go; exec nohup \"$WINDLASS\" {held}"));
        let nohup = nohup.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let child = nohup.spawn().expect("nohup runs");
        bench.await_file("begun");
        signal(&child, Signal::HUP);
        bench.write("go", "");
        let output = end(child);
        assert_eq!(output.status.code(), Some(0), "{held}: {}", stderr(&output));
        assert!(std::fs::remove_file(bench.path("begun")).is_ok());
    }
}
