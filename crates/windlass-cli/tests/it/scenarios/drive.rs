//! Runs a scenario in real time: calls the binary as a user would, at the times of the scenario.

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

/// A wait of this length means that the run hangs; nothing in a scenario takes as long.
const PATIENCE: Duration = Duration::from_secs(60);
/// The holder of the locks that the test holds against steps.
const OUTSIDER: &str = "outsider";

/// Runs the scenario. Returns what does not fit it, in words.
pub(super) fn drive(scenario: &Scenario, stretch: u32) -> Result<(), String> {
    let mut drive = Drive::begin(scenario, stretch);
    while drive.step() {}
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
    /// The lines that it prints, and `None` at its end.
    lines: Receiver<Option<String>>,
    sender: Sender<Option<String>>,
    agenda: Agenda,
    /// Calls of the binary that still run.
    calls: Vec<Child>,
    /// The tokens of the locks that the test holds against steps.
    held: BTreeMap<usize, String>,
    trace: Vec<Entry>,
    problem: Option<String>,
}

/// The interventions that the test still has to make, by time and in order.
#[derive(Default)]
struct Agenda {
    todo: BTreeMap<(Instant, usize), Intervention>,
    added: usize,
}

impl Agenda {
    fn add(&mut self, due: Instant, intervention: Intervention) {
        self.todo.insert((due, self.added), intervention);
        self.added += 1;
    }

    /// Returns how long to wait for the first one; none if there is none.
    fn wait(&self) -> Option<Duration> {
        let ((due, _), _) = self.todo.first_key_value()?;
        Some(due.saturating_duration_since(Instant::now()))
    }

    fn take_first(&mut self) -> Option<Intervention> {
        self.todo.pop_first().map(|(_, intervention)| intervention)
    }

    fn has_reopen(&self) -> bool {
        let reopens = |what: &Intervention| matches!(what, Intervention::Act(_, Action::Reopen(_)));
        self.todo.values().any(reopens)
    }

    /// Makes all interventions `late`, because the run was resumed later than the scenario says.
    fn delay(&mut self, late: Duration) {
        let todo = std::mem::take(&mut self.todo);
        self.todo = todo.into_iter().map(|((due, n), what)| ((due + late, n), what)).collect();
    }
}

/// Something that the test does to the run from outside.
enum Intervention {
    /// An action of the scenario, and its time there.
    Act(Timestamp, Action),
    /// Cancels the running attempt of this work.
    Stop(usize),
    /// Kills the leader of the run, and resumes it.
    Kill,
}

impl<'a> Drive<'a> {
    fn begin(scenario: &'a Scenario, stretch: u32) -> Self {
        let flow = Flow { scenario, stretch };
        let bench = Bench::new();
        bench.write("flow.toml", &flow.text());
        let (sender, lines) = channel();
        let mut drive = Self {
            flow,
            bench,
            run: String::new(),
            began: Instant::now(),
            leader: None,
            lines,
            sender,
            agenda: Agenda::default(),
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

    /// Acquires the locks that steps wait for until the scenario releases them.
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

    /// Starts a process of the binary that leads the run.
    fn lead(&mut self, arguments: &[&str]) {
        let talk = File::options().create(true).append(true).open(self.bench.path("talk"));
        let mut command = self.bench.command(arguments);
        command.arg("--json").stdout(Stdio::piped()).stderr(talk.expect("it can be written"));
        let mut leader = command.spawn().expect("the binary runs");
        let lines = BufReader::new(leader.stdout.take().expect("it is piped")).lines();
        let sender = self.sender.clone();
        thread::spawn(move || {
            let lines = lines.map_while(Result::ok).map(Some).chain([None]);
            // The receiver is dropped once the scenario has failed.
            lines.take_while(|line| sender.send(line.clone()).is_ok()).for_each(drop);
        });
        self.leader = Some(leader);
    }

    /// Waits until the store has the run: then the scenario begins.
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
            self.agenda.add(due, Intervention::Act(at, action));
        }
    }

    /// Waits for the next line or intervention. Returns whether there may be more.
    fn step(&mut self) -> bool {
        if self.leader.is_none() && !self.agenda.has_reopen() {
            return false;
        }
        match self.lines.recv_timeout(self.agenda.wait().unwrap_or(PATIENCE)) {
            Ok(Some(line)) => self.record(&line),
            Ok(None) => self.reap_leader(),
            Err(RecvTimeoutError::Timeout) => match self.agenda.take_first() {
                Some(intervention) => self.intervene(intervention),
                None => self.problem = Some("the run hangs".to_owned()),
            },
            Err(RecvTimeoutError::Disconnected) => unreachable!("`self` holds a sender"),
        }
        self.problem.is_none()
    }

    /// Records a change of a step, and plans the end of an attempt that does not end by itself.
    fn record(&mut self, line: &str) {
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
            End::Stopped => self.agenda.add(due, Intervention::Stop(place)),
            End::Lost => self.agenda.add(due, Intervention::Kill),
            End::Ok | End::Fail | End::Retry(_) => {}
        }
    }

    fn reap_leader(&mut self) {
        self.leader.take().expect("it has printed something").wait().expect("it ends");
    }

    /// Waits until the run has no leader.
    fn await_end(&mut self) {
        while self.leader.is_some() && self.problem.is_none() {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(Some(line)) => self.record(&line),
                Ok(None) => self.reap_leader(),
                Err(_) => self.problem = Some("the run hangs".to_owned()),
            }
        }
    }

    fn intervene(&mut self, intervention: Intervention) {
        match intervention {
            Intervention::Act(at, action) => self.act(at, &action),
            Intervention::Stop(place) => self.cancel(place),
            Intervention::Kill => {
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
            Action::Pause(place) => {
                let refused = !self.call_of("pause", place);
                self.compare(at, "pause", place, refused);
            }
            Action::Unpause(place) => {
                let refused = !self.call_of("unpause", place);
                self.compare(at, "unpause", place, refused);
            }
            Action::PauseAll => self.call_with_run("pause"),
            Action::UnpauseAll => self.call_with_run("unpause"),
            Action::Ring(place) => {
                let (name, token) = (&self.work(place).name, &self.held[&place]);
                let release = ["lock", "release", name, "--holder", OUTSIDER, "--token", token];
                assert!(self.bench.call(&release).status.success());
            }
            ref other => panic!("{}: {other:?} is not for the command", self.flow.scenario.name),
        }
    }

    /// Approves the guard of a step, or emits an event if the step does not wait at it yet.
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

    /// Starts a cancel and does not wait for it, so that cancels of one instant are close together.
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

    /// Retries a step once the run has ended.
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
            self.agenda.delay(asked.elapsed());
        }
    }

    /// Calls the binary with a step. Returns whether it succeeded.
    fn call_of(&self, verb: &str, place: usize) -> bool {
        let target = format!("{}/{}", self.run, self.work(place).name);
        self.bench.call(&[verb, &target]).status.success()
    }

    /// Calls the binary with the run. A run that has ended too early refuses it.
    fn call_with_run(&mut self, verb: &str) {
        if !self.bench.call(&[verb, &self.run]).status.success() {
            self.problem = Some(format!("{verb} was refused"));
        }
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
