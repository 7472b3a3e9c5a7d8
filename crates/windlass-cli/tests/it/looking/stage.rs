//! Stores with runs that are always the same.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use windlass_core::{Ending, Fact, Happening, Timestamp, WorkId};
use windlass_store::{
    AttemptEnd, AttemptRecord, BootClock, Claim, Claimed, Clock, GuardWait, HolderId, ManualClock,
    Name, Need, Network, Process, RunEnd, RunOutcome, RunRecord, Sqlite, Store, Token,
};

use crate::bench::Bench;

/// 3 January 2024, 17:45 UTC: long enough ago that times have a date.
const THEN: i64 = 1_704_303_900_000;

pub(crate) const NIGHTLY: &str = r#"
name = "nightly"
concurrency = 2

[params]
env = "staging"

[step.fetch]
run   = "curl"
retry = { count = 2 }

[step.lint]
run = "lint"

[step.test]
after = ["fetch"]
each  = { os = ["linux", "macos"] }
run   = "test {os} {env}"

[step.report]
after = { test = "done" }
run   = "report"

[step.deploy]
after = ["test"]
run   = "deploy"
"#;

/// A workflow in which steps wait for all kinds of things.
pub(crate) const LIVE: &str = r#"
name = "live"
concurrency = 3

[resource]
memory = "4G"
api    = { rate = "1/d" }

[step.build]
run = "make"
use = { memory = "3G", api = 1 }

[step.stuck]
run = "sleep"

[step.flaky]
run   = "flaky"
retry = { count = 2, delay = "1h" }

[step.link]
after = ["build"]
run   = "link"

[step.ship]
after = ["link", "flaky"]
run   = "ship"

[step.large]
run = "large"
use = { memory = "2G" }

[step.call]
run = "call"
use = { api = 1 }

[step.deploy]
lock = "deploy"
run  = "deploy"

[step.last]
priority = -1
run      = "last"
"#;

/// A store, and the run that the test describes.
pub(crate) struct Stage {
    pub(crate) bench: Bench,
    store: Store,
    clock: Option<ManualClock>,
    now_ms: i64,
    run: String,
    steps: Vec<String>,
    holder: HolderId,
    epoch: Token,
}

impl Stage {
    /// Returns a store in which it is 3 January 2024.
    pub(crate) fn new() -> Self {
        let clock = ManualClock::default();
        clock.set_wall(THEN);
        Self::with(Arc::new(clock.clone()), Some(clock), THEN)
    }

    /// Returns a store in which it is now, for runs that this very process leads.
    pub(crate) fn live() -> Self {
        let clock = BootClock::start().expect("the clock runs");
        let now_ms = clock.now().wall_ms;
        Self::with(Arc::new(clock), None, now_ms)
    }

    fn with(clock: Arc<dyn Clock>, manual: Option<ManualClock>, now_ms: i64) -> Self {
        let bench = Bench::new();
        let dir = bench.path("state");
        let backend = Sqlite::open(&dir, Network::Refuse).expect("it can be made");
        let store = Store::new(Box::new(backend), clock, &dir);
        let (run, steps) = (String::new(), Vec::new());
        let (holder, epoch) = (HolderId::new("stage"), Token(0));
        Self { bench, store, clock: manual, now_ms, run, steps, holder, epoch }
    }

    /// Returns a store in which everything happens before the machine is booted.
    pub(crate) fn before_boot() -> Self {
        let stage = Self::new();
        stage.clock.as_ref().expect("it stands still").reboot("an earlier boot");
        stage
    }

    /// Lets time pass before the next run.
    pub(crate) fn later(&mut self, millis: i64) {
        self.now_ms += millis;
        self.clock.as_ref().expect("it stands still").set_wall(self.now_ms);
    }

    /// Stores the beginning of a run of `flow`, led by this process.
    pub(crate) fn submit(&mut self, id: &str, workflow: &str, flow: &str) {
        self.submit_text(id, workflow, flow);
        let parsed = windlass_workflow::parse("flow.toml", flow).expect("it has no errors");
        let plan = parsed.bind([]).expect("it has defaults");
        self.steps = plan.steps.into_iter().map(|step| step.name).collect();
        let works = (0..self.steps.len()).map(WorkId::from_index);
        let facts: Vec<_> = works.map(|work| self.fact(0, Happening::Submitted { work })).collect();
        self.append(&facts);
    }

    /// Stores the beginning of a run of a text that may not be a workflow.
    pub(crate) fn submit_text(&mut self, id: &str, workflow: &str, text: &str) {
        let params = BTreeMap::from([("env".to_owned(), "prod".to_owned())]);
        let params = if text.contains("[params]") { params } else { BTreeMap::new() };
        let run = RunRecord {
            id: id.to_owned(),
            workflow: workflow.to_owned(),
            file: format!("{}.toml", workflow.trim()),
            text: text.to_owned(),
            dir: "/srv/flows".into(),
            params,
            ..RunRecord::default()
        };
        let process = Process::current().expect("this is Linux");
        let needs = [Need::one(Name::Run(id.to_owned()))];
        let claim = Claim { process: Some(&process), ..Claim::new(&self.holder, &needs) };
        let claimed = self.store.transact(|transaction| {
            transaction.runs().insert(&run)?;
            transaction.leases().claim(&claim)
        });
        let Ok(Claimed::Held(holds)) = claimed else { panic!("{claimed:?}") };
        (self.run, self.epoch) = (id.to_owned(), holds[0].token);
    }

    /// Stores events, one line each: `MILLISECONDS start|success|failed|retry|cancelled|blocked STEP
    /// [CODE [WHY]]`.
    pub(crate) fn journal(&mut self, lines: &str) {
        let mut attempts: BTreeMap<String, (u32, i64)> = BTreeMap::new();
        for line in lines.lines() {
            let mut words = line.splitn(5, ' ');
            let mut word = || words.next().map(str::to_owned);
            let at: i64 = word().and_then(|at| at.trim().parse().ok()).expect("a time");
            let (what, step) = (word().expect("what happened"), word().expect("a step"));
            let (code, why) = (word().and_then(|code| code.parse().ok()), word());
            let place = self.steps.iter().position(|known| *known == step).expect("it is a step");
            let work = WorkId::from_index(place);
            let (attempt, started) = attempts.entry(step.clone()).or_insert((0, at));
            if what == "start" || *attempt == 0 && what != "blocked" {
                (*attempt, *started) = (*attempt + 1, at);
                let begun =
                    self.fact(at, Happening::Started { work, attempt: *attempt, worker: None });
                self.append(&[begun]);
            }
            let Some((end, ending)) = self.ending(&what, at) else { continue };
            let (attempt, started_ms, ended_ms) =
                (*attempt, self.now_ms + *started, self.now_ms + at);
            if end == AttemptEnd::Cancelled {
                let asked = self.fact(at, Happening::CancelAsked { work });
                self.append(&[asked]);
            }
            if let Some(ending) = ending {
                let ended = self.fact(at, Happening::Ended { work, attempt, ending });
                self.append(&[ended]);
            }
            let record = AttemptRecord {
                work,
                attempt,
                step,
                started_ms,
                ended_ms,
                end,
                code: code.or((end == AttemptEnd::Success).then_some(0)),
                signal: None,
                why,
                peak_kib: None,
                cpu_ms: None,
            };
            let run = self.run.clone();
            let put = self
                .store
                .transact(|transaction| transaction.steps().put_attempts(&run, &[&record]));
            put.expect("the store works");
        }
    }

    fn ending(&self, what: &str, at: i64) -> Option<(AttemptEnd, Option<Ending>)> {
        let delay = if self.clock.is_some() { 1_000 } else { 3_600_000 };
        let due = timestamp(self.now_ms + at + delay);
        Some(match what {
            "success" => (AttemptEnd::Success, Some(Ending::Success)),
            "failed" => (AttemptEnd::Failed, Some(Ending::Failed)),
            "retry" => (AttemptEnd::Retry, Some(Ending::Retry { due })),
            "cancelled" => (AttemptEnd::Cancelled, Some(Ending::Cancelled)),
            _ => return None,
        })
    }

    /// Stores the end of the run.
    pub(crate) fn end(&mut self, at: i64, word: &str) {
        let outcome = match word {
            "succeeded" => RunOutcome::Succeeded,
            "cancelled" => RunOutcome::Cancelled,
            _ => RunOutcome::Failed,
        };
        let end = RunEnd { at_ms: self.now_ms + at, outcome };
        let run = self.run.clone();
        let put = self.store.transact(|transaction| transaction.runs().set_end(&run, Some(end)));
        put.expect("the store works");
        self.abandon();
    }

    /// Leaves the run without a leader.
    pub(crate) fn abandon(&mut self) {
        let name = Name::Run(self.run.clone());
        let (holder, epoch) = (self.holder.clone(), self.epoch);
        let released =
            self.store.transact(|transaction| transaction.leases().release(&name, &holder, epoch));
        released.expect("the store works");
    }

    pub(crate) fn log(&self, step: &str, attempt: u32, text: &str) {
        let place = self.steps.iter().position(|known| known == step).expect("it is a step");
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let step: String = step.chars().map(plain).collect();
        let dir = self.bench.path("state/runs").join(&self.run);
        fs::create_dir_all(&dir).expect("it can be made");
        let work = WorkId::from_index(place);
        fs::write(dir.join(format!("{work}-{step}.{attempt}.log")), text).expect("it is written");
    }

    /// Has another holder take a lock, and queues a step for it behind one more.
    pub(crate) fn refuse(&mut self, step: &str, lock: &str) {
        let place = self.steps.iter().position(|known| known == step).expect("it is a step");
        let work = WorkId::from_index(place);
        let own = format!("run {}/{work}@1 epoch {}", self.run, self.epoch);
        let needs = [Need::one(Name::Lock(lock.to_owned()))];
        for holder in ["build-17", "build-18", own.as_str()] {
            let holder = HolderId::new(holder);
            let claim = Claim::new(&holder, &needs);
            let claimed = self.store.transact(|transaction| transaction.leases().claim(&claim));
            let held = matches!(claimed.expect("the store works"), Claimed::Held(_));
            assert_eq!(held, holder.as_str() == "build-17");
        }
    }

    /// Stores that a step waits for a guard.
    pub(crate) fn wait_for_guard(&mut self, step: &str, guard: &str, said: &str) {
        let place = self.steps.iter().position(|known| known == step).expect("it is a step");
        let wait = GuardWait {
            work: WorkId::from_index(place),
            guard: guard.to_owned(),
            since_ms: self.now_ms,
            checks: 3,
            last_result: Some(said.to_owned()),
            escalated: true,
        };
        let run = self.run.clone();
        let put =
            self.store.transact(|transaction| transaction.steps().put_guard_wait(&run, &wait));
        put.expect("the store works");
    }

    fn fact(&self, at: i64, what: Happening) -> Fact {
        Fact { at: timestamp(self.now_ms + at), what }
    }

    fn append(&mut self, facts: &[Fact]) {
        let (run, epoch) = (self.run.clone(), self.epoch);
        let appended =
            self.store.transact(|transaction| transaction.facts().append(&run, epoch, facts));
        appended.expect("this process leads the run");
    }
}

fn timestamp(at_ms: i64) -> Timestamp {
    Timestamp::from_millis(at_ms.unsigned_abs())
}
