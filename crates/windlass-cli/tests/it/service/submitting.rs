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
