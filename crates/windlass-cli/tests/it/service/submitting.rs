//! What a submission refuses, so that no run waits for a scheduler that cannot start its steps.

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
