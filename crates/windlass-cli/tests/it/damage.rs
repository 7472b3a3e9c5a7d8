//! A store that is damaged, replaced, full or of another kind: a clear error, and 69.

use std::cell::RefCell;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use rustix::process::Signal;

use crate::bench::{Bench, eventually, runs, signal, stderr, stdout};
use crate::looking::stage::Stage;

fn with_store() -> Bench {
    let bench = Bench::new();
    assert!(bench.call(&["emit", "kept"]).status.success());
    bench
}

/// Puts something in the place of the store.
fn replace(bench: &Bench, bytes: &[u8]) {
    for file in ["store.db-wal", "store.db-shm"] {
        let _ = fs::remove_file(bench.path("state").join(file));
    }
    fs::write(bench.path("state/store.db"), bytes).expect("a file");
}

fn check_refused(bench: &Bench, said: &str) {
    for arguments in [&["lock", "x", "--", "touch", "ran"][..], &["holders"], &["emit", "e"]] {
        let output = bench.call(arguments);
        assert_eq!(output.status.code(), Some(69), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{arguments:?}: {}", stderr(&output));
        assert!(!bench.path("ran").exists());
    }
}

#[test]
fn what_is_not_our_store_is_not_touched() {
    let bench = with_store();
    replace(&bench, b"");
    check_refused(&bench, "removed or replaced");
    replace(&bench, &b"random bytes ".repeat(1000));
    check_refused(&bench, "damaged or not a store");
    fs::remove_file(bench.path("state/store.db")).expect("it was there");
    check_refused(&bench, "removed or replaced");
}

#[test]
fn a_waiting_process_reports_that_its_store_is_gone() {
    let bench = with_store();
    bench.write(
        "flow.toml",
        "[step.a]\nrun = 'true'\n[guard.g]\ncondition = 'touch begun; false'\n",
    );
    let waiting = [bench.start(&["events", "-f"]), bench.start(&["guard", "flow.toml", "g"])];
    bench.await_file("begun");
    // One that opened the store only after this would make a new one.
    eventually("both listen for events", || {
        fs::read_dir(bench.path("state/wakeups/events")).is_ok_and(|dir| dir.count() == 2)
    });
    fs::rename(bench.path("state"), bench.path("elsewhere")).expect("it is there");
    for child in waiting {
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(69), "{}", stderr(&output));
        assert!(stderr(&output).contains("removed or replaced"), "{}", stderr(&output));
    }
}

/// Starts a run, does something to its store while a step runs, and lets the step end.
fn run_and_lose(what: &str) -> (Bench, Output) {
    lose_during(what, "true")
}

/// Does the same while a step runs that ends with this.
fn lose_during(what: &str, last: &str) -> (Bench, Output) {
    let bench = with_store();
    let flow = format!(
        "[step.a]\nrun = 'echo $$ > pid; touch begun; while ! test -e go; do sleep 0.01; done; {last}'\n\
         [step.b]\nafter = ['a']\nrun = 'touch ran'\n"
    );
    bench.write("flow.toml", &flow);
    let run = bench.start(&["run", "flow.toml"]);
    bench.await_file("begun");
    assert!(bench.script(what).status().expect("sh runs").success(), "{what}");
    bench.write("go", "");
    let output = run.wait_with_output().expect("it ends");
    (bench, output)
}

#[test]
fn a_run_whose_store_is_lost_fails_and_reports_it() {
    for (what, said) in [
        ("rm state/store.db-wal", "state/store.db-wal was removed or replaced"),
        ("rm state/store.db", "state/store.db was removed or replaced"),
        ("rm state/gate", "state/gate was removed or replaced"),
        // The run may notice it before all files are gone, or make the directory of its logs again.
        ("rm -rf state", " was removed or replaced"),
        ("mv state elsewhere", " was removed or replaced"),
        ("cp state/store.db x; mv x state/store.db", "state/store.db was removed or replaced"),
        ("truncate -s 0 state/store.db", "state/store.db was truncated"),
        ("truncate -s 1000 state/store.db", "state/store.db was truncated"),
        ("truncate -s 0 state/store.db-wal", "state/store.db-wal was truncated"),
        ("truncate -s 5000 state/store.db-wal", "state/store.db-wal was truncated"),
    ] {
        let (bench, output) = run_and_lose(what);
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(69), "{what}: {told}");
        let error = told.lines().find(|line| line.starts_with("windlass: "));
        let error = error.unwrap_or_else(|| panic!("{what}: {told}"));
        assert!(error.contains(said) && error.contains("backup"), "{what}: {told}");
        assert!(!told.contains("windlass resume"), "there is nothing to resume: {told}");
        assert!(!told.contains("succeeded"), "{what}: {told}");
        assert!(!runs(&bench.read("pid")), "{what}: a step is left running: {told}");
        assert!(!bench.path("ran").exists(), "{what}: nothing was started after that: {told}");
    }
}

#[test]
fn a_run_whose_store_is_gone_does_not_say_to_resume_it_when_a_log_tells_first() {
    for what in ["rm -rf state", "mv state elsewhere", "rm -rf state; touch state"] {
        let (_bench, output) = lose_during(what, "echo said");
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(69), "{what}: {told}");
        assert!(told.contains("removed or replaced"), "{what}: {told}");
        assert!(!told.contains("windlass resume"), "there is nothing to resume: {told}");
    }
    let (_bench, output) = lose_during("rm -rf state/runs", "echo said");
    let told = stderr(&output);
    assert!(told.contains("a log cannot be written") && told.contains("windlass resume"), "{told}");
}

#[test]
fn a_run_whose_lock_file_was_changed_goes_on_and_writes_it_again() {
    for what in ["truncate -s 0", "truncate -s 10", "truncate -s 99", "cp flow.toml"] {
        let (bench, output) = run_and_lose(&format!("{what} state/gate"));
        assert!(output.status.success() && bench.path("ran").exists(), "{}", stderr(&output));
        let emitted = bench.call(&["emit", "later"]);
        assert_eq!(stdout(&emitted), "2\n", "{what}: {}", stderr(&emitted));
    }
}

#[test]
fn a_run_whose_index_is_lost_loses_nothing_and_can_be_resumed() {
    for what in [
        "rm state/store.db-shm",
        "truncate -s 0 state/store.db-shm",
        "cp state/store.db-shm x; mv x state/store.db-shm",
        "rm state/store.db-shm; \"$WINDLASS\" emit second",
    ] {
        let (bench, output) = run_and_lose(what);
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(69), "{what}: {told}");
        assert!(told.contains("state/store.db-shm was removed, replaced or truncated"), "{told}");
        assert!(told.contains("windlass resume"), "{what}: {told}");
        assert!(!runs(&bench.read("pid")) && !bench.path("ran").exists(), "{what}: {told}");
        let resumed = bench.call(&["resume"]);
        assert!(resumed.status.success() && bench.path("ran").exists(), "{}", stderr(&resumed));
        let events = stdout(&bench.call(&["events"]));
        assert_eq!(events.lines().count(), 1 + what.matches("emit").count(), "{what}: {events}");
    }
}

/// That is how a process ends that reads what was cut off from the index under it.
#[test]
fn a_run_that_was_ended_by_sigbus_can_be_resumed() {
    let bench = with_store();
    let flow = "[step.a]\nrun = 'echo a >> record'\n[step.b]\nafter = ['a']\n\
        run = 'touch begun; until test -e go; do sleep 0.01; done'\n";
    bench.write("flow.toml", flow);
    let run = bench.start(&["run", "flow.toml"]);
    bench.await_file("begun");
    let run = RefCell::new(run);
    eventually("it ends", || {
        let mut run = run.borrow_mut();
        // The first one only takes away the handler that a fault would come to again.
        signal(&run, Signal::BUS);
        run.try_wait().expect("a child").is_some()
    });
    let output = run.into_inner().wait_with_output().expect("it ends");
    assert_eq!(output.status.signal(), Some(Signal::BUS.as_raw()), "{}", stderr(&output));
    let state = bench.path("state/store.db-shm");
    fs::write(state, "").expect("it can be truncated");
    bench.write("go", "");
    let resumed = bench.call(&["resume"]);
    assert!(resumed.status.success(), "{}", stderr(&resumed));
    assert_eq!(bench.read("record"), "a\n", "what had ended was not repeated");
    assert_eq!(stdout(&bench.call(&["events"])).lines().count(), 1);
}

#[test]
fn a_store_that_another_program_has_checkpointed_is_not_lost() {
    let script = "import sqlite3; c = sqlite3.connect('state/store.db'); \
                  print(c.execute('PRAGMA wal_checkpoint(TRUNCATE)').fetchone())";
    let python = Command::new("python3").args(["-c", "import sqlite3"]).status();
    if !python.is_ok_and(|status| status.success()) {
        return;
    }
    let (bench, output) = run_and_lose(&format!("python3 -c \"{script}\""));
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&bench.call(&["history"])).contains("succeeded"));
}

#[test]
fn a_store_of_the_future_is_refused_with_a_plain_sentence() {
    let bench = with_store();
    if change(&bench, "PRAGMA user_version = 99") {
        check_refused(&bench, "use a newer windlass");
    }
}

/// Changes something in the store behind its back. Whether that could be done.
pub(crate) fn change(bench: &Bench, sql: &str) -> bool {
    let script = "import sqlite3, sys; c = sqlite3.connect('state/store.db'); c.execute(sys.argv[1]); c.commit()";
    let mut python = Command::new("python3");
    let changed = python.args(["-c", script, sql]).current_dir(bench.path(".")).status();
    changed.is_ok_and(|status| status.success())
}

#[test]
fn a_run_that_cannot_be_read_is_not_left_out_in_silence() {
    let mut stage = Stage::new();
    stage.submit("5555eeee", "quick", "[step.a]\nrun = 'a'\n");
    stage.abandon();
    if change(&stage.bench, "UPDATE run SET params = 'no JSON'") {
        let output = stage.bench.call(&["ps"]);
        assert_eq!(output.status.code(), Some(69), "{}{}", stdout(&output), stderr(&output));
    }
}

/// Runs a script as root of a mount namespace of its own. None where that is not allowed.
pub(crate) fn in_namespace(bench: &Bench, script: &str) -> Option<Output> {
    let allowed = Command::new("unshare").args(["-Urm", "true"]).status();
    if !allowed.is_ok_and(|status| status.success()) {
        return None;
    }
    let inner = bench.script(script);
    let mut command = Command::new("unshare");
    command.args(["-Urm", "sh", "-eu", "-c", script]).current_dir(bench.path("."));
    for (name, value) in inner.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    Some(command.output().expect("unshare runs"))
}

#[test]
fn a_full_disk_is_69_and_what_was_acknowledged_is_there() {
    let bench = Bench::new();
    let script = r#"
        mkdir disk; mount -t tmpfs -o size=2m tmpfs disk; export WINDLASS_STATE=disk/state
        "$WINDLASS" emit first > /dev/null
        head -c 3000000 /dev/zero > disk/filler 2>/dev/null || true
        set +e; n=0
        while "$WINDLASS" emit more > /dev/null 2> said; do n=$((n + 1)); test $n -lt 2000 || break; done
        "$WINDLASS" emit more 2> said; echo code $?; cat said >&2
        rm disk/filler
        echo counted $n; "$WINDLASS" events | grep -c -e first -e more
        "$WINDLASS" emit again > /dev/null; echo code $?"#;
    let Some(output) = in_namespace(&bench, script) else { return };
    let text = stdout(&output);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "code 69", "{text}{}", stderr(&output));
    let number = |line: &str| line.rsplit(' ').next().and_then(|n| n.parse::<u32>().ok());
    let (counted, kept) = (number(lines[1]), number(lines[2]));
    assert_eq!(kept, counted.map(|counted| counted + 1), "{text}{}", stderr(&output));
    assert_eq!(lines[3], "code 0", "{text}{}", stderr(&output));
}

/// The disk stays full for longer than the lock would live without heartbeats.
#[test]
fn a_lock_is_held_while_the_disk_is_full() {
    let bench = Bench::new();
    let script = r#"
        mkdir disk; mount -t tmpfs -o size=2m tmpfs disk; export WINDLASS_STATE=disk/state
        "$WINDLASS" emit first > /dev/null
        set +e
        "$WINDLASS" lock x --heartbeat-timeout 3s -- \
            sh -c 'touch held; until test -e enough; do sleep 0.05; done; echo done' &
        until test -e held; do sleep 0.01; done
        head -c 3000000 /dev/zero > disk/filler 2> /dev/null
        sleep 4
        rm disk/filler
        "$WINDLASS" lock -n x -- echo both; echo other $?
        touch enough; wait $!; echo code $?"#;
    let Some(output) = in_namespace(&bench, script) else { return };
    assert_eq!(stdout(&output), "other 75\ndone\ncode 0\n", "{}", stderr(&output));
}

#[test]
fn a_full_disk_has_room_again_once_runs_with_logs_are_forgotten() {
    let bench = Bench::new();
    bench.write("flow.toml", "[step.a]\nrun = 'head -c 200000 /dev/zero'\n");
    let script = r#"
        mkdir disk; mount -t tmpfs -o size=4m tmpfs disk; export WINDLASS_STATE=disk/state
        for run in 1 2 3; do "$WINDLASS" run flow.toml > /dev/null 2>&1; done
        head -c 5000000 /dev/zero > disk/filler 2>/dev/null || true
        set +e
        "$WINDLASS" emit more > /dev/null 2>&1; echo code $?
        "$WINDLASS" prune --keep 1 | grep -c '  195.[0-9] KiB'
        "$WINDLASS" history --json | wc -l; ls disk/state/runs | wc -l
        test "$("$WINDLASS" log last | wc -c)" -gt 200000 && echo whole
        "$WINDLASS" emit more > /dev/null; echo code $?"#;
    let Some(output) = in_namespace(&bench, script) else { return };
    let lines = ["code 69", "2", "1", "1", "whole", "code 0"];
    assert_eq!(stdout(&output).lines().collect::<Vec<_>>(), lines, "{}", stderr(&output));
}

#[test]
fn a_read_only_store_is_69() {
    let bench = with_store();
    let script = r#"
        mount --bind state state; mount -o remount,bind,ro state
        set +e; "$WINDLASS" lock x -- touch ran 2> said; echo $?; cat said >&2"#;
    let Some(output) = in_namespace(&bench, script) else { return };
    assert_eq!(stdout(&output), "69\n", "{}", stderr(&output));
    assert!(!bench.path("ran").exists());
}

#[test]
fn a_lost_log_is_an_error_and_not_an_empty_log() {
    let flow =
        "[step.a]\nrun = 'echo a; exit 1'\n[step.b]\nrun = 'echo b'\n[step.c]\nrun = 'true'\n";
    let (bench, _) = Bench::run(flow);
    let logs = bench.path("state/runs").join(bench.run_id());
    fs::remove_file(logs.join("1-a.1.log")).expect("there is a log");
    let check = |target: &str, printed: &str, code| {
        for flags in [&["--json"][..], &["-f"], &["-f", "--json"], &[]] {
            let output = bench.call(&[&["log", target], flags].concat());
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(code), "{target} {flags:?}: {said}");
            let unread = said.contains("cannot read ") && said.contains("1-a.1.log: ");
            assert_eq!(unread, code == 69, "{said}");
            assert!(stdout(&output).contains(printed), "{target}: {}", stdout(&output));
        }
    };
    check("last", "b", 69);
    check("last/a", "", 69);
    check("last/a@1", "", 69);
    check("last/b", "b", 0);
    check("last/c", "", 0);
    fs::remove_dir_all(logs).expect("there are logs");
    check("last/a", "", 69);
}
