use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::bench::{Bench, eventually, runs, signal, stderr, stdout};

/// Holds the lock x from the file `held` until there is a file `release`.
const HOLD: &str = "echo $$ > pid; touch held; while ! test -e release; do sleep 0.02; done";

fn held(bench: &Bench) -> std::process::Child {
    let child = bench.start(&["lock", "x", "--", "sh", "-c", HOLD]);
    bench.await_file("held");
    child
}

#[test]
fn a_step_whose_lock_is_taken_waits_without_a_slot() {
    let bench = Bench::new();
    let mut holder = held(&bench);
    bench.write(
        "flow.toml",
        r#"
        concurrency = 1
        [step.locked]
        lock = ["x", "y"]
        run = "echo locked $WINDLASS_FENCE >> record"
        [step.other]
        run = "echo other >> record; touch other"
        "#,
    );
    let run = bench.start(&["run", "flow.toml"]);
    bench.await_file("other");
    assert_eq!(bench.read("record"), "other\n", "the only slot was free for it");
    bench.write("release", "");
    assert!(holder.wait().expect("it ends").success());
    let output = run.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(bench.read("record"), "other\nlocked 2 1\n");
}

/// Checking each waiter whenever a holder ends would take minutes.
#[test]
fn a_long_line_of_steps_moves_on_in_its_order() {
    for (name, own) in
        [("lock", "lock = 'x'"), ("locks", "lock = ['x', 'y']"), ("slots", "semaphore = { s = 1 }")]
    {
        let steps = (0..150).map(|n| format!("[step.s{n}]\n{own}\nrun = 'echo {n} >> record'\n"));
        let bench = Bench::new();
        let semaphore = "concurrency = 4\n[semaphore.s]\ncapacity = 1\n";
        bench.write("flow.toml", &format!("{semaphore}{}", steps.collect::<String>()));
        let began = Instant::now();
        bench.ends_with(0, &["run", "flow.toml", "--output", "quiet"]);
        assert!(began.elapsed() < Duration::from_secs(60), "{name}: {:?}", began.elapsed());
        let order: String = (0..150).map(|n| format!("{n}\n")).collect();
        assert_eq!(bench.read("record"), order, "{name}");
    }
}

#[test]
fn a_step_cancelled_in_a_queue_leaves_it_and_the_run_continues() {
    let bench = Bench::new();
    let mut holder = held(&bench);
    bench.write(
        "flow.toml",
        "concurrency = 1\n[step.locked]\nlock = 'x'\nrun = 'touch never'\n\
         [step.other]\nrun = 'touch other; while ! test -e go; do sleep 0.02; done'\n",
    );
    let run = bench.start(&["run", "flow.toml"]);
    bench.await_file("other");
    assert!(bench.call(&["cancel", &format!("{}/locked", bench.run_id())]).status.success());
    bench.write("release", "");
    assert!(holder.wait().expect("it ends").success());
    let next = bench.call(&["lock", "x", "--wait", "60s", "--", "true"]);
    assert!(next.status.success(), "no waiter is before it: {}", stderr(&next));
    bench.write("go", "");
    let output = run.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("other: succeeded") && !bench.path("never").exists());
}

#[test]
fn a_run_that_waits_for_a_lock_can_be_cancelled() {
    let bench = Bench::new();
    let mut holder = held(&bench);
    let flow = "[step.locked]\nlock = 'x'\nrun = 'touch never'\n[step.other]\nrun = 'touch other'";
    bench.write("flow.toml", flow);
    let run = bench.start(&["run", "flow.toml"]);
    bench.await_file("other");
    assert!(bench.call(&["cancel", &bench.run_id()]).status.success());
    let output = run.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    bench.write("release", "");
    holder.wait().expect("it ends");
    assert!(!bench.path("never").exists());
}

#[test]
fn waiting_for_a_lock_of_the_callers_parent_is_reported() {
    let bench = Bench::new();
    let nested = r#""$WINDLASS" lock x --wait 100ms -- true"#;
    let output = bench.ends_with(75, &["lock", "x", "--", "sh", "-c", nested]);
    assert!(stderr(&output).contains("neither can go on"), "{}", stderr(&output));

    bench.write("flow.toml", &format!("[step.a]\nlock = 'x'\nrun = '{nested}'\n"));
    let output = bench.call(&["run", "flow.toml"]);
    let told = stdout(&output);
    assert!(
        told.contains("held by step ")
            && told.contains("which has started this command; if it waits"),
        "{told}"
    );

    let mut holder = held(&bench);
    let other = bench.call(&["lock", "x", "--wait", "0s", "--", "true"]);
    assert!(!stderr(&other).contains("neither can go on"), "{}", stderr(&other));
    bench.write("release", "");
    holder.wait().expect("it ends");
}

/// What others have may come free; what the caller itself has does not.
#[test]
fn waiting_for_slots_of_the_callers_parent_is_reported() {
    let check = |capacity: &str, taken: &str, wanted: &str, by_others: Option<&str>, own: bool| {
        let bench = Bench::new();
        if let Some(slots) = by_others {
            let other = ["sem", "acquire", "s", "--holder", "other", "--capacity", capacity, "-n"];
            assert!(bench.call(&[&other[..], &[slots]].concat()).status.success());
        }
        let nested = format!(r#""$WINDLASS" sem s -n {wanted} --wait 0s -- true"#);
        let outer = ["sem", "s", "--capacity", capacity, "-n", taken, "--", "sh", "-c", &nested];
        let output = bench.call(&outer);
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(75), "{outer:?}: {told}");
        assert_eq!(told.contains("neither can go on"), own, "{outer:?}: {told}");
    };
    check("1", "1", "1", None, true);
    check("3", "2", "2", None, true);
    check("3", "2", "2", Some("1"), true);
    check("2", "1", "1", Some("1"), false);
    check("4", "1", "3", Some("1"), false);
}

#[test]
fn a_lock_that_is_not_acquired_in_time_ends_with_75() {
    let bench = Bench::new();
    let mut holder = held(&bench);
    let output = bench.ends_with(75, &["lock", "x", "--wait", "50ms", "--", "touch", "never"]);
    assert!(
        stderr(&output).contains("timed out after 50 ms waiting for lock \"x\""),
        "{}",
        stderr(&output)
    );
    assert!(!bench.path("never").exists());
    bench.write("release", "");
    holder.wait().expect("it ends");
}

#[test]
fn the_lock_of_a_killed_holder_is_free() {
    let bench = Bench::new();
    let mut holder = held(&bench);
    holder.kill().expect("it can be killed");
    holder.wait().expect("it was killed");
    let output = bench.call(&["lock", "x", "--", "sh", "-c", "echo $WINDLASS_FENCE"]);
    assert_eq!(stdout(&output), "2\n", "with a larger token");
    assert!(!runs(&bench.read("pid")), "its command did not outlive it");
}

/// Its turn comes while it is suspended, and it is killed before it could take it.
#[test]
fn a_waiter_that_is_killed_after_its_turn_came_leaves_the_queue() {
    let bench = Bench::new();
    let mut holder = held(&bench);
    let mut waiters: Vec<_> =
        (0..2).map(|_| bench.start(&["lock", "x", "--", "echo", "never"])).collect();
    let waiting = || stdout(&bench.call(&["holders", "x"])).matches("wanted by").count();
    eventually("all wait", || waiting() == waiters.len());
    waiters.iter().for_each(|waiter| signal(waiter, Signal::STOP));
    holder.kill().expect("it can be killed");
    holder.wait().expect("it was killed");
    bench.ends_with(0, &["lock", "x", "--", "true"]);
    assert_eq!(waiting(), waiters.len(), "they are passed over, and keep their places");
    for waiter in &mut waiters {
        waiter.kill().and_then(|()| waiter.wait()).expect("it can be killed");
    }
    bench.ends_with(0, &["lock", "x", "--", "true"]);
    assert_eq!(waiting(), 0, "{}", stdout(&bench.call(&["holders", "x"])));
}

#[test]
fn a_command_keeps_its_exit_code_and_gives_its_locks_back() {
    let bench = Bench::new();
    for _ in 0..2 {
        bench.ends_with(7, &["lock", "a", "b", "--", "sh", "-c", "exit 7"]);
    }
    bench.ends_with(127, &["lock", "a", "--", "no-such-command"]);
    bench.ends_with(0, &["lock", "a", "--wait", "0s", "--", "true"]);
}

#[test]
fn what_a_killed_run_left_is_ended_before_its_lock_is_taken() {
    let bench = Bench::new();
    let run = "setsid sleep 600 & echo $! > daemon; echo $$ > step; touch begun; sleep 600";
    bench.write("flow.toml", &format!("[step.a]\nlock = 'x'\nrun = '{run}'\n"));
    let mut child = bench.start(&["run", "flow.toml"]);
    bench.await_file("begun");
    child.kill().expect("it can be killed");
    child.wait().expect("it was killed");
    let output = bench.call(&["lock", "x", "--", "sh", "-c", "echo $WINDLASS_FENCE"]);
    assert_eq!(stdout(&output), "2\n", "{}", stderr(&output));
    assert!(!runs(&bench.read("daemon")) && !runs(&bench.read("step")));
}

#[test]
fn a_step_takes_the_lock_of_a_killed_wrapper_after_its_command_was_ended() {
    let bench = Bench::new();
    let mut holder = bench.start(&[
        "lock",
        "x",
        "--",
        "sh",
        "-c",
        "setsid sleep 600 & echo $! > pid
         until grep -qx sleep /proc/$!/comm; do sleep 0.01; done; touch held; wait",
    ]);
    bench.await_file("held");
    holder.kill().expect("it can be killed");
    holder.wait().expect("it was killed");
    assert!(runs(&bench.read("pid")), "it has left its command's family");
    bench.write("flow.toml", "[step.a]\nlock = 'x'\nrun = 'grep -q . /proc/$(cat pid)/cmdline 2>/dev/null && echo alive; true'\n");
    let output = bench.ends_with(0, &["run", "flow.toml"]);
    assert_eq!(stdout(&output), "");
}

/// Each of sixteen hand-overs would take about a second without a wake-up.
#[test]
fn steps_of_two_runs_that_take_turns_are_rung_for() {
    let bench = Bench::new();
    let step = |n: u32| {
        let after = if n == 1 { String::new() } else { format!("after = ['s{}']\n", n - 1) };
        format!("[step.s{n}]\n{after}lock = 'x'\nrun = 'echo turn >> record; sleep 0.05'\n")
    };
    bench.write("flow.toml", &(1..=8).map(step).collect::<String>());
    let mut clock = bench.script("sleep 4; echo clock >> record").spawn().expect("sh runs");
    let runs = [(); 2].map(|()| bench.start(&["run", "flow.toml"]));
    for run in runs {
        let output = run.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", stderr(&output));
    }
    assert!(clock.wait().expect("it ends").success());
    assert_eq!(bench.read("record"), "turn\n".repeat(16) + "clock\n");
}

#[test]
fn holders_are_named_in_the_users_terms() {
    let bench = Bench::new();
    let flow = "[step.a]\nlock = 'x'\nrun = 'touch begun; while ! test -e go; do sleep 0.01; done'\n\
                [step.b]\nlock = 'y'\nrun = 'true'\n";
    bench.write("flow.toml", flow);
    let wait = "touch held; while ! test -e go; do sleep 0.01; done";
    let holder = bench.start(&["lock", "y", "--", "sh", "-c", wait]);
    bench.await_file("held");
    let run = bench.start(&["run", "flow.toml"]);
    bench.await_file("begun");
    let (id, pid) = (bench.run_id(), run.id());
    eventually("the other step waits", || {
        stdout(&bench.call(&["holders", "y"])).contains("wanted by")
    });
    let step = format!("step {id}/a (pid {pid})");
    let command = format!("command \"sh -c {wait}\" (pid {})", holder.id());
    let holders = stdout(&bench.call(&["holders"]));
    for line in [
        format!("lock \"x\": held by {step} for "),
        format!("lock \"y\": held by {command} for "),
        format!("lock \"y\": wanted by step {id}/b (pid {pid}) for "),
        format!("run {id} (flow): led by process {pid} for "),
    ] {
        assert!(holders.lines().any(|shown| shown.starts_with(&line)), "{line}: {holders}");
    }
    assert!(!holders.contains('['), "no ids for machines: {holders}");
    let said = |arguments: &[&str]| {
        let output = bench.call(arguments);
        stdout(&output) + &stderr(&output)
    };
    let busy = said(&["lock", "acquire", "y", "--holder", "me"]);
    assert_eq!(busy, format!("Busy {command}\n"));
    let busy = said(&["lock", "acquire", "x", "--holder", "me"]);
    assert_eq!(busy, format!("Busy {step}\n"));
    let refused = said(&["lock", "-n", "y", "--", "true"]);
    assert!(refused.contains(&format!("queued behind, {command}\n")), "{refused}");
    let why = said(&["why", "last/b"]);
    let held = format!("lock \"y\" is held by command \"sh -c {wait}\" (pid {}, for ", holder.id());
    assert!(why.contains(&held), "{why}");
    for verb in ["resume", "retry"] {
        let led = said(&[verb, "last"]);
        let leader = format!("run {id} is still running, led by process {pid}; follow it with: ");
        assert!(led.contains(&leader), "{led}");
    }
    bench.write("go", "");
    assert!(run.wait_with_output().expect("it ends").status.success());
    assert!(holder.wait_with_output().expect("it ends").status.success());
}

#[test]
fn a_step_finds_the_tokens_of_its_locks_alone_in_the_order_of_their_names() {
    let bench = Bench::new();
    bench.ends_with(0, &["lock", "x", "--", "true"]);
    bench.write(
        "flow.toml",
        r#"
        [semaphore.slots]
        capacity = 1
        [step.both]
        lock = ["y", "x"]
        semaphore = { slots = 1 }
        run = 'echo "both: $WINDLASS_FENCE" >> record'
        finally = 'echo "finally: $WINDLASS_FENCE" >> record'
        [step.slots]
        after = ["both"]
        semaphore = { slots = 1 }
        run = 'echo "slots: $WINDLASS_FENCE" >> record'
        "#,
    );
    // The token of another lock around the run is none of its steps'.
    let run = "exec \"$WINDLASS\" run flow.toml";
    bench.ends_with(0, &["lock", "outer", "--", "sh", "-c", run]);
    assert_eq!(bench.read("record"), "both: 1 2\nfinally: 1 2\nslots: \n");
}

#[test]
fn ps_shows_what_a_run_waits_for_in_which_nothing_runs() {
    let when =
        "test -e release || { touch checking; while ! test -e release; do sleep 0.02; done; }";
    for (own, ready, waits) in [
        ("lock = 'x'\nrun = 'true'", None, "waiting: a (lock x)"),
        ("semaphore = { s = 1 }\nrun = 'true'", None, "waiting: a (semaphore s)"),
        (
            "retry = { count = 1, delay = '1h' }\nrun = 'exit 1'",
            None,
            "waiting: a (retry in 59 min ",
        ),
        (&format!("when = '{when}'\nrun = 'true'"), Some("checking"), "waiting: a (when)"),
    ] {
        let bench = Bench::new();
        let mut holder = held(&bench);
        let slots = ["sem", "s", "--capacity", "1", "--", "sh", "-c", HOLD];
        let mut slots = bench.start(&slots);
        eventually("both are held", || stdout(&bench.call(&["holders"])).lines().count() == 2);
        bench.write("flow.toml", &format!("[semaphore.s]\ncapacity = 1\n[step.a]\n{own}\n"));
        let mut run = bench.start(&["run", "flow.toml"]);
        if let Some(ready) = ready {
            bench.await_file(ready);
        }
        eventually(waits, || stdout(&bench.call(&["ps"])).contains(waits));
        bench.write("release", "");
        bench.call(&["cancel", "last"]);
        for child in [&mut holder, &mut slots, &mut run] {
            child.wait().expect("it ends");
        }
    }
}

#[test]
fn programs_learn_which_command_holds_a_lock() {
    let bench = Bench::new();
    let mut holder = held(&bench);
    bench.write("flow.toml", "[step.a]\nlock = 'x'\nrun = 'true'\n");
    let run = bench.start(&["run", "flow.toml"]);
    let why = || stdout(&bench.call(&["why", "last/a", "--json"]));
    eventually("it waits for the lock", || why().contains("\"kind\":\"lock\""));
    let why: serde_json::Value = serde_json::from_str(&why()).expect("JSON");
    let named = why["reasons"][0]["holders"][0].as_str().expect("a text").to_owned();
    assert!(named.starts_with("command \"sh -c echo") && named.contains("(pid "), "{named}");
    let holders = stdout(&bench.call(&["holders", "x", "--json"]));
    let first = holders.lines().next().expect("it is held");
    let row: serde_json::Value = serde_json::from_str(first).expect("JSON");
    assert_eq!(row["command"], format!("sh -c {HOLD}"));
    bench.write("release", "");
    assert!(holder.wait().expect("it ends").success());
    assert!(run.wait_with_output().expect("it ends").status.success());
}
