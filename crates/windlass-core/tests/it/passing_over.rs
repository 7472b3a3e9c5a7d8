//! Works behind the first of the queue delay it at most once for each resource it needs.
//!
//! From the time at which a resource is reserved for the first work, later starts leave it as much
//! as it wants, so it waits only for works that had begun before. Whenever nothing fits, the first
//! work waits for a resource that is reserved for it, unless there is no work that a reservation
//! could delay. So each resource delays it once.

use std::collections::BTreeMap;

use proptest::prelude::*;
use windlass_core::{
    Amount, CapacityTree, Engine, EngineConfig, Grant, Input, LevelId, Outcome, Phase, Place,
    ResourceCost, ResourceId, SLOTS, Submission, Timestamp, WorkId, World,
};

#[derive(Clone, Debug)]
enum Call {
    Submit { cpu: u32, memory: u32, slots: u32, priority: i64 },
    Finish(prop::sample::Index),
    Cancel(prop::sample::Index),
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        4 => (0..7u32, 0..7u32, 1..4u32, 0..2i64).prop_map(|(cpu, memory, slots, priority)| {
            Call::Submit { cpu, memory, slots, priority }
        }),
        3 => any::<prop::sample::Index>().prop_map(Call::Finish),
        1 => any::<prop::sample::Index>().prop_map(Call::Cancel),
    ]
}

type CounterKey = (LevelId, ResourceId);

/// The position in the queue from which a work started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Start {
    First,
    /// From behind the first of the queue, at this time.
    Behind(u64),
}

struct Bench {
    engine: Engine,
    capacity: CapacityTree,
    running: Vec<(Start, Grant)>,
    /// The number of starts, which serves as a clock.
    clock: u64,
    first: Option<WorkId>,
    /// What is reserved for the first work, since when, and how much.
    reserved: BTreeMap<CounterKey, (u64, Amount)>,
}

const LIMITS: [(&str, u32); 2] = [("cpu", 8), ("memory", 8)];
const MOST_SLOTS: u32 = 5;

impl Bench {
    fn new() -> Self {
        let amounts = |pairs: &[(&str, u32)]| -> ResourceCost {
            pairs.iter().map(|&(name, n)| (name.to_owned(), Amount::from(n))).collect()
        };
        let mut capacity = CapacityTree::new(&amounts(&LIMITS));
        let level = capacity.add_level(CapacityTree::ROOT, &amounts(&[(SLOTS, MOST_SLOTS)]));
        let client = capacity.add_client(level);
        let engine = Engine::new(EngineConfig::default(), client);
        let (running, reserved) = (Vec::new(), BTreeMap::new());
        Self { engine, capacity, running, clock: 0, first: None, reserved }
    }

    fn apply(&mut self, call: &Call) {
        match call {
            Call::Submit { cpu, memory, slots, priority } => {
                let needs = [("cpu", *cpu), ("memory", *memory), (SLOTS, *slots)];
                let needs = needs.into_iter().filter(|(_, n)| *n > 0);
                let needs = needs.map(|(name, n)| (name.to_owned(), Amount::from(n))).collect();
                let cost = self.engine.cost(&self.capacity, &needs).expect("within the limits");
                let work = Submission { priority: *priority, ..Submission::of(cost) };
                self.call(|engine, world| engine.submit(world, work)).expect("no dependencies");
            }
            Call::Finish(index) if !self.running.is_empty() => {
                let (_, grant) = self.running.swap_remove(index.index(self.running.len()));
                let ended = Input::Finished { grant, outcome: Outcome::Success };
                self.call(|engine, world| engine.apply(world, ended)).expect("it runs");
            }
            Call::Cancel(index) => self.cancel(*index),
            Call::Finish(_) => {}
        }
        self.start_what_fits();
    }

    /// Cancels a work that does not run.
    fn cancel(&mut self, index: prop::sample::Index) {
        let runs = |work: &WorkId| self.running.iter().any(|(_, grant)| grant.work == *work);
        let works: Vec<_> = self.engine.works().filter(|work| !runs(work)).collect();
        if !works.is_empty() {
            let work = works[index.index(works.len())];
            // It may have ended.
            let _ = self.call(|engine, world| engine.apply(world, Input::Cancel(work)));
        }
    }

    fn start_what_fits(&mut self) {
        let passes = |bench: &Self| bench.engine.metrics().passed_over;
        while let (before, Some(grant)) = (passes(self), self.call(Engine::take_next)) {
            self.call(|engine, world| engine.apply(world, Input::Begin(grant))).expect("granted");
            self.clock += 1;
            let start =
                if passes(self) > before { Start::Behind(self.clock) } else { Start::First };
            self.running.push((start, grant));
            self.check_what_is_left();
            self.record_reservations();
        }
        self.record_reservations();
        self.check_that_the_first_waits_for_what_is_its_own();
    }

    /// A reservation is what the first work may take, and later works may not.
    fn record_reservations(&mut self) {
        let first = self.engine.first_in_queue();
        if first != self.first {
            self.first = first;
            self.reserved.clear();
        }
        let Some(first) = first else { return };
        for (resource, wanted) in self.engine.demand(first).iter() {
            for level in [self.capacity.level_of(self.engine.client()), CapacityTree::ROOT] {
                if self.room(level, resource, Place::First)
                    > self.room(level, resource, Place::Later)
                {
                    self.reserved.entry((level, resource)).or_insert((self.clock, wanted));
                }
            }
        }
    }

    fn room(&self, level: LevelId, resource: ResourceId, place: Place) -> i128 {
        self.capacity.room(self.engine.client(), level, resource, place, Timestamp::ZERO)
    }

    fn check_what_is_left(&self) {
        if self.first != self.engine.first_in_queue() {
            return;
        }
        for (&(level, resource), &(since, wanted)) in &self.reserved {
            let later = self.running.iter().filter(|(start, _)| *start > Start::Behind(since));
            let used: u64 = later.map(|(_, grant)| self.uses(grant.work, resource)).sum();
            let name = self.capacity.name(resource);
            let limits = self.capacity.limits(level);
            let limit = limits.iter().find(|(limited, _)| *limited == name).expect("it refused").1;
            let left = limit.steps() - used;
            assert!(left >= wanted.steps(), "{name}: {left} left for {wanted}");
        }
    }

    fn check_that_the_first_waits_for_what_is_its_own(&self) {
        let Some(first) = self.engine.first_in_queue() else { return };
        let demand = self.engine.demand(first);
        let ready = |work: &WorkId| self.engine.phase(*work) == Some(Phase::Ready);
        let mut others = self.engine.works().filter(ready);
        let mut trial = self.capacity.clone();
        let taken = trial.try_take(self.engine.client(), demand, Place::First, Timestamp::ZERO);
        let refusal = taken.expect_err("nothing fits");
        let mut refused = refusal.shortages.iter().map(|short| (short.level, short.resource));
        let binds_no_work = others.all(|work| self.engine.demand(work) == demand);
        assert!(
            binds_no_work || refused.any(|counter| self.reserved.contains_key(&counter)),
            "{refusal:?}"
        );
    }

    fn uses(&self, work: WorkId, resource: ResourceId) -> u64 {
        let amounts = self.engine.demand(work).iter();
        amounts.filter(|(used, _)| *used == resource).map(|(_, amount)| amount.steps()).sum()
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut Engine, &mut World<'_>) -> T) -> T {
        let mut wakes = Vec::new();
        let mut world = World {
            now: Timestamp::ZERO,
            capacity: &mut self.capacity,
            facts: None,
            transitions: None,
            wakes: &mut wakes,
        };
        call(&mut self.engine, &mut world)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn later_works_leave_what_refused_the_first(
        calls in prop::collection::vec(call(), 1..80),
    ) {
        let mut bench = Bench::new();
        calls.iter().for_each(|call| bench.apply(call));
    }
}
