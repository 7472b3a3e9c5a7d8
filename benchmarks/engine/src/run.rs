//! One run of a graph through the engine: submit everything, then take, begin and finish until
//! nothing is left.

use std::collections::VecDeque;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use windlass_core::{
    Ageing, Amount, CapacityTree, CostId, Dependency, Engine, EngineConfig, Fact, Grant, Input,
    Outcome, ResourceCost, SLOTS, Submission, Timestamp, Transition, WorkId, World,
};

use crate::memory;

/// The features that are on.
pub(crate) struct Setup {
    pub(crate) name: &'static str,
    slots: Option<u32>,
    priorities: usize,
    ageing: bool,
    /// Every work needs two resources; of one of them in this many different amounts.
    costs: usize,
    facts: bool,
}

impl Setup {
    pub(crate) const PLAIN: Setup =
        Setup { name: "plain", slots: None, priorities: 1, ageing: false, costs: 0, facts: false };

    pub(crate) const EVERYTHING: Setup = Setup {
        name: "everything",
        slots: Some(64),
        priorities: 4,
        ageing: true,
        costs: 2,
        facts: true,
    };

    pub(crate) const EVERY_COST_DIFFERENT: Setup = Setup {
        name: "every cost different",
        slots: Some(64),
        priorities: 1,
        ageing: false,
        costs: usize::MAX,
        facts: false,
    };
}

pub(crate) struct Measured {
    pub(crate) nanos: f64,
    pub(crate) peak_bytes: usize,
}

pub(crate) fn run(graph: &[Vec<usize>], setup: &Setup) -> Measured {
    let before = memory::begin();
    let began = cpu_time();
    let mut bench = Bench::new(setup);
    bench.submit_all(graph, setup);
    bench.run_all();
    assert!(bench.engine.is_done(), "every work has ended");
    assert_eq!(bench.finished, graph.len(), "every work ran once");
    drop(bench);
    let nanos = cpu_time().saturating_sub(began).as_nanos() as f64;
    Measured { nanos, peak_bytes: memory::peak() - before }
}

/// Returns the processor time of this thread, so that other programs on the machine do not count.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

struct Bench {
    engine: Engine,
    capacity: CapacityTree,
    now: Timestamp,
    facts: Option<Vec<Fact>>,
    transitions: Option<Vec<Transition>>,
    wakes: Vec<windlass_core::ClientId>,
    finished: usize,
}

impl Bench {
    fn new(setup: &Setup) -> Self {
        let limits = ResourceCost::new().with("cpu", Amount::from(64)).with("memory", Amount::MAX);
        let mut capacity = CapacityTree::new(&limits);
        let slots = setup.slots.map_or(Amount::MAX, Amount::from);
        let slots = ResourceCost::new().with(SLOTS, slots);
        let level = capacity.add_level(CapacityTree::ROOT, &slots);
        let client = capacity.add_client(level);
        let mut config = EngineConfig::default();
        if setup.ageing {
            let rate = "0.001".parse().expect("an amount");
            config.ageing = Ageing::new(rate, Some(Amount::from(3))).expect("a small rate");
        }
        Self {
            engine: Engine::new(config, client),
            capacity,
            now: Timestamp::ZERO,
            facts: setup.facts.then(Vec::new),
            transitions: setup.facts.then(Vec::new),
            wakes: Vec::new(),
            finished: 0,
        }
    }

    fn submit_all(&mut self, graph: &[Vec<usize>], setup: &Setup) {
        let costs: Vec<CostId> = match setup.costs {
            0 => vec![self.cost(&ResourceCost::new())],
            usize::MAX => (0..graph.len()).map(|n| self.cost(&needs(n + 1))).collect(),
            costs => (0..costs).map(|n| self.cost(&needs(n + 1))).collect(),
        };
        let mut after = Vec::new();
        for (work, sources) in graph.iter().enumerate() {
            after.clear();
            after.extend(sources.iter().map(|&n| Dependency::from(WorkId::from_index(n))));
            let cost = costs[work % costs.len()];
            let priority = (work % setup.priorities) as i64;
            let submission = Submission { after: &after, priority, ..Submission::of(cost) };
            self.call(|engine, world| engine.submit(world, submission)).expect("known works");
        }
    }

    fn cost(&mut self, needs: &ResourceCost) -> CostId {
        self.engine.cost(&self.capacity, needs).expect("there is enough")
    }

    fn run_all(&mut self) {
        let mut running: VecDeque<Grant> = VecDeque::new();
        loop {
            while running.len() < 64
                && let Some(grant) = self.call(Engine::take_next)
            {
                self.apply(Input::Begin(grant));
                running.push_back(grant);
            }
            let Some(grant) = running.pop_front() else { return };
            self.apply(Input::Finished { grant, outcome: Outcome::Success });
            self.finished += 1;
        }
    }

    fn apply(&mut self, input: Input) {
        self.call(|engine, world| engine.apply(world, input)).expect("it runs as it should");
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut Engine, &mut World<'_>) -> T) -> T {
        self.now = self.now.after(Duration::from_nanos(100));
        let mut world = World {
            now: self.now,
            capacity: &mut self.capacity,
            facts: self.facts.as_mut(),
            transitions: self.transitions.as_mut(),
            wakes: &mut self.wakes,
        };
        let result = call(&mut self.engine, &mut world);
        // A driver with a journal takes facts in batches.
        self.facts.as_mut().filter(|facts| facts.len() > 1000).map(Vec::clear);
        self.transitions.as_mut().filter(|all| all.len() > 1000).map(Vec::clear);
        result
    }
}

fn needs(number: usize) -> ResourceCost {
    let memory = Amount::from_steps(number as u64);
    ResourceCost::new().with("cpu", Amount::from(1)).with("memory", memory)
}
