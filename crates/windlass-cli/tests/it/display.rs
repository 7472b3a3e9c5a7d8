//! The live display, on a terminal.

use std::fs;
use std::process::Command;

use rustix::process::Signal;

use crate::bench::Bench;
use crate::terminal::{Terminal, masked};

/// `one` says something and waits for a file `go`; `two` follows it, `bad` fails, `late` is blocked.
const FLOW: &str = r#"
name        = "demo"
concurrency = 4
[resource]
gpu = 2

[step.one]
use = { gpu = 1 }
run = "echo begin; echo Compiling; touch begun; until test -e go; do sleep 0.01; done"

[step.two]
after = ["one"]
run   = "true"

[step.bad]
after = ["two"]
run   = "echo some output; echo 'an error' >&2; exit 3"

[step.late]
after = ["bad"]
run   = "true"
"#;

/// Returns a run that has begun on a terminal of this size.
fn begun(bench: &Bench, flow: &str, size: (u16, u16)) -> Terminal {
    begun_as(bench.command(&["run", "flow.toml"]), bench, flow, size)
}

fn begun_as(command: Command, bench: &Bench, flow: &str, size: (u16, u16)) -> Terminal {
    bench.write("flow.toml", flow);
    let terminal = Terminal::start(command, size);
    bench.await_file("begun");
    terminal
}

fn footers(screen: &str) -> usize {
    screen.lines().filter(|line| line.contains(" of 4 done")).count()
}

#[test]
fn a_run_is_shown_while_it_runs_and_when_it_has_ended() {
    let bench = Bench::new();
    let mut terminal = begun(&bench, FLOW, (24, 80));
    terminal.until("the output of the running step", |screen| screen.contains("Compiling"));
    let expected = "\
run RUN: 4 steps
* one TIME Compiling
0 of 4 done, 1 running │ slots 1/4, gpu 1/2 │ TIME
";
    assert_eq!(masked(&terminal.screen(), &bench.run_id()), expected);
    bench.write("go", "");
    assert_eq!(terminal.end().code(), Some(1));
    let expected = "\
run RUN: 4 steps
✓ one TIME
begin
Compiling
✓ two TIME
✗ bad TIME exit code 3
– late blocked: bad failed

✗ bad: failed after TIME: exit code 3
some output
an error

run RUN failed after TIME: 2 succeeded, 1 failed, 1 blocked
to retry: windlass retry RUN
";
    assert_eq!(masked(&terminal.screen(), &bench.run_id()), expected);
}

#[test]
fn a_narrow_terminal_is_never_written_over_its_edge() {
    let bench = Bench::new();
    let mut terminal = begun(&bench, FLOW, (24, 20));
    terminal.until("the footer", |screen| screen.contains("0/4 ") && screen.contains("Comp"));
    let check = |terminal: &Terminal, beginnings: &[&str]| {
        let screen = masked(&terminal.screen(), &bench.run_id());
        let lines = screen.lines().zip(beginnings);
        // Where a line is cut depends on how long the times in it are.
        let fits = |(line, begins): (&str, &&str)| line.starts_with(begins);
        assert!(
            lines.clone().count() == beginnings.len() && lines.into_iter().all(fits),
            "{screen}"
        );
    };
    check(&terminal, &["run RUN: 4", "* one TIME Comp", "0/4 TIME"]);
    assert_eq!(terminal.screen().lines().count(), 3, "{}", terminal.screen());
    bench.write("go", "");
    terminal.end();
    let ends = [
        "✓ one TIME",
        "begin",
        "Compiling",
        "✓ two TIME",
        "✗ bad TIME exi",
        "– late blo",
        "",
        "✗ bad: failed",
    ];
    check(&terminal, &[&["run RUN: 4"], &ends[..]].concat());
}

#[test]
fn a_low_terminal_keeps_what_scrolls_by() {
    let bench = Bench::new();
    let mut terminal = begun(&bench, FLOW, (3, 80));
    terminal.until("the footer", |screen| footers(screen) == 1);
    assert!(!terminal.screen().contains("* one"), "{}", terminal.screen());
    bench.write("go", "");
    terminal.end();
    assert_eq!(footers(&terminal.screen()), 0);
}

#[test]
fn a_terminal_may_change_its_size_at_any_time() {
    let bench = Bench::new();
    let mut terminal = begun(&bench, FLOW, (24, 100));
    terminal.until("all of it", |screen| screen.contains("Compiling") && footers(screen) == 1);
    for (rows, columns) in [(24, 64), (10, 64), (40, 120), (24, 66)] {
        terminal.resize(rows, columns);
        terminal.until("it is drawn again", |screen| {
            footers(screen) == 1 && screen.matches("Compiling").count() == 1
        });
        assert!(terminal.screen().contains(": 4 steps"), "{}", terminal.screen());
    }
    bench.write("go", "");
    terminal.end();
    let screen = terminal.screen();
    assert_eq!((footers(&screen), screen.matches("✓ one").count()), (0, 1), "{screen}");
}

#[test]
fn nothing_a_step_prints_or_is_called_disturbs_the_display() {
    let bench = Bench::new();
    let flow = r#"
name        = "demo"
concurrency = 3
[step.nasty]
each = { v = ["<backwards>", "wide 日本語", "long long long long long long long long long long"] }
run  = "printf '\\342\\200\\256\\033[2J\\033[1;1H\\033]0;title\\007\\033[?25l\\377\\302\\233 shown\\r'; yes | head -c 100000 | tr -d '\\n'; echo; echo last {v} line; touch begun; until test -e go; do sleep 0.01; done; exit 1"
"#;
    let mut terminal = begun(&bench, flow, (24, 80));
    terminal.until("the footer", |screen| screen.contains("0 of 3 done, 3 running"));
    terminal.until("the last lines", |screen| screen.matches(" last ").count() == 3);
    let screen = terminal.screen();
    assert!(screen.starts_with("run ") && screen.lines().count() == 5, "{screen}");
    bench.write("go", "");
    assert_eq!(terminal.end().code(), Some(1));
    let bytes = terminal.bytes();
    for harmful in ["\x1b[2J", "\x1b[1;1H", "\x1b[H", "\x07", "\x1b[?25l", "\u{9b}", "\u{202e}"] {
        assert!(!bytes.contains(harmful), "{harmful:?}");
    }
    assert!(terminal.screen().contains(": 3 failed\n"), "{}", terminal.screen());
}

#[test]
fn colours_can_be_turned_off() {
    let coloured = |name: &str, value: &str| {
        let bench = Bench::new();
        bench.write("go", "");
        let mut command = bench.command(&["run", "flow.toml"]);
        command.env(name, value);
        let mut terminal = begun_as(command, &bench, FLOW, (24, 80));
        terminal.end();
        terminal.bytes().contains("\x1b[3")
    };
    assert!(coloured("NOTHING", "1"));
    assert!(!coloured("NO_COLOR", "1"));
}

#[test]
fn a_terminal_that_cannot_move_its_cursor_gets_lines() {
    let bench = Bench::new();
    bench.write("go", "");
    bench.write("flow.toml", FLOW);
    let script = "TERM=dumb exec \"$WINDLASS\" run flow.toml";
    let mut terminal = Terminal::start(bench.script(script), (24, 80));
    terminal.end();
    let screen = masked(&terminal.screen(), &bench.run_id());
    assert!(!terminal.bytes().contains('\x1b'), "{:?}", terminal.bytes());
    assert!(screen.contains("one: started\none | begin\none | Compiling\n"), "{screen}");
}

#[test]
fn a_run_outlives_its_terminal() {
    let bench = Bench::new();
    let flow = FLOW.replace("run   = \"true\"", "run   = \"echo went on >> record\"");
    let mut terminal = begun(&bench, &flow, (24, 80));
    terminal.until("the footer", |screen| footers(screen) == 1);
    let mut child = terminal.hang_up();
    bench.write("go", "");
    assert_eq!(child.wait().expect("it ends").code(), Some(1));
    assert_eq!(bench.read("record"), "went on\n");
}

#[test]
fn a_run_that_is_asked_to_stop_shows_how_many_steps_run() {
    let bench = Bench::new();
    let flow = FLOW.replace("echo begin;", "trap '' TERM; echo begin;");
    let mut terminal = begun(&bench, &flow, (24, 80));
    terminal.until("the footer", |screen| footers(screen) == 1);
    terminal.signal(Signal::INT);
    terminal.until("that it stops", |screen| {
        screen.contains("stopping: waiting for 1 step to end; Ctrl-C again kills it")
    });
    bench.write("go", "");
    assert_eq!(terminal.end().code(), Some(130));
    let expected = "\
run RUN: 4 steps
✓ one TIME
begin
Compiling
run RUN was interrupted after TIME: 1 succeeded
to resume: windlass resume RUN
";
    assert_eq!(masked(&terminal.screen(), &bench.run_id()), expected);
}

#[test]
fn a_waiting_step_shows_what_it_waits_for() {
    let bench = Bench::new();
    let flow = r#"
[step.deploy]
guard = ["ready"]
run   = "true"

[guard.ready]
condition = "touch begun; test -e ok"
retry     = { max = 10000, interval = "20ms" }
"#;
    let mut terminal = begun(&bench, flow, (24, 80));
    terminal.until("that it waits", |screen| {
        let screen = masked(screen, "no run");
        screen.contains("· deploy waits for guard ready: exit code 1\n0 of 1 done, 1 waiting")
    });
    bench.write("ok", "");
    assert!(terminal.end().success());
    let screen = masked(&terminal.screen(), &bench.run_id());
    assert_eq!(screen, "run RUN: 1 step\n✓ deploy TIME\nrun RUN succeeded in TIME: 1 succeeded\n");
}

#[test]
fn a_run_knows_how_long_its_steps_took_before() {
    let bench = Bench::new();
    bench.write("go", "");
    let flow = FLOW.replace("echo begin;", "sleep 1.1;");
    bench.write("flow.toml", &flow);
    bench.call(&["run", "flow.toml"]);
    for file in ["go", "begun"] {
        fs::remove_file(bench.path(file)).expect("it is there");
    }
    bench.write("flow.toml", &flow);
    let mut terminal = Terminal::start(bench.command(&["run", "flow.toml"]), (24, 100));
    terminal
        .until("what is expected", |screen| masked(screen, "no run").contains("* one TIME of ~1."));
    bench.write("go", "");
    terminal.end();
}

#[test]
fn a_resumed_run_counts_what_was_done_before() {
    let bench = Bench::new();
    bench.write(
        "flow.toml",
        &FLOW.replace("run   = \"true\"", "run   = \"touch two; test -e go2 || sleep 600\""),
    );
    bench.write("go", "");
    let mut first = bench.start(&["run", "flow.toml"]);
    bench.await_file("two");
    first.kill().and_then(|()| first.wait()).expect("it can be killed");
    bench.write("go2", "");
    let run = bench.run_id();
    let mut terminal = Terminal::start(bench.command(&["resume", &run]), (24, 80));
    assert_eq!(terminal.end().code(), Some(1));
    let screen = masked(&terminal.screen(), &run);
    assert!(screen.starts_with("resumed run RUN: 4 steps, 1 done before\n"), "{screen}");
    assert!(screen.contains("2 succeeded, 1 failed, 1 blocked"), "{screen}");
}

#[test]
fn a_small_run_shows_what_its_steps_print() {
    let bench = Bench::new();
    fs::copy(crate::bench::repository().join("examples/hello.toml"), bench.path("hello.toml"))
        .expect("it is there");
    let mut terminal = Terminal::start(bench.command(&["run", "hello.toml"]), (24, 80));
    assert!(terminal.end().success(), "{}", terminal.screen());
    let expected = "\
run RUN: 3 steps
✓ greet TIME
hello from greet
✓ work TIME
done
✓ farewell TIME
bye
run RUN succeeded in TIME: 3 succeeded
";
    assert_eq!(masked(&terminal.screen(), &bench.run_id()), expected);
}

#[test]
fn of_much_output_the_last_lines_are_shown_and_where_the_rest_is() {
    let bench = Bench::new();
    bench.write("flow.toml", "[step.loud]\nrun = 'seq 1 500'\n");
    let mut terminal = Terminal::start(bench.command(&["run", "flow.toml"]), (24, 80));
    assert!(terminal.end().success(), "{}", terminal.screen());
    let screen = terminal.screen();
    let more =
        format!("    the last lines; for all: windlass log {}/loud\n    491\n", bench.run_id());
    assert!(screen.contains(&more) && screen.contains("\n    500\n"), "{screen}");
}

#[test]
fn a_large_run_shows_a_line_for_each_step() {
    let bench = Bench::new();
    let numbers: Vec<_> = (0..21).map(|n| n.to_string()).collect();
    let each = format!("each = {{ n = [{}] }}", numbers.join(","));
    bench.write("flow.toml", &format!("[step.s]\n{each}\nrun = 'echo printed'\n"));
    let mut terminal = Terminal::start(bench.command(&["run", "flow.toml"]), (40, 80));
    assert!(terminal.end().success(), "{}", terminal.screen());
    assert!(!terminal.screen().contains("    printed"), "{}", terminal.screen());
}
