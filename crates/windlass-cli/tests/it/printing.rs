//! What steps print, and how it gets into their logs.

use std::fs;
use std::hint::black_box;
use std::io::{BufRead, BufReader};

use crate::bench::{Bench, eventually, runs, stderr, stdout};
use crate::terminal::Terminal;

/// Prints in every way that opens standard output or standard error again.
const REOPENS: &str = "seq 1 20000; echo E > /dev/stderr; echo O > /dev/stdout; \
    echo T | tee /dev/stderr; sh -c 'echo last > /proc/self/fd/2'";

/// Returns the expected output.
fn reopened() -> String {
    let numbers: String = (1..=20_000).map(|number| format!("{number}\n")).collect();
    format!("{numbers}E\nO\nT\nT\nlast\n")
}

/// Returns the log in the run's directory with this end of its name.
fn log(bench: &Bench, end: &str) -> String {
    bench.read(&format!("state/runs/{}/{end}", bench.run_id()))
}

#[test]
fn what_opens_the_standard_streams_again_wipes_no_log() {
    let (bench, _) = Bench::run_ends_with(
        0,
        &format!(
            "[step.a]\nrun = \"{REOPENS}\"\nfinally = \"{REOPENS}\"\n[on]\nsuccess = \"{REOPENS}\"\n"
        ),
    );
    for name in ["1-a.1.log", "1-a.1.finally.log", "on.success.log"] {
        assert!(log(&bench, name) == reopened(), "{name}: {} bytes", log(&bench, name).len());
    }
}

#[test]
fn a_log_is_complete_when_the_end_of_its_step_is_known() {
    let print = "head -c 3000000 /dev/zero | tr '\\\\0' x";
    let (bench, _) = Bench::run_ends_with(
        0,
        &format!(
            "[step.a]\nrun = \"{print}; wc -c < /dev/null; {print} >&2\"\n\
         [step.b]\nafter = ['a']\nrun = 'wc -c < $(dirname $WINDLASS_OUTPUT)/1-a.1.log > seen'\n"
        ),
    );
    assert_eq!(bench.read("seen").trim(), "6000002");
}

#[test]
fn a_step_that_prints_nothing_leaves_no_log_and_one_that_fails_leaves_one() {
    let (bench, _) = Bench::run("[step.quiet]\nrun = 'true'\n[step.fails]\nrun = 'false'\n");
    let names = fs::read_dir(bench.path("state/runs").join(bench.run_id())).expect("it is there");
    let names = names.map(|entry| entry.expect("it can be listed").file_name());
    let mut logs: Vec<_> = names.filter_map(|name| name.into_string().ok()).collect();
    logs.retain(|name| name.ends_with(".log"));
    assert_eq!(logs, ["2-fails.1.log"]);
}

/// The leader is the reader of what a step prints. Without it the step gets SIGPIPE, like the
/// commands of a pipeline.
#[test]
fn a_step_that_prints_after_its_leader_was_killed_ends_by_sigpipe() {
    let bench = Bench::new();
    let wait = "echo early; touch begun; until test -e go; do sleep 0.02; done";
    bench.write(
        "flow.toml",
        &format!("[step.a]\nrun = 'echo $$ > pid; {wait}; echo late; touch survived'\n"),
    );
    let mut child = bench.start(&["run", "flow.toml"]);
    bench.await_file("begun");
    eventually("it is logged", || log(&bench, "1-a.1.log") == "early\n");
    child.kill().expect("it can be killed");
    child.wait().expect("it was killed");
    assert!(runs(&bench.read("pid")), "it does not end with its leader");
    bench.write("go", "");
    eventually("it has ended", || !runs(&bench.read("pid")));
    assert!(!bench.path("survived").exists());
    let output = bench.call(&["log", "last/a"]);
    assert_eq!(stdout(&output), "early\n", "{}", stderr(&output));
    bench.ends_with(0, &["resume", "last"]);
    assert_eq!(log(&bench, "1-a.2.log"), "early\nlate\n");
}

#[test]
fn a_step_that_closes_what_it_prints_to_costs_its_leader_nothing() {
    let ticks = "cut -d ' ' -f 14,15 /proc/$PPID/stat";
    let (bench, _) = Bench::run_ends_with(
        0,
        &format!(
            "[step.a]\nrun = \"\"\"exec >&- 2>&-; {ticks} > before; sleep 2; {ticks} > after\"\"\"\n"
        ),
    );
    let spent = |file: &str| {
        let text = bench.read(file);
        text.split_whitespace().map(|n| n.parse::<u64>().expect("ticks")).sum::<u64>()
    };
    // A leader that spins would spend 200.
    assert!(spent("after") - spent("before") < 50, "{} {}", spent("before"), spent("after"));
}

#[test]
fn a_step_does_not_inherit_the_pipes_of_others() {
    let all = "test -e begun1 -a -e begun2 -a -e begun3";
    let (bench, _) = Bench::run_ends_with(
        0,
        &format!(
            "concurrency = 3\n[step.s]\neach = {{ n = [1, 2, 3] }}\nrun = \"\"\"\n\
         readlink /proc/self/fd/2 > own{{n}}; touch begun{{n}}\n\
         until {all}; do sleep 0.02; done; ls -l /proc/self/fd > open{{n}}\"\"\"\n"
        ),
    );
    for one in 1..=3 {
        let open = bench.read(&format!("open{one}"));
        for other in 1..=3 {
            let pipe = bench.read(&format!("own{other}"));
            assert!(pipe.starts_with("pipe:"), "{pipe}");
            assert_eq!(open.contains(pipe.trim()), one == other, "{one}, {other}: {open}");
        }
    }
}

/// Checks that a log has the numbers from 1 to `last`, except for a gap that a line replaces.
#[track_caller]
fn check_gap(text: &str, last: u64, limit: (usize, &str)) {
    let (head, rest) = text.split_once("\n[windlass: ").expect("a gap is told");
    let (told, tail) = rest.split_once("]\n").expect("it is a line");
    let (left_out, told) = told.split_once(" of output left out here, ").expect("how much");
    assert!(
        left_out.ends_with("KiB") && told == format!("log_limit = {}", limit.1),
        "{left_out} {told}"
    );
    assert!(text.len() > limit.0 * 9 / 10 && text.len() < limit.0 + 200, "{} bytes", text.len());
    assert!(head.starts_with("1\n2\n3\n"), "{head}");
    assert!(tail.ends_with(&format!("\n{}\n{last}\n", last - 1)), "{tail}");
    assert!(!tail.contains("windlass"), "one gap");
}

#[test]
fn beyond_its_limit_a_log_keeps_its_beginning_and_its_end() {
    let (bench, _) = Bench::run_ends_with(
        0,
        "log_limit = '16K'\n[step.a]\nlog_limit = '64K'\nrun = 'seq 1 100000'\n\
         finally = 'seq 1 50000'\n[step.b]\nrun = 'seq 1 20000'\n[on]\nsuccess = 'seq 1 30000'\n",
    );
    check_gap(&log(&bench, "1-a.1.log"), 100_000, (64 << 10, "64 KiB"));
    check_gap(&log(&bench, "1-a.1.finally.log"), 50_000, (64 << 10, "64 KiB"));
    check_gap(&log(&bench, "2-b.1.log"), 20_000, (16 << 10, "16 KiB"));
    check_gap(&log(&bench, "on.success.log"), 30_000, (16 << 10, "16 KiB"));
    let dir = fs::read_dir(bench.path("state/runs").join(bench.run_id())).expect("it is there");
    let dirs = dir.filter(|entry| entry.as_ref().is_ok_and(|entry| entry.path().is_dir()));
    assert_eq!(dirs.count(), 0, "nothing is left beside the logs");
}

#[test]
fn a_step_that_prints_without_end_delays_nothing_and_fills_no_disk() {
    let (bench, output) = Bench::run(
        "concurrency = 3\nlog_limit = '1M'\n\
         [step.endless]\nrun = 'yes'\ntimeout = '1s'\n\
         [step.loud]\nrun = 'touch begun; yes & until test -s used; do sleep 0.02; done'\n\
         [step.first]\nrun = 'until test -e begun; do sleep 0.02; done'\n\
         [step.second]\nafter = ['first']\nrun = 'sleep 1'\n\
         [step.third]\nafter = ['second']\nrun = 'du -sk $(dirname $WINDLASS_OUTPUT) > used'\n",
    );
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("timed out after 1s") && said.contains("4 succeeded, 1 failed"),
        "{said}"
    );
    let used = bench.read("used");
    let used: u64 = used.split_whitespace().next().and_then(|n| n.parse().ok()).expect("KiB");
    assert!(used < 3000, "two logs of a MiB, and not {used} KiB");
}

/// Prints beyond its limit, waits for a file, and prints a last line.
const LONG: &str = "log_limit = '16K'\n[step.a]\nrun = '''\n\
    seq 1 40000\ntouch printed\nuntil test -e go; do sleep 0.02; done\necho 40001'''\n";

#[test]
fn a_log_beyond_its_limit_can_be_read_after_a_kill_and_is_whole_after_a_resume() {
    let bench = Bench::new();
    bench.write("flow.toml", LONG);
    let mut child = bench.start(&["run", "flow.toml"]);
    bench.await_file("printed");
    let read = || stdout(&bench.call(&["log", "last/a@1"]));
    eventually("all of it is logged", || read().ends_with("\n40000\n"));
    check_gap(&read(), 40_000, (16 << 10, "16 KiB"));
    child.kill().expect("it can be killed");
    child.wait().expect("it was killed");
    check_gap(&read(), 40_000, (16 << 10, "16 KiB"));
    bench.write("go", "");
    bench.ends_with(0, &["resume", "last"]);
    check_gap(&log(&bench, "1-a.1.log"), 40_000, (16 << 10, "16 KiB"));
    check_gap(&log(&bench, "1-a.2.log"), 40_001, (16 << 10, "16 KiB"));
}

#[test]
fn following_a_log_beyond_its_limit_prints_what_is_kept() {
    let bench = Bench::new();
    bench.write("flow.toml", LONG);
    let run = bench.start(&["run", "flow.toml"]);
    bench.await_file("printed");
    let follow = bench.start(&["log", "-f", "last/a"]);
    bench.write("go", "");
    let followed = follow.wait_with_output().expect("it ends");
    assert!(run.wait_with_output().expect("it ends").status.success());
    assert_eq!(stdout(&followed), log(&bench, "1-a.1.log"), "{}", stderr(&followed));
    check_gap(&stdout(&followed), 40_001, (16 << 10, "16 KiB"));
}

#[test]
fn following_a_log_ends_when_its_reader_is_gone() {
    let bench = Bench::new();
    let run = "echo hello; touch begun; until test -e go; do sleep 0.02; done";
    bench.write("flow.toml", &format!("[step.a]\nrun = '{run}'\n"));
    let mut leader = bench.start(&["run", "flow.toml"]);
    bench.await_file("begun");
    for form in [&[][..], &["--json"]] {
        let mut follow = bench.start(&[&["log", "-f", "last/a"], form].concat());
        let mut line = String::new();
        let pipe = follow.stdout.take().expect("a pipe");
        BufReader::new(pipe).read_line(&mut line).expect("it prints");
        assert!(!line.is_empty());
        // As `head -1` does, this closes the pipe while the step is silent.
        eventually("it has ended", || !runs(&follow.id().to_string()));
        let output = follow.wait_with_output().expect("it has ended");
        assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
    }
    assert!(leader.try_wait().expect("it can be asked").is_none(), "the run goes on");
    bench.write("go", "");
    assert!(leader.wait_with_output().expect("it ends").status.success());
}

#[test]
fn the_peak_memory_of_a_step_is_its_own_or_null() {
    // One with a great need, and one whose need is less than that of the process that started it. The one
    // that started that has a greater need than both.
    let ballast = vec![1_u8; 200 << 20];
    let (bench, _) = Bench::run_ends_with(
        0,
        "[step.large]\nrun = 'dd if=/dev/zero of=/dev/null bs=100M count=1'\n[step.small]\nrun = 'true'\n",
    );
    let shown = stdout(&bench.call(&["show", "last", "--json"]));
    let peak = |step: &str| {
        let line = shown.lines().find(|line| line.contains(&format!("\"step\":\"{step}\"")));
        let view: serde_json::Value =
            serde_json::from_str(line.expect("it is shown")).expect("JSON");
        view["attempts"][0]["peak_kib"].as_u64()
    };
    assert!(peak("large").is_some_and(|kib| kib > 100 << 10 && kib < 130 << 10), "{shown}");
    assert_eq!(peak("small"), None, "{shown}");
    drop(black_box(ballast));
}

/// Sets a title, a colour and the position of the cursor, and rings the bell.
const ESCAPES: &str = r"printf '\033]0;title\007\033[31mred\033[0m\a\033[2Jtext\n'";

#[test]
fn a_terminal_is_shown_logs_without_control_sequences_other_than_colours() {
    let escapes = ESCAPES.replace('\\', "\\\\");
    let (bench, _) = Bench::run_ends_with(0, &format!("[step.a]\nrun = \"\"\"{escapes}\"\"\"\n"));
    let raw = "\x1b]0;title\x07\x1b[31mred\x1b[0m\x07\x1b[2Jtext\n";
    for arguments in [&["log", "last/a"][..], &["log", "-f", "last/a"]] {
        assert_eq!(stdout(&bench.call(arguments)), raw, "as it is where it is piped");
        let mut terminal = Terminal::start(bench.command(arguments), (24, 80));
        assert!(terminal.end().success());
        assert_eq!(terminal.bytes(), "\x1b[31mred\x1b[0mtext\r\n", "{arguments:?}");
    }
}

#[test]
fn a_link_in_the_place_of_a_log_is_neither_written_through_nor_read() {
    let bench = Bench::new();
    bench.write("secret", "SECRET\n");
    let link = r#"ln -s "$PWD/secret" "$(dirname "$WINDLASS_LOG")/2-b.1.log""#;
    let steps = format!("[step.a]\nrun = '''{link}'''\n[step.b]\nafter = ['a']\nrun = 'echo b'\n");
    bench.write("flow.toml", &steps);
    let output = bench.ends_with(69, &["run", "flow.toml"]);
    assert_eq!(bench.read("secret"), "SECRET\n");
    let shown = stdout(&output) + &stdout(&bench.call(&["log", "last"]));
    assert!(!shown.contains("SECRET"), "{shown}");
}

#[test]
fn a_pipe_or_a_directory_in_the_place_of_a_log_stops_the_run_and_does_not_block_it() {
    for replace in [
        "mkdir $WINDLASS_LOG",
        "mkfifo $WINDLASS_LOG",
        "mkfifo $WINDLASS_LOG; sleep 60 < $WINDLASS_LOG &",
    ] {
        let bench = Bench::new();
        bench.write("flow.toml", &format!("[step.a]\nrun = '''{replace}\necho a'''\n"));
        let bounded = "exec timeout -s KILL 30 \"$WINDLASS\" run flow.toml";
        let output = bench.script(bounded).output().expect("sh runs");
        assert_eq!(output.status.code(), Some(69), "{replace}: {}", stderr(&output));
        assert!(stderr(&output).contains("1-a.1.log"), "{replace}: {}", stderr(&output));
    }
}
