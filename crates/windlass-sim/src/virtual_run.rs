//! Runs a scenario on the bare engine, in virtual time.
//!
//! News comes one piece at a time, and after each the engine is asked for everything it grants:
//! what any driver does, without the driver.

use std::collections::BTreeMap;

use windlass_core::{
    Amount, CapacityTree, Engine, EngineConfig, Grant, Input, Outcome, ResourceCost, SLOTS,
    Submission, Timestamp, Transition, WorkId, World,
};

use crate::scenario::{End, Entry, Scenario};

/// Runs `scenario` to its end and returns every change of state.
///
/// # Panics
///
/// If a work needs more than there is, or the engine breaks one of its invariants.
#[must_use]
pub fn run(scenario: &Scenario) -> Vec<Entry> {
    let mut run = VirtualRun::new(scenario);
    run.submit_all();
    run.start_what_fits();
    while let Some(at) = run.next_time() {
        run.now = at;
        run.step();
        run.start_what_fits();
    }
    assert!(run.engine.is_done(), "{}: nothing is left to happen", scenario.name);
    run.trace()
}

struct VirtualRun<'a> {
    scenario: &'a Scenario,
    engine: Engine,
    capacity: CapacityTree,
    now: Timestamp,
    /// When attempts end; in order of their start within one instant.
    ends: BTreeMap<(Timestamp, usize), Grant>,
    started: usize,
    cancels: Vec<(Timestamp, usize)>,
    transitions: Vec<Transition>,
}

impl<'a> VirtualRun<'a> {
    fn new(scenario: &'a Scenario) -> Self {
        let mut capacity = CapacityTree::new(&scenario.limits);
        let slots = ResourceCost::new().with(SLOTS, Amount::from(scenario.slots));
        let level = capacity.add_level(CapacityTree::ROOT, &slots);
        let client = capacity.add_client(level);
        let mut cancels = scenario.cancels.clone();
        cancels.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        Self {
            scenario,
            engine: Engine::new(EngineConfig::default(), client),
            capacity,
            now: Timestamp::ZERO,
            ends: BTreeMap::new(),
            started: 0,
            cancels,
            transitions: Vec::new(),
        }
    }

    fn submit_all(&mut self) {
        for work in &self.scenario.works {
            let cost = self.engine.cost(&self.capacity, &work.needs);
            let cost = cost.unwrap_or_else(|error| panic!("{}: {error}", work.name));
            let after: Vec<_> = work.after.iter().map(|&place| WorkId::from_index(place)).collect();
            let (priority, retries) = (work.priority, work.retries);
            let submission = Submission { after: &after, cost, priority, retries };
            self.call(|engine, world| engine.submit(world, submission)).expect("known works");
        }
    }

    fn start_what_fits(&mut self) {
        while let Some(grant) = self.call(Engine::take_next) {
            self.call(|engine, world| engine.apply(world, Input::Begin(grant)))
                .expect("it was granted just now");
            let takes = self.scenario.works[grant.work.index()].takes;
            self.ends.insert((self.now.after(takes), self.started), grant);
            self.started += 1;
        }
    }

    fn next_time(&self) -> Option<Timestamp> {
        let end = self.ends.keys().next().map(|&(at, _)| at);
        let cancel = self.cancels.last().map(|&(at, _)| at);
        [end, cancel, self.engine.next_wakeup()].into_iter().flatten().min()
    }

    /// One thing that happens now: a cancel, the end of an attempt, or the passing of time.
    fn step(&mut self) {
        let input = if let Some((_, work)) = self.cancels.pop_if(|(at, _)| *at <= self.now) {
            Input::Cancel(WorkId::from_index(work))
        } else if let Some(entry) = self.ends.first_entry().filter(|e| e.key().0 <= self.now) {
            let grant = entry.remove();
            Input::Finished { grant, outcome: self.outcome(grant) }
        } else {
            Input::Tick
        };
        // A cancel may come too late, as for every user.
        let _ = self.call(|engine, world| engine.apply(world, input));
    }

    fn outcome(&self, grant: Grant) -> Outcome {
        match self.scenario.works[grant.work.index()].end(grant.attempt) {
            End::Ok => Outcome::Success,
            End::Fail => Outcome::Failed,
            End::Retry(delay) => Outcome::Retry { delay },
        }
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut Engine, &mut World<'_>) -> T) -> T {
        let mut wakes = Vec::new();
        let mut world = World {
            now: self.now,
            capacity: &mut self.capacity,
            facts: None,
            transitions: Some(&mut self.transitions),
            wakes: &mut wakes,
        };
        let result = call(&mut self.engine, &mut world);
        self.engine.check(&self.capacity);
        result
    }

    fn trace(self) -> Vec<Entry> {
        let changes = self.transitions.into_iter().filter(|t| t.from != Some(t.to.state()));
        changes
            .filter(|transition| transition.from.is_some() || transition.to.state().is_terminal())
            .map(|Transition { at, work, attempt, to, .. }| Entry {
                at,
                work: work.index(),
                state: to.state(),
                attempt,
            })
            .collect()
    }
}
