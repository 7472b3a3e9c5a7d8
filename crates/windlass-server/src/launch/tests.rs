use std::fs;
use std::path::Path;

use super::*;
use crate::ended::Exit;

/// Returns what a shell prints that is started with variables of its own.
fn output_of(dir: &Path, script: &str, env: &[(&str, &str)]) -> String {
    let log = dir.join("log");
    let file = File::create(&log).expect("a file");
    let words = ["called", "-c", script].into_iter();
    let env: Vec<_> = env.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    let program = Program::new(Path::new("/bin/sh"), words, &env, dir).expect("no zero");
    let mut launcher = Launcher::new(Inherited::default()).expect("it can be made ready");
    let launched = launcher.launch(&program, file.as_fd(), None).expect("there is a shell");
    assert!(crate::spawn::is_spawned(launched.id()));
    crate::poll::poll(&[&launched], None).expect("it can be waited for");
    let ended = reap(pid(launched.id()).expect("a number")).expect("it is a child of ours");
    assert_eq!(ended.map(|ended| ended.exit), Some(Exit::Code(0)));
    fs::read_to_string(&log).expect("it was printed")
}

#[test]
fn a_program_has_its_variables_its_directory_and_its_group() {
    let dir = tempfile::tempdir().expect("a directory");
    let script = "echo $0 $A $B; pwd -P; test -n \"$PATH\"; ps -o pgid= -p $$ | tr -d ' '; echo $$";
    let env = [("A", "once"), ("B", "2"), ("A", "again")];
    let said = output_of(dir.path(), script, &env);
    let lines: Vec<_> = said.lines().collect();
    let place = fs::canonicalize(dir.path()).expect("it is there");
    assert_eq!(lines[..2], ["called again 2", place.to_str().expect("plain")]);
    assert_eq!(lines[2], lines[3], "it leads a group of its own");
}

#[test]
fn a_program_starts_with_default_signal_handling() {
    let dir = tempfile::tempdir().expect("a directory");
    let _watch = crate::signals::SignalWatch::start(|_| {}).expect("signals can be watched");
    let said = output_of(dir.path(), "cat /proc/self/status", &[]);
    let mask = |name: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(name)).expect("it is there");
        u64::from_str_radix(line.trim(), 16).expect("a number")
    };
    assert_eq!((mask("SigBlk:"), mask("SigCgt:")), (0, 0));
    assert_eq!(mask("SigIgn:") & 1 << (libc::SIGPIPE - 1), 0, "Rust ignores it");
}

#[test]
fn what_cannot_be_executed_is_an_error_and_leaves_nothing() {
    let log = tempfile::tempfile().expect("a file");
    let mut launcher = Launcher::new(Inherited::default()).expect("it can be made ready");
    let mut error = |file: &str, dir: &str| {
        let program = Program::new(Path::new(file), [file].into_iter(), &[], Path::new(dir));
        let program = program.expect("no zero");
        launcher.launch(&program, log.as_fd(), None).err().expect("it is none").kind()
    };
    assert_eq!(error("/no/such/program", "/"), io::ErrorKind::NotFound);
    assert_eq!(error("/dev/null", "/"), io::ErrorKind::PermissionDenied);
    assert_eq!(error("/bin/true", "/no/such/place"), io::ErrorKind::NotFound);
}
