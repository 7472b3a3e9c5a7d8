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
//! NAME AMOUNT per TIME` bound starts; `ageing LEVELS per TIME cap LEVELS` (per millisecond
//! unless said) and `order strict` set the order.
//!
//! Each `work` says `after` whom it comes (`a, b done, c failed`), what it `needs`, its `priority`,
//! its `retries`, when it is submitted (`from`), until when something outside refuses it (`outside`),
//! how many of its grants are `handed-back` before one begins, how long every attempt `takes` (10 ms
//! unless said) and how the attempts `ends` (`ok` unless said: `fail`, `retry TIME`, `lost`,
//! `stopped`; the last one holds for all further attempts). `retry fixed TIME` (or `linear`,
//! `exponential`) is its policy for `retry 0ms` and for timeouts; `timeout TIME` bounds an attempt,
//! `deadline TIME` the work, and whichever passes drops the body at once. A work that is `gated`
//! waits for its gate, too. With `waits A..B` each attempt suspends itself A after its start, wants
//! to go on B after its start, and takes the rest of its time when it does; cancelled meanwhile, it
//! returns at once. A work that is `child of PARENT` is submitted by the attempt of that work that is
//! under way at its `from`; a body that returns waits for its children.
//!
//! `at TIME` something is done: `cancel WORK`, `forget WORK`, `limit NAME AMOUNT`, `team NAME
//! AMOUNT`, `depend WORK on OTHER` (with the kind of edge behind it, as for `after`), `late WORK
//! ATTEMPT` (the result of that attempt comes, and it is not under way), `open WORK`, `reject WORK`
//! or `skip WORK` (its gate), `wake WORK` (its wait is over), `stop-children WORK`, `reopen WORK`. Within one instant works
//! are submitted first, then the other things are done in order, then attempts end.
//!
//! `not-on DRIVER REASON` says which driver cannot run the scenario, and why.
//!
//! Below the line stands the trace: every change of state, by time, and within one instant by work;
//! after those, what was refused in that instant, with the reason.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use thiserror::Error;
use windlass_core::{Ageing, Order, Quota, Rate, ResourceCost};

pub use windlass_core::{Random, RetryPolicy, Timestamp};

mod plan;
mod reader;
mod trace;
mod words;

pub use plan::{Action, End, Wait, WorkPlan};
pub use trace::{APART, Entry, Trace};

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

    /// The place of the work called `name`.
    #[must_use]
    pub fn place(&self, name: &str) -> Option<usize> {
        self.works.iter().position(|work| work.name == name)
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
