//! The display of a submitted run is that of a run in the foreground.

use super::*;
use crate::terminal::{Terminal, masked};

/// One step at a time, so that everything happens in one order: output, a retry, a skipped step, a step with
/// outputs, one that fails by its `finally`, one that is blocked, one with a time limit, and one that a guard
/// refuses.
const FLOW: &str = "concurrency = 1\n\
    [guard.never]\ncondition = 'echo not yet; false'\nretry = { max = 1, interval = '500ms' }\non_timeout = 'fail'\n\
    [step.hello]\nrun = 'echo hello; echo x=7 >> \"$WINDLASS_OUTPUT\"'\n\
    [step.flaky]\nafter = ['hello']\nretry = { count = 1, delay = '1ms' }\n\
    run = 'echo try $WINDLASS_ATTEMPT; test $WINDLASS_ATTEMPT = 2'\n\
    [step.skipped]\nafter = ['flaky']\nwhen = 'false'\nrun = 'true'\n\
    [step.value]\nafter = ['skipped']\nrun = 'printf \"%s without newline\" {hello.x}'\n\
    [step.unclean]\nafter = ['value']\nrun = 'true'\nfinally = 'echo in finally; exit 4'\n\
    [step.blocked]\nafter = ['unclean']\nrun = 'true'\n\
    [step.slow]\nafter = { unclean = 'done' }\ntimeout = '50ms'\nrun = 'sleep 600'\n\
    [step.refused]\nafter = { slow = 'done' }\nguard = 'never'\nrun = 'true'\n\
    [step.killed]\nafter = { refused = 'done' }\nrun = 'kill -9 $$'\n\
    [step.last]\nafter = { killed = 'done' }\nrun = 'echo out; echo err >&2; exit 3'\n";

/// Runs the flow in the foreground and under a service, where it begins once it is shown. Returns what a
/// terminal shows at the end, or everything that was printed.
fn both(arguments: &[&str], on_terminal: bool) -> [String; 2] {
    let bench = Bench::new();
    bench.write("flow.toml", FLOW);
    let run = bench.command(&[&["run", "flow.toml"], arguments].concat());
    let foreground = shown(run, on_terminal, |_| ());
    let foreground = of_any_run(&foreground, &bench, &bench.run_id());

    let mut service = Service::new(FLOW);
    service.start(&["serve", "--no-worker"]);
    let id = service.submit(&[]);
    eventually("it leads", || service.said().contains(&format!("leads run {id}")));
    let attach = service.bench.command(&[&["attach", &id], arguments].concat());
    let attached = shown(attach, on_terminal, |_| {
        service.start(&["worker", "--name", "one", "--slots", "1"]);
    });
    [foreground, of_any_run(&attached, &service.bench, &id)]
}

/// Returns a text without what tells one run from another: ids, times, directories, and whether it began or was
/// attached to.
fn of_any_run(text: &str, bench: &Bench, run: &str) -> String {
    let dir = bench.path("state").display().to_string();
    let text = text.replace(&dir, "DIR").replace("attached to run", "run");
    let masked = masked(&text, run);
    masked.lines().map(|line| without_times(line) + "\n").collect()
}

/// Returns a line of JSON with 0 for each time.
fn without_times(line: &str) -> String {
    let mut parts = line.split_inclusive([',', '}']);
    let of_part = |part: &str| match part.split_once(':') {
        Some((key @ ("\"at\"" | "\"took_ms\"" | "\"retry_at\""), number)) => {
            let end: String = number.chars().filter(|c| !c.is_ascii_digit()).collect();
            format!("{key}:0{end}")
        }
        _ => part.to_owned(),
    };
    parts.by_ref().map(of_part).collect()
}

fn shown(
    mut command: std::process::Command,
    on_terminal: bool,
    begin: impl FnOnce(&str),
) -> String {
    if on_terminal {
        let mut terminal = Terminal::start(command, (60, 100));
        terminal.until("its heading", |screen| screen.contains("10 steps"));
        begin("");
        assert_eq!(terminal.end().code(), Some(1));
        return terminal.screen();
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().expect("the binary runs");
    let mut stderr = BufReader::new(process.stderr.take().expect("it is piped"));
    let mut said = String::new();
    stderr.read_line(&mut said).expect("it is text");
    begin("");
    stderr.read_to_string(&mut said).expect("it is text");
    let output = process.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1), "{said}");
    format!("{said}----\n{}", stdout(&output))
}

#[test]
fn attach_shows_what_run_shows() {
    for (arguments, on_terminal) in
        [(&["--output", "prefix"][..], false), (&["--json"], false), (&["--output", "live"], true)]
    {
        let [run, attach] = both(arguments, on_terminal);
        assert_eq!(run, attach, "{arguments:?}");
    }
}

#[test]
fn wait_ends_with_the_worst_exit_code_of_its_runs() {
    let flow = "[params]\nhow = { choices = ['good', 'cancelled', 'bad', 'late'] }\n[step.a]\n\
        run = 'test {how} = good || { test {how} = bad && exit 1; } || { touch {how}; sleep 600; }'\n";
    let service = Service::with(flow, "4");
    let submit = |how: &str| service.submit(&["-p", &format!("how={how}")]);
    let [good, cancelled, bad] = ["good", "cancelled", "bad"].map(submit);
    service.bench.write("flow.toml", &format!("deadline = '100ms'\n{flow}"));
    let late = submit("late");
    service.bench.await_file("cancelled");
    service.bench.ends_with(0, &["cancel", &cancelled]);
    let order = [(&late, 124), (&bad, 1), (&cancelled, 3), (&good, 0)];
    for (place, (run, code)) in order.iter().enumerate() {
        let rest: Vec<_> = order[place..].iter().rev().map(|(run, _)| run.as_str()).collect();
        service.bench.ends_with(*code, &[&["wait"], &rest[..]].concat());
        service.bench.ends_with(*code, &["attach", run]);
    }
    fs::remove_dir_all(service.bench.path("state")).expect("it can be deleted");
    service.bench.ends_with(69, &["wait", &late, &good]);
}
