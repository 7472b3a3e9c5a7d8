//! Handing on what an attempt took is the same as giving it back and taking it again.

use proptest::prelude::*;

use super::*;
use crate::capacity::Place;
use crate::input::Begun;

/// An engine on a tree that others use, too.
struct Shared {
    engine: Engine,
    capacity: CapacityTree,
    other: ClientId,
    now: Timestamp,
    facts: Vec<Fact>,
    transitions: Vec<Transition>,
    wakes: Vec<ClientId>,
    running: Vec<Grant>,
    taken: usize,
}

fn costs() -> [ResourceCost; 3] {
    let gpu = ResourceCost::new().with("gpu", Amount::from(1));
    [ResourceCost::new(), gpu.clone(), gpu.with(SLOTS, Amount::from(2))]
}

impl Shared {
    fn new() -> Self {
        let mut capacity = CapacityTree::new(&ResourceCost::of([("gpu", 4)]).expect("a name"));
        let limits = ResourceCost::of([(SLOTS, 3), ("gpu", 2)]).expect("names");
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

    fn call<T>(&mut self, call: impl FnOnce(&mut Engine, &mut World<'_>) -> T) -> T {
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

    fn begin(&mut self, begun: Option<Begun>) -> bool {
        if let Some(Begun::Started(grant)) = begun {
            self.running.push(grant);
        }
        begun.is_some()
    }

    fn end(&mut self, index: usize, how: Way) {
        let grant = self.running.swap_remove(index);
        let begun = self.call(|engine, world| match how {
            Way::OneByOne => {
                let finished = Input::Finished { grant, outcome: Outcome::Success };
                engine.apply(world, finished).expect("it runs");
                engine.begin_next(world)
            }
            Way::AtOnce => engine.succeed_and_begin_next(world, grant).expect("it runs"),
        });
        self.begin(begun);
    }

    fn apply(&mut self, call: &Call, how: Way) {
        match *call {
            Call::Submit { cost, priority, follows } => {
                let cost = self.engine.cost(&self.capacity, &costs()[cost]).expect("it fits");
                let known: Vec<_> = self.engine.works().collect();
                let source = follows.filter(|_| !known.is_empty()).map(|i| *i.get(&known));
                let after: Vec<_> = source.map(Dependency::from).into_iter().collect();
                let new = Submission { after: &after, priority, ..Submission::of(cost) };
                self.call(|engine, world| engine.submit(world, new)).expect("it is known");
            }
            Call::Fill => {
                while let begun = self.call(Engine::begin_next)
                    && self.begin(begun)
                {}
            }
            Call::End(index) if !self.running.is_empty() => {
                self.end(index.index(self.running.len()), how);
            }
            Call::Limit(slots) => {
                let level = self.capacity.level_of(self.engine.client());
                let slots = ResourceCost::new().with(SLOTS, Amount::from(slots));
                self.capacity.set_limits(level, &slots);
                self.call(|engine, world| engine.apply(world, Input::LookAgain)).expect("a look");
            }
            Call::OtherTakes => self.take_as_other(),
            Call::OtherGives if self.taken > 0 => {
                self.taken -= 1;
                let one = self.one_gpu();
                let wakes = self.capacity.give_back(self.other, &one);
                self.wakes.extend(wakes);
                self.call(|engine, world| engine.apply(world, Input::LookAgain)).expect("a look");
            }
            Call::OtherWatches => self.capacity.watch_everything(self.other),
            _ => {}
        }
        self.now = Timestamp::from_nanos(self.now.as_nanos() + 1);
    }

    /// One who is refused stands in line for it.
    fn take_as_other(&mut self) {
        let one = self.one_gpu();
        match self.capacity.try_take(self.other, &one, Place::First, self.now) {
            Ok(()) => {
                self.taken += 1;
                self.capacity.withdraw(self.other);
            }
            Err(refusal) => _ = self.capacity.stand(self.other, 1, &refusal),
        }
    }

    fn one_gpu(&self) -> Demand {
        let one = ResourceCost::new().with("gpu", Amount::from(1));
        self.capacity.demand(CapacityTree::ROOT, &one).expect("it is declared")
    }
}

#[derive(Clone, Copy)]
enum Way {
    OneByOne,
    AtOnce,
}

#[derive(Clone, Debug)]
enum Call {
    Submit { cost: usize, priority: i64, follows: Option<prop::sample::Index> },
    Fill,
    End(prop::sample::Index),
    Limit(u32),
    OtherTakes,
    OtherGives,
    OtherWatches,
}

fn call() -> impl Strategy<Value = Call> {
    let submit = (0..3usize, 0..3i64, proptest::option::of(any::<prop::sample::Index>()));
    prop_oneof![
        6 => submit.prop_map(|(cost, priority, follows)| Call::Submit { cost, priority, follows }),
        2 => Just(Call::Fill),
        8 => any::<prop::sample::Index>().prop_map(Call::End),
        1 => (2..5u32).prop_map(Call::Limit),
        1 => Just(Call::OtherTakes),
        1 => Just(Call::OtherGives),
        1 => Just(Call::OtherWatches),
    ]
}

#[test]
fn what_exceeds_a_limit_is_given_back_and_not_handed_on() {
    let mut shared = Shared::new();
    let submit = Call::Submit { cost: 0, priority: 0, follows: None };
    (0..3).for_each(|_| shared.apply(&submit, Way::AtOnce));
    shared.apply(&Call::Fill, Way::AtOnce);
    assert_eq!(shared.running.len(), 3);
    shared.apply(&Call::Limit(2), Way::AtOnce);
    shared.apply(&submit, Way::AtOnce);
    shared.end(0, Way::AtOnce);
    assert_eq!(shared.running.len(), 2, "there are two slots now");
    shared.end(0, Way::AtOnce);
    assert_eq!(shared.running.len(), 2, "one has ended, and another has begun");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_handed_on_is_as_if_given_back_and_taken_again(
        calls in prop::collection::vec(call(), 1..60),
    ) {
        let mut slow = Shared::new();
        let mut swift = Shared::new();
        for call in &calls {
            slow.apply(call, Way::OneByOne);
            swift.apply(call, Way::AtOnce);
            prop_assert_eq!(&slow.running, &swift.running);
            prop_assert_eq!(&slow.facts, &swift.facts);
            prop_assert_eq!(&slow.transitions, &swift.transitions);
            prop_assert_eq!(&slow.wakes, &swift.wakes);
            prop_assert_eq!(slow.engine.digest(), swift.engine.digest());
            prop_assert_eq!(slow.engine.metrics(), swift.engine.metrics());
            let level = slow.capacity.level_of(slow.engine.client());
            for level in [CapacityTree::ROOT, level] {
                let free = |shared: &Shared| shared.capacity.available(level, shared.now);
                prop_assert_eq!(free(&slow), free(&swift));
                let counts = |shared: &Shared| format!("{:?}", shared.capacity.counts(level));
                prop_assert_eq!(counts(&slow), counts(&swift));
            }
        }
    }
}
