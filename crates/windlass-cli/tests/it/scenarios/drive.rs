//! Runs a scenario in real time: at each of its times the binary is called as a person would.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use windlass_server::WorkState;
use windlass_sim::scenario::{Action, End, Entry, Scenario, Timestamp, WorkPlan};

use super::flow::{Flow, asked_file, gate_file, has_gate, skip_file};
use crate::bench::{Bench, eventually, signal, stdout};

/// Longer than anything in a scenario takes: then it hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// The holder of names that a step is refused.
const OUTSIDER: &str = "outsider";

/// Runs the scenario; what does not fit, in words.
pub(super) fn drive(scenario: &Scenario, stretch: u32) -> Result<(), String> {
    let mut drive = Drive::begin(scenario, stretch);
    while drive.goes_on() {}
    let fits = match drive.problem.take() {
        Some(problem) => Err(problem),
        None => scenario.fits_in_real_time(&drive.trace),
    };
    fits.map_err(|problem| format!("{problem}\n{}", drive.bench.read("talk")))
}

struct Drive<'a> {
    flow: Flow<'a>,
    bench: Bench,
    run: String,
    began: Instant,
    /// The process that leads the run, if one does.
    leader: Option<Child>,
    /// What it tells; the end of that is told by `None`.
    told: Receiver<Option<String>>,
    tell: Sender<Option<String>>,
    /// What is still to be done, and when; in order for one instant.
    todo: BTreeMap<(Instant, usize), Deed>,
    deeds: usize,
    /// Calls of the binary that were not waited for.
    calls: Vec<Child>,
    /// The tokens of what is held against steps.
    held: BTreeMap<usize, String>,
    trace: Vec<Entry>,
    problem: Option<String>,
}

/// Something to be done from outside.
enum Deed {
    /// What the scenario says, and when it says so.
    Act(Timestamp, Action),
    /// End the attempt of this work that is under way.
    Stop(usize),
    /// Kill the leader of the run, and resume it.
    Kill,
}

impl<'a> Drive<'a> {
    fn begin(scenario: &'a Scenario, stretch: u32) -> Self {
        let flow = Flow { scenario, stretch };
        let bench = Bench::new();
        bench.write("flow.toml", &flow.text());
        let (tell, told) = channel();
        let mut drive = Self {
            flow,
            bench,
            run: String::new(),
            began: Instant::now(),
            leader: None,
            told,
            tell,
            todo: BTreeMap::new(),
            deeds: 0,
            calls: Vec::new(),
            held: BTreeMap::new(),
            trace: Vec::new(),
            problem: None,
        };
        drive.shut_outside();
        drive.lead(&["run", "flow.toml"]);
        drive.await_run();
        drive.plan();
        drive
    }

    /// Holds what steps need until something outside does not refuse them any more.
    fn shut_outside(&mut self) {
        for (place, work) in self.flow.scenario.works.iter().enumerate() {
            if work.grants.outside > Timestamp::ZERO {
                let acquire = ["lock", "acquire", &work.name, "--holder", OUTSIDER];
                let answer = stdout(&self.bench.call(&acquire));
                let token = answer.split_whitespace().nth(1).expect("a token").to_owned();
                self.held.insert(place, token);
            }
        }
    }

    /// Has a process of the binary lead the run.
    fn lead(&mut self, arguments: &[&str]) {
        let talk = File::options().create(true).append(true).open(self.bench.path("talk"));
        let mut command = self.bench.command(arguments);
        command.arg("--json").stdout(Stdio::piped()).stderr(talk.expect("it can be written"));
        let mut leader = command.spawn().expect("the binary runs");
        let lines = BufReader::new(leader.stdout.take().expect("it is piped")).lines();
        let tell = self.tell.clone();
        thread::spawn(move || {
            let told = lines.map_while(Result::ok).map(Some).chain([None]);
            // The receiver is dropped once the scenario has failed.
            told.take_while(|told| tell.send(told.clone()).is_ok()).for_each(drop);
        });
        self.leader = Some(leader);
    }

    /// The scenario begins when the run is known.
    fn await_run(&mut self) {
        let runs = self.bench.path("state/runs");
        let begun = || fs::read_dir(&runs).is_ok_and(|mut runs| runs.next().is_some());
        let failed = || self.bench.read("talk").contains("error");
        eventually("a run", || begun() || failed());
        assert!(begun(), "{}", self.bench.read("talk"));
        self.run = self.bench.run_id();
        self.began = Instant::now();
    }

    fn plan(&mut self) {
        for (at, action) in self.flow.scenario.actions.clone() {
            let due = self.began + at.since(Timestamp::ZERO) * self.flow.stretch;
            self.schedule(due, Deed::Act(at, action));
        }
    }

    fn schedule(&mut self, due: Instant, deed: Deed) {
        self.todo.insert((due, self.deeds), deed);
        self.deeds += 1;
    }

    /// Waits for the next thing; whether there is anything else to wait for.
    fn goes_on(&mut self) -> bool {
        let reopens = |deed: &Deed| matches!(deed, Deed::Act(_, Action::Reopen(_)));
        if self.leader.is_none() && !self.todo.values().any(reopens) {
            return false;
        }
        let due = self.todo.first_key_value().map(|((due, _), _)| *due);
        let patience = due.map_or(PATIENCE, |due| due.saturating_duration_since(Instant::now()));
        match self.told.recv_timeout(patience) {
            Ok(Some(line)) => self.hear(&line),
            Ok(None) => self.over(),
            Err(RecvTimeoutError::Timeout) => match self.todo.pop_first() {
                Some((_, deed)) => self.carry_out(deed),
                None => self.problem = Some("it hangs".to_owned()),
            },
            Err(RecvTimeoutError::Disconnected) => unreachable!("we hold a sender ourselves"),
        }
        self.problem.is_none()
    }

    /// A change. An attempt that does not end by itself is ended when it has taken its time.
    fn hear(&mut self, line: &str) {
        let event: Value = serde_json::from_str(line).expect("one object per line");
        if event["event"] != "step" {
            return;
        }
        let entry = entry(self.flow.scenario, &event);
        let Entry { work: place, state, attempt, .. } = entry;
        self.trace.push(entry);
        let work = &self.flow.scenario.works[place];
        if state != WorkState::Running || self.flow.is_cancelled(place) {
            return;
        }
        let due = Instant::now() + work.body.takes * self.flow.stretch;
        match work.body.end(attempt) {
            End::Stopped => self.schedule(due, Deed::Stop(place)),
            End::Lost => self.schedule(due, Deed::Kill),
            End::Ok | End::Fail | End::Retry(_) => {}
        }
    }

    fn over(&mut self) {
        self.leader.take().expect("it has told something").wait().expect("it ends");
    }

    /// Waits until the run has no leader.
    fn await_end(&mut self) {
        while self.leader.is_some() && self.problem.is_none() {
            match self.told.recv_timeout(PATIENCE) {
                Ok(Some(line)) => self.hear(&line),
                Ok(None) => self.over(),
                Err(_) => self.problem = Some("it hangs".to_owned()),
            }
        }
    }

    fn carry_out(&mut self, deed: Deed) {
        match deed {
            Deed::Act(at, action) => self.act(at, &action),
            Deed::Stop(place) => self.cancel(place),
            Deed::Kill => {
                self.leader.as_mut().expect("it leads an attempt").kill().expect("it is ours");
                self.await_end();
                let run = self.run.clone();
                self.lead(&["resume", &run]);
            }
        }
    }

    fn act(&mut self, at: Timestamp, action: &Action) {
        match *action {
            Action::Submit(place) if self.work(place).from == Timestamp::ZERO => {}
            Action::Submit(place) | Action::Open(place) => self.open(place),
            Action::Reject(place) => {
                let refused = !self.call_of("reject", place);
                self.compare(at, "reject", place, refused);
            }
            Action::Skip(place) => self.skip(at, place),
            Action::Cancel(place) => self.cancel(place),
            Action::Reopen(place) => self.reopen(at, place),
            Action::Ring(place) => {
                let (name, token) = (&self.work(place).name, &self.held[&place]);
                let release = ["lock", "release", name, "--holder", OUTSIDER, "--token", token];
                assert!(self.bench.call(&release).status.success());
            }
            ref other => panic!("{}: {other:?} is not for the command", self.flow.scenario.name),
        }
    }

    /// A person opens the gate, or an event tells of it if the step is not there yet.
    fn open(&mut self, place: usize) {
        let work = self.work(place);
        self.bench.write(&gate_file(work), "");
        let passed = self.call_of("approve", place);
        if passed {
            assert!(has_gate(work), "{} waits for no gate", work.name);
        } else {
            self.bench.call(&["emit", &format!("{}:open", work.name)]);
        }
    }

    /// Does not wait for the end of it, so that several of one instant are not far apart.
    fn cancel(&mut self, place: usize) {
        let target = format!("{}/{}", self.run, self.work(place).name);
        self.calls.push(self.bench.start(&["cancel", &target]));
    }

    fn skip(&mut self, at: Timestamp, place: usize) {
        let work = self.work(place);
        let asked = self.bench.path(&asked_file(work)).exists();
        if asked {
            self.bench.write(&skip_file(work), "");
        }
        self.compare(at, "skip", place, !asked);
    }

    /// Behind a run that has ended, another process leads it on.
    fn reopen(&mut self, at: Timestamp, place: usize) {
        let work = self.work(place);
        let run = self.run.clone();
        let arguments = ["retry", &run, "--step", &work.name];
        if self.flow.scenario.refuses(at, &format!("reopen {}", work.name)) {
            let refused = !self.bench.call(&arguments).status.success();
            return self.compare(at, "reopen", place, refused);
        }
        let asked = Instant::now();
        self.await_end();
        // A step that is tried again waits for its gate again.
        let _ = fs::remove_file(self.bench.path(&gate_file(work)));
        if self.problem.is_none() {
            self.lead(&arguments);
            self.put_off(asked.elapsed());
        }
    }

    /// What follows a run that began anew later than it should have comes later, too.
    fn put_off(&mut self, late: Duration) {
        let todo = std::mem::take(&mut self.todo);
        self.todo = todo.into_iter().map(|((due, n), deed)| ((due + late, n), deed)).collect();
    }

    /// Calls the binary about a step; whether it did not refuse.
    fn call_of(&self, verb: &str, place: usize) -> bool {
        let target = format!("{}/{}", self.run, self.work(place).name);
        self.bench.call(&[verb, &target]).status.success()
    }

    fn compare(&mut self, at: Timestamp, verb: &str, place: usize, refused: bool) {
        let what = format!("{verb} {}", self.work(place).name);
        if self.flow.scenario.refuses(at, &what) != refused {
            let not = if refused { "" } else { "not " };
            self.problem = Some(format!("{what} at {at} was {not}refused"));
        }
    }

    fn work(&self, place: usize) -> &'a WorkPlan {
        &self.flow.scenario.works[place]
    }
}

impl Drop for Drive<'_> {
    fn drop(&mut self) {
        if let Some(leader) = &mut self.leader {
            // Interrupted twice, it leaves no process of a step behind.
            signal(leader, Signal::INT);
            signal(leader, Signal::TERM);
            leader.wait().expect("it is ours");
        }
        for call in &mut self.calls {
            call.wait().expect("it is ours");
        }
    }
}

fn entry(scenario: &Scenario, event: &Value) -> Entry {
    let text = |key: &str| event[key].as_str().expect("a text");
    let state = |state: &WorkState| state.to_string().eq_ignore_ascii_case(text("state"));
    Entry {
        at: Timestamp::from_millis(event["at"].as_u64().expect("a time")),
        work: scenario.place(text("step")).expect("a step of the scenario"),
        state: WorkState::ALL.into_iter().find(state).expect("a state"),
        attempt: event["attempt"].as_u64().expect("a number") as u32,
    }
}
