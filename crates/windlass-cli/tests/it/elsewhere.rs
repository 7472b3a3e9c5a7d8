//! A service whose scheduler, worker and users have nothing in common but a store in PostgreSQL: each has a
//! local directory of its own.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use windlass_sim::postgres::{Server, programs};

use crate::bench::{Bench, eventually, stderr, stdout};
use crate::looking::json::check_line;
use crate::terminal::Terminal;

/// A store in a database, and processes at places that share no files with each other.
struct Fleet {
    bench: Bench,
    url: String,
    processes: Vec<Child>,
}

impl Fleet {
    /// Starts a scheduler and a worker, each at a place of its own, if PostgreSQL is installed.
    fn with(flow: &str) -> Option<Self> {
        let url = Server::shared()?.new_store();
        let bench = Bench::new();
        bench.write("flow.toml", flow);
        let mut fleet = Self { bench, url, processes: Vec::new() };
        fleet.says("user", &["store", "init"]);
        fleet.start("scheduler", &["serve", "--no-worker"]);
        fleet.start("worker", &["worker", "--name", "one", "--slots", "4"]);
        Some(fleet)
    }

    fn command(&self, place: &str, arguments: &[&str]) -> Command {
        let mut command = self.bench.command(arguments);
        let home = self.bench.path(place);
        command.env("XDG_STATE_HOME", home).env("WINDLASS_STATE", &self.url);
        command
    }

    fn start(&mut self, place: &str, arguments: &[&str]) {
        let said = fs::File::create(self.bench.path(&format!("{place}.said"))).expect("a file");
        let mut command = self.command(place, arguments);
        let child = command.stdout(Stdio::null()).stderr(said).spawn().expect("the binary runs");
        self.processes.push(child);
    }

    fn call(&self, place: &str, arguments: &[&str]) -> Output {
        self.command(place, arguments).output().expect("the binary runs")
    }

    /// Calls a verb that succeeds, and returns what it prints.
    #[track_caller]
    fn says(&self, place: &str, arguments: &[&str]) -> String {
        let output = self.call(place, arguments);
        assert!(output.status.success(), "{arguments:?}: {}{}", stderr(&output), self.said());
        stdout(&output)
    }

    fn submit(&self) -> String {
        self.says("user", &["submit", "flow.toml"]).trim().to_owned()
    }

    fn said(&self) -> String {
        ["scheduler", "worker"].map(|place| self.bench.read(&format!("{place}.said"))).concat()
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // It may have ended.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

#[test]
fn values_reach_steps_whoever_leads_them() {
    let flow = "[step.a]\nrun = 'echo x=7 >> \"$WINDLASS_OUTPUT\"; echo \"$WINDLASS_OUTPUT\" > path'\n\
        [step.b]\nafter = ['a']\nrun = 'until test -e go; do sleep 0.01; done; test {a.x} = 7'\n\
        [step.c]\nafter = ['b']\nrun = 'test {a.x} = 7'\n";
    let Some(mut fleet) = Fleet::with(flow) else { return };
    let run = fleet.submit();
    eventually("a has ended", || fleet.bench.read("path").ends_with('\n'));
    eventually("b runs", || fleet.says("user", &["ps"]).contains(" b"));
    let own = fleet.bench.path("worker").display().to_string();
    assert!(fleet.bench.read("path").starts_with(&own), "{}", fleet.bench.read("path"));
    fleet.processes[0].kill().expect("it can be killed");
    fleet.processes[0].wait().expect("it was killed");
    fleet.start("successor", &["serve", "--no-worker"]);
    fleet.bench.write("go", "");
    fleet.says("user", &["wait", &run]);
}

#[test]
fn logs_can_be_read_anywhere_from_the_moment_a_run_has_ended() {
    let flow = "[step.a]\nrun = 'echo one; echo two >&2'\nfinally = 'echo cleaned'\n\
        [step.silent]\nrun = 'true'\n\
        [step.bad]\nafter = ['a']\nrun = 'seq 1 20000; exit 3'\nretry = { count = 1, delay = '1ms' }\n\
        [on]\nfailure = '\"$WINDLASS\" log \"$WINDLASS_RUN/a\" | sed s/^/hook:/'\n";
    let Some(fleet) = Fleet::with(flow) else { return };
    let run = fleet.submit();
    assert_eq!(fleet.call("user", &["wait", &run]).status.code(), Some(1), "{}", fleet.said());
    let log = |place: &str, what: &str| fleet.says(place, &["log", &format!("{run}/{what}")]);
    for place in ["user", "worker"] {
        assert_eq!(
            log(place, "a").lines().filter(|line| !line.starts_with("==>")).collect::<Vec<_>>(),
            ["one", "two", "", "cleaned"]
        );
        assert_eq!(log(place, "silent"), "");
        let numbers: String = (1..=20000).map(|number| format!("{number}\n")).collect();
        assert_eq!(log(place, "bad@2"), numbers);
    }
    let all = fleet.says("user", &["log", &run]);
    assert!(all.contains("hook:one") && all.contains("==> on.failure <=="), "{all}");
    let json = fleet.says("user", &["log", "--json", &format!("{run}/a")]);
    assert!(json.contains(r#""part":"finally","text":"cleaned""#), "{json}");
    let local = fleet.call("user", &["log", "--local", &run]);
    assert_eq!(local.status.code(), Some(69), "{}", stdout(&local));
    assert!(fleet.says("worker", &["log", "--local", &run]).contains("hook:two"));
}

#[test]
fn a_log_is_followed_from_anywhere_while_it_grows() {
    let flow = "[step.a]\nrun = 'echo one; until test -e go; do sleep 0.01; done; echo two'\n";
    let Some(fleet) = Fleet::with(flow) else { return };
    let run = fleet.submit();
    let followed = fs::File::create(fleet.bench.path("followed")).expect("a file");
    let mut follow = fleet.command("user", &["log", "-f", &format!("{run}/a")]);
    let mut follow = follow.stdout(followed).spawn().expect("the binary runs");
    eventually("the first line is there", || fleet.bench.read("followed").contains("one\n"));
    fleet.bench.write("go", "");
    assert!(follow.wait().expect("it ends").success());
    assert!(
        fleet.bench.read("followed").ends_with("one\ntwo\n"),
        "{}",
        fleet.bench.read("followed")
    );
}

#[test]
fn a_path_of_a_log_is_shown_only_where_that_is_and_the_worker_everywhere() {
    let Some(fleet) = Fleet::with("[step.a]\nrun = 'echo out'\n") else { return };
    let run = fleet.submit();
    fleet.says("user", &["wait", &run]);
    let attempt = |place: &str| {
        let said = fleet.says(place, &["show", "--json", &run]);
        said.lines().for_each(check_line);
        let step = said.lines().find(|line| line.contains("step_view")).expect("a line");
        let step: Value = serde_json::from_str(step).expect("an object");
        step["attempts"][0].clone()
    };
    let (here, elsewhere) = (attempt("worker"), attempt("user"));
    assert_eq!((&here["worker"], &elsewhere["worker"]), (&"one".into(), &"one".into()));
    let path = here["log"].as_str().expect("a path");
    assert_eq!(fs::read_to_string(path).expect("it is here"), "out\n");
    assert_eq!(elsewhere.get("log"), None);
}

/// Two steps: one that prints before and after the test wants it to, and one that fails.
const SHOWN: &str = "[step.a]\nrun = 'echo one; until test -e go; do sleep 0.01; done; echo two'\n\
    [step.bad]\nafter = ['a']\nrun = 'seq 1 9000; exit 3'\nfinally = 'echo cleaned'\n";

#[test]
fn attach_shows_output_and_failures_wherever_it_is_called() {
    let Some(fleet) = Fleet::with(SHOWN) else { return };
    let run = fleet.submit();
    let attach = |mode: &[&str]| {
        let name = mode.concat();
        let shown = fs::File::create(fleet.bench.path(&name)).expect("a file");
        let mut attach = fleet.command("user", &[&["attach", &run], mode].concat());
        attach.stdout(shown.try_clone().expect("a handle")).stderr(shown);
        (name, attach.spawn().expect("the binary runs"))
    };
    let modes = [&["--output", "prefix"][..], &["--output", "raw"], &["--output", "group"]];
    let mut attached: Vec<_> = modes.iter().map(|mode| attach(mode)).collect();
    attached.extend([attach(&["--output", "quiet"]), attach(&["--json"])]);
    let shown = |of: &str| fleet.bench.read(of);
    eventually("lines are shown as they come", || shown("--outputprefix").contains("\na | one\n"));
    eventually("bytes are shown as they come", || shown("--outputraw").ends_with("one\n"));
    eventually("the others have begun", || shown("--json").contains(r#""step":"a""#));
    fleet.bench.write("go", "");
    for (name, process) in &mut attached {
        let end = process.wait().expect("it ends");
        assert_eq!(end.code(), Some(1), "{}", shown(name));
    }
    let numbers = |prefix: &str| (1..=9000).map(|n| format!("{prefix}{n}\n")).collect::<String>();
    let log = format!("log: windlass log {run}/bad");
    for (mode, expected) in [
        ("prefix", ["a | two\n", &numbers("bad | "), &log]),
        ("raw", ["two\n", &numbers(""), &log]),
        ("group", ["one\ntwo\n", &numbers(""), &log]),
        ("quiet", ["    8999\n    9000\n", " bytes before this: windlass log ", "/bad\n"]),
    ] {
        let text = shown(&format!("--output{mode}"));
        expected.iter().for_each(|part| assert!(text.contains(part), "{mode}: {part}\n{text}"));
        let dir = fleet.bench.path("user").display().to_string();
        assert!(!text.contains(&dir), "no path is shown at which nothing is: {text}");
    }
    let json = shown("--json");
    assert!(!json.contains(r#""log""#) && json.contains("exit code 3"), "{json}");
    json.lines().filter(|line| line.starts_with('{')).for_each(check_line);
}

#[test]
fn attach_shows_also_what_the_store_has_of_a_log_after_the_end_of_its_step() {
    let flow = "[step.a]\nrun = 'until test -e one; do sleep 0.01; done; echo out'\n\
        [step.b]\nafter = ['a']\nrun = 'until test -e two; do sleep 0.01; done'\n";
    let Some(fleet) = Fleet::with(flow) else { return };
    let run = fleet.submit();
    let shown = fs::File::create(fleet.bench.path("shown")).expect("a file");
    let mut attach = fleet.command("user", &["attach", &run]);
    attach.stdout(shown.try_clone().expect("a handle")).stderr(shown);
    let mut attach = attach.spawn().expect("the binary runs");
    // A session that keeps logs out of the store until its input ends.
    let (database, schema) = fleet.url.split_once("&schema=").expect("it names one");
    let psql = programs().expect("PostgreSQL is installed").join("psql");
    let mut session = Command::new(psql);
    session.args(["-XAtq", database]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut session = session.spawn().expect("it can be started");
    let mut input = session.stdin.take().expect("it is piped");
    let lock = format!("LOCK TABLE {schema}.log_chunk IN SHARE ROW EXCLUSIVE MODE");
    writeln!(input, "BEGIN; {lock}; SELECT 'locked';").expect("it listens");
    let mut locked = [0; 7];
    session.stdout.take().expect("it is piped").read_exact(&mut locked).expect("it has the lock");
    fleet.bench.write("one", "");
    eventually("the end is shown", || fleet.bench.read("shown").contains("a: succeeded"));
    assert!(!fleet.bench.read("shown").contains("a | out"), "{}", fleet.bench.read("shown"));
    drop(input);
    session.wait().expect("it ends");
    eventually("the output is shown", || fleet.bench.read("shown").contains("a | out\n"));
    fleet.bench.write("two", "");
    assert!(attach.wait().expect("it ends").success());
    assert_eq!(fleet.bench.read("shown").matches("a | out").count(), 1);
}

#[test]
fn a_live_display_shows_the_last_lines_of_steps_wherever_it_is_called() {
    let flow = SHOWN.replace("9000", "30");
    let Some(fleet) = Fleet::with(&flow) else { return };
    let run = fleet.submit();
    let attach = fleet.command("user", &["attach", &run, "--output", "live"]);
    let mut terminal = Terminal::start(attach, (60, 100));
    terminal.until("the last line", |screen| screen.contains(" one"));
    fleet.bench.write("go", "");
    assert_eq!(terminal.end().code(), Some(1));
    let screen = terminal.screen();
    for part in ["    one\n    two\n", "    29\n    30\n"] {
        assert!(screen.contains(part), "{screen}");
    }
}

#[test]
fn the_beginning_and_the_end_of_a_large_log_are_kept_and_all_of_it_at_the_worker() {
    let flow = "[step.a]\nrun = 'seq 100000 999999'\n";
    let Some(mut fleet) = Fleet::with(flow) else { return };
    fleet.processes[1].kill().expect("it can be killed");
    fleet.processes[1].wait().expect("it was killed");
    fleet.start("worker", &["worker", "--name", "one", "--kept-log", "1M"]);
    let run = fleet.submit();
    fleet.says("user", &["wait", &run]);
    let last = || fleet.says("user", &["log", &run]);
    eventually("the end is there", || last().ends_with("999999\n"));
    let text = last();
    assert!(text.contains("\n100000\n100001\n") && text.len() < 2 << 20, "{}", text.len());
    let gap = text.lines().filter(|line| line.contains("of output left out here")).count();
    assert!(gap >= 1 && text.contains("worker one: windlass log --local]"), "{gap}");
    let whole = fleet.says("worker", &["log", "--local", &format!("{run}/a")]);
    assert_eq!(whole.lines().count(), 900_000);
    fleet.says("user", &["prune", "--keep", "0"]);
    let gone = fleet.call("user", &["log", &run]);
    assert_eq!(gone.status.code(), Some(2), "{}", stderr(&gone));
}

#[test]
fn workers_take_nothing_new_when_they_are_asked_to() {
    let flow = "[step.a]\nrun = 'touch begun; until test -e go; do sleep 0.01; done'\n\
        [step.b]\nafter = ['a']\nrun = 'touch ran'\n";
    let Some(mut fleet) = Fleet::with(flow) else { return };
    let run = fleet.submit();
    fleet.bench.await_file("begun");
    let state = |fleet: &Fleet| {
        let said = fleet.says("user", &["workers", "--json"]);
        said.lines().for_each(check_line);
        let word = said.split(r#""state":""#).nth(1).and_then(|rest| rest.split('"').next());
        word.unwrap_or("none").to_owned()
    };
    let ask = |fleet: &Fleet, verb: &str| {
        let said = fleet.says("user", &["--json", "workers", verb, "one"]);
        check_line(said.trim());
    };
    let unknown = fleet.call("user", &["workers", "drain", "ome"]);
    let said = stderr(&unknown);
    assert_eq!(unknown.status.code(), Some(2), "{said}");
    assert!(said.contains("there is no worker \"ome\"; did you mean \"one\"?"), "{said}");
    ask(&fleet, "cordon");
    eventually("it is cordoned", || state(&fleet) == "cordoned");
    fleet.bench.write("go", "");
    eventually("a has ended", || fleet.says("user", &["workers"]).contains(" 0/4 "));
    assert!(!fleet.bench.path("ran").exists() && fleet.says("user", &["ps"]).contains(&run));
    ask(&fleet, "uncordon");
    fleet.says("user", &["wait", &run]);
    assert!(fleet.bench.path("ran").exists());
    ask(&fleet, "drain");
    assert!(fleet.processes[1].wait().expect("it ends").success());
    eventually("it has left", || state(&fleet) == "none");
    fleet.start("worker", &["worker", "--name", "one"]);
    eventually("it begins again", || state(&fleet) == "up");
}
