//! Runs in adverse places: the reader is gone, the disk is full, others want to lead or to hold the same.

use std::cell::RefCell;
use std::fs;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::bench::{Bench, eventually, runs, signal, stderr, stdout};
use crate::damage::in_namespace;

#[test]
fn the_command_that_ships_knows_nothing_of_fault_points() {
    let bench = Bench::new();
    bench.write("flow.toml", "[step.only]\nrun = 'echo once >> record'\n");
    let mut command = bench.command(&["run", "flow.toml"]);
    let faults = ["before-submit", "before-commit", "after-commit", "after-spawn", "after-exit"];
    let faults = faults.map(|point| format!("{point}:1")).join(",");
    command.env("WINDLASS_FAULT", faults).env("WINDLASS_FAULT_REPORT", bench.path("report"));
    let output = command.output().expect("the binary runs");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(bench.read("record"), "once\n");
    assert!(!bench.path("report").exists());
    let program = fs::read(env!("CARGO_BIN_EXE_windlass")).expect("it can be read");
    let name = b"WINDLASS_FAULT";
    assert!(!program.windows(name.len()).any(|bytes| bytes == name), "not even the name");
}

/// Calls the binary in a shell with `what`, which takes its voice away.
fn check_unheard(what: &str, code: &str) {
    let bench = Bench::new();
    let step = "run = 'echo said; echo said >&2; echo ran >> record'\n";
    let flow: String = (0..20).map(|number| format!("[step.s{number}]\n{step}")).collect();
    bench.write("flow.toml", &flow);
    let script = what
        .replace("RUN", "{ code=0; \"$WINDLASS\" run flow.toml || code=$?; echo $code > code; }");
    let output = bench.script(&script).output().expect("sh runs");
    eventually("the run has ended", || bench.path("code").exists());
    eventually("it has said how", || bench.read("code").ends_with('\n'));
    assert_eq!(bench.read("code"), format!("{code}\n"), "{what}: {}", stderr(&output));
    assert_eq!(bench.read("record"), "ran\n".repeat(20), "{what}");
}

#[test]
fn a_run_continues_when_its_output_is_closed() {
    check_unheard("RUN | true", "0");
    check_unheard("RUN | head -n 1", "0");
    check_unheard("RUN 2>&1 | true", "0");
    check_unheard("RUN 2>&1 | head -n 1", "0");
    check_unheard("RUN >&- 2>&-", "0");
    check_unheard("RUN 2> /dev/full", "0");
    // Every step ran, but the caller has not got the output that it asked for.
    check_unheard("RUN > /dev/full 2>&1", "69");
}

/// The second step fills the disk on which the store lies; after that something cannot be stored.
#[test]
fn a_run_stops_on_a_full_disk_and_resumes_when_there_is_room() {
    let bench = Bench::new();
    let fill = "run = 'test -e filled || { touch filled; head -c 9000000 /dev/zero > disk/filler 2> /dev/null || true; }; echo fill >> record'\n";
    let steps = (0..30).map(|number| {
        let before = if number == 0 { "fill".to_owned() } else { format!("s{}", number - 1) };
        format!("[step.s{number}]\nafter = ['{before}']\nrun = 'echo s{number} >> record'\n")
    });
    let first = "[step.first]\nrun = 'echo first >> record'\n[step.fill]\nafter = ['first']\n";
    bench.write("flow.toml", &format!("{first}{fill}{}", steps.collect::<String>()));
    let script = r#"
        mkdir disk; mount -t tmpfs -o size=4m tmpfs disk; export WINDLASS_STATE=disk/state
        set +e
        "$WINDLASS" run flow.toml > said 2>&1; echo code $?; cp record before
        rm disk/filler
        "$WINDLASS" resume "$(ls disk/state/runs)" > again 2>&1; echo code $?"#;
    let Some(output) = in_namespace(&bench, script) else { return };
    let said = || format!("{}{}{}", bench.read("said"), bench.read("again"), stderr(&output));
    assert_eq!(stdout(&output), "code 69\ncode 0\n", "{}", said());
    assert!(bench.read("said").contains("to resume: windlass resume"), "{}", said());
    let before = bench.read("before").lines().count();
    let record = bench.read("record");
    let mut steps: Vec<_> = record.lines().collect();
    assert!((2..32).contains(&before), "it stopped under way, after {before} steps: {}", said());
    // What could not be stored was done again, and nothing else.
    steps.dedup();
    let chain: Vec<_> = (0..30).map(|number| format!("s{number}")).collect();
    let expected: Vec<_> =
        ["first", "fill"].into_iter().chain(chain.iter().map(String::as_str)).collect();
    assert_eq!(steps, expected, "{}", said());
    assert!(record.lines().count() <= expected.len() + 1, "{record}");
}

/// Removes the directory of the run's logs; a file system without room for another file does the same.
const NO_LOGS: &str = "[step.first]\nrun = 'rm -r $(dirname $WINDLASS_OUTPUT)'\n";

/// Checks that a run which cannot write a log stops, and resumes when there is room again.
fn check_without_logs(bench: &Bench, next: &str, said: &str) {
    bench.write("flow.toml", &format!("{NO_LOGS}{next}"));
    let output = bench.call(&["run", "flow.toml"]);
    assert_eq!(output.status.code(), Some(69), "{next}: {}", stderr(&output));
    let told = stderr(&output);
    let last = told.lines().last().expect("it says why");
    assert!(last.starts_with(&format!("windlass: {said}: ")), "{told}");
    assert!(last.ends_with(": No such file or directory (os error 2)"), "{told}");
    assert!(stderr(&output).contains("to resume: windlass resume"), "{}", stderr(&output));
    assert_eq!(bench.read("record"), "");
    bench.write("again", "");
    bench.call(&["resume", "last"]);
    assert_eq!(bench.read("record"), "next\n", "{next}");
}

#[test]
fn a_run_that_cannot_create_a_log_stops_and_can_be_resumed() {
    let cannot = "a log cannot be created";
    check_without_logs(&Bench::new(), "finally = 'echo next >> record'\n", cannot);
    check_without_logs(&Bench::new(), "[on]\nsuccess = 'echo next >> record'\n", cannot);
}

#[test]
fn a_step_whose_log_cannot_be_written_stops_the_run_and_runs_again() {
    let next = "[step.next]\nafter = ['first']\nrun = 'echo said; echo $$ > pid; \
        until test -e again; do sleep 0.05; done; echo next >> record'\n";
    let bench = Bench::new();
    check_without_logs(&bench, next, "a log cannot be written");
    eventually("nothing of it is left", || !runs(&bench.read("pid")));
}

/// Runs a step that has the process that leads its run find no room for the stack of another thread, once
/// that has those of any run, and then does this.
fn run_without_threads(step: &str, more: &str) -> (Bench, Output) {
    let bench = Bench::new();
    let limit = "until cat /proc/$PPID/task/*/comm | grep -qx heartbeat; do sleep 0.02; done; \
         size=$(awk '/VmSize/ { print $2 }' /proc/$PPID/status); \
        prlimit --pid $PPID --as=$(( (size + 1536) * 1024 ));";
    bench.write("flow.toml", &format!("[step.a]\nrun = \"\"\"{limit} {step}\"\"\"\n{more}"));
    let mut command = bench.command(&["run", "flow.toml"]);
    // Otherwise each thread has a place of its own for its memory, and cannot have it either.
    let output = command.env("MALLOC_ARENA_MAX", "1").output().expect("the binary runs");
    (bench, output)
}

#[test]
fn outputs_are_read_even_if_no_thread_can_be_started() {
    let reads = "[step.b]\nafter = ['a']\nrun = 'echo {a.word} > seen'\n";
    let (bench, output) = run_without_threads("echo word=said > $WINDLASS_OUTPUT", reads);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(bench.read("seen"), "said\n");
}

#[test]
fn a_run_that_cannot_start_a_thread_leaves_nothing_running() {
    let (bench, output) = run_without_threads("sleep 600 & echo $! > pid", "");
    assert_eq!(output.status.code(), Some(69), "{}", stderr(&output));
    eventually("it is gone", || !runs(&bench.read("pid")));
}

/// Long enough for a run on a busy machine to beat in time.
#[test]
fn a_step_that_lost_its_lock_during_a_suspension_reports_it() {
    let bench = Bench::new();
    let flow = "[semaphore.unused]\ncapacity = 1\nheartbeat_timeout = '3s'\n\
        [step.holder]\nlock = 'x'\nrun = 'touch begun; sleep 600'\n";
    bench.write("flow.toml", flow);
    let run = bench.start(&["run", "flow.toml"]);
    bench.await_file("begun");
    signal(&run, Signal::STOP);
    let taken = bench.call(&["lock", "x", "--wait", "60s", "--", "true"]);
    signal(&run, Signal::CONT);
    assert!(taken.status.success(), "{}", stderr(&taken));
    let output = run.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let said =
        "s: lock \"x\" was lost while it ran, as after a pause of windlass or of the machine";
    assert!(stderr(&output).contains(said), "{}", stderr(&output));
}

/// One step that holds the lock x, with a child in the background, until there is a file `go`.
const HOLDER: &str = r#"
[step.holder]
lock = "x"
run  = "sleep 600 & echo $! > child; echo $$ > pid; echo $WINDLASS_ATTEMPT >> record; touch begun; until test -e go; do sleep 0.02; done"
"#;

fn killed_holder() -> Bench {
    let bench = Bench::new();
    bench.write("flow.toml", HOLDER);
    let mut child = bench.start(&["run", "flow.toml"]);
    bench.await_file("begun");
    child.kill().expect("it can be killed");
    child.wait().expect("it was killed");
    bench
}

/// Says which of the holder's processes still run.
const LOOK: &str = r#"
for pid in $(cat pid child); do
    if tr -d '\0' < /proc/$pid/cmdline | grep -q .; then echo $pid runs; fi
done 2> /dev/null
echo looked"#;

#[test]
fn the_lock_of_a_killed_run_is_free_when_its_processes_are_gone() {
    let bench = killed_holder();
    bench.write("look.sh", LOOK);
    let output = bench.call(&["lock", "x", "--wait", "60s", "--", "sh", "look.sh"]);
    assert_eq!(stdout(&output), "looked\n", "{}", stderr(&output));

    let bench = killed_holder();
    bench.write("look.sh", LOOK);
    bench.write("next.toml", "[step.next]\nlock = 'x'\nrun = 'sh look.sh'\n");
    let output = bench.call(&["run", "next.toml"]);
    assert_eq!(stdout(&output), "next | looked\n", "{}", stderr(&output));
}

#[test]
fn of_several_that_resume_one_leads() {
    let bench = killed_holder();
    let resuming: Vec<_> = (0..5).map(|_| bench.start(&["resume", &bench.run_id()])).collect();
    let resuming = RefCell::new(resuming);
    eventually("all but one have given up", || {
        let mut resuming = resuming.borrow_mut();
        let ended = resuming.iter_mut().filter_map(|child| child.try_wait().expect("a child"));
        ended.count() == 4
    });
    bench.write("go", "");
    let outputs = resuming.into_inner().into_iter().map(Child::wait_with_output);
    let outputs: Vec<_> = outputs.map(|output| output.expect("it ends")).collect();
    let (led, refused): (Vec<_>, Vec<_>) =
        outputs.iter().partition(|output| output.status.success());
    assert_eq!((led.len(), refused.len()), (1, 4));
    for output in refused {
        assert_eq!(output.status.code(), Some(2), "{}", stderr(output));
        assert!(stderr(output).contains("is still running, led by"), "{}", stderr(output));
    }
    assert_eq!(bench.read("record"), "1\n2\n", "the step ran once more");
}

/// Returns the first child of a process.
fn child_of(parent: u32) -> Option<u32> {
    let threads = fs::read_dir(format!("/proc/{parent}/task")).ok()?.flatten();
    let mut lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.find_map(|list| list.split(' ').next()?.parse().ok())
}

/// Before it executes its program, a process looks like its parent. A tracer stops it there for a second,
/// while its parent is killed and the run is resumed.
#[test]
fn a_process_that_has_no_program_yet_does_not_run_beside_the_next_attempt() {
    let allowed = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status();
    if !allowed.is_ok_and(|status| status.success()) {
        return;
    }
    let bench = Bench::new();
    let run =
        "echo start $WINDLASS_ATTEMPT >> record; sleep 0.3; echo end $WINDLASS_ATTEMPT >> record";
    bench.write("flow.toml", &format!("[step.only]\nrun = ['/bin/sh', '-c', '{run}']\n"));
    let strace = "exec strace -f -qq -o /dev/null -e trace=execve \
        -e inject=execve:delay_enter=1000000 \"$WINDLASS\" run flow.toml";
    let mut tracer = bench.script(strace).stderr(Stdio::null()).spawn().expect("sh runs");
    let coordinator = || child_of(tracer.id()).filter(|_| bench.path("state/runs").exists());
    eventually("the step has a process", || coordinator().and_then(child_of).is_some());
    let pid = coordinator().and_then(|pid| Pid::from_raw(pid.cast_signed())).expect("it runs");
    kill_process(pid, Signal::KILL).expect("it can be killed");
    // The tracer holds up the end of each thread.
    eventually("it has ended", || !runs(&pid.as_raw_nonzero().to_string()));

    bench.ends_with(0, &["resume", &bench.run_id()]);
    tracer.wait().expect("everything that it watches has ended");
    let record = bench.read("record");
    let record = record.strip_prefix("start 1\n").unwrap_or(&record);
    assert_eq!(record, "start 2\nend 2\n", "the first attempt was ended before the second");
}

/// The output of a step fills the disk of its log, and the step ignores SIGPIPE.
#[test]
fn a_step_that_prints_more_than_the_disk_holds_stops_the_run_and_hangs_nothing() {
    let bench = Bench::new();
    let print =
        "test -e again || { trap \"\" PIPE; seq 1 2000000; sleep 600; }; echo done >> record";
    bench.write("flow.toml", &format!("[step.loud]\nrun = '{print}'\n"));
    let script = r#"
        mkdir disk; mount -t tmpfs -o size=4m tmpfs disk; export WINDLASS_STATE=disk/state
        set +e
        "$WINDLASS" run flow.toml > said 2>&1; echo code $?
        touch again; rm disk/state/runs/*/*.log
        "$WINDLASS" resume "$(ls disk/state/runs)" > resumed 2>&1; echo code $?"#;
    let Some(output) = in_namespace(&bench, script) else { return };
    let said = format!("{}{}{}", bench.read("said"), bench.read("resumed"), stderr(&output));
    assert_eq!(stdout(&output), "code 69\ncode 0\n", "{said}");
    assert!(bench.read("said").contains("No space left on device"), "{said}");
    assert_eq!(bench.read("record"), "done\n", "{said}");
}
