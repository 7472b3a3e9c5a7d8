//! The command that is measured, in a directory of its own for each store.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// The program.
pub struct Windlass {
    program: PathBuf,
}

/// A directory with a store.
pub struct Place {
    program: PathBuf,
    dir: TempDir,
    /// The store: a directory below, or the URL of a database.
    state: String,
}

impl Windlass {
    /// Returns the program that was built beside this one.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[must_use]
    pub fn beside_this_program() -> Self {
        let this = env::current_exe().expect("this program lies somewhere");
        let program = this.with_file_name("windlass");
        assert!(program.exists(), "build it first: cargo build --release -p windlass-cli");
        Self { program }
    }

    /// Makes a directory with an empty store, because a user has one after the first run.
    pub fn place(&self) -> Place {
        let dir = self.dir();
        let state = dir.path().join("state").display().to_string();
        self.place_in(dir, state)
    }

    /// Makes a directory, and an empty store in the database that a URL names.
    pub fn place_on(&self, url: String) -> Place {
        self.place_in(self.dir(), url)
    }

    fn dir(&self) -> TempDir {
        let beside = self.program.parent().expect("it lies in a directory");
        TempDir::new_in(beside).expect("a directory")
    }

    fn place_in(&self, dir: TempDir, state: String) -> Place {
        let place = Place { program: self.program.clone(), dir, state };
        place.expect(&["store", "init"]);
        place
    }
}

impl Place {
    /// Returns the path of a file in the directory.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a file of the directory.
    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a file");
    }

    /// Returns a command that has no output unless its caller reads it.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("--state")
            .arg(&self.state)
            .env("XDG_STATE_HOME", self.dir())
            .args(arguments)
            .current_dir(self.dir());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Runs a command that has to succeed, and returns what it prints.
    pub fn expect(&self, arguments: &[&str]) -> String {
        let mut command = self.command(arguments);
        let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
        let Output { status, stdout, stderr } = output.expect("the program starts");
        let stderr = String::from_utf8_lossy(&stderr);
        assert!(status.success(), "windlass {}: {status}: {stderr}", arguments.join(" "));
        String::from_utf8(stdout).expect("it is text")
    }

    /// Submits `flow.toml`, and returns the run's id.
    pub fn submit(&self) -> String {
        self.expect(&["submit", "flow.toml"]).trim().to_owned()
    }

    /// Returns when the first attempt of a run has begun, in milliseconds since 1970, once it is checked that
    /// each step of it, of which there are `steps`, has succeeded with its first attempt.
    pub fn first_start(&self, run: &str, steps: usize) -> u64 {
        let shown = self.expect(&["show", run, "--json"]);
        let lines = shown
            .lines()
            .map(|line| -> Value { serde_json::from_str(line).expect("each line is an object") });
        let views: Vec<_> = lines.filter(|line| line["event"] == "step_view").collect();
        assert_eq!(views.len(), steps, "steps of {run}");
        let starts = views.iter().map(|view| {
            assert_eq!(view["state"], "success", "{view}");
            let [attempt] = &view["attempts"].as_array().expect("a list")[..] else {
                panic!("it was interrupted: {view}");
            };
            attempt["started"].as_u64().expect("it has begun")
        });
        starts.min().expect("it has steps")
    }
}
