//! Works that are granted ahead and reported together fare as they would one by one.

use proptest::prelude::*;

use super::*;
use crate::input::Begun;

/// A runner is given up to so many works ahead, and gets through so many of them before it is settled.
#[derive(Clone, Copy, Debug)]
struct Stint {
    ahead: usize,
    runs: usize,
}

impl Bench {
    fn add_new<'a>(&mut self, new: impl Fn(CostId) -> Submission<'a>) -> WorkId {
        let cost = self.engine.cost(&self.capacity, &ResourceCost::new()).expect("a slot");
        self.call(|engine, world| engine.submit(world, new(cost))).expect("known dependencies")
    }

    fn begin(&mut self) -> Option<Grant> {
        match self.call(Engine::begin_next)? {
            Begun::Started(grant) | Begun::Resumed(grant) => Some(grant),
        }
    }

    /// How many it ran, with the one it has under way then.
    fn run_stint(&mut self, first: Grant, stint: Stint) -> (usize, Grant) {
        let Stint { ahead, runs } = stint;
        let next = self.call(|engine, world| engine.take_alike(world, first, ahead));
        let all: Vec<_> = std::iter::once(first).chain(next).collect();
        let ran = runs.min(all.len() - 1);
        let ended = all[..ran].iter().copied();
        self.call(|engine, world| engine.succeed_alike(world, ended));
        if ran > 0 {
            self.apply(Input::Begin(all[ran])).expect("it was granted");
        }
        let rest = all[ran + 1..].iter().copied();
        self.call(|engine, world| engine.hand_back_alike(world, rest));
        (ran, all[ran])
    }

    fn run_one_by_one(&mut self, mut current: Grant, count: usize) -> Grant {
        for _ in 0..count {
            self.finish(current, Outcome::Success).expect("it runs");
            current = self.begin().expect("the other one had another one, too");
        }
        current
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn stints_leave_the_same_facts_in_the_same_order(
        works in prop::collection::vec((prop::option::of(any::<prop::sample::Index>()), 0..3i64), 1..40),
        priorities in 1..3i64,
        stints in prop::collection::vec((0..8usize, 0..8usize), 1..40),
        slots in 1..12u32,
        others in 0..12u32,
    ) {
        let (mut own, mut other) = (Bench::new(slots), Bench::new(slots));
        let mut known = Vec::new();
        for (follows, priority) in works {
            let after = follows.filter(|_| !known.is_empty()).map(|index| *index.get(&known));
            let after: Vec<_> = after.into_iter().map(Dependency::from).collect();
            let new = |cost| {
                let priority = priority % priorities;
                Submission { after: &after, priority, ..Submission::of(cost) }
            };
            known.push(own.add_new(new));
            other.add_new(new);
        }
        // Some are under way all the time.
        for _ in 0..others.min(slots - 1) {
            prop_assert_eq!(own.begin(), other.begin());
        }
        for (number, (ahead, runs)) in stints.into_iter().enumerate() {
            let Some(first) = own.begin() else { break };
            prop_assert_eq!(Some(first), other.begin());
            // Now and then the next one is refused first, or begins, too.
            if number % 3 == 0 {
                prop_assert_eq!(own.begin(), other.begin());
            }
            let (ran, current) = own.run_stint(first, Stint { ahead, runs });
            prop_assert_eq!(current, other.run_one_by_one(first, ran));
            own.finish(current, Outcome::Success).expect("it runs");
            other.finish(current, Outcome::Success).expect("it runs");
            prop_assert_eq!(&own.facts, &other.facts);
            prop_assert_eq!(&own.transitions, &other.transitions);
            prop_assert_eq!(own.engine.digest(), other.engine.digest());
        }
    }
}

/// How many are granted ahead after the first of these.
fn ahead(mut bench: Bench) -> usize {
    let first = bench.begin().expect("something is ready");
    bench.call(|engine, world| engine.take_alike(world, first, 8)).len()
}

fn bench(slots: u32, works: usize) -> Bench {
    let mut bench = Bench::new(slots);
    (0..works).for_each(|_| _ = bench.add(&[], 0));
    bench
}

#[test]
fn as_many_are_granted_as_there_are_on_what_one_has_taken() {
    assert_eq!(ahead(bench(100, 100)), 8);
    assert_eq!(ahead(bench(1, 100)), 8, "one after the other");
    assert_eq!(ahead(bench(100, 7)), 6, "there are no more");
}

#[test]
fn none_is_granted_ahead_where_the_order_could_change() {
    let mut urgent = bench(100, 10);
    let first = &[Dependency::from(WorkId::from_index(0))];
    urgent.add_new(|cost| Submission { after: first, priority: 1, ..Submission::of(cost) });
    assert_eq!(ahead(urgent), 0, "one that follows the first goes before the others");

    let mut urgent = bench(100, 10);
    let third = &[Dependency::from(WorkId::from_index(2))];
    urgent.add_new(|cost| Submission { after: third, priority: 1, ..Submission::of(cost) });
    assert_eq!(ahead(urgent), 2, "one that follows the third goes before those behind it");

    let mut urgent = Bench::new(100);
    urgent.add_new(|cost| Submission { priority: 1, retries: 1, ..Submission::of(cost) });
    let delayed = urgent.begin().expect("it is ready");
    (0..8).for_each(|_| _ = urgent.add(&[], 0));
    urgent.finish(delayed, Outcome::Retry { delay: Duration::from_secs(1) }).expect("it runs");
    assert_eq!(ahead(urgent), 0, "one that comes due goes before the others");

    let mut timed = bench(100, 1);
    let timeout = Some(Duration::from_secs(1));
    timed.add_with(&[], More { timeout, ..More::default() });
    (0..8).for_each(|_| _ = timed.add(&[], 0));
    assert_eq!(ahead(timed), 0, "the next one has a time of its own");
}

#[test]
fn what_time_has_changed_when_they_are_handed_back_is_told() {
    let mut bench = bench(100, 3);
    let deadline = Some(Timestamp::from_millis(5));
    let last = Dependency::from(WorkId::from_index(2));
    let late = bench.add_with(&[last], More { deadline, ..More::default() });
    let first = bench.begin().expect("something is ready");
    let next = bench.call(|engine, world| engine.take_alike(world, first, 8));
    assert_eq!(next.len(), 2);
    bench.now = Timestamp::from_millis(5);
    bench.call(|engine, world| engine.hand_back_alike(world, next));
    let told = bench.transitions.last().expect("something was told");
    assert_eq!((told.work, told.to), (late, Phase::Failed));
}
