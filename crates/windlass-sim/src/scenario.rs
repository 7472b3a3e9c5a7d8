//! The scenario format: the works to submit, the ends of their attempts, and the expected trace.
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
//! The lines above `----` describe the world:
//!
//! * `slots N`, `limit NAME AMOUNT`: the limits; `team NAME AMOUNT`: a limit at the engine's own level.
//! * `rate NAME AMOUNT per TIME burst AMOUNT`, `quota NAME AMOUNT per TIME`: limits on starts.
//! * `ageing LEVELS per TIME cap LEVELS` (per millisecond by default), `order strict`: the order.
//! * `work NAME` and its properties: a work to submit.
//! * `at TIME` and an action: what a user or a driver does.
//! * `not-on DRIVER REASON`: a driver that cannot run the scenario, and why.
//!
//! The properties of a work:
//!
//! * `after a, b done, c failed`: its dependencies. `needs gpu=1, cpu=2`: its cost. `priority N`.
//! * `from TIME`: when it is submitted. `child of PARENT`: the attempt of that work that is under way
//!   then submits it; a body that returns waits for its children.
//! * `takes TIME`: how long the body of each attempt runs; 10 ms by default.
//! * `ends ok, fail, retry TIME, lost, stopped`: how the attempts end; `ok` by default. The last one
//!   holds for all further attempts.
//! * `retries N`; `retry fixed TIME` (or `linear`, `exponential`): the policy for `retry 0ms` and for
//!   timeouts.
//! * `timeout TIME` for an attempt, `deadline TIME` for the work: when it passes, the body is dropped.
//! * `gated`: it waits for its gate. `outside TIME`: something outside refuses it until then.
//! * `handed-back N`: how many of its grants the driver hands back before one begins.
//! * `waits A..B`: each attempt suspends itself A after its start and asks to resume B after its start.
//!   If it is cancelled in between, it returns at once.
//!
//! The actions: `cancel WORK`, `forget WORK`, `reopen WORK`, `limit NAME AMOUNT`, `team NAME AMOUNT`,
//! `depend WORK on OTHER` (with the kind of edge, as for `after`), `late WORK ATTEMPT` (a result arrives
//! for an attempt that is not under way), `open WORK`, `reject WORK` and `skip WORK` (its gate), `wake
//! WORK` (its wait is over), `stop-children WORK`.
//!
//! Within one instant, works are submitted first, then actions happen in order, then attempts end.
//!
//! The lines below `----` are the trace: every change of state, by time, and within one instant by work;
//! then the refusals of that instant, with their reasons.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use thiserror::Error;
use windlass_core::{Ageing, Order, Quota, Rate, ResourceCost};

pub use windlass_core::{Random, RetryPolicy, Timestamp};

mod plan;
mod reader;
mod trace;
mod words;

pub use plan::{Action, Body, End, Grants, Retries, Wait, WorkPlan};
pub use trace::{APART, Entry, Trace};

/// A parsed scenario file.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The name of the file without its extension.
    pub name: String,
    /// The rule that it tests: the comment at its head.
    pub rule: String,
    /// The limits on works that run and start.
    pub limits: Limits,
    /// How much waiting raises a work's priority.
    pub ageing: Ageing,
    /// Whether works may pass the head of the queue.
    pub order: Order,
    /// The works, in the order of submission.
    pub works: Vec<WorkPlan>,
    /// The actions, by time.
    pub actions: Vec<(Timestamp, Action)>,
    /// Drivers that cannot run this scenario, with the reason.
    pub not_on: BTreeMap<String, String>,
    /// The expected trace, as text.
    pub expected: String,
}

/// The limits of a scenario.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How many works may run at once.
    pub slots: u32,
    /// The limits of all other resources, at the root.
    pub root: ResourceCost,
    /// The limits at the engine's own level.
    pub team: ResourceCost,
    /// The rates of starts.
    pub rates: Vec<(String, Rate)>,
    /// The quotas of starts per window.
    pub quotas: Vec<(String, Quota)>,
}

impl Default for Limits {
    fn default() -> Self {
        let (root, team) = (ResourceCost::new(), ResourceCost::new());
        Self { slots: 4, root, team, rates: Vec::new(), quotas: Vec::new() }
    }
}

/// Why a scenario file cannot be parsed.
#[derive(Debug, Error)]
#[error("{file}:{line}: {problem}")]
pub struct ScenarioError {
    file: String,
    line: usize,
    problem: String,
}

impl Scenario {
    /// Returns the scenarios of this crate, by name.
    ///
    /// # Panics
    ///
    /// Panics if a file cannot be read or parsed.
    #[must_use]
    pub fn all() -> Vec<Scenario> {
        let mut paths: Vec<_> = std::fs::read_dir(scenario_dir())
            .expect("the scenarios are beside the sources")
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

    /// Parses a scenario.
    pub fn parse(name: &str, text: &str) -> Result<Scenario, ScenarioError> {
        let (world, expected) = text.split_once("\n----\n").unwrap_or((text, ""));
        let mut scenario = Scenario {
            name: name.to_owned(),
            rule: rule(text),
            limits: Limits::default(),
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

    /// Adds the actions that follow from the works: submissions, which come first, and wake-ups.
    fn add_actions_of_works(&mut self) {
        let works = || self.works.iter().enumerate();
        let mut actions: Vec<_> = works().map(|(n, w)| (w.from, Action::Submit(n))).collect();
        let outside = works().filter(|(_, work)| work.grants.outside > Timestamp::ZERO);
        actions.extend(outside.map(|(place, work)| (work.grants.outside, Action::Ring(place))));
        actions.append(&mut self.actions);
        actions.sort_by_key(|(at, _)| *at);
        self.actions = actions;
    }

    /// Returns the index of the work with this name.
    #[must_use]
    pub fn place(&self, name: &str) -> Option<usize> {
        self.works.iter().position(|work| work.name == name)
    }
}

/// Returns the comment at the head of the file, as one line.
fn rule(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("# "));
    lines.collect::<Vec<_>>().join(" ")
}

fn scenario_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")
}
