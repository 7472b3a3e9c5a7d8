//! Processes that steps start: none outlives its step, however it was started.

use std::process::{Child, Output};

use rustix::process::Signal;

use crate::bench::{Bench, eventually, rounds, runs, signal, stderr, stdout};
use crate::terminal::Terminal;

/// Starts daemons of all kinds, and waits until each has said who it is.
const DAEMONS: &str = r#"
daemon='echo $$ >> pids; exec sleep 600'
sh -c "$daemon" &
(sh -c "$daemon" &)
setsid sh -c "$daemon" &
(setsid sh -c "$daemon" < /dev/null > /dev/null 2>&1 &)
sh -m -c "sh -c '$daemon' & sleep 0" 2> /dev/null
env -i setsid sh -c "sh -c '$daemon' <&- >&- 2>&- &"
while test "$(wc -l < pids)" -lt 6; do sleep 0.01; done
touch begun
"#;
/// The same daemons, and one that ignores SIGTERM.
const DEAF_DAEMONS: &str = r#"
setsid sh -c 'trap "" TERM; echo $$ >> pids; while :; do sleep 0.02; done' &
"#;

/// Returns the recorded daemons that still run.
fn left(bench: &Bench) -> Vec<String> {
    let pids = bench.read("pids");
    pids.lines().filter(|pid| runs(pid)).map(str::to_owned).collect()
}

fn with_daemons(flow: &str) -> Bench {
    let bench = Bench::new();
    bench.write("daemons.sh", DAEMONS);
    bench.write("deaf.sh", &format!("{DEAF_DAEMONS}{DAEMONS}"));
    // What they leave would end by itself never.
    let defaults = "\n[defaults]\nlinger = '0s'\ngrace = '100ms'\n";
    bench.write("flow.toml", &format!("{flow}{defaults}"));
    bench
}

/// Starts a run, and waits until its daemons have begun.
fn begun(flow: &str) -> (Bench, Child) {
    let bench = with_daemons(flow);
    let child = bench.start(&["run", "flow.toml"]);
    bench.await_file("begun");
    assert!(bench.read("pids").lines().count() >= 6);
    (bench, child)
}

#[track_caller]
fn nothing_left(bench: &Bench, output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}", stderr(output));
    assert_eq!(left(bench), [""; 0], "{}", stderr(output));
}

#[test]
fn daemons_of_a_step_are_gone_before_the_next_one_begins() {
    let bench = with_daemons(
        r#"
[step.daemons]
run = "sh deaf.sh"

[step.next]
after = ["daemons"]
run   = "for pid in $(cat pids); do ! test -e /proc/$pid; done"
"#,
    );
    let output = bench.call(&["run", "flow.toml"]);
    assert!(bench.path("begun").exists());
    nothing_left(&bench, &output, 0);
}

#[test]
fn daemons_of_one_step_are_left_alone_when_another_ends() {
    let bench = with_daemons(
        r#"
concurrency = 2

[step.daemons]
run = "sh daemons.sh; while ! test -e go; do sleep 0.01; done; for pid in $(cat pids); do kill -0 $pid; done"

[step.other]
run = "while ! test -e begun; do sleep 0.01; done"

[step.third]
after = ["other"]
run   = "touch go"
"#,
    );
    let output = bench.call(&["run", "flow.toml"]);
    nothing_left(&bench, &output, 0);
}

#[test]
fn daemons_end_with_a_step_that_fails_or_is_killed() {
    for end in ["exit 3", "kill -KILL $$"] {
        let bench = with_daemons(&format!("[step.a]\nrun = 'sh deaf.sh; {end}'"));
        let output = bench.call(&["run", "flow.toml"]);
        nothing_left(&bench, &output, 1);
    }
}

#[test]
fn daemons_end_with_a_step_that_timed_out() {
    let bench =
        with_daemons("[step.a]\nrun = 'sh deaf.sh; sleep 600'\ntimeout = '1s'\ngrace = '100ms'");
    let output = bench.call(&["run", "flow.toml"]);
    nothing_left(&bench, &output, 1);
}

#[test]
fn daemons_end_with_a_step_that_is_cancelled() {
    let (bench, child) = begun(
        r#"
on_failure  = "cancel"
concurrency = 2

[step.daemons]
run   = "sh deaf.sh; sleep 600"
grace = "100ms"

[step.fails]
run = "while ! test -e begun; do sleep 0.01; done; exit 1"
"#,
    );
    nothing_left(&bench, &child.wait_with_output().expect("it ends"), 1);
}

#[test]
fn daemons_end_with_an_interrupted_run() {
    for (sent, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let (bench, child) = begun("[step.a]\nrun = 'sh deaf.sh; sleep 600'\ngrace = '100ms'");
        signal(&child, sent);
        nothing_left(&bench, &child.wait_with_output().expect("it ends"), code);
    }
}

#[test]
fn a_second_interrupt_waits_for_no_grace() {
    let (bench, child) = begun(
        "[step.a]\nrun = \"trap 'touch asked' TERM; sh deaf.sh; while :; do sleep 0.02; done\"\ngrace = '1h'",
    );
    signal(&child, Signal::INT);
    bench.await_file("asked");
    signal(&child, Signal::INT);
    nothing_left(&bench, &child.wait_with_output().expect("it ends"), 130);
}

#[test]
fn whatever_a_step_has_started_has_its_grace_also_when_its_shell_has_ended() {
    let bench = Bench::new();
    bench.write(
        "slow.sh",
        "trap 'sleep 0.3; touch cleaned; exit' TERM; touch begun; while :; do sleep 0.01; done",
    );
    bench.write("flow.toml", "[step.a]\nrun = 'setsid sh slow.sh & sleep 600'\ngrace = '1h'");
    let child = bench.start(&["run", "flow.toml"]);
    bench.await_file("begun");
    signal(&child, Signal::INT);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(bench.path("cleaned").exists(), "it had the time to clean up");
}

#[test]
fn daemons_of_a_killed_run_are_ended_before_it_resumes() {
    let (bench, mut child) = begun(
        "[step.a]\nrun = 'test -e again || { touch again; sh deaf.sh; sleep 600; }; for pid in $(cat pids); do ! grep -q WINDLASS_LEASES /proc/$pid/environ; done'",
    );
    child.kill().expect("it can be killed");
    child.wait().expect("it was killed");
    let output = bench.call(&["resume", &bench.run_id()]);
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    // A process without a mark and without a parent of the run cannot be found once the run was killed.
    for pid in left(&bench) {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).expect("it is ours");
        let marked = String::from_utf8_lossy(&environment).contains("WINDLASS_LEASES");
        let number = pid.parse().ok().and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(number.expect("a number"), Signal::KILL).expect("it is ours");
        assert!(!marked, "{pid} is left");
    }
}

#[test]
fn a_step_inherits_no_files_but_its_three_and_those_of_the_caller() {
    let caller = Bench::new().script("ls /proc/self/fd").output().expect("sh runs");
    let expected: Vec<_> = stdout(&caller).lines().map(|file| format!("a | {file}")).collect();
    for run in ["'ls /proc/self/fd'", "['ls', '/proc/self/fd']", "'ls /proc/self/fd | cat'"] {
        let (_, output) = Bench::run(&format!("[step.a]\nrun = {run}"));
        assert_eq!(stdout(&output).lines().collect::<Vec<_>>(), expected, "{run}");
    }
}

#[test]
fn a_step_reads_nothing_and_is_where_it_should_be() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("sub")).expect("it can be made");
    let flow = "[step.a]\nrun = 'cat'\n[step.b]\nafter = 'a'\nrun = 'env'\ndir = './sub/../sub'";
    bench.write("flow.toml", flow);
    let output = bench.ends_with(0, &["run", "flow.toml"]);
    let sub = std::fs::canonicalize(bench.path("sub")).expect("it is there");
    let line = format!("b | PWD={}\n", sub.display());
    assert!(stdout(&output).contains(&line), "{line}: {}", stdout(&output));
}

/// Runs a step that cannot do what it should, and whether it ends with `code`.
#[track_caller]
fn ends_with(bench: &Bench, keys: &str, code: i32, said: &str) {
    let flow =
        format!("[step.a]\n{keys}\nretry = {{ count = 1, delay = '1ms', on_exit = [{code}] }}");
    bench.write("flow.toml", &flow);
    let output = bench.call(&["run", "flow.toml"]);
    assert_eq!(output.status.code(), Some(1), "{keys}");
    assert!(stderr(&output).contains("a: started, attempt 2"), "{keys}: {}", stderr(&output));
    assert!(stdout(&output).contains(said), "{keys}: {}", stdout(&output));
}

#[test]
fn a_command_that_cannot_be_started_fails_with_126_or_127() {
    let bench = Bench::new();
    bench.write("plain", "echo hello\n");
    ends_with(&bench, "run = 'true'\nshell = 'no-such-shell'", 127, "no-such-shell: No such file");
    ends_with(&bench, "run = ['no-such-program']", 127, "no-such-program: No such file");
    ends_with(&bench, "run = 'no-such-program a'", 127, "not found");
    ends_with(&bench, "run = ['./plain']", 126, "./plain: Permission denied");
    ends_with(&bench, "run = './plain'", 126, "ermission denied");
    ends_with(&bench, "run = 'true'\ndir = 'nowhere'", 126, "nowhere: No such file");
    ends_with(&bench, "run = 'true'\ndir = 'plain'", 126, "plain: Not a directory");
    ends_with(&bench, "run = 'sh -c exit\\ 7'", 7, "");
    ends_with(&bench, "run = \"sh -c 'kill -9 $$'\"", 137, "");
}

#[test]
fn a_script_without_a_first_line_is_run_by_the_shell_as_everywhere() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new();
    bench.write("plain", "echo hello $1\n");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(bench.path("plain"), mode).expect("it is ours");
    bench.write("flow.toml", "[step.a]\nrun = './plain you'");
    let output = bench.call(&["run", "flow.toml"]);
    assert_eq!(stdout(&output), "a | hello you\n", "{}", stderr(&output));
}

/// What the step after many others sees of the process that leads the run.
const LOOK: &str =
    "ls /proc/$PPID/fd | wc -l; test \"$(cat /proc/$PPID/task/$PPID/children)\" = \"$$ \"";

/// Returns many steps between two that count processes.
fn crowd(steps: usize, after: impl Fn(usize) -> String, run: &str, keys: &str) -> String {
    let mut flow = format!("{keys}\n[step.first]\nrun = '''{LOOK}'''\n");
    for step in 0..steps {
        flow += &format!("[step.s{step}]\nafter = ['{}']\nrun = '{run}'\n", after(step));
    }
    let all: Vec<_> = (0..steps).map(|step| format!("'s{step}'")).collect();
    flow + &format!("[step.last]\nafter = [{}]\nrun = '''{LOOK}'''\n", all.join(","))
}

#[track_caller]
fn leaks_nothing(flow: &str) {
    let (_, output) = Bench::run(flow);
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let seen = stdout(&output);
    let open = |step: &str| {
        let line = seen.lines().find_map(|line| line.strip_prefix(step)?.strip_prefix(" | "));
        let number = line.and_then(|line| line.trim().parse::<usize>().ok());
        number.unwrap_or_else(|| panic!("{step} said no number"))
    };
    // Those of a start may still be open while its step looks, and some come when a run has lasted for a
    // moment: its wake-up, and the store for its heartbeat. There are many more steps than that.
    assert!(open("last") < open("first") + 16, "files that are open: {seen}");
}

#[test]
fn many_independent_steps_leave_neither_files_open_nor_processes_unreaped() {
    let first = |_| "first".to_owned();
    leaks_nothing(&crowd(rounds(300, 5000), first, "true", "concurrency = 64"));
}

#[test]
fn a_long_chain_leaves_neither_files_open_nor_processes_unreaped() {
    let before = |step: usize| match step {
        0 => "first".to_owned(),
        _ => format!("s{}", step - 1),
    };
    leaks_nothing(&crowd(rounds(200, 5000), before, "true", ""));
}

#[test]
fn many_steps_with_daemons_leave_neither_files_open_nor_processes_unreaped() {
    let first = |_| "first".to_owned();
    let run = "(setsid sleep 600 &) ; sleep 600 & true";
    // What ends them stays open once it was needed.
    let keys = "concurrency = 8\n[defaults]\nlinger = '0s'\n";
    let flow = crowd(rounds(40, 500), first, run, keys);
    let flow = flow.replace(
        "[step.first]\n",
        "[step.zero]\nrun = 'sleep 600 & true'\n[step.first]\nafter = ['zero']\n",
    );
    leaks_nothing(&flow);
}

#[test]
fn orphans_of_a_long_step_are_reaped_while_it_runs() {
    let bench = Bench::new();
    let orphans = "i=0; while test $i -lt 50; do (sleep 0 &); i=$((i + 1)); done";
    let alone = "test \"$(cat /proc/$PPID/task/$PPID/children)\" = \"$$ \"";
    bench.write(
        "flow.toml",
        &format!("[step.a]\nrun = '''{orphans}; until {alone}; do sleep 0.05; done'''"),
    );
    let child = bench.start(&["run", "flow.toml"]);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn what_steps_print_is_shown_with_little_memory() {
    let (steps, megabytes) = (rounds(4, 64), rounds(32, 10));
    let print = format!("head -c {megabytes}M /dev/zero | tr '\\0' x");
    let flow = format!(
        "concurrency = {steps}\n[step.print]\neach = {{ n = [{}] }}\nrun = \"{}\"\n\
         [step.look]\nafter = ['print']\nrun = 'grep VmHWM /proc/$PPID/status > peak'\n",
        (0..steps).map(|n| n.to_string()).collect::<Vec<_>>().join(","),
        print.replace('\\', "\\\\"),
    );
    let bench = Bench::new();
    bench.write("flow.toml", &flow);
    let mut child = bench.start(&["run", "flow.toml"]);
    let mut shown = child.stdout.take().expect("a pipe");
    let shown = std::io::copy(&mut shown, &mut std::io::sink()).expect("it can be read");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(shown > (steps * megabytes) as u64 * 1_000_000, "{shown}");
    let peak = bench.read("peak");
    let kilobytes = peak.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok());
    let kilobytes = kilobytes.expect("a number of kB");
    assert!(kilobytes < 48 << 10, "{kilobytes} kB");
    eventually("nothing of it is left", || left(&bench).is_empty());
}

#[test]
fn ends_are_known_also_where_the_caller_has_them_ignored() {
    let bench = Bench::new();
    bench.write(
        "flow.toml",
        "[step.a]\nrun = 'true'\n[step.b]\nafter = { a = 'failed' }\nrun = 'true'",
    );
    let script = "exec env --ignore-signal=CHLD \"$WINDLASS\" run flow.toml";
    let output = bench.script(script).output().expect("sh runs");
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("a: succeeded"), "{}", stderr(&output));
    let script = "exec env --ignore-signal=CHLD \"$WINDLASS\" lock x -- sh -c 'exit 7'";
    let output = bench.script(script).output().expect("sh runs");
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
}

#[test]
fn more_steps_may_run_at_a_time_than_files_may_be_open() {
    let bench = Bench::new();
    let steps: Vec<_> = (0..120).map(|n| n.to_string()).collect();
    let run = "touch {n}; until test -e 0 && test -e 119; do sleep 0.05; done";
    let flow = "concurrency = 120\n[step.s]\neach = { n = [STEPS] }\nrun = 'RUN'\ngrace = '1h'";
    bench.write("flow.toml", &flow.replace("STEPS", &steps.join(",")).replace("RUN", run));
    let few = "ulimit -S -n 64; exec \"$WINDLASS\" run flow.toml";
    let output = bench.script(few).output().expect("sh runs");
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn steps_that_find_no_file_to_open_wait_until_others_have_ended() {
    let bench = Bench::new();
    let steps: Vec<_> = (0..60).map(|n| n.to_string()).collect();
    let flow = "concurrency = 60\n[defaults]\nlinger = '0s'\n\
                [step.s]\neach = { n = [STEPS] }\nrun = '''(setsid sleep 600 &); sleep 0.1'''\n\
                [step.look]\nafter = { s = 'done' }\n\
                run = 'test \"$(cat /proc/$PPID/task/$PPID/children)\" = \"$$ \" && echo alone'\n";
    bench.write("flow.toml", &flow.replace("STEPS", &steps.join(",")));
    let few = "ulimit -n 64; exec \"$WINDLASS\" run flow.toml";
    let output = bench.script(few).output().expect("sh runs");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let told = "there is no room for another process, so the next ones wait: Too many open files";
    assert!(stderr(&output).contains(told), "{}", stderr(&output));
    assert!(stdout(&output).contains("look | alone"), "{}", stderr(&output));
}

/// Leaves the process that leads the run enough files to read `/proc`, and none for another step.
const NO_ROOM: &str = "open=$(ls /proc/$PPID/fd | wc -l); \
    prlimit --pid $PPID --nofile=$((open + 20)):$((open + 20))";

#[test]
fn a_step_that_waits_for_room_ends_by_its_timeout() {
    let bench = Bench::new();
    let wait = |file: &str| format!("until test -e {file}; do sleep 0.02; done");
    bench.write(
        "flow.toml",
        &format!(
            "concurrency = 3\n[step.first]\nrun = '{NO_ROOM}; touch begun; {}'\n\
             [step.before]\nrun = '{}'\n\
             [step.second]\nafter = ['before']\nrun = 'touch ran'\ntimeout = '500ms'\n",
            wait("over"),
            wait("begun"),
        ),
    );
    let child = bench.start(&["run", "flow.toml"]);
    bench.await_file("begun");
    eventually("it has ended", || {
        stdout(&bench.call(&["show", "last"])).contains("timed out after 500ms")
    });
    bench.write("over", "");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("2 succeeded, 1 failed"), "{}", stderr(&output));
    assert!(!bench.path("ran").exists());
}

#[test]
fn a_step_for_which_there_is_never_room_fails_when_nothing_else_runs() {
    let flow = format!(
        "[step.first]\nrun = '{NO_ROOM}'\n[step.second]\nafter = ['first']\nrun = 'touch ran'\n"
    );
    let (bench, output) = Bench::run_ends_with(1, &flow);
    let said = "the step cannot be started: sh: Too many open files";
    assert!(stderr(&output).contains(said), "{}", stderr(&output));
    assert!(!bench.path("ran").exists());
}

/// A step whose `PATH` has a relative directory is started in another way.
#[test]
fn a_step_has_no_terminal() {
    for env in ["", "env = { PATH = '.:/bin:/usr/bin' }\n"] {
        let bench = Bench::new();
        bench.write("flow.toml", &format!("[step.asks]\n{env}run = 'read x < /dev/tty'\n"));
        let command = bench.script(r#"exec setsid --ctty --wait "$WINDLASS" run flow.toml"#);
        let mut terminal = Terminal::start(command, (24, 80));
        let status = terminal.end();
        assert_eq!(status.code(), Some(1), "{env}{}", terminal.screen());
        assert!(terminal.screen().contains("/dev/tty"), "{env}{}", terminal.screen());
    }
}
