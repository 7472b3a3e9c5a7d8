//! Handing on what an attempt took is the same as giving it back and taking it again.

use proptest::prelude::*;

use super::shared::{Shared, costs};
use super::*;
use crate::input::Begun;

impl Shared {
    fn begin(&mut self, begun: Option<Begun>) -> bool {
        if let Some(Begun::Started(grant)) = begun {
            self.running.push(grant);
        }
        begun.is_some()
    }

    fn hand_on(&mut self, index: usize, how: Way) {
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

    fn pass(&mut self, call: &Call, how: Way) {
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
                self.hand_on(index.index(self.running.len()), how);
            }
            Call::Limit(slots) => self.limit_slots(slots),
            Call::OtherTakes => self.take_as_other(),
            Call::OtherGives => self.give_back_as_other(),
            Call::OtherWatches => self.watch_as_other(),
            Call::End(_) => {}
        }
        self.tick();
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
    let mut shared = Shared::new(3, 2, 4);
    let submit = Call::Submit { cost: 0, priority: 0, follows: None };
    (0..3).for_each(|_| shared.pass(&submit, Way::AtOnce));
    shared.pass(&Call::Fill, Way::AtOnce);
    assert_eq!(shared.running.len(), 3);
    shared.pass(&Call::Limit(2), Way::AtOnce);
    shared.pass(&submit, Way::AtOnce);
    shared.hand_on(0, Way::AtOnce);
    assert_eq!(shared.running.len(), 2, "there are two slots now");
    shared.hand_on(0, Way::AtOnce);
    assert_eq!(shared.running.len(), 2, "one has ended, and another has begun");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_handed_on_is_as_if_given_back_and_taken_again(
        calls in prop::collection::vec(call(), 1..60),
    ) {
        let mut slow = Shared::new(3, 2, 4);
        let mut swift = Shared::new(3, 2, 4);
        for call in &calls {
            slow.pass(call, Way::OneByOne);
            swift.pass(call, Way::AtOnce);
            slow.expect_as(&swift)?;
            prop_assert_eq!(&slow.wakes, &swift.wakes);
        }
    }
}
