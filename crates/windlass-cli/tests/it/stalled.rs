//! A process that is suspended while it keeps all others from writing to the store: they wait for it, say
//! so, and go on.

use std::fs::File;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::Signal;

use crate::bench::{Bench, eventually, runs, signal, stderr, stdout};

/// Has another process keep writers out, suspended.
pub(crate) fn block(bench: &Bench) -> Child {
    let blocker = bench.script("exec flock -F state/gate sleep 600").spawn().expect("sh runs");
    // It becomes that once it has the lock.
    eventually("it sleeps", || {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", blocker.id()));
        name.is_ok_and(|name| name == "sleep\n")
    });
    signal(&blocker, Signal::STOP);
    blocker
}

/// Ends the process that keeps writers out.
pub(crate) fn unblock(mut blocker: Child) {
    signal(&blocker, Signal::KILL);
    blocker.wait().expect("it was killed");
}

/// What is said about the process, once.
pub(crate) fn told(blocker: &Child) -> String {
    let pid = blocker.id();
    format!(
        "state/gate is locked by process {pid} (sleep 600), which is suspended; resume it with: \
         kill -CONT {pid}, or end it with: kill -KILL {pid}\n"
    )
}

/// Starts the binary with its error output in one file, and its output in another.
fn start(bench: &Bench, arguments: &[&str], said: &str) -> Child {
    let file = |name: &str| File::create(bench.path(name)).expect("a file");
    let mut command = bench.command(arguments);
    command.stdout(file("printed")).stderr(file(said)).spawn().expect("the binary runs")
}

fn await_told(bench: &Bench, said: &str, blocker: &Child) {
    eventually("it is told", || bench.read(said).contains(&told(blocker)));
}

#[test]
fn a_run_waits_for_a_suspended_writer_and_its_steps_go_on() {
    let bench = Bench::new();
    let flow = "[step.a]\nrun = 'touch begun; until test -e go; do sleep 0.01; done; seq 1 100000; touch done'\n\
        [step.b]\nafter = ['a']\nrun = 'touch ran'\n";
    bench.write("flow.toml", flow);
    let run = start(&bench, &["run", "flow.toml"], "said");
    bench.await_file("begun");
    let blocker = block(&bench);
    bench.write("go", "");
    // That is ten times what a pipe holds.
    bench.await_file("done");
    await_told(&bench, "said", &blocker);
    assert!(!bench.path("ran").exists(), "the end of the first step is not stored");
    let pid = blocker.id();
    unblock(blocker);
    let output = run.wait_with_output().expect("it ends");
    let said = bench.read("said");
    assert!(output.status.success() && bench.path("ran").exists(), "{said}");
    assert_eq!(bench.read("printed").lines().count(), 100_000);
    assert_eq!(said.matches(&format!("process {pid}")).count(), 1, "it is told once: {said}");
}

#[test]
fn a_signal_ends_a_run_that_waits_for_a_suspended_writer_and_it_can_be_resumed() {
    let bench = Bench::new();
    let flow = "[step.a]\nrun = 'touch begun; until test -e go; do sleep 0.01; done'\n\
        [step.b]\nrun = 'test -e again && exit; echo $$ > pid; trap \"touch asked; exit 1\" TERM; touch waits; while :; do sleep 0.01; done'\n\
        [step.c]\nafter = ['a', 'b']\nrun = 'touch ran'\n";
    bench.write("flow.toml", flow);
    let run = start(&bench, &["run", "flow.toml"], "said");
    bench.await_file("begun");
    bench.await_file("waits");
    let blocker = block(&bench);
    bench.write("go", "");
    await_told(&bench, "said", &blocker);
    signal(&run, Signal::TERM);
    let output = run.wait_with_output().expect("it ends");
    let said = bench.read("said");
    assert_eq!(output.status.code(), Some(143), "{said}");
    assert!(said.contains("windlass resume"), "{said}");
    assert!(bench.path("asked").exists() && !runs(&bench.read("pid")), "{said}");
    unblock(blocker);
    bench.write("again", "");
    let resumed = bench.call(&["resume"]);
    assert!(resumed.status.success() && bench.path("ran").exists(), "{}", stderr(&resumed));
}

/// Holds the lock x from the file `held` until there is a file `go`.
const HOLD: [&str; 7] = ["lock", "x", "--heartbeat-timeout", "2s", "--", "sh", "-c"];
const COMMAND: &str = "touch held; until test -e go; do sleep 0.01; done; touch done";

#[test]
fn a_lock_is_not_lost_while_its_holder_can_send_no_heartbeats() {
    let bench = Bench::new();
    let holder = bench.start(&[&HOLD[..], &[COMMAND]].concat());
    bench.await_file("held");
    let earlier = bench.start(&["lock", "x", "--", "test", "-e", "done"]);
    eventually("it waits", || stdout(&bench.call(&["holders"])).contains("wanted by"));
    let blocker = block(&bench);
    let later = start(&bench, &["lock", "x", "--", "test", "-e", "done"], "said");
    // Longer than the heartbeats may be missing.
    await_told(&bench, "said", &blocker);
    unblock(blocker);
    let holders = stdout(&bench.call(&["holders"]));
    assert!(holders.contains("lock \"x\": held by command \"sh -c touch held"), "{holders}");
    bench.write("go", "");
    for child in [holder, earlier, later] {
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{:?}: {}", output.status, stderr(&output));
    }
}

#[test]
fn a_step_keeps_its_lock_while_its_run_can_send_no_heartbeats() {
    let bench = Bench::new();
    let flow = "[semaphore.unused]\ncapacity = 1\nheartbeat_timeout = '2s'\n\
        [step.a]\nlock = 'x'\nrun = 'touch held; until test -e go; do sleep 0.01; done; touch done'\n";
    bench.write("flow.toml", flow);
    let run = bench.start(&["run", "flow.toml"]);
    bench.await_file("held");
    let blocker = block(&bench);
    let waits = start(&bench, &["lock", "x", "--", "test", "-e", "done"], "said");
    await_told(&bench, "said", &blocker);
    unblock(blocker);
    bench.write("go", "");
    for child in [run, waits] {
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{:?}: {}", output.status, stderr(&output));
    }
}

#[test]
fn a_verb_waits_for_a_suspended_writer_and_does_what_it_was_asked_for() {
    let bench = Bench::new();
    assert!(bench.call(&["emit", "first"]).status.success());
    let blocker = block(&bench);
    let emit = start(&bench, &["emit", "second"], "said");
    await_told(&bench, "said", &blocker);
    assert_eq!(stdout(&bench.call(&["events"])).lines().count(), 1, "readers do not wait");
    unblock(blocker);
    assert!(emit.wait_with_output().expect("it ends").status.success());
    assert_eq!(bench.read("printed"), "2\n");
    assert_eq!(stdout(&bench.call(&["events"])).lines().count(), 2);
}

#[test]
fn a_limited_wait_for_a_lock_ends_although_nobody_can_write() {
    let bench = Bench::new();
    assert!(bench.call(&["emit", "first"]).status.success());
    let blocker = block(&bench);
    for limited in [&["-w", "1"][..], &["-n"]] {
        let output = bench.call(&[&["lock"], limited, &["x", "--", "touch", "ran"]].concat());
        assert_eq!(output.status.code(), Some(69), "{}", stderr(&output));
        let said = stderr(&output);
        assert!(said.contains("timed out waiting for the store"), "{said}");
        assert!(said.contains(&told(&blocker)), "{said}");
    }
    unblock(blocker);
    assert!(!bench.path("ran").exists());
}

#[test]
fn a_wrapper_that_cannot_release_its_lock_ends_with_a_signal_and_the_lock_is_free() {
    let bench = Bench::new();
    let holder = start(&bench, &[&HOLD[..], &[COMMAND]].concat(), "said");
    bench.await_file("held");
    let blocker = block(&bench);
    bench.write("go", "");
    await_told(&bench, "said", &blocker);
    signal(&holder, Signal::INT);
    assert_eq!(holder.wait_with_output().expect("it ends").status.code(), Some(130));
    unblock(blocker);
    assert!(bench.call(&["lock", "-w", "30", "x", "--", "true"]).status.success());
}

/// Has an `emit` suspend itself while it stores the event, under a tracer. Returns the tracer and the pid;
/// none where that is not allowed.
fn suspended_emit(bench: &Bench) -> Option<(Child, String)> {
    let allowed = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status();
    if !allowed.is_ok_and(|status| status.success()) {
        return None;
    }
    let strace = "exec strace -f -o trace -e trace=fdatasync \
        -e inject=fdatasync:signal=STOP:when=1 \"$WINDLASS\" emit suspended";
    let emit = bench.script(strace).stdout(Stdio::piped()).spawn().expect("sh runs");
    // Each line begins with the pid.
    let stopped = || {
        let trace = bench.read("trace");
        let line = trace.lines().find(|line| line.contains("stopped by SIGSTOP"));
        line.and_then(|line| line.split_whitespace().next().map(str::to_owned))
    };
    eventually("it is suspended", || stopped().is_some());
    Some((emit, stopped().expect("it was just now")))
}

#[test]
fn what_a_suspended_process_was_writing_is_stored_when_it_is_resumed() {
    let bench = Bench::new();
    assert!(bench.call(&["emit", "first"]).status.success());
    let Some((emit, pid)) = suspended_emit(&bench) else { return };
    bench.write("flow.toml", "[step.a]\nrun = 'touch ran'\n");
    let run = start(&bench, &["run", "flow.toml"], "said");
    let told = format!("is locked by process {pid} (");
    eventually("the run tells whom it waits for", || bench.read("said").contains(&told));
    assert!(bench.read("said").contains("/windlass emit suspended), which is suspended;"));
    assert!(!bench.path("ran").exists());
    let resumed = Command::new("kill").args(["-CONT", &pid]).status();
    assert!(resumed.expect("kill runs").success());
    let ended = |child: Child| -> Output { child.wait_with_output().expect("it ends") };
    assert_eq!(stdout(&ended(emit)), "2\n");
    assert!(ended(run).status.success() && bench.path("ran").exists(), "{}", bench.read("said"));
}
