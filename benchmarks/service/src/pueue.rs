//! pueue, a queue for shell commands, with a daemon of its own.

use std::env;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;

use windlass_bench_service::{PATIENCE, Place, Windlass};

use crate::queue::Contender;
use crate::thousand::SLOTS;

/// The daemon with its directory.
pub(crate) struct Pueue {
    place: Place,
    daemon: Child,
}

impl Pueue {
    pub(crate) fn is_installed() -> bool {
        let path = env::var_os("PATH").unwrap_or_default();
        let has = |name| env::split_paths(&path).any(|dir| dir.join(name).is_file());
        has("pueue") && has("pueued")
    }

    /// Starts the daemon, whose queue executes nothing before it is released unless it is `open`.
    pub(crate) fn new(windlass: &Windlass, open: bool) -> Self {
        let place = windlass.place();
        let dir = place.dir().display();
        place.write("pueue.yml", &format!("shared:\n  pueue_directory: {dir}/pueue\n"));
        std::fs::create_dir(place.path("pueue")).expect("a directory");
        let daemon = command(&place, "pueued", &[]).spawn().expect("pueued starts");
        let pueue = Self { place, daemon };
        pueue.await_daemon();
        pueue.expect(&["parallel", &SLOTS.to_string()]);
        if !open {
            pueue.expect(&["pause"]);
        }
        pueue
    }

    fn await_daemon(&self) {
        let began = Instant::now();
        let answers = || command(&self.place, "pueue", &["status"]).status();
        while !answers().expect("pueue starts").success() {
            assert!(began.elapsed() < PATIENCE, "pueued does not answer");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn expect(&self, arguments: &[&str]) -> String {
        let mut command = command(&self.place, "pueue", arguments);
        let output = command.stdout(Stdio::piped()).output().expect("pueue starts");
        assert!(output.status.success(), "pueue {}: {}", arguments.join(" "), output.status);
        String::from_utf8(output.stdout).expect("it is text")
    }
}

impl Contender for Pueue {
    fn add(&mut self) {
        self.expect(&["add", "true"]);
    }

    fn release(&mut self) {
        self.expect(&["start"]);
    }

    fn ended(&mut self, commands: usize) -> Instant {
        self.expect(&["wait", "--quiet"]);
        let (now, wall) = (Instant::now(), Timestamp::now());
        let status = self.expect(&["status", "--json"]);
        let status: Value = serde_json::from_str(&status).expect("it is JSON");
        let tasks = status["tasks"].as_object().expect("an object");
        assert_eq!(tasks.len(), commands);
        let end = |task: &Value| -> Timestamp {
            let done = &task["status"]["Done"];
            assert_eq!(done["result"], "Success", "{task}");
            done["end"].as_str().and_then(|end| end.parse().ok()).expect("a time")
        };
        // `wait` looks only every other second, so the last task says when it has ended.
        let last = tasks.values().map(end).max().expect("there are tasks");
        now - Duration::try_from(wall.duration_since(last)).expect("it has ended before")
    }
}

/// Returns a command that uses the daemon of this directory, and prints nothing.
fn command(place: &Place, program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.arg("--config").arg(place.path("pueue.yml")).args(arguments).current_dir(place.dir());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

impl Drop for Pueue {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.daemon.kill().and_then(|()| self.daemon.wait());
    }
}
