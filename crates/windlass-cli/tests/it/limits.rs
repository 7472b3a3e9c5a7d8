//! Limits of the store: shared by runs in the foreground, submitted runs and commands, whatever is killed.
//!
//! What is inside locks a file of its item, so the kernel sees an overlap.

use std::fs;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::bench::{Bench, eventually, rounds, stderr, stdout};

/// Uses an item for a moment, and notes by whom.
const INSIDE: &str = "flock -n -E 99 board-$BOARD sh -c 'echo $BOARD >> used; sleep 0.0$((($$ % 5) + 1))'\n\
    test $? -ne 99 || touch overlap\n";

/// Returns a workflow of so many steps that each use one item.
fn flow(steps: usize) -> String {
    let numbers: Vec<_> = (0..steps).map(|number| format!("'{number}'")).collect();
    format!(
        "concurrency = 4\n[resource]\nboard = {{ shared = \"board\" }}\n[step.s]\n\
         each.n = [{}]\nrun = \"sh inside.sh\"\nuse = {{ board = 1 }}\n",
        numbers.join(", ")
    )
}

/// Returns a bench with a limit of three items.
fn boards(steps: usize) -> Bench {
    let bench = Bench::new();
    bench.write("flow.toml", &flow(steps));
    bench.write("inside.sh", INSIDE);
    bench.ends_with(0, &["limits", "set", "board", "--items", "a,b,c", "--env", "BOARD"]);
    bench
}

/// A process that is started again when it was killed.
struct Role {
    arguments: &'static [&'static str],
    child: Child,
}

impl Role {
    fn start(bench: &Bench, arguments: &'static [&'static str]) -> Self {
        Self { arguments, child: spawn(bench, arguments) }
    }

    fn kill(&mut self, bench: &Bench, again: &'static [&'static str]) {
        // It may have ended.
        let _ = self.child.kill();
        self.child.wait().expect("it was started");
        self.arguments = again;
        self.child = spawn(bench, self.arguments);
    }
}

fn spawn(bench: &Bench, arguments: &[&str]) -> Child {
    let said = fs::File::options().create(true).append(true).open(bench.path("said"));
    let mut command = bench.command(arguments);
    let command = command.stdout(Stdio::null()).stderr(said.expect("a file"));
    command.spawn().expect("the binary runs")
}

/// Returns the processes of commands that hold or await the limit.
fn commands(bench: &Bench) -> Vec<u32> {
    let text = stdout(&bench.call(&["limits", "--json"]));
    let limit: serde_json::Value = serde_json::from_str(&text).expect("one limit");
    let users =
        ["holders", "waiters"].map(|users| limit[users].as_array().expect("a list").clone());
    let is_command = |user: &&serde_json::Value| {
        user["holder"].as_str().is_some_and(|holder| holder.starts_with("process "))
    };
    let pid =
        |user: &serde_json::Value| user["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
    users.iter().flatten().filter(is_command).filter_map(pid).collect()
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a process");
    // It may have ended a moment ago.
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

#[test]
fn no_item_is_used_twice_at_once_while_leaders_workers_schedulers_and_commands_are_killed() {
    const SERVE: &[&str] = &["serve", "--no-worker"];
    const WORKER: &[&str] = &["worker", "--name", "one", "--slots", "4"];
    const RUN: &[&str] = &["run", "flow.toml", "--output", "quiet"];
    const RESUME: &[&str] = &["resume", "--output", "quiet"];
    let steps = rounds(12, 60);
    let bench = boards(steps);
    let submitted: Vec<_> = (0..2)
        .map(|_| stdout(&bench.ends_with(0, &["submit", "flow.toml"])).trim().to_owned())
        .collect();
    let (mut service, mut leaders) = (
        [SERVE, WORKER].map(|role| Role::start(&bench, role)),
        [RUN, RUN].map(|role| Role::start(&bench, role)),
    );
    let script = "i=0; while test $i -lt 12; do \"$WINDLASS\" sem shared.board -- sh inside.sh || true; \
                  i=$((i + 1)); done";
    let mut crowd: Vec<_> =
        (0..2).map(|_| bench.script(script).spawn().expect("sh runs")).collect();
    let mut dice = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..rounds(14, 300) {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        thread::sleep(Duration::from_millis(30 + dice % 170));
        match dice >> 32 & 7 {
            0 | 1 => service[0].kill(&bench, SERVE),
            2 | 3 => service[1].kill(&bench, WORKER),
            // Another run may be resumed than that which was killed, or none.
            4 => leaders[0].kill(&bench, RESUME),
            5 => leaders[1].kill(&bench, RESUME),
            _ => commands(&bench).first().into_iter().for_each(|pid| kill(*pid)),
        }
    }
    for run in &submitted {
        let output = bench.call(&["wait", run]);
        assert!(output.status.success(), "{}\n{}", stderr(&output), bench.read("said"));
    }
    for leader in &mut leaders {
        leader.child.wait().expect("it was started");
    }
    while bench.call(RESUME).status.success() {}
    for child in &mut crowd {
        assert!(child.wait().expect("it was started").success());
    }
    let history = stdout(&bench.call(&["history", "--json"]));
    assert_eq!(
        history.matches("\"state\":\"succeeded\"").count(),
        4,
        "{history}\n{}",
        bench.read("said")
    );
    assert!(!bench.path("overlap").exists(), "two had an item at once");
    for item in ["a", "b", "c"] {
        assert!(bench.read("used").lines().any(|used| used == item), "{item} was used");
    }
    // What dead holders have left is taken over, and nothing is lost.
    bench.ends_with(0, &["sem", "shared.board", "-n", "3", "--wait", "60s", "--", "true"]);
    for role in &mut service {
        let _ = role.child.kill();
        role.child.wait().expect("it was started");
    }
}

#[test]
fn a_run_waits_behind_the_others_after_each_step_that_it_starts() {
    let bench = Bench::new();
    bench.ends_with(0, &["limits", "set", "gpu=1"]);
    let step = "run = 'echo long >> order; sleep 0.05'\nuse = { 'shared.gpu' = 1 }\n";
    let numbers: Vec<_> = (0..20).map(|number| format!("'{number}'")).collect();
    bench.write("long.toml", &format!("[step.s]\neach.n = [{}]\n{step}", numbers.join(", ")));
    bench.write("short.toml", &format!("[step.s]\n{}", step.replace("long", "short")));
    let long = bench.start(&["run", "long.toml"]);
    eventually("it has begun", || bench.read("order").lines().count() >= 2);
    bench.ends_with(0, &["run", "short.toml"]);
    bench.ends_with(0, &["sem", "shared.gpu", "--", "sh", "-c", "echo command >> order"]);
    let order = bench.read("order");
    assert!(order.lines().count() < 19, "neither has waited for the whole run:\n{order}");
    assert!(long.wait_with_output().expect("it ends").status.success());
}

#[test]
fn a_limit_that_is_missing_or_too_small_is_refused_before_a_run_is_stored() {
    let bench = Bench::new();
    let uses = |amount: &str| {
        let step = format!("[step.s]\nrun = 'true'\nuse = {{ 'shared.gpu' = {amount} }}\n");
        bench.write("flow.toml", &step);
    };
    let refused = |part: &str| {
        for verb in ["run", "submit"] {
            let said = stderr(&bench.ends_with(2, &[verb, "flow.toml"]));
            assert!(said.contains(part), "{verb}: {said}");
        }
    };
    uses("1");
    bench.ends_with(0, &["check", "flow.toml"]);
    refused("windlass limits set gpu=AMOUNT");
    bench.ends_with(0, &["limits", "set", "gpu=2"]);
    bench.ends_with(0, &["run", "flow.toml"]);
    uses("2.5");
    refused("requires 2.5 of limit \"gpu\", but the limit is 2");
    bench.ends_with(0, &["limits", "set", "gpu", "--items", "0,1,2"]);
    refused("use a whole number");
    let history = stdout(&bench.call(&["history"]));
    assert_eq!(history.lines().count(), 2, "only one run was stored:\n{history}");
}

/// Waits until `why` says something about the newest run.
fn await_reason(bench: &Bench, what: &str) {
    eventually(what, || stdout(&bench.call(&["why", "last"])).contains(what));
}

#[test]
fn a_step_waits_while_the_limit_is_too_small_or_gone_and_why_says_so() {
    let bench = Bench::new();
    bench.ends_with(0, &["limits", "set", "gpu=2", "cpu=1"]);
    let flow = "[step.first]\nrun = 'touch began; until test -e go; do sleep 0.01; done'\n\
        [step.then]\nafter = ['first']\nrun = 'true'\nuse = { 'shared.gpu' = 2 }\n";
    bench.write("flow.toml", flow);
    let run = bench.start(&["run", "flow.toml"]);
    bench.await_file("began");
    bench.ends_with(0, &["limits", "set", "gpu=1"]);
    bench.write("go", "");
    await_reason(&bench, "it needs 2 of limit \"gpu\", which is 1 now");
    bench.ends_with(0, &["sem", "shared.gpu", "--wait", "0s", "--", "true"]);
    bench.ends_with(0, &["limits", "remove", "gpu"]);
    await_reason(&bench, "the store has no limit \"gpu\" any more");
    bench.ends_with(0, &["limits", "set", "gpu=3"]);
    assert!(run.wait_with_output().expect("it ends").status.success());
}

#[test]
fn why_names_who_has_a_limit_and_who_comes_first() {
    let bench = Bench::new();
    bench.ends_with(0, &["limits", "set", "gpu=1"]);
    let inside = "touch began; until test -e go; do sleep 0.01; done";
    let holder = bench.start(&["sem", "shared.gpu", "--", "sh", "-c", inside]);
    bench.await_file("began");
    bench.write("flow.toml", "[step.s]\nrun = 'true'\nuse = { 'shared.gpu' = 1 }\n");
    for arguments in [&["limits", "remove", "gpu"][..], &["limits", "set", "gpu", "--items", "0"]] {
        let said = stderr(&bench.ends_with(2, arguments));
        assert!(said.contains("in use by command \"sh -c touch began"), "{said}");
    }
    let first = bench.start(&["run", "flow.toml"]);
    await_reason(&bench, "and 0 of 1 is free for it; held: 1 by command \"sh -c touch began");
    let second = bench.start(&["run", "flow.toml"]);
    await_reason(&bench, "its run is 2nd in the queue behind run ");
    bench.write("go", "");
    for child in [holder, first, second] {
        assert!(child.wait_with_output().expect("it ends").status.success());
    }
}

#[test]
fn a_limit_is_for_the_command_of_a_step_and_not_for_its_finally() {
    let bench = Bench::new();
    bench.ends_with(0, &["limits", "set", "gpu", "--items", "7", "--env", "GPU"]);
    let flow = "[step.s]\nrun = 'echo run $GPU >> record'\n\
        finally = 'echo finally ${GPU-none} >> record; \"$WINDLASS\" sem shared.gpu -n 1 --wait 0s -- true'\n\
        use = { 'shared.gpu' = 1 }\n";
    bench.write("flow.toml", flow);
    bench.ends_with(0, &["run", "flow.toml"]);
    assert_eq!(bench.read("record"), "run 7\nfinally none\n");
}

#[test]
fn a_killed_leader_gives_its_limits_back_once_its_steps_are_gone() {
    let bench = Bench::new();
    bench.ends_with(0, &["limits", "set", "gpu=1"]);
    let flow = "[step.s]\nuse = { 'shared.gpu' = 1 }\n\
        run = 'echo $$ > pid; exec setsid sh -c \"touch began; exec flock slot sleep 600\"'\n";
    bench.write("flow.toml", flow);
    let mut run = bench.start(&["run", "flow.toml"]);
    bench.await_file("began");
    run.kill().expect("it can be killed");
    run.wait().expect("it was killed");
    let began = Instant::now();
    bench
        .ends_with(0, &["sem", "shared.gpu", "--wait", "30s", "--", "flock", "-n", "slot", "true"]);
    assert!(began.elapsed() < Duration::from_secs(20), "it has not waited for the lease");
}

#[test]
fn an_urgent_run_comes_before_those_that_wait_for_a_limit() {
    let bench = Bench::new();
    bench.ends_with(0, &["limits", "set", "gpu=1"]);
    let inside = "touch began; until test -e go; do sleep 0.01; done";
    let holder = bench.start(&["sem", "shared.gpu", "--", "sh", "-c", inside]);
    bench.await_file("began");
    let mut runs = vec![holder];
    for (name, priority) in [("low", "-5"), ("usual", "0"), ("urgent", "5")] {
        let step =
            format!("[step.{name}]\nrun = 'echo {name} >> order'\nuse = {{ 'shared.gpu' = 1 }}\n");
        bench.write("flow.toml", &step);
        runs.push(bench.start(&["run", "flow.toml", "--priority", priority]));
        let waits = "1 wanted by run ";
        let count = runs.len() - 1;
        eventually("it waits", || stdout(&bench.call(&["limits"])).matches(waits).count() == count);
    }
    bench.write("go", "");
    for run in runs {
        assert!(run.wait_with_output().expect("it ends").status.success());
    }
    assert_eq!(bench.read("order"), "urgent\nusual\nlow\n");
}

#[test]
fn a_paused_run_keeps_no_place_in_the_queue_of_a_limit() {
    let bench = Bench::new();
    bench.ends_with(0, &["limits", "set", "gpu=1"]);
    let inside = "touch began; until test -e go; do sleep 0.01; done";
    let holder = bench.start(&["sem", "shared.gpu", "--", "sh", "-c", inside]);
    bench.await_file("began");
    bench.write("flow.toml", "[step.s]\nrun = 'true'\nuse = { 'shared.gpu' = 1 }\n");
    let run = bench.start(&["run", "flow.toml"]);
    let waits = || stdout(&bench.call(&["limits"])).contains("wanted by run");
    eventually("it waits", waits);
    bench.ends_with(0, &["pause", "last"]);
    eventually("it waits no more", || !waits());
    bench.ends_with(0, &["unpause", "last"]);
    eventually("it waits again", waits);
    bench.write("go", "");
    for child in [holder, run] {
        assert!(child.wait_with_output().expect("it ends").status.success());
    }
}
