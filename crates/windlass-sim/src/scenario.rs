//! The scenario format: what is submitted, how attempts end, and what must be seen.
//!
//! ```text
//! # Two works that need the whole GPU run one after the other.
//! slots 4
//! limit gpu 1
//! work train  needs gpu=1  takes 20ms
//! work infer  needs gpu=1  takes 5ms  retries 1  ends retry 10ms, ok
//! at 50ms cancel train
//! ----
//! 0ms train Running 1
//! ```
//!
//! Above the line stands the world: `slots` and `limit` bound it, each `work` says `after` whom it
//! comes, what it `needs`, its `priority`, its `retries`, how long every attempt `takes` (10 ms
//! unless said) and how the attempts `ends` (`ok` unless said; the last word holds for all further
//! attempts). Below it stands the trace: every change of state, by time, and within one instant by
//! work.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;
use windlass_core::{Amount, ResourceCost, WorkState};

pub use windlass_core::Timestamp;

/// How far apart two changes must be for a driver in real time to keep their order.
pub const APART: Duration = Duration::from_millis(20);

/// A parsed scenario file.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The file's name without its ending.
    pub name: String,
    /// How many works may run at once.
    pub slots: u32,
    /// What there is of everything else.
    pub limits: ResourceCost,
    /// The works, in the order in which they are submitted.
    pub works: Vec<WorkPlan>,
    /// Cancellations: when, and the work's place in `works`.
    pub cancels: Vec<(Timestamp, usize)>,
    /// Drivers that cannot run this scenario, with the reason.
    pub not_on: BTreeMap<String, String>,
    /// The trace that must be seen, as text.
    pub expected: String,
}

/// One work of a scenario.
#[derive(Clone, Debug)]
pub struct WorkPlan {
    /// Its name.
    pub name: String,
    /// The places in `works` of those that must succeed first.
    pub after: Vec<usize>,
    /// What it takes besides a slot.
    pub needs: ResourceCost,
    /// Larger is more urgent.
    pub priority: i64,
    /// How often it may be tried again.
    pub retries: u32,
    /// How long every attempt takes.
    pub takes: Duration,
    /// How the attempts end; never empty, and the last holds for all further ones.
    pub ends: Vec<End>,
}

/// How an attempt ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Well.
    Ok,
    /// Badly, for good.
    Fail,
    /// Badly, asking for another attempt after this long; zero is the driver's own delay.
    Retry(Duration),
}

impl WorkPlan {
    /// How attempt number `attempt` ends.
    #[must_use]
    pub fn end(&self, attempt: u32) -> End {
        let place = (attempt as usize - 1).min(self.ends.len() - 1);
        self.ends[place]
    }
}

/// One change of state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When.
    pub at: Timestamp,
    /// The work's place in the scenario.
    pub work: usize,
    /// The state it is in now.
    pub state: WorkState,
    /// Its latest attempt; 0 before the first.
    pub attempt: u32,
}

/// Why a scenario file cannot be read.
#[derive(Debug, Error)]
#[error("{file}:{line}: {problem}")]
pub struct ScenarioError {
    file: String,
    line: usize,
    problem: String,
}

impl Scenario {
    /// The scenario files that come with this crate, in order of their names.
    ///
    /// # Panics
    ///
    /// If one cannot be read: they are part of the tests.
    #[must_use]
    pub fn all() -> Vec<Scenario> {
        let mut paths: Vec<_> = std::fs::read_dir(scenario_dir())
            .expect("the scenarios lie beside the sources")
            .map(|entry| entry.expect("the directory can be listed").path())
            .collect();
        paths.sort();
        paths.iter().map(|path| Self::read(path)).collect()
    }

    fn read(path: &Path) -> Scenario {
        let text = std::fs::read_to_string(path).expect("a scenario file can be read");
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Self::parse(&name, &text).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Reads a scenario from its text.
    pub fn parse(name: &str, text: &str) -> Result<Scenario, ScenarioError> {
        let (world, expected) = text.split_once("\n----\n").unwrap_or((text, ""));
        let mut scenario = Scenario {
            name: name.to_owned(),
            slots: 4,
            limits: ResourceCost::new(),
            works: Vec::new(),
            cancels: Vec::new(),
            not_on: BTreeMap::new(),
            expected: expected.to_owned(),
        };
        for (number, line) in world.lines().enumerate() {
            scenario.take(line).map_err(|problem| ScenarioError {
                file: name.to_owned(),
                line: number + 1,
                problem,
            })?;
        }
        Ok(scenario)
    }

    /// Compares a trace in virtual time with the expected one. With `UPDATE_SCENARIOS` set, the
    /// file takes the trace over instead.
    ///
    /// # Panics
    ///
    /// If they differ.
    pub fn check(&self, trace: Vec<Entry>) {
        let got = self.render(trace);
        if std::env::var_os("UPDATE_SCENARIOS").is_some() {
            return self.update(&got);
        }
        assert!(got == self.expected, "{}: expected\n{}\ngot\n{got}", self.name, self.expected);
    }

    /// Compares a trace in real time with the expected one: each work's own changes in order, and
    /// across works the order of what the scenario keeps at least [`APART`] apart.
    ///
    /// # Panics
    ///
    /// If they differ.
    pub fn check_in_real_time(&self, trace: &[Entry]) {
        let expected = self.expected_entries();
        let same =
            |a: &Entry, b: &Entry| (a.work, a.state, a.attempt) == (b.work, b.state, b.attempt);
        let place = |wanted: &Entry| trace.iter().position(|got| same(got, wanted));
        let seen = || self.render(trace.to_vec());
        assert_eq!(trace.len(), expected.len(), "{}: as many changes in\n{}", self.name, seen());
        for (number, later) in expected.iter().enumerate() {
            let at = place(later);
            assert!(at.is_some(), "{}: {later:?} is missing in\n{}", self.name, seen());
            for earlier in &expected[..number] {
                let apart = later.at.since(earlier.at) >= APART;
                if earlier.work == later.work || apart {
                    let order = "is not before";
                    assert!(place(earlier) < at, "{}: {earlier:?} {order} {later:?}", self.name);
                }
            }
        }
    }

    /// The place of the work called `name`.
    #[must_use]
    pub fn place(&self, name: &str) -> Option<usize> {
        self.works.iter().position(|work| work.name == name)
    }

    fn expected_entries(&self) -> Vec<Entry> {
        let entry = |line: &str| {
            let mut words = Words::new(line);
            let at = Timestamp::ZERO.after(words.duration()?);
            let work = self.known(words.word()?)?;
            let state = words.word()?;
            let state = WorkState::ALL.into_iter().find(|known| known.to_string() == state);
            let state = state.ok_or("no such state")?;
            Ok(Entry { at, work, state, attempt: words.number()? })
        };
        let entries: Result<Vec<_>, String> = self.expected.lines().map(entry).collect();
        entries.unwrap_or_else(|problem| panic!("{}: {problem}", self.name))
    }

    fn render(&self, mut trace: Vec<Entry>) -> String {
        trace.sort_by_key(|entry| (entry.at, entry.work));
        let line = |entry: &Entry| {
            let Entry { at, work, state, attempt } = entry;
            format!("{at} {} {state} {attempt}\n", self.works[*work].name)
        };
        trace.iter().map(line).collect()
    }

    fn update(&self, trace: &str) {
        let path = scenario_dir().join(format!("{}.txt", self.name));
        let text = std::fs::read_to_string(&path).expect("it was read before");
        let world = text.split("\n----\n").next().unwrap_or_default().trim_end();
        std::fs::write(path, format!("{world}\n----\n{trace}")).expect("it can be written");
    }

    fn take(&mut self, line: &str) -> Result<(), String> {
        let mut words = Words::new(line);
        let Some(verb) = words.more() else { return Ok(()) };
        match verb {
            "slots" => self.slots = words.number()?,
            "limit" => {
                let name = words.word()?.to_owned();
                self.limits = std::mem::take(&mut self.limits).with(name, words.number()?);
            }
            "work" => {
                let work = self.work(&mut words)?;
                self.works.push(work);
            }
            "at" => {
                let at = Timestamp::ZERO.after(words.duration()?);
                words.expect("cancel")?;
                let work = self.known(words.word()?)?;
                self.cancels.push((at, work));
            }
            "not-on" => {
                let driver = words.word()?.to_owned();
                self.not_on.insert(driver, words.rest());
            }
            other => return Err(format!("nothing is called {other:?} here")),
        }
        words.end()
    }

    fn work(&self, words: &mut Words<'_>) -> Result<WorkPlan, String> {
        let mut work = WorkPlan {
            name: words.word()?.to_owned(),
            after: Vec::new(),
            needs: ResourceCost::new(),
            priority: 0,
            retries: 0,
            takes: Duration::from_millis(10),
            ends: vec![End::Ok],
        };
        while let Some(key) = words.more() {
            match key {
                "after" => work.after = words.list(|words| self.known(words.word()?))?,
                "needs" => work.needs = words.list(Words::cost)?.into_iter().collect(),
                "priority" => work.priority = words.number()?,
                "retries" => work.retries = words.number()?,
                "takes" => work.takes = words.duration()?,
                "ends" => work.ends = words.list(Words::end_of_attempt)?,
                other => return Err(format!("a work has no {other:?}")),
            }
        }
        Ok(work)
    }

    fn known(&self, name: &str) -> Result<usize, String> {
        self.place(name).ok_or_else(|| format!("no work before this line is called {name:?}"))
    }
}

fn scenario_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")
}

/// The words of one line. A list goes on for as long as its items end with a comma.
struct Words<'a> {
    words: Vec<&'a str>,
    next: usize,
}

impl<'a> Words<'a> {
    fn new(line: &'a str) -> Self {
        let line = line.split('#').next().unwrap_or_default();
        Self { words: line.split_whitespace().collect(), next: 0 }
    }

    fn more(&mut self) -> Option<&'a str> {
        let word = self.words.get(self.next)?;
        self.next += 1;
        Some(word.trim_end_matches(','))
    }

    fn word(&mut self) -> Result<&'a str, String> {
        self.more().ok_or("a word is missing".to_owned())
    }

    fn rest(&mut self) -> String {
        self.words.drain(self.next..).collect::<Vec<_>>().join(" ")
    }

    fn end(&mut self) -> Result<(), String> {
        self.more().map_or(Ok(()), |word| Err(format!("{word:?} is one word too many")))
    }

    fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        let mut items = vec![item(self)?];
        while self.words[self.next - 1].ends_with(',') {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn expect(&mut self, word: &str) -> Result<(), String> {
        let got = self.word()?;
        if got == word { Ok(()) } else { Err(format!("{word:?} stands here, not {got:?}")) }
    }

    fn number<T: FromStr>(&mut self) -> Result<T, String> {
        let word = self.word()?;
        word.parse().map_err(|_| format!("{word:?} is not a number that fits here"))
    }

    fn duration(&mut self) -> Result<Duration, String> {
        let word = self.word()?;
        let (number, unit) = word.split_at(word.find(|c: char| !c.is_ascii_digit()).unwrap_or(0));
        let number: u64 = number.parse().map_err(|_| format!("{word:?} is not a duration"))?;
        match unit {
            "ms" => Ok(Duration::from_millis(number)),
            "s" => Ok(Duration::from_secs(number)),
            "ns" => Ok(Duration::from_nanos(number)),
            _ => Err(format!("{word:?} is not a duration: write 5ms or 2s")),
        }
    }

    fn cost(&mut self) -> Result<(String, Amount), String> {
        let word = self.word()?;
        let (name, amount) = word.split_once('=').ok_or(format!("{word:?}: write name=amount"))?;
        Ok((name.to_owned(), amount.parse().map_err(|_| format!("{word:?}: not an amount"))?))
    }

    fn end_of_attempt(&mut self) -> Result<End, String> {
        match self.word()? {
            "ok" => Ok(End::Ok),
            "fail" => Ok(End::Fail),
            "retry" => Ok(End::Retry(self.duration()?)),
            other => Err(format!("an attempt ends ok, fail or retry, not {other:?}")),
        }
    }
}
