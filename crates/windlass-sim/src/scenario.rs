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
//! Above the line stands the world. `slots` and `limit NAME AMOUNT` bound it, `team NAME AMOUNT`
//! bounds it again at the engine's own level; `rate NAME AMOUNT per TIME burst AMOUNT` and `quota
//! NAME AMOUNT per TIME` bound starts; `ageing RATE cap LEVELS` and `order strict` set the order.
//!
//! Each `work` says `after` whom it comes (`a, b done, c failed`), what it `needs`, its `priority`,
//! its `retries`, when it is submitted (`from`), until when something outside refuses it (`outside`),
//! how many of its grants are `handed-back` before one begins, how long every attempt `takes` (10 ms
//! unless said) and how the attempts `ends` (`ok` unless said: `fail`, `retry TIME`, `lost`,
//! `stopped`; the last one holds for all further attempts).
//!
//! `at TIME` something is done: `cancel WORK`, `forget WORK`, `limit NAME AMOUNT`, `team NAME
//! AMOUNT`, `depend WORK on OTHER` (with the kind of edge behind it, as for `after`), `late WORK
//! ATTEMPT` (the result of that attempt comes, and it is not under way). Within one instant works
//! are submitted first, then the other things are done in order, then attempts end.
//!
//! `not-on DRIVER REASON` says which driver cannot run the scenario, and why.
//!
//! Below the line stands the trace: every change of state, by time, and within one instant by work;
//! after those, what was refused in that instant, with the reason.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;
use windlass_core::{Ageing, Amount, EdgeKind, Order, Quota, Rate, ResourceCost, WorkState};

pub use windlass_core::Timestamp;

/// How far apart two changes must be for a driver in real time to keep their order.
pub const APART: Duration = Duration::from_millis(20);

/// A parsed scenario file.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The file's name without its ending.
    pub name: String,
    /// The rule that it shows: the comment at its head.
    pub rule: String,
    /// How many works may run at once.
    pub slots: u32,
    /// What there is of everything else.
    pub limits: ResourceCost,
    /// What there is of it at the engine's own level.
    pub team: ResourceCost,
    /// What may be started per time.
    pub rates: Vec<(String, Rate)>,
    /// What may be started per window.
    pub quotas: Vec<(String, Quota)>,
    /// How waiting makes works more urgent.
    pub ageing: Ageing,
    /// Whether works may pass the first in line.
    pub order: Order,
    /// The works, in the order in which they are submitted.
    pub works: Vec<WorkPlan>,
    /// What is done from outside, in order of time.
    pub actions: Vec<(Timestamp, Action)>,
    /// Drivers that cannot run this scenario, with the reason.
    pub not_on: BTreeMap<String, String>,
    /// The trace that must be seen, as text.
    pub expected: String,
}

/// Something done from outside. Works are named by their place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Submit this work.
    Submit(usize),
    /// Cancel it.
    Cancel(usize),
    /// Forget it.
    Forget(usize),
    /// Have the first wait for the second.
    Depend(usize, usize, EdgeKind),
    /// Report the end of an attempt that is not under way.
    Late(usize, u32),
    /// What refused it outside may be had.
    Ring(usize),
    /// Set a limit.
    Limit(String, Amount),
    /// Set a limit of the engine's own level.
    Team(String, Amount),
}

/// One work of a scenario.
#[derive(Clone, Debug)]
pub struct WorkPlan {
    /// Its name.
    pub name: String,
    /// The places in `works` of those that must end first, and how.
    pub after: Vec<(usize, EdgeKind)>,
    /// What it takes besides a slot.
    pub needs: ResourceCost,
    /// Larger is more urgent.
    pub priority: i64,
    /// How often it may be tried again.
    pub retries: u32,
    /// When it is submitted.
    pub from: Timestamp,
    /// Until when something outside refuses it.
    pub outside: Timestamp,
    /// How many of its grants do not begin.
    pub handed_back: u32,
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
    /// Not at all: its runner is lost.
    Lost,
    /// It stops without having been asked to.
    Stopped,
}

impl WorkPlan {
    /// How attempt number `attempt` ends.
    #[must_use]
    pub fn end(&self, attempt: u32) -> End {
        let place = (attempt as usize - 1).min(self.ends.len() - 1);
        self.ends[place]
    }
}

/// What was seen: changes of state, and what was refused.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The changes, in the order in which they were seen.
    pub entries: Vec<Entry>,
    /// What was refused, when, and why.
    pub refusals: Vec<(Timestamp, String)>,
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
            rule: rule(text),
            slots: 4,
            limits: ResourceCost::new(),
            team: ResourceCost::new(),
            rates: Vec::new(),
            quotas: Vec::new(),
            ageing: Ageing::NONE,
            order: Order::PassOver,
            works: Vec::new(),
            actions: Vec::new(),
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
        scenario.add_actions_of_works();
        Ok(scenario)
    }

    /// Submissions and rings are things done from outside, too; submissions come first.
    fn add_actions_of_works(&mut self) {
        let works = || self.works.iter().enumerate();
        let mut actions: Vec<_> = works().map(|(n, w)| (w.from, Action::Submit(n))).collect();
        let outside = works().filter(|(_, work)| work.outside > Timestamp::ZERO);
        actions.extend(outside.map(|(place, work)| (work.outside, Action::Ring(place))));
        actions.append(&mut self.actions);
        actions.sort_by_key(|(at, _)| *at);
        self.actions = actions;
    }

    /// Compares a trace in virtual time with the expected one. With `UPDATE_SCENARIOS` set, the
    /// file takes the trace over instead.
    ///
    /// # Panics
    ///
    /// If they differ.
    pub fn check(&self, trace: Trace) {
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
        let seen = || self.render(Trace { entries: trace.to_vec(), refusals: Vec::new() });
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
        let changes = self.expected.lines().filter(|line| !line.contains(" ! "));
        let entries: Result<Vec<_>, String> = changes.map(entry).collect();
        entries.unwrap_or_else(|problem| panic!("{}: {problem}", self.name))
    }

    fn render(&self, trace: Trace) -> String {
        let line = |entry: Entry| {
            let Entry { at, work, state, attempt } = entry;
            let name = &self.works[work].name;
            ((at, work), format!("{at} {name} {state} {attempt}\n"))
        };
        let mut lines: Vec<_> = trace.entries.into_iter().map(line).collect();
        let refusals = trace.refusals.into_iter();
        lines.extend(refusals.map(|(at, why)| ((at, usize::MAX), format!("{at} ! {why}\n"))));
        lines.sort_by_key(|(place, _)| *place);
        lines.into_iter().map(|(_, line)| line).collect()
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
                self.limits = std::mem::take(&mut self.limits).with(words.word()?, words.number()?);
            }
            "team" => {
                self.team = std::mem::take(&mut self.team).with(words.word()?, words.number()?);
            }
            "rate" => self.rates.push((words.word()?.to_owned(), words.rate()?)),
            "quota" => self.quotas.push((words.word()?.to_owned(), words.quota()?)),
            "ageing" => self.ageing = words.ageing()?,
            "order" => self.order = words.order()?,
            "work" => {
                let work = self.work(&mut words)?;
                self.works.push(work);
            }
            "at" => {
                let at = Timestamp::ZERO.after(words.duration()?);
                let action = self.action(&mut words)?;
                self.actions.push((at, action));
            }
            "not-on" => {
                let driver = words.word()?.to_owned();
                self.not_on.insert(driver, words.rest());
            }
            other => return Err(format!("nothing is called {other:?} here")),
        }
        words.end()
    }

    fn action(&self, words: &mut Words<'_>) -> Result<Action, String> {
        Ok(match words.word()? {
            "cancel" => Action::Cancel(self.known(words.word()?)?),
            "forget" => Action::Forget(self.known(words.word()?)?),
            "late" => Action::Late(self.known(words.word()?)?, words.number()?),
            "team" => Action::Team(words.word()?.to_owned(), words.number()?),
            "limit" => Action::Limit(words.word()?.to_owned(), words.number()?),
            "depend" => {
                let work = self.known(words.word()?)?;
                words.expect("on")?;
                let (on, kind) = self.dependency(words)?;
                Action::Depend(work, on, kind)
            }
            other => return Err(format!("nothing does {other:?} here")),
        })
    }

    fn work(&self, words: &mut Words<'_>) -> Result<WorkPlan, String> {
        let mut work = WorkPlan {
            name: words.word()?.to_owned(),
            after: Vec::new(),
            needs: ResourceCost::new(),
            priority: 0,
            retries: 0,
            from: Timestamp::ZERO,
            outside: Timestamp::ZERO,
            handed_back: 0,
            takes: Duration::from_millis(10),
            ends: vec![End::Ok],
        };
        while let Some(key) = words.more() {
            match key {
                "after" => work.after = words.list(|words| self.dependency(words))?,
                "from" => work.from = Timestamp::ZERO.after(words.duration()?),
                "outside" => work.outside = Timestamp::ZERO.after(words.duration()?),
                "handed-back" => work.handed_back = words.number()?,
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

    fn dependency(&self, words: &mut Words<'_>) -> Result<(usize, EdgeKind), String> {
        let work = self.known(words.word()?)?;
        let kind = match words.peek_in_list() {
            Some("done") => EdgeKind::Done,
            Some("failed") => EdgeKind::Failed,
            _ => return Ok((work, EdgeKind::Success)),
        };
        words.word()?;
        Ok((work, kind))
    }

    fn known(&self, name: &str) -> Result<usize, String> {
        self.place(name).ok_or_else(|| format!("no work before this line is called {name:?}"))
    }
}

/// The comment at the head of the file, as one line.
fn rule(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("# "));
    lines.collect::<Vec<_>>().join(" ")
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

    /// The next word, unless the list item before it has ended.
    fn peek_in_list(&self) -> Option<&'a str> {
        let ended = self.words[self.next - 1].ends_with(',');
        let next = self.words.get(self.next).filter(|_| !ended)?;
        Some(next.trim_end_matches(','))
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
            "lost" => Ok(End::Lost),
            "stopped" => Ok(End::Stopped),
            other => Err(format!("an attempt does not end {other:?}")),
        }
    }

    fn rate(&mut self) -> Result<Rate, String> {
        let amount = self.number()?;
        self.expect("per")?;
        let per = self.duration()?;
        self.expect("burst")?;
        Ok(Rate { amount, per, burst: self.number()? })
    }

    fn quota(&mut self) -> Result<Quota, String> {
        let amount = self.number()?;
        self.expect("per")?;
        Ok(Quota { amount, window: self.duration()? })
    }

    fn ageing(&mut self) -> Result<Ageing, String> {
        let rate = self.number()?;
        let cap = match self.more() {
            Some("cap") => Some(self.number()?),
            Some(other) => return Err(format!("{other:?} is one word too many")),
            None => None,
        };
        Ageing::new(rate, cap).map_err(|error| error.to_string())
    }

    fn order(&mut self) -> Result<Order, String> {
        match self.word()? {
            "strict" => Ok(Order::Strict),
            other => Err(format!("there is no order {other:?}")),
        }
    }
}
