//! Queues: commands that are added one by one, and what becomes of them.

use std::thread;

use windlass_server::Store;
use windlass_server::queue::{self, Addition};

use super::*;
use crate::looking::json::check_line as is_in_the_schema;

/// How many commands each shell adds, and how many shells there are.
fn storm() -> (usize, usize) {
    match std::env::var_os("WINDLASS_STORM") {
        Some(_) => (8, 1250),
        None => (8, 12),
    }
}

impl Service {
    /// Starts a scheduler and a worker for queues.
    pub(super) fn for_queues(slots: &str) -> Self {
        let service = Self::with("", slots);
        // Otherwise a command that is added would start another one.
        eventually("it schedules", || service.said().contains("schedules"));
        service
    }

    /// Adds a command, and returns what was printed: `QUEUE/ID`.
    pub(super) fn add(&self, arguments: &[&str]) -> String {
        stdout(&self.bench.ends_with(0, &[&["add"], arguments].concat())).trim().to_owned()
    }

    /// Expects a command to be refused with these words.
    pub(super) fn refuses(&self, arguments: &[&str], words: &str) {
        let output = self.bench.ends_with(2, arguments);
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }

    /// Returns the rows of a queue, without the header.
    pub(super) fn queue(&self, name: &str) -> Vec<String> {
        let shown = self.shown(&["queue", name]);
        shown.lines().skip(1).map(str::to_owned).collect()
    }
}

#[test]
fn an_added_command_runs_where_and_as_it_was_added() {
    let service = Service::for_queues("2");
    fs::create_dir(service.bench.path("below")).expect("a directory");
    let mut add = service.bench.command(&["add", "--env", "OWN", "--name", "own", "--"]);
    add.args(["sh", "-c", "pwd; echo \"$OWN {run}\"; echo \"$0\"", "a  b"]);
    let output = add.current_dir(service.bench.path("below")).env("OWN", "x y").output();
    assert_eq!(stdout(&output.expect("the binary runs")), "default/1\n");
    assert_eq!(service.add(&["--", "echo $((1 + 1)) > sum"]), "default/2");
    service.bench.ends_with(0, &["wait", "default/1", "default/2"]);
    let log = service.shown(&["log", "default/1"]);
    assert!(log.ends_with("/below\nx y {run}\na  b\n"), "{log}");
    assert_eq!(service.shown(&["log", "default/own"]), log, "it is known by its name, too");
    assert_eq!(service.bench.read("sum"), "2\n");
}

#[test]
fn a_step_follows_others_and_is_blocked_by_their_failure() {
    let service = Service::for_queues("4");
    service.add(&["--", "until test -e go; do sleep 0.01; done"]);
    service.add(&["--after", "1", "--", "sh", "-c", "exit 3"]);
    service.add(&["--after", "default/2", "--", "touch ran"]);
    let rows = service.queue("default");
    let waits = |row: &str| row.starts_with("2 ") && row.ends_with("step 1");
    assert!(waits(&rows[1]), "{rows:?}");
    service.bench.write("go", "");
    service.bench.ends_with(0, &["wait", "default"]);
    service.bench.ends_with(0, &["wait", "default/1"]);
    service.bench.ends_with(1, &["wait", "default/1", "default/2"]);
    service.bench.ends_with(3, &["wait", "--code", "default/1", "default/2"]);
    service.bench.ends_with(1, &["wait", "default/3"]);
    assert!(!service.bench.path("ran").exists());
    let why = service.shown(&["why", "default/3"]);
    assert!(why.contains("2 failed"), "{why}");

    // What has failed is tried again, and what follows it is, too.
    service.add(&["--", "test -e fixed"]);
    service.add(&["--after", "4", "--", "touch followed"]);
    service.bench.ends_with(1, &["wait", "default/5"]);
    service.bench.write("fixed", "");
    service.bench.ends_with(0, &["retry", "default", "--step", "4"]);
    service.bench.await_file("followed");
    service.bench.ends_with(0, &["wait", "default/4", "default/5"]);
}

#[test]
fn what_cannot_be_followed_or_found_is_refused_with_the_reason() {
    let service = Service::for_queues("1");
    service.add(&["--", "true"]);
    service.add(&["-q", "other", "--", "true"]);
    service.refuses(&["add", "--after", "2", "--", "true"], "queue default has no step 2");
    service.refuses(&["add", "--after", "0", "--", "true"], "queue default has no step 0");
    service.refuses(&["add", "--after", "other/1", "--", "true"], "a step of queue other");
    service.refuses(&["add", "-q", "la/st", "--", "true"], "invalid name of a queue");
    service.refuses(&["add", "-q", "last", "--", "true"], "invalid name of a queue");
    service.refuses(&["add", "--name", "7", "--", "true"], "invalid name of a step");
    service.refuses(&["add", "--lock", "release", "--", "true"], "cannot be a name");
    service.refuses(&["add", "--", ""], "the command is empty");
    service.refuses(&["add", "--", " ", "x"], "the command is empty");
    service.refuses(&["add", "--timeout", "0s", "--", "true"], "the timeout is zero");
    service.refuses(&["queue", "none"], "no queue \"none\"");
    service.refuses(&["queue", "none", "--slots", "2"], "no queue \"none\"");
    service.refuses(&["wait", "default/9"], "no step \"9\"");
    service.refuses(&["attach", "default"], "default is a queue, which has no end");
    service.bench.ends_with(0, &["wait", "default", "other"]);
    service.refuses(&["show", "last"], "there is no run yet");
    assert!(stdout(&service.bench.call(&["ps"])).is_empty(), "nothing is left to do");
}

#[test]
fn a_long_command_does_not_widen_the_rows_of_other_steps() {
    let service = Service::for_queues("1");
    let long = format!("echo {}", "x".repeat(100_000));
    for command in [&long, "true"] {
        service.add(&["--", command]);
    }
    service.bench.ends_with(0, &["wait", "default"]);
    let rows = service.queue("default");
    let widths: Vec<_> = rows.iter().map(|row| row.chars().count()).collect();
    assert!(rows.len() == 2 && widths.iter().all(|width| *width < 150), "{widths:?}");
    assert!(service.shown(&["queue", "default", "--json"]).contains(&long), "JSON has all of it");
}

#[test]
fn a_queue_runs_as_many_steps_at_a_time_as_it_has_slots() {
    let service = Service::for_queues("4");
    let held = "touch begun; until test -e go; do sleep 0.01; done";
    service.add(&["-q", "q", "--", held]);
    service.bench.ends_with(0, &["queue", "q", "--slots", "1"]);
    service.bench.await_file("begun");
    for n in 0..3 {
        let run = format!("mkdir busy && echo {n} >> order && sleep 0.02 && rmdir busy");
        service.add(&["-q", "q", "--", &run]);
    }
    service.add(&["-q", "q", "--priority", "5", "--", "mkdir busy && echo u >> order; rmdir busy"]);
    service.bench.write("go", "");
    service.bench.ends_with(0, &["wait", "q"]);
    assert_eq!(service.bench.read("order"), "u\n0\n1\n2\n", "the urgent one came first");
    let listed = service.shown(&["queue"]);
    assert!(listed.lines().any(|line| line.starts_with("q ") && line.contains(" 1 ")), "{listed}");
}

#[test]
fn what_runs_and_what_waits_can_be_cancelled() {
    let service = Service::for_queues("1");
    service.add(&["--lock", "one", "--", "touch begun; sleep 60"]);
    service.add(&["--", "touch second"]);
    service.bench.await_file("begun");
    let holders = service.shown(&["holders"]);
    assert!(holders.contains("default/1"), "{holders}");
    service.bench.ends_with(0, &["cancel", "default/2"]);
    service.bench.ends_with(1, &["wait", "default/2"]);
    service.bench.ends_with(0, &["cancel", "default"]);
    service.bench.ends_with(1, &["wait", "default/1"]);
    assert!(!service.bench.path("second").exists());
    // The queue itself goes on.
    service.add(&["--", "true"]);
    service.bench.ends_with(0, &["wait", "default/3"]);
}

#[test]
fn added_commands_take_turns_with_the_items_of_a_limit() {
    let mut service = Service::for_queues("4");
    service.bench.ends_with(0, &["limits", "set", "board", "--items", "a,b", "--env", "BOARD"]);
    // The queue is served before one of its steps uses a limit.
    service.add(&["--", "true"]);
    service.bench.ends_with(0, &["queue", "default", "--slots", "4"]);
    service.bench.ends_with(0, &["wait", "default"]);
    let guarded = "mkdir \"on-$BOARD\" && echo \"$BOARD\" >> used; until test -e go; do sleep 0.01; done; \
                   rmdir \"on-$BOARD\"";
    for _ in 0..3 {
        service.add(&["--use", "board=1", "--", guarded]);
    }
    let used = service.bench.path("used");
    let used = || fs::read_to_string(&used).unwrap_or_default();
    eventually("two have begun", || used().lines().count() == 2);
    // Another scheduler knows what they use.
    service.kill(0);
    service.start(&["serve", "--no-worker"]);
    let why = service.shown(&["why", "default/4"]);
    assert!(why.contains("board"), "{why}");
    assert!(service.shown(&["limits"]).contains("default/"), "{}", service.shown(&["limits"]));
    // A script shares them.
    service.bench.ends_with(75, &["sem", "shared.board", "--wait", "0s", "--", "true"]);
    service.bench.write("go", "");
    service.bench.ends_with(0, &["wait", "default/2", "default/3", "default/4"]);
    let used = used();
    let mut first: Vec<_> = used.lines().take(2).collect();
    first.sort_unstable();
    assert_eq!((first, used.lines().count()), (vec!["a", "b"], 3));
    service.bench.ends_with(0, &["sem", "shared.board", "-n", "2", "--wait", "5s", "--", "true"]);
}

#[test]
fn what_no_limit_has_is_refused() {
    let service = Service::for_queues("1");
    service.bench.ends_with(0, &["limits", "set", "gpu=2", "memory=8G"]);
    let check = |uses: &[&str], words: &str| {
        let uses = uses.iter().flat_map(|text| ["--use", *text]);
        let arguments = ["add"].into_iter().chain(uses).chain(["--", "true"]);
        service.refuses(&arguments.collect::<Vec<_>>(), words);
    };
    check(&["tpu=1"], "tpu");
    check(&["gpu=3"], "gpu");
    check(&["memory=4G", "gpu=3"], "gpu");
    check(&["gpu"], "write NAME=AMOUNT");
    check(&["gpu=0"], "write an amount above 0");
    check(&["gpu=x"], "write a number");
    check(&["gpu=1", "shared.gpu=1"], "--use gpu is given twice");
    assert!(!service.shown(&["queue"]).contains("default"), "nothing was added");
    service.add(&["--use", "shared.gpu=2", "--use", "memory=0.5G", "--", "true"]);
    service.bench.ends_with(0, &["wait", "default/1"]);
}

#[test]
fn a_paused_queue_takes_commands_and_starts_none() {
    let service = Service::for_queues("2");
    service.add(&["--", "true"]);
    service.bench.ends_with(0, &["wait", "default"]);
    service.bench.ends_with(0, &["pause", "default"]);
    service.add(&["--", "touch ran"]);
    service.add(&["-q", "other", "--", "touch other"]);
    service.bench.ends_with(0, &["wait", "other"]);
    assert!(!service.bench.path("ran").exists());
    // A retry of one step lets none of the others start.
    service.bench.ends_with(0, &["cancel", "default/2"]);
    service.bench.ends_with(1, &["wait", "default/2"]);
    service.bench.ends_with(0, &["retry", "default", "--step", "2"]);
    eventually("it is paused again", || service.queue("default")[1].contains("paused"));
    assert!(!service.bench.path("ran").exists());
    service.bench.ends_with(0, &["unpause", "default"]);
    service.bench.ends_with(0, &["wait", "default"]);
    assert!(service.bench.path("ran").exists());
}

#[test]
fn a_step_starts_no_earlier_than_its_time() {
    let service = Service::for_queues("2");
    service.add(&["--at", "2100-01-01T00:00:00Z", "--", "touch early"]);
    service.add(&["--in", "400ms", "--", "touch later"]);
    service.add(&["--in", "1ms", "--", "true"]);
    service.add(&["--after", "3", "--in", "1h", "--", "true"]);
    let first = || {
        let rows = service.queue("default");
        rows.into_iter().find(|row| row.starts_with("1 ")).expect("it is remembered")
    };
    assert!(first().contains("Jan 2100"), "{}", first());
    let why = service.shown(&["why", "default/1"]);
    assert!(why.contains("it may start "), "{why}");
    assert!(service.shown(&["--json", "why", "default/1"]).contains("\"kind\":\"time\""));
    service.bench.ends_with(0, &["wait", "default/2", "default/3"]);
    assert!(service.bench.path("later").exists() && !service.bench.path("early").exists());
    service.bench.ends_with(0, &["cancel", "default"]);
    service.bench.ends_with(0, &["wait", "default"]);
    // Tried again, it waits again.
    service.bench.ends_with(0, &["retry", "default", "--step", "1"]);
    eventually("it waits", || first().contains("waiting"));
    assert!(!service.bench.path("early").exists());
    let output = service.bench.ends_with(2, &["add", "--at", "soon", "--", "true"]);
    assert!(stderr(&output).contains("write 03:00"), "{}", stderr(&output));
}

#[test]
fn what_has_not_begun_can_be_removed() {
    let service = Service::for_queues("1");
    service.add(&["--", "touch begun; until test -e go; do sleep 0.01; done"]);
    service.bench.await_file("begun");
    for name in ["second", "third"] {
        service.add(&["--name", name, "--", &format!("touch {name}")]);
    }
    service.add(&["--after", "2", "--", "touch fourth"]);
    service.refuses(&["remove", "default/1"], "step 1 of queue default has begun");
    service.refuses(&["remove", "default/9"], "no step \"9\"");
    service.bench.ends_with(0, &["remove", "default/second"]);
    service.bench.ends_with(1, &["wait", "default/4"]);
    service.refuses(&["show", "default/2"], "is forgotten");
    service.bench.write("go", "");
    service.bench.ends_with(0, &["wait", "default"]);
    let ran = ["second", "third", "fourth"].map(|name| service.bench.path(name).exists());
    assert_eq!(ran, [false, true, false]);
}

#[test]
fn lines_for_programs_are_in_the_schema() {
    let service = Service::for_queues("1");
    let added = service.shown(&["--json", "add", "--name", "n", "--", "exit 4"]);
    service.bench.call(&["wait", "default"]);
    let waits = [["wait", "default/1"], ["wait", "default"]];
    let shows = [vec!["queue"], vec!["queue", "default"]];
    service.add(&["--in", "1h", "--", "true"]);
    let edited = service.shown(&["--json", "edit", "default/2", "--priority", "1"]);
    let moved = service.shown(&["--json", "move", "default/2", "--last"]);
    let removed = service.shown(&["--json", "remove", "default/2"]);
    let mut lines = added + &edited + &moved + &removed;
    for verb in waits.iter().map(|wait| wait.to_vec()).chain(shows) {
        lines += &service.shown(&[&["--json"], verb.as_slice()].concat());
    }
    assert!(lines.lines().count() >= 9, "{lines}");
    lines.lines().for_each(is_in_the_schema);
}

#[test]
fn commands_that_many_shells_add_are_all_taken_in_the_order_of_their_numbers() {
    let service = Service::for_queues("1");
    let (shells, each) = storm();
    service.add(&["--", "true"]);
    service.bench.ends_with(0, &["queue", "default", "--slots", "1"]);
    let mut numbers: Vec<u64> = thread::scope(|scope| {
        let shell = || {
            let number = |added: String| added["default/".len()..].parse().expect("a number");
            let add = |_| number(service.add(&["--", "echo $WINDLASS_STEP >> order"]));
            (0..each).map(add).collect::<Vec<u64>>()
        };
        let shells: Vec<_> = (0..shells).map(|_| scope.spawn(shell)).collect();
        shells.into_iter().flat_map(|shell| shell.join().expect("every add succeeds")).collect()
    });
    numbers.sort_unstable();
    let expected: Vec<u64> = (2..).take(shells * each).collect();
    assert_eq!(numbers, expected, "no number is left out or given twice");
    service.bench.ends_with(0, &["wait", "default"]);
    let order = service.bench.read("order");
    let order: Vec<u64> = order.lines().map(|line| line.parse().expect("a number")).collect();
    assert_eq!(order, expected, "each ran once, in the order of the numbers");
}

#[test]
fn steps_that_ended_long_ago_are_forgotten_and_their_numbers_are_not_used_again() {
    let mut service = Service::for_queues("4");
    // With the long form, bases take the place of the journal several times.
    let adds = if std::env::var_os("WINDLASS_STORM").is_some() { 20_000 } else { 1_100 };
    let mut store = Store::open(&service.bench.path("state")).expect("the store is there");
    let dir = service.bench.path(".");
    for number in 1..=adds {
        let (command, dir) = (vec!["true".to_owned()], dir.clone());
        let addition = Addition { command, dir, ..Addition::default() };
        let added = queue::add(&mut store, "default", 4, &addition).expect("it is added");
        assert_eq!(added.get(), number);
        if number == adds / 2 {
            service.kill(0);
            service.start(&["serve", "--no-worker"]);
        }
    }
    service.bench.ends_with(0, &["wait", "default"]);
    for verb in ["log", "show", "why", "wait", "cancel"] {
        service.refuses(&[verb, "default/1"], "step 1 of default has ended and is forgotten");
    }
    service.refuses(&["add", "--after", "1", "--", "true"], "step 1 of queue default has ended");
    let last = format!("default/{adds}");
    service.bench.ends_with(0, &["log", &last]);
    service.kill(0);
    service.start(&["serve", "--no-worker"]);
    let next = service.add(&["--after", &adds.to_string(), "--", "true"]);
    assert_eq!(next, format!("default/{}", adds + 1));
    service.bench.ends_with(0, &["wait", &next]);
    let shown = service.shown(&["queue", "default", "--json"]);
    assert!(shown.lines().next().expect("a line").contains("\"ended\":1000"), "{shown:.200}");
}

#[test]
fn a_wait_for_a_step_that_is_to_be_tried_again_waits_for_the_new_end() {
    let mut service = Service::for_queues("1");
    service.add(&["--", "test -e go"]);
    service.bench.ends_with(1, &["wait", "default/1"]);
    assert!(service.shown(&["why", "default/1"]).contains("windlass retry default --step 1"));
    service.bench.write("go", "");
    service.suspend(0);
    service.bench.ends_with(0, &["retry", "default", "--step", "1"]);
    service.kill(0);
    let wait = |target: &str| {
        let waiting = service.bench.command(&["wait", target]).stderr(Stdio::piped()).spawn();
        let mut waiting = waiting.expect("the binary runs");
        let mut told = String::new();
        let mut stderr = BufReader::new(waiting.stderr.take().expect("it is piped"));
        stderr.read_line(&mut told).expect("it is text");
        assert!(told.contains("no scheduler is running"), "{target}: {told}");
        (waiting, stderr)
    };
    let waiting = ["default/1", "default"].map(wait);
    service.start(&["serve", "--no-worker"]);
    for (mut waiting, _stderr) in waiting {
        assert!(waiting.wait().expect("it ends").success(), "{}", service.said());
    }
}
