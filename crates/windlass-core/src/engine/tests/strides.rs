//! Several works in one stride fare as they would one by one.

use proptest::prelude::*;

use super::shared::{Shared, costs};
use super::*;
use crate::input::Begun;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    OneByOne,
    InStrides,
}

#[derive(Clone, Debug)]
enum Call {
    Submit { cost: usize, priority: i64, count: usize },
    Fill,
    End(Vec<prop::sample::Index>),
    Cancel(prop::sample::Index),
    Limit(u32),
    Rate,
    OtherTakes,
    OtherGives,
    OtherWatches,
    OtherLeaves,
}

fn call() -> impl Strategy<Value = Call> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        6 => (0..3usize, 0..3i64, 1..6usize)
            .prop_map(|(cost, priority, count)| Call::Submit { cost, priority, count }),
        6 => Just(Call::Fill),
        8 => prop::collection::vec(index(), 1..6).prop_map(Call::End),
        1 => index().prop_map(Call::Cancel),
        1 => (2..9u32).prop_map(Call::Limit),
        1 => Just(Call::Rate),
        1 => Just(Call::OtherTakes),
        2 => Just(Call::OtherGives),
        1 => Just(Call::OtherWatches),
        2 => Just(Call::OtherLeaves),
    ]
}

impl Shared {
    /// How many of them begin at once is told by the one in strides, and followed by the other.
    fn submit_several(&mut self, new: Submission<'_>, count: usize, begun: Option<usize>) -> usize {
        let Some(begun) = begun else {
            let Alike { first, begun } =
                self.call(|engine, world| engine.submit_alike(world, new, count));
            let works = (0..begun).map(|n| WorkId::from_index(first.index() + n));
            self.running.extend(works.map(|work| Grant { work, attempt: 1 }));
            return begun;
        };
        for n in 0..count {
            let work = self.call(|engine, world| engine.submit(world, new)).expect("no edges");
            if n < begun {
                let next = self.call(Engine::begin_next);
                let grant = Grant { work, attempt: 1 };
                assert_eq!(next, Some(Begun::Started(grant)), "it fits, and is the first");
                self.running.push(grant);
            }
        }
        begun
    }

    fn fill(&mut self, way: Way) {
        let mut begun = Vec::new();
        match way {
            Way::OneByOne => {
                while let Some(next) = self.call(Engine::begin_next) {
                    begun.push(next);
                }
            }
            Way::InStrides => {
                self.call(|engine, world| engine.begin_all(world, |next| begun.push(next)));
            }
        }
        let grant = |(Begun::Started(grant) | Begun::Resumed(grant))| grant;
        self.running.extend(begun.into_iter().map(grant));
    }

    fn end_several(&mut self, which: &[prop::sample::Index], way: Way) {
        let mut grants = Vec::new();
        for index in which {
            if !self.running.is_empty() {
                grants.push(self.running.swap_remove(index.index(self.running.len())));
            }
        }
        let cancelled =
            |shared: &Self, grant: &Grant| shared.engine.phase(grant.work) != Some(Phase::Running);
        let odd: Vec<_> = grants.iter().copied().filter(|grant| cancelled(self, grant)).collect();
        grants.retain(|grant| !odd.contains(grant));
        match way {
            Way::OneByOne => grants.iter().for_each(|grant| self.end_alone(*grant)),
            Way::InStrides => {
                grants.extend(&odd);
                self.call(|engine, world| engine.succeed_and_forget(world, &mut grants));
                assert_eq!(grants, odd, "those that were asked to stop are left");
            }
        }
        odd.into_iter().for_each(|grant| self.end_alone(grant));
    }

    fn end_alone(&mut self, grant: Grant) {
        self.call(|engine, world| {
            let finished = Input::Finished { grant, outcome: Outcome::Success };
            engine.apply(world, finished).expect("it runs");
            engine.apply(world, Input::Forget(grant.work)).expect("it has ended");
        });
    }

    fn stride(&mut self, call: &Call, way: Way, begun: Option<usize>) -> usize {
        match call {
            Call::Submit { cost, priority, count } => {
                let cost = self.engine.cost(&self.capacity, &costs()[*cost]);
                // It may be more than a limit by now.
                if let Ok(cost) = cost {
                    let new = Submission { priority: *priority, ..Submission::of(cost) };
                    return self.submit_several(new, *count, begun);
                }
            }
            Call::Fill => self.fill(way),
            Call::End(which) => self.end_several(which, way),
            Call::Cancel(index) if !self.running.is_empty() => {
                let work = self.running[index.index(self.running.len())].work;
                self.call(|engine, world| engine.apply(world, Input::Cancel(work)))
                    .expect("it runs");
            }
            Call::Limit(slots) => self.limit_slots(*slots),
            Call::Rate => {
                let (amount, burst) = (Amount::from(1), Amount::from(3));
                let rate = crate::Rate { amount, per: Duration::from_nanos(2), burst };
                let set = self.capacity.set_rate(CapacityTree::ROOT, "gpu", rate, self.now);
                set.expect("it makes sense");
                self.look_again();
            }
            Call::OtherTakes => self.take_as_other(),
            Call::OtherGives => self.give_back_as_other(),
            Call::OtherWatches => self.watch_as_other(),
            Call::OtherLeaves => self.leave_as_other(),
            Call::Cancel(_) => {}
        }
        0
    }

    /// Who was told to look again, in whatever order.
    fn woken(&self) -> Vec<ClientId> {
        let mut woken = self.wakes.clone();
        woken.sort_unstable();
        woken.dedup();
        woken
    }
}

#[test]
fn only_works_apart_from_others_end_in_a_stride() {
    let mut bench = Bench::new(4);
    let (first, apart) = (bench.add(&[], 0), bench.add(&[], 0));
    let second = bench.add(&[first], 0);
    let mut grants = vec![bench.start(), bench.start()];
    bench.call(|engine, world| engine.succeed_and_forget(world, &mut grants));
    assert_eq!(grants, [Grant { work: first, attempt: 1 }], "somebody follows it");
    assert_eq!(bench.engine.phase(apart), None, "it is forgotten");
    bench.finish(grants[0], Outcome::Success).unwrap();
    let mut grants = vec![bench.start()];
    bench.call(|engine, world| engine.succeed_and_forget(world, &mut grants));
    assert_eq!(grants, [Grant { work: second, attempt: 1 }], "it follows somebody");
    assert_eq!(bench.engine.phase(second), Some(Phase::Running), "nothing has changed for it");
}

#[test]
fn works_begin_as_they_come_in_while_there_is_room_and_nobody_is_in_line() {
    let mut shared = Shared::new(6, 4, 5);
    let cost = shared.engine.cost(&shared.capacity, &costs()[1]).expect("it fits");
    assert_eq!(shared.submit_several(Submission::of(cost), 3, None), 3);
    assert_eq!(shared.submit_several(Submission::of(cost), 3, None), 1, "four is the limit");
    assert_eq!((shared.engine.in_line(), shared.running.len()), (2, 4));
    let free = shared.engine.cost(&shared.capacity, &costs()[0]).expect("it fits");
    assert_eq!(shared.submit_several(Submission::of(free), 1, None), 0, "others stand in line");
    shared.fill(Way::InStrides);
    assert_eq!((shared.engine.in_line(), shared.running.len()), (2, 5), "it passes the two");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn in_strides_is_as_if_one_by_one(calls in prop::collection::vec(call(), 1..60)) {
        let mut slow = Shared::new(6, 4, 5);
        let mut swift = Shared::new(6, 4, 5);
        for call in &calls {
            let begun = swift.stride(call, Way::InStrides, None);
            slow.stride(call, Way::OneByOne, Some(begun));
            slow.tick();
            swift.tick();
            slow.expect_as(&swift)?;
            prop_assert_eq!(slow.woken(), swift.woken());
        }
    }
}
