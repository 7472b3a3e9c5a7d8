//! Processes that have cleared their environment, and with it the words by which Windlass finds the
//! processes of an attempt: they belong to their step all the same.

use crate::bench::{Bench, eventually, runs, stderr, stdout};
use crate::users::{ALICE, BOB, Users};

/// Where a process is that has cleared its environment.
#[derive(Clone, Copy, Debug)]
enum Place {
    InGroup,
    OutOfGroup,
}

impl Place {
    const ALL: [Place; 2] = [Place::InGroup, Place::OutOfGroup];

    /// Returns a script that leaves such a process running, with nothing of the step's output open.
    fn script(self) -> String {
        let leave = match self {
            Place::InGroup => "",
            Place::OutOfGroup => "setsid",
        };
        format!(
            "env -i {leave} sh -c 'echo $$ > pid; exec sleep 600' < /dev/null > /dev/null 2>&1 &\n\
             until test -s pid; do sleep 0.01; done\n"
        )
    }
}

/// Succeeds if the process does not run any more.
const IS_GONE: &str = r#"
state=$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' /proc/"$(cat pid)"/status 2> /dev/null)
case "$state" in '' | Z | X) ;; *) exit 1 ;; esac
"#;

fn bench(place: Place, flow: &str) -> Bench {
    let bench = Bench::new();
    write_files(&bench, place, flow);
    bench
}

fn write_files(bench: &Bench, place: Place, flow: &str) {
    bench.write("daemon.sh", &place.script());
    bench.write("is_gone.sh", IS_GONE);
    bench.write("flow.toml", &format!("{flow}\n[defaults]\nlinger = '0s'\ngrace = '100ms'\n"));
}

/// Runs `leave` in a step while another step runs, and sees that what it has left is gone when its own step
/// has ended.
#[track_caller]
fn ends_with_its_own_step(place: Place, leave: &str) {
    let flow = r#"
concurrency = 3

[step.other]
run = "touch other; until test -e looked; do sleep 0.01; done"

[step.leaves]
run = "until test -e other; do sleep 0.01; done; LEAVE"

[step.next]
after = ["leaves"]
run   = "trap 'touch looked' EXIT; sh is_gone.sh"
"#;
    let bench = bench(place, &flow.replace("LEAVE", leave));
    let output = bench.call(&["run", "flow.toml"]);
    assert!(!bench.read("pid").is_empty(), "{}", stderr(&output));
    assert!(output.status.success(), "{place:?}: {}", stderr(&output));
}

#[test]
fn a_process_without_environment_ends_with_its_own_step_while_others_run() {
    for place in Place::ALL {
        ends_with_its_own_step(place, "sh daemon.sh");
    }
}

/// The relative directory in its `PATH` has the step started in another way.
#[test]
fn a_process_without_environment_ends_with_a_step_that_has_a_path_of_its_own() {
    ends_with_its_own_step(
        Place::OutOfGroup,
        "sh daemon.sh\"\nenv = { PATH = '.:/usr/bin:/bin' }\n#",
    );
}

#[test]
fn a_process_without_environment_ends_with_the_step_whose_lock_command_left_it() {
    ends_with_its_own_step(Place::OutOfGroup, "\\\"$WINDLASS\\\" lock y -- sh daemon.sh");
}

/// A step that leaves a process running and kills the leader, and later sees that the process is gone.
const KILLS: &str = r#"
[step.leaves]
lock = "x"
run  = "test -e main && exec sh is_gone.sh; sh daemon.sh; echo $$ > main; kill -9 $PPID"
"#;

/// Returns a run whose leader was killed, and whose only step is gone but for the process that it left.
fn killed(place: Place) -> Bench {
    let bench = bench(place, KILLS);
    let output = bench.call(&["run", "flow.toml"]);
    assert_eq!(output.status.code(), None, "{}", stderr(&output));
    check_left(&bench, place);
    bench
}

#[track_caller]
fn check_left(bench: &Bench, place: Place) {
    eventually("the step's own process has ended", || !runs(&bench.read("main")));
    assert!(runs(&bench.read("pid")), "{place:?}: what it left runs on");
}

#[test]
fn resume_ends_what_has_no_environment_before_the_step_begins_again() {
    for place in Place::ALL {
        let bench = killed(place);
        let output = bench.call(&["resume", &bench.run_id()]);
        assert!(output.status.success(), "{place:?}: {}", stderr(&output));
    }
}

#[test]
fn what_a_killed_worker_left_without_environment_is_ended_before_the_step_begins_again() {
    for place in Place::ALL {
        let bench = bench(place, KILLS);
        let mut scheduler = bench.start(&["serve", "--no-worker"]);
        let run = stdout(&bench.call(&["submit", "flow.toml"]));
        let killed = bench.call(&["worker", "--name", "one"]);
        assert_eq!(killed.status.code(), None, "{}", stderr(&killed));
        // The guardian of the worker, the scheduler or the next worker ends it; the step looks.
        let mut worker = bench.start(&["worker", "--name", "one"]);
        let output = bench.call(&["wait", run.trim()]);
        assert!(output.status.success(), "{place:?}: {}", stderr(&output));
        for process in [&mut worker, &mut scheduler] {
            process.kill().expect("it runs");
            process.wait().expect("it was killed");
        }
    }
}

#[test]
fn cancel_ends_what_has_no_environment() {
    for place in Place::ALL {
        let bench = killed(place);
        let output = bench.call(&["cancel", &bench.run_id()]);
        assert!(!runs(&bench.read("pid")), "{place:?}: {}", stderr(&output));
    }
}

#[test]
fn a_lock_of_a_killed_run_is_taken_after_what_has_no_environment_was_ended() {
    for place in Place::ALL {
        let bench = killed(place);
        let output = bench.call(&["lock", "x", "--", "sh", "is_gone.sh"]);
        assert!(output.status.success(), "{place:?}: {}", stderr(&output));
    }
}

#[test]
fn a_lock_of_a_killed_command_is_taken_after_what_has_no_environment_was_ended() {
    for place in Place::ALL {
        let bench = bench(place, "");
        let script = "sh daemon.sh; echo $$ > main; kill -9 $PPID; exec sleep 600";
        let output = bench.call(&["lock", "x", "--", "sh", "-c", script]);
        assert_eq!(output.status.code(), None, "{}", stderr(&output));
        check_left(&bench, place);
        let output = bench.call(&["lock", "x", "--", "sh", "is_gone.sh"]);
        assert!(output.status.success(), "{place:?}: {}", stderr(&output));
    }
}

#[test]
fn where_processes_are_hidden_the_lease_of_a_killed_run_decides() {
    let Some(users) = Users::sharing() else { return };
    let place = Place::OutOfGroup;
    write_files(&users.bench, place, KILLS);
    let output = users.call(ALICE, &["run", "flow.toml"]);
    assert_eq!(output.status.code(), None, "{}", stderr(&output));
    check_left(&users.bench, place);

    let Some(bobs) = users.call_blind(BOB, &["lock", "x", "--wait", "0s", "--", "true"]) else {
        return;
    };
    assert_eq!(bobs.status.code(), Some(75), "not seen is not gone: {}", stderr(&bobs));
    assert!(runs(&users.bench.read("pid")), "{}", stderr(&bobs));
    let alices = users.call_blind(ALICE, &["resume", &users.bench.run_id()]).expect("as before");
    assert!(alices.status.success(), "she sees her own: {}", stderr(&alices));
}

#[test]
fn only_the_soft_limit_on_file_locks_is_another_for_each_step() {
    let others = "grep -v 'file locks' /proc/self/limits > $WINDLASS_STEP.limits";
    let flow = "[step.a]\nrun = 'RUN'\n[step.b]\nrun = 'RUN'\n";
    let own = "awk '/file locks/ { print $4, $5 }' /proc/self/limits > $WINDLASS_STEP";
    let bench = Bench::new();
    bench.write("flow.toml", &flow.replace("'RUN'", &format!("\"\"\"{own}; {others}\"\"\"")));
    bench.ends_with(0, &["run", "flow.toml"]);

    let (a, b) = (bench.read("a"), bench.read("b"));
    let read =
        |text: &str| text.split_once(' ').map(|(soft, hard)| (soft.parse(), hard.to_owned()));
    let (Some((Ok::<u64, _>(soft), hard)), Some((Ok::<u64, _>(other), _))) = (read(&a), read(&b))
    else {
        panic!("{a}{b}");
    };
    assert!(soft != other && hard == "unlimited\n", "{a}{b}");
    assert_eq!(bench.read("a.limits"), bench.read("b.limits"));
}
