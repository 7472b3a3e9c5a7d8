//! A run whose coordinator is killed and resumed again and again.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use windlass_server::fault::{FAULT_VARIABLE, Point, REPORT_VARIABLE};
use windlass_store::RunOutcome;

use crate::flow::{self, Flow, Names};
use crate::journal::Journal;
use crate::record;
use crate::surroundings;

/// A run, with what the test knows of it.
pub(crate) struct KilledRun {
    dir: TempDir,
    flow: Flow,
    /// The steps whose success was stored at the last kill, with the attempt that succeeded.
    finished: BTreeMap<String, u32>,
    /// How many digests of a killed coordinator were compared with a replay of the journal.
    pub(crate) digests: usize,
    /// How each coordinator was killed, for the report of a failure.
    kills: Vec<String>,
}

impl KilledRun {
    pub(crate) fn new(names: Names) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let flow = Flow::of_a_hundred(names);
        let text = flow.text(env!("CARGO_BIN_EXE_windlass-step"));
        fs::write(dir.path().join("flow.toml"), text).expect("a file");
        fs::create_dir(dir.path().join("held")).expect("a directory");
        flow::set_limit(&dir.path().join("state"));
        Self { dir, flow, finished: BTreeMap::new(), digests: 0, kills: Vec::new() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Returns whether every step has succeeded, according to the journal.
    pub(crate) fn is_complete(&self) -> bool {
        self.progress() == self.flow.steps.len()
    }

    /// Returns how many steps have succeeded.
    pub(crate) fn progress(&self) -> usize {
        self.finished.len()
    }

    /// Returns whether the end of the run is stored.
    pub(crate) fn is_over(&self) -> bool {
        self.journal().is_some_and(|mut journal| journal.end().is_some())
    }

    /// Returns whether the run is stored.
    pub(crate) fn is_submitted(&self) -> bool {
        self.journal().is_some()
    }

    fn journal(&self) -> Option<Journal> {
        self.path("state").exists().then(|| Journal::open(&self.path("state")))?
    }

    /// Runs a coordinator that kills itself at the first of these fault points that it reaches so many
    /// times. Returns the point, if it did.
    pub(crate) fn kill_at(&mut self, points: &[(Point, u64)]) -> Option<Point> {
        let fault = |(point, times): &(Point, u64)| format!("{}:{times}", point.name());
        let faults = points.iter().map(fault).collect::<Vec<_>>().join(",");
        let status = self.command().env(FAULT_VARIABLE, &faults).status();
        self.kills.push(faults);
        let killed = self.check_end(status.expect("the binary runs"));
        let report = self.read("report");
        let died_at = report.lines().next().filter(|_| killed);
        Point::all().find(|point| died_at == Some(point.name()))
    }

    /// Runs a coordinator that `kill` kills. Returns whether it was killed.
    pub(crate) fn kill_with(&mut self, what: String, kill: impl FnOnce(&mut Child)) -> bool {
        self.kills.push(what);
        let mut child = self.command().spawn().expect("the binary runs");
        kill(&mut child);
        let status = child.wait().expect("it can be waited for");
        self.check_end(status)
    }

    /// Runs the last coordinator to the end of the run, and checks the end.
    pub(crate) fn end(mut self) {
        self.kills.push("to the end".to_owned());
        if !self.is_over() {
            let status = self.command().status().expect("the binary runs");
            assert!(!self.check_end(status), "it was not killed");
        }
        assert!(self.is_complete(), "every step has succeeded");
        assert!(!self.read("hooked").is_empty(), "the hook has run");
        let record = self.read("record");
        let status = self.command().status().expect("the binary runs");
        assert!(status.success(), "{}", self.read("stderr"));
        let printed = self.read("stdout");
        assert!(printed.contains(r#""state":"succeeded""#), "{printed}");
        assert_eq!(printed.lines().count(), 1, "{printed}");
        assert_eq!(self.read("record"), record, "nothing runs any more");
        let mut journal = self.journal().expect("it was submitted");
        assert_eq!(journal.end(), Some(RunOutcome::Succeeded));
        assert_eq!(journal.reported(), self.finished, "the attempts are recorded");
    }

    /// Returns the command that starts or resumes the run.
    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass-faulty"));
        match self.journal() {
            Some(journal) => command.args(["resume", journal.run()]),
            None => command.args(["run", "flow.toml"]),
        };
        let stderr = File::create(self.path("stderr")).expect("a file");
        let _ = fs::remove_file(self.path("report"));
        let stdout = File::create(self.path("stdout")).expect("a file");
        command.arg("--json").current_dir(self.dir.path()).stdin(Stdio::null()).stdout(stdout);
        command.stderr(stderr).env("WINDLASS_STATE", self.path("state"));
        command.env(REPORT_VARIABLE, self.path("report")).env_remove("WINDLASS_LEASES");
        command.env(surroundings::VARIABLE, surroundings::mark()).env("PATH", surroundings::path());
        command
    }

    /// Checks the state after a coordinator has ended. Returns whether it was killed; else it must have
    /// succeeded.
    fn check_end(&mut self, status: ExitStatus) -> bool {
        let killed = status.signal().is_some();
        assert!(killed || status.success(), "{status}\n{}", self.read("stderr"));
        if !killed {
            assert!(
                !self.read("report").is_empty(),
                "a coordinator that succeeds reports its digest"
            );
            self.check_nothing_runs();
        }
        if let Some(journal) = self.journal() {
            self.check(journal);
        }
        killed
    }

    /// Checks that the journal, the records of the steps and the killed engine agree.
    fn check(&mut self, mut journal: Journal) {
        let record = self.read("record");
        record::check(&self.flow, &record);
        let finished = journal.finished();
        for (step, attempt) in &self.finished {
            assert_eq!(finished.get(step), Some(attempt), "{step}: a stored success stays");
        }
        let succeeded = record::succeeded(&record);
        for (step, attempt) in &finished {
            let recorded = succeeded.contains(&(step.as_str(), *attempt));
            assert!(recorded, "{step}@{attempt} is stored as succeeded, but has not recorded it");
        }
        record::check_cleaned(&self.flow, &record, &finished);
        for line in record::lines(&record).iter().filter(|line| line.is_start()) {
            let again = finished.get(line.step).is_some_and(|last| line.attempt > *last);
            assert!(!again, "{}@{} ran although it was finished", line.step, line.attempt);
        }
        for (step, attempt) in successes(&self.read("stdout")) {
            assert_eq!(finished.get(&step), Some(&attempt), "{step}: a reported success is stored");
        }
        self.finished = finished;
        self.check_digest(&mut journal);
    }

    fn check_digest(&mut self, journal: &mut Journal) {
        let report = self.read("report");
        // A coordinator that is killed before its first commit reports none.
        let Some((digest, time)) = report.lines().nth(1).and_then(|line| line.split_once(' '))
        else {
            return;
        };
        let number = |text: &str| text.parse::<u64>().expect("a number");
        let replayed = journal.digest(number(time));
        assert_eq!(
            replayed,
            number(digest),
            "a replay of the journal has the digest of the engine"
        );
        self.digests += 1;
    }

    /// Checks that no process of this run is left. One that was killed just now may still be exiting; one
    /// that was not stays for ten minutes.
    fn check_nothing_runs(&self) {
        let began = Instant::now();
        loop {
            let left = self.processes();
            if left.is_empty() {
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "these still run: {left:?}");
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn processes(&self) -> Vec<String> {
        let tag = format!("WINDLASS_STATE={}", self.path("state").display());
        let processes = fs::read_dir("/proc").expect("this is Linux").flatten();
        let tagged = processes.filter(|process| {
            // A process that has ended has no environment any more.
            let environment = fs::read(process.path().join("environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|entry| entry == tag.as_bytes())
        });
        let line = |process: fs::DirEntry| fs::read_to_string(process.path().join("cmdline"));
        tagged.map(|process| line(process).unwrap_or_default()).collect()
    }
}

/// Returns the steps that the coordinator has reported as succeeded, each with its attempt.
fn successes(stdout: &str) -> Vec<(String, u32)> {
    // The last line may have been cut off.
    let events = stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let success = |event: Value| {
        let attempt = event["attempt"].as_u64().and_then(|attempt| u32::try_from(attempt).ok())?;
        let is_success = event["event"] == "step" && event["state"] == "success";
        is_success.then(|| (event["step"].as_str().unwrap_or_default().to_owned(), attempt))
    };
    events.filter_map(success).collect()
}

impl Drop for KilledRun {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the coordinator was killed: {}", self.kills.join(", "));
            eprintln!("the last one printed:\n{}", self.read("stderr"));
        }
    }
}
