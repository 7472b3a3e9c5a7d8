//! What a submission refuses, and what `wait` says of a run that nothing leads.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::*;

#[test]
fn no_run_is_stored_where_its_steps_could_not_be_told_the_path() {
    let service = Service::new("[step.a]\nrun = 'touch ran'\n");
    let state = service.bench.path("").join(OsStr::from_bytes(b"st\xff"));
    for arguments in
        [&["run", "flow.toml"][..], &["submit", "flow.toml"], &["run", "-d", "flow.toml"]]
    {
        let mut command = service.bench.command(arguments);
        let output = command.env("WINDLASS_STATE", &state).output().expect("the binary runs");
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains("the path is not valid UTF-8"), "{arguments:?}: {said}");
    }
    assert!(!service.bench.path("ran").exists());
    let mut locked = service.bench.command(&["lock", "l", "--", "true"]);
    assert!(locked.env("WINDLASS_STATE", &state).status().expect("it runs").success(), "a lock");
}

#[test]
fn a_variable_that_cannot_be_taken_along_is_refused() {
    let service = Service::new("[step.a]\nrun = 'true'\n");
    let check = |set: (&str, &[u8]), arguments: &[&str], expected: &str| {
        let mut command = service.bench.command(&[&["submit", "flow.toml"], arguments].concat());
        command.env_remove("OWN").env(set.0, OsStr::from_bytes(set.1));
        let output = command.output().expect("the binary runs");
        let said = stderr(&output);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""), "{said}");
        assert!(said.contains(expected), "{said}");
    };
    check(("OTHER", b"1"), &["--env", "OWN"], "the variable OWN is not set");
    check(("OWN", b"\xff"), &["--env", "OWN"], "the value of OWN is not valid UTF-8");
    check(("LC_ALL", b"\xff"), &[], "the value of LC_ALL is not valid UTF-8");
    let reserved = "windlass sets the variables that begin with WINDLASS_";
    check(("WINDLASS_OWN", b"1"), &["--env", "WINDLASS_OWN"], reserved);
    assert_eq!(service.shown(&["ps", "--json"]), "", "no run was stored");
}

#[test]
fn a_run_whose_scheduler_cannot_be_started_is_named() {
    let service = Service::new("[step.a]\nrun = 'true'\n");
    fs::create_dir_all(service.bench.path("state/serve.log")).expect("a directory");
    let output = service.bench.ends_with(69, &["run", "-d", "flow.toml"]);
    let said = stderr(&output);
    assert!(said.contains("the scheduler cannot be started: Is a directory"), "{said}");
    assert!(said.contains("start one with: windlass serve"), "{said}");
    let open = service.shown(&["ps"]);
    assert!(open.contains(stdout(&output).trim()) && open.contains("queued"), "{open}");
}

#[test]
fn a_run_that_the_scheduler_has_not_taken_does_not_ask_for_another_scheduler() {
    let mut service = Service::new("[step.a]\nrun = 'true'\n");
    let place = service.start(&["serve", "--no-worker"]);
    eventually("it schedules", || service.said().contains("schedules the submitted runs"));
    service.suspend(place);
    let run = service.submit(&[]);
    let pid = service.processes[place].id();
    let expected = format!("the scheduler (process {pid}) has not taken it so far");
    for verb in [&["ps"][..], &["show", &run], &["why", &run]] {
        let shown = service.shown(verb);
        assert!(shown.contains(&expected) && !shown.contains("no scheduler"), "{shown}");
    }
    service.shown(&["why", &run, "--json"]).lines().for_each(check_line);
    signal(&service.processes[place], Signal::CONT);
    service.start(&["worker", "--name", "one"]);
    service.wait(&run, 0);
}

#[test]
fn a_run_that_a_step_submits_is_not_the_last_one() {
    let submits = "[step.a]\nrun = '\"$WINDLASS\" submit inner.toml > inner'\n";
    let service = Service::new(submits);
    service.bench.write("inner.toml", "[step.a]\nrun = 'true'\n");
    service.bench.ends_with(0, &["run", "flow.toml"]);
    let inner = service.bench.read("inner");
    assert!(service.shown(&["ps"]).contains(inner.trim()), "it was submitted");
    let last = service.shown(&["show", "last"]);
    assert!(last.contains(": flow succeeded"), "{last}");
}

#[test]
fn a_wait_says_that_nothing_leads_a_run() {
    let mut service = Service::new("[step.a]\nrun = 'kill -9 $PPID; sleep 100'\n");
    let killed = service.bench.call(&["run", "flow.toml"]);
    assert_eq!(killed.status.code(), None, "{}", stderr(&killed));
    let interrupted = service.bench.run_id();
    service.bench.write("flow.toml", "[step.a]\nrun = 'true'\n");
    let queued = service.submit(&[]);
    let place = service.start(&["wait", &queued, &interrupted]);
    let said = || service.bench.read(&format!("said-{place}"));
    let queued_told =
        format!("run {queued} waits: no scheduler is running; start one with: windlass serve\n");
    let told =
        format!("run {interrupted} is interrupted; to resume: windlass resume {interrupted}\n");
    eventually("it is told", || said() == format!("{queued_told}{told}"));
    service.bench.ends_with(0, &["cancel", &interrupted, "--output", "quiet"]);
    service.start(&["serve", "--no-worker"]);
    service.start(&["worker", "--slots", "1"]);
    let ended = service.processes[place].wait().expect("it ends");
    assert_eq!(ended.code(), Some(3), "{}", service.said());
    let said = service.bench.read(&format!("said-{place}"));
    assert_eq!(said.lines().count(), 4, "each is told once: {said}");
}
