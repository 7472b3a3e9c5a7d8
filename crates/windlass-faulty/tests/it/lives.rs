//! One run with many lives: each ends by a kill, and the next one goes on.

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

use crate::flow::{Flow, Names};
use crate::journal::Journal;
use crate::record;
use crate::surroundings;

/// A run, and everything that is known of it from outside.
pub(crate) struct Lives {
    dir: TempDir,
    flow: Flow,
    /// The steps whose success was stored at an earlier kill.
    finished: BTreeMap<String, u32>,
    /// How many digests of a dead coordinator were those of the journal.
    pub(crate) digests: usize,
    /// What each life was, for whoever has to find out why.
    told: Vec<String>,
}

impl Lives {
    pub(crate) fn new(names: Names) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let flow = Flow::of_a_hundred(names);
        let text = flow.text(env!("CARGO_BIN_EXE_windlass-step"));
        fs::write(dir.path().join("flow.toml"), text).expect("a file");
        fs::create_dir(dir.path().join("held")).expect("a directory");
        Self { dir, flow, finished: BTreeMap::new(), digests: 0, told: Vec::new() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Whether the journal says that every step has succeeded.
    pub(crate) fn is_complete(&self) -> bool {
        self.progress() == self.flow.steps.len()
    }

    /// How many steps have succeeded.
    pub(crate) fn progress(&self) -> usize {
        self.finished.len()
    }

    /// Whether the run itself has ended, and is led by nobody.
    pub(crate) fn is_over(&self) -> bool {
        self.journal().is_some_and(|mut journal| journal.end().is_some())
    }

    /// Whether the store knows the run.
    pub(crate) fn is_submitted(&self) -> bool {
        self.journal().is_some()
    }

    fn journal(&self) -> Option<Journal> {
        self.path("state").exists().then(|| Journal::open(&self.path("state")))?
    }

    /// A life that dies at the first of these points that it has reached so many times; which one
    /// that was, if it did.
    pub(crate) fn die_at(&mut self, points: &[(Point, u64)]) -> Option<Point> {
        let fault = |(point, times): &(Point, u64)| format!("{}:{times}", point.name());
        let faults = points.iter().map(fault).collect::<Vec<_>>().join(",");
        let status = self.command().env(FAULT_VARIABLE, &faults).status();
        self.told.push(faults);
        let killed = self.judge(status.expect("the binary runs"));
        let report = self.read("report");
        let died_at = report.lines().next().filter(|_| killed);
        Point::ALL.into_iter().find(|point| died_at == Some(point.name()))
    }

    /// A life that `kill` puts an end to. Whether it did.
    pub(crate) fn die_by(&mut self, what: String, kill: impl FnOnce(&mut Child)) -> bool {
        self.told.push(what);
        let mut child = self.command().spawn().expect("the binary runs");
        kill(&mut child);
        let status = child.wait().expect("it can be waited for");
        self.judge(status)
    }

    /// The last life, which nobody disturbs. Once a run is over, there is nothing to go on with.
    pub(crate) fn end(mut self) {
        self.told.push("to the end".to_owned());
        if !self.is_over() {
            let status = self.command().status().expect("the binary runs");
            assert!(!self.judge(status), "nobody kills it");
        }
        assert!(self.is_complete(), "every step has succeeded");
        assert!(!self.read("hooked").is_empty(), "the hook was told");
        let record = self.read("record");
        let status = self.command().status().expect("the binary runs");
        assert!(status.success(), "{}", self.read("said"));
        assert!(self.read("said").contains("has ended"), "{}", self.read("said"));
        assert_eq!(self.read("record"), record, "nothing runs any more");
        let mut journal = self.journal().expect("it was submitted");
        assert_eq!(journal.end(), Some(RunOutcome::Succeeded));
        assert_eq!(journal.told(), self.finished, "how each step went is known");
    }

    /// Begins the run, or goes on with it.
    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass-faulty"));
        match self.journal() {
            Some(journal) => command.args(["resume", journal.run()]),
            None => command.args(["run", "flow.toml"]),
        };
        let said = File::create(self.path("said")).expect("a file");
        let _ = fs::remove_file(self.path("report"));
        let told = File::create(self.path("told")).expect("a file");
        command.arg("--json").current_dir(self.dir.path()).stdin(Stdio::null()).stdout(told);
        command.stderr(said).env("WINDLASS_STATE", self.path("state"));
        command.env(REPORT_VARIABLE, self.path("report")).env_remove("WINDLASS_LEASES");
        command.env(surroundings::VARIABLE, surroundings::mark()).env("PATH", surroundings::path());
        command
    }

    /// Whether a life was killed; if not, it has to have ended well.
    fn judge(&mut self, status: ExitStatus) -> bool {
        let killed = status.signal().is_some();
        assert!(killed || status.success(), "{status}\n{}", self.read("said"));
        if !killed {
            assert!(!self.read("report").is_empty(), "a life that ends well tells its digest");
            self.check_nothing_runs();
        }
        if let Some(journal) = self.journal() {
            self.check(journal);
        }
        killed
    }

    /// The journal, the records of the steps and the engine of the dead process tell one story.
    fn check(&mut self, mut journal: Journal) {
        let record = self.read("record");
        record::check(&self.flow, &record);
        let finished = journal.finished();
        for (step, attempt) in &self.finished {
            assert_eq!(finished.get(step), Some(attempt), "{step}: what is stored stays");
        }
        let succeeded = record::succeeded(&record);
        for (step, attempt) in &finished {
            let said = succeeded.contains(&(step.as_str(), *attempt));
            assert!(said, "{step}@{attempt} has succeeded, and does not know it");
        }
        record::check_cleaned(&self.flow, &record, &finished);
        for line in record::lines(&record).iter().filter(|line| line.is_start()) {
            let again = finished.get(line.step).is_some_and(|last| line.attempt > *last);
            assert!(!again, "{}@{} ran although it was finished", line.step, line.attempt);
        }
        for (step, attempt) in successes(&self.read("told")) {
            assert_eq!(finished.get(&step), Some(&attempt), "{step}: what was told is stored");
        }
        self.finished = finished;
        self.check_digest(&mut journal);
    }

    fn check_digest(&mut self, journal: &mut Journal) {
        let report = self.read("report");
        // Before its first commit, a life has come to nothing.
        let Some((digest, time)) = report.lines().nth(1).and_then(|line| line.split_once(' '))
        else {
            return;
        };
        let number = |text: &str| text.parse::<u64>().expect("a number");
        let replayed = journal.digest(number(time));
        assert_eq!(replayed, number(digest), "the journal leads to where the engine had come");
        self.digests += 1;
    }

    /// No process is left that was started for this run. What was killed a moment ago may still be on
    /// its way out; what was not stays for ten minutes.
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
        let mark = format!("WINDLASS_STATE={}", self.path("state").display());
        let processes = fs::read_dir("/proc").expect("this is Linux").flatten();
        let marked = processes.filter(|process| {
            // One that has ended has no environment any more, and does not count.
            let environment = fs::read(process.path().join("environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|entry| entry == mark.as_bytes())
        });
        let line = |process: fs::DirEntry| fs::read_to_string(process.path().join("cmdline"));
        marked.map(|process| line(process).unwrap_or_default()).collect()
    }
}

/// The steps that a life has called successful, each with its attempt.
fn successes(told: &str) -> Vec<(String, u32)> {
    // The last line may have been cut off.
    let events = told.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let success = |event: Value| {
        let attempt = event["attempt"].as_u64().and_then(|attempt| u32::try_from(attempt).ok())?;
        let is_success = event["event"] == "step" && event["state"] == "success";
        is_success.then(|| (event["step"].as_str().unwrap_or_default().to_owned(), attempt))
    };
    events.filter_map(success).collect()
}

impl Drop for Lives {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the lives of the run: {}", self.told.join(", "));
            eprintln!("the last one said:\n{}", self.read("said"));
        }
    }
}
