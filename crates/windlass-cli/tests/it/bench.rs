//! A directory of its own for each test, and the binary in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::surroundings;

/// Variables that change what the binary does, and may be set where the tests are started.
const SAID_ELSEWHERE: [&str; 12] = [
    "WINDLASS_RUN",
    "WINDLASS_LOG",
    "WINDLASS_LEASES",
    "WINDLASS_OUTPUT_MODE",
    "WINDLASS_JSON",
    "NO_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "GITHUB_ACTIONS",
    "GITLAB_CI",
    "LC_ALL",
    "LC_CTYPE",
];

/// A directory with a store, workflow files, and whatever steps write.
pub(crate) struct Bench {
    dir: TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a directory") }
    }

    /// Runs this workflow in a directory of its own.
    pub(crate) fn run(flow: &str) -> (Self, Output) {
        let bench = Self::new();
        bench.write("flow.toml", flow);
        let output = bench.call(&["run", "flow.toml"]);
        (bench, output)
    }

    /// Runs this workflow in a directory of its own, and checks the exit code.
    #[track_caller]
    pub(crate) fn run_ends_with(code: i32, flow: &str) -> (Self, Output) {
        let bench = Self::new();
        bench.write("flow.toml", flow);
        let output = bench.ends_with(code, &["run", "flow.toml"]);
        (bench, output)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("the file can be written");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Returns the binary, called in the directory.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(arguments).current_dir(self.dir.path());
        command.env("WINDLASS_STATE", self.path("state")).stdin(Stdio::null());
        command.env("WINDLASS", env!("CARGO_BIN_EXE_windlass")).env("LANG", "C");
        command.env(surroundings::VARIABLE, surroundings::mark()).env("PATH", surroundings::path());
        SAID_ELSEWHERE.iter().for_each(|variable| {
            command.env_remove(variable);
        });
        command
    }

    /// Returns a shell script in the directory, which calls the binary as `"$WINDLASS"`.
    pub(crate) fn script(&self, text: &str) -> Command {
        let binary = self.command(&[]);
        let mut command = Command::new("sh");
        command.args(["-eu", "-c", text]).current_dir(self.dir.path()).stdin(Stdio::null());
        for (name, value) in binary.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    pub(crate) fn call(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the binary runs")
    }

    /// Calls the binary, and checks its exit code.
    #[track_caller]
    pub(crate) fn ends_with(&self, code: i32, arguments: &[&str]) -> Output {
        let output = self.call(arguments);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "windlass {arguments:?}: {said}");
        output
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("the binary runs")
    }

    /// Waits until a step has made `file`.
    pub(crate) fn await_file(&self, file: &str) {
        eventually(file, || self.path(file).exists());
    }

    /// Returns the id of the only run in the store.
    pub(crate) fn run_id(&self) -> String {
        let mut runs = fs::read_dir(self.path("state/runs")).expect("a run has begun");
        let run = runs.next().expect("there is a run").expect("it can be listed");
        assert!(runs.next().is_none(), "there is one run");
        run.file_name().into_string().expect("ids are plain")
    }
}

/// Returns the number of rounds: more with `WINDLASS_STORM=1`, or as many as `WINDLASS_ROUNDS` says.
pub(crate) fn rounds(usually: usize, in_a_storm: usize) -> usize {
    if let Ok(rounds) = std::env::var("WINDLASS_ROUNDS") {
        return rounds.parse().expect("WINDLASS_ROUNDS is a number");
    }
    if std::env::var_os("WINDLASS_STORM").is_some() { in_a_storm } else { usually }
}

/// Sends a signal to a child of this process.
pub(crate) fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a child has a number");
    kill_process(pid, signal).expect("it can be signalled");
}

/// Waits until `holds`; a minute means never.
pub(crate) fn eventually(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a thread of the process runs; one that has ended waits to be reaped.
pub(crate) fn runs(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    // The fields behind the name, which may contain anything.
    let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let is_first_thread_over = fields.first().is_none_or(|state| matches!(*state, "Z" | "X"));
    let threads = fields.get(17).and_then(|threads| threads.parse::<u32>().ok());
    !is_first_thread_over || threads.is_some_and(|threads| threads > 1)
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the root of the repository.
pub(crate) fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
