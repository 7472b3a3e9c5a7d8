//! What the store has acknowledged, according to the journal.

use std::collections::BTreeMap;
use std::path::Path;

use windlass_core::{Ending, Happening};
use windlass_server::fault;
use windlass_store::{AttemptEnd, RunOutcome, Store};

/// The journal of the only run of a store.
pub(crate) struct Journal {
    store: Store,
    run: String,
    /// The names of the steps, by index.
    steps: Vec<String>,
}

impl Journal {
    /// Opens the journal; none before a run was submitted.
    pub(crate) fn open(state: &Path) -> Option<Self> {
        let mut store = Store::open(state).expect("the store can be opened");
        let run = store.run("last").ok()?;
        let workflow = windlass_workflow::parse(&run.file, &run.text).expect("it was read before");
        let plan = workflow.bind([]).expect("it was run before");
        let steps = plan.steps.into_iter().map(|step| step.name).collect();
        Some(Self { store, run: run.id, steps })
    }

    pub(crate) fn run(&self) -> &str {
        &self.run
    }

    /// Returns the outcome of the run, if it has ended.
    pub(crate) fn end(&mut self) -> Option<RunOutcome> {
        let end = self.store.read(|transaction| transaction.runs().end(&self.run));
        end.expect("the store can be read").map(|end| end.outcome)
    }

    /// Returns the steps whose success is stored, each with the attempt that succeeded.
    pub(crate) fn finished(&mut self) -> BTreeMap<String, u32> {
        let mut finished = BTreeMap::new();
        for fact in fault::journal(&mut self.store, &self.run).expect("it can be read") {
            match fact.what {
                Happening::Ended { work, attempt, ending: Ending::Success } => {
                    let before = finished.insert(self.steps[work.index()].clone(), attempt);
                    assert_eq!(before, None, "a step succeeds once");
                }
                Happening::Started { work, attempt, .. } => {
                    let step = &self.steps[work.index()];
                    assert!(!finished.contains_key(step), "{step}@{attempt} after its success");
                }
                _ => {}
            }
        }
        finished
    }

    /// Returns the successes in the records of attempts, which `windlass show` prints.
    pub(crate) fn reported(&mut self) -> BTreeMap<String, u32> {
        let attempts = self.store.read(|transaction| transaction.steps().attempts(&self.run));
        let attempts = attempts.expect("the store can be read").into_iter();
        let successes = attempts.filter(|record| record.end == AttemptEnd::Success);
        successes.map(|record| (record.step, record.attempt)).collect()
    }

    /// Returns the digest of a replay, after checking that two replays agree.
    pub(crate) fn digest(&mut self, time: u64) -> u64 {
        let mut replay = || fault::replay(&mut self.store, &self.run, time).expect("it replays");
        let digest = replay();
        assert_eq!(replay(), digest, "two replays of one journal");
        digest
    }
}
