//! An engine on a tree that others use, too.

use proptest::prelude::*;

use super::*;
use crate::capacity::Place;

pub(super) struct Shared {
    pub(super) engine: Engine,
    pub(super) capacity: CapacityTree,
    other: ClientId,
    pub(super) now: Timestamp,
    facts: Vec<Fact>,
    transitions: Vec<Transition>,
    pub(super) wakes: Vec<ClientId>,
    pub(super) running: Vec<Grant>,
    /// How often the other one has taken.
    taken: usize,
}

/// What its works may take.
pub(super) fn costs() -> [ResourceCost; 3] {
    let gpu = ResourceCost::new().with("gpu", Amount::from(1));
    [ResourceCost::new(), gpu.clone(), gpu.with(SLOTS, Amount::from(2))]
}

impl Shared {
    /// `slots` and `gpus` are the engine's own; everybody together has some more of the latter.
    pub(super) fn new(slots: u32, gpus: u32, gpus_of_all: u32) -> Self {
        let all = ResourceCost::of([("gpu", gpus_of_all)]).expect("a name");
        let mut capacity = CapacityTree::new(&all);
        let limits = ResourceCost::of([(SLOTS, slots), ("gpu", gpus)]).expect("names");
        let level = capacity.add_level(CapacityTree::ROOT, &limits);
        let client = capacity.add_client(level);
        Self {
            engine: Engine::new(EngineConfig::default(), client),
            other: capacity.add_client(CapacityTree::ROOT),
            capacity,
            now: Timestamp::ZERO,
            facts: Vec::new(),
            transitions: Vec::new(),
            wakes: Vec::new(),
            running: Vec::new(),
            taken: 0,
        }
    }

    pub(super) fn call<T>(&mut self, call: impl FnOnce(&mut Engine, &mut World<'_>) -> T) -> T {
        let mut world = World {
            now: self.now,
            capacity: &mut self.capacity,
            facts: Some(&mut self.facts),
            transitions: Some(&mut self.transitions),
            wakes: &mut self.wakes,
        };
        let result = call(&mut self.engine, &mut world);
        self.engine.check(&self.capacity);
        result
    }

    pub(super) fn tick(&mut self) {
        self.now = Timestamp::from_nanos(self.now.as_nanos() + 1);
    }

    pub(super) fn look_again(&mut self) {
        self.call(|engine, world| engine.apply(world, Input::LookAgain)).expect("a look");
    }

    pub(super) fn limit_slots(&mut self, slots: u32) {
        let level = self.capacity.level_of(self.engine.client());
        let slots = ResourceCost::new().with(SLOTS, Amount::from(slots));
        self.capacity.set_limits(level, &slots);
        self.look_again();
    }

    /// One who is refused stands in line for it.
    pub(super) fn take_as_other(&mut self) {
        let one = self.one_gpu();
        match self.capacity.try_take(self.other, &one, Place::First, self.now) {
            Ok(()) => {
                self.taken += 1;
                self.capacity.withdraw(self.other);
            }
            Err(refusal) => _ = self.capacity.stand(self.other, 1, &refusal),
        }
    }

    pub(super) fn give_back_as_other(&mut self) {
        if self.taken > 0 {
            self.taken -= 1;
            let one = self.one_gpu();
            self.wakes.extend(self.capacity.give_back(self.other, &one));
            self.look_again();
        }
    }

    pub(super) fn watch_as_other(&mut self) {
        self.capacity.watch_everything(self.other);
    }

    pub(super) fn leave_as_other(&mut self) {
        self.capacity.remove_client(self.other);
        (self.other, self.taken) = (self.capacity.add_client(CapacityTree::ROOT), 0);
        self.look_again();
    }

    fn one_gpu(&self) -> Demand {
        let one = ResourceCost::new().with("gpu", Amount::from(1));
        self.capacity.demand(CapacityTree::ROOT, &one).expect("it is declared")
    }

    /// Whether the two have come to the same, as far as anybody can tell.
    pub(super) fn expect_as(&self, other: &Self) -> Result<(), TestCaseError> {
        prop_assert_eq!(&self.running, &other.running);
        prop_assert_eq!(&self.facts, &other.facts);
        prop_assert_eq!(&self.transitions, &other.transitions);
        prop_assert_eq!(self.engine.digest(), other.engine.digest());
        prop_assert_eq!(self.engine.metrics(), other.engine.metrics());
        let level = self.capacity.level_of(self.engine.client());
        for level in [CapacityTree::ROOT, level] {
            let free = |shared: &Shared| shared.capacity.available(level, shared.now);
            prop_assert_eq!(free(self), free(other));
            let counts = |shared: &Shared| format!("{:?}", shared.capacity.counts(level));
            prop_assert_eq!(counts(self), counts(other));
        }
        Ok(())
    }
}
