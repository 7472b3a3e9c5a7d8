//! Hostile inputs, by the table: the command ends soon, with a code that is documented,
//! without a panic, says what is wrong and where, and does nothing to a terminal.

use std::ffi::OsStr;
use std::process::{Command, Output};

use crate::bench::{Bench, stderr, stdout};

mod files;
mod limits;
mod signals;
mod sizes;
mod streams;
mod words;

/// The codes of `docs/command.md`, but that of a bug.
const CODES: [i32; 13] = [0, 1, 2, 3, 69, 75, 124, 126, 127, 129, 130, 131, 143];
/// A step that succeeds.
const GOOD: &str = "[step.a]\nrun = 'true'\n";
/// Messages are for people: longer ones are not read.
const LONGEST: usize = 20_000;

/// Calls the binary in the directory, and kills it if it hangs, which is no exit code of windlass.
fn call<S: AsRef<OsStr>>(bench: &Bench, arguments: &[S]) -> Output {
    let binary = bench.command(&[]);
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60"]).arg(binary.get_program()).args(arguments);
    alike(&mut command, &binary).output().expect("timeout runs")
}

/// Runs a script in the directory, under the same limit.
fn script(bench: &Bench, text: &str) -> Output {
    let binary = bench.script(text);
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60"]).arg(binary.get_program()).args(binary.get_args());
    alike(&mut command, &binary).output().expect("timeout runs")
}

/// Gives a command the directory and the environment of another one.
fn alike<'a>(command: &'a mut Command, other: &Command) -> &'a mut Command {
    command.current_dir(other.get_current_dir().expect("it has one"));
    command.stdin(std::process::Stdio::null());
    for (name, value) in other.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// What holds however the command ended.
#[track_caller]
fn check(what: &str, output: &Output) -> i32 {
    let (out, err) = (stdout(output), stderr(output));
    let told: String = err.chars().take(400).collect();
    let code = output.status.code().unwrap_or_else(|| panic!("{what}: {:?}", output.status));
    assert!(CODES.contains(&code), "{what}: code {code}: {told}");
    assert!(!err.contains("panicked"), "{what}: {told}");
    assert!(code == 0 || !(err.is_empty() && out.is_empty()), "{what}: code {code}, silently");
    assert!(err.len() <= LONGEST, "{what}: {} bytes of message: {told}", err.len());
    let wild = |c: char| c.is_control() && !matches!(c, '\n' | '\t') || c == '\u{202e}';
    assert!(!err.contains(wild), "{what}: it does something to a terminal: {told:?}");
    code
}
