//! Works that have not begun are moved within the queue, and what was submitted of them is replaced.

use std::time::Duration;

use super::*;
use crate::{EdgeKind, Random};

fn in_order(slots: u32) -> Bench {
    let config = EngineConfig { precedence: Precedence::Submitted, ..EngineConfig::default() };
    Bench::with_config(slots, config)
}

impl Bench {
    fn replace(&mut self, work: WorkId, extras: Extras, priority: i64) -> Result<(), Rejected> {
        let cost = self.engine.cost(&self.capacity, &ResourceCost::new()).expect("a slot");
        let submission = Submission { priority, extras: Some(&extras), ..Submission::of(cost) };
        self.call(|engine, world| engine.replace(world, work, submission))
    }

    fn start_all(&mut self) -> Vec<WorkId> {
        let mut started = Vec::new();
        while let Some(grant) = self.take() {
            self.apply(Input::Begin(grant)).expect("it was granted");
            self.finish(grant, Outcome::Success).expect("it runs");
            started.push(grant.work);
        }
        started
    }
}

#[test]
fn works_start_in_the_order_of_their_submission_though_others_were_ready_before() {
    let mut bench = in_order(1);
    let first = bench.add(&[], 0);
    let follows = bench.add(&[first], 0);
    let last = bench.add(&[], 0);
    assert_eq!(bench.start_all(), [first, follows, last]);
}

#[test]
fn moved_works_start_as_in_a_list_that_was_changed_alike() {
    for seed in 0..50 {
        let (mut bench, mut random) = (in_order(1), Random::new(seed));
        let mut list: Vec<_> = (0..30).map(|_| bench.add(&[], 0)).collect();
        let below = |random: &mut Random, end: usize| {
            usize::try_from(random.within(0..end as u64)).expect("small")
        };
        for _ in 0..300 {
            let work = list.remove(below(&mut random, list.len()));
            // Often to the same place, until there is no number left between two places.
            let to = match random.one_in(2) {
                true => 15,
                false => below(&mut random, list.len() + 1),
            };
            let before = list.get(to).copied();
            bench.apply(Input::Move { work, before }).expect("both are known");
            list.insert(to, work);
        }
        assert_eq!(bench.start_all(), list, "seed {seed}");
    }
}

#[test]
fn a_work_that_waits_keeps_the_place_to_which_it_was_moved() {
    let mut bench = in_order(1);
    let works: Vec<_> = (0..3).map(|_| bench.add(&[], 0)).collect();
    let waits = bench.add(&[works[0]], 0);
    bench.apply(Input::Move { work: waits, before: Some(works[1]) }).expect("both are known");
    assert_eq!(bench.start_all(), [works[0], waits, works[1], works[2]]);
}

#[test]
fn a_replaced_work_takes_its_new_priority_and_waits_at_its_new_gate() {
    let mut bench = in_order(1);
    let works: Vec<_> = (0..3).map(|_| bench.add(&[], 0)).collect();
    bench.replace(works[2], Extras::default(), 1).expect("it has not begun");
    let gated = Extras { gated: true, ..Extras::default() };
    bench.replace(works[0], gated, 0).expect("it has not begun");
    assert_eq!(bench.engine.phase(works[0]), Some(Phase::Gated));
    assert_eq!(bench.start_all(), [works[2], works[1]]);
    bench.replace(works[0], Extras::default(), 0).expect("it has not begun");
    assert_eq!(bench.start_all(), [works[0]]);
    assert_eq!(
        bench.replace(works[0], Extras::default(), 0),
        Err(Rejected::Begun { work: works[0] })
    );
}

#[test]
fn a_replaced_timeout_counts() {
    let mut bench = in_order(1);
    let work = bench.add(&[], 0);
    let timed = Extras { timeout: Some(Duration::from_secs(3)), ..Extras::default() };
    bench.replace(work, timed, 0).expect("it has not begun");
    let _begun = bench.start();
    bench.now = bench.now.after(Duration::from_secs(3));
    bench.apply(Input::Tick).expect("time passes");
    let phase = bench.engine.phase(work);
    assert!(matches!(phase, Some(Phase::Cancelling { .. })), "{phase:?}");
}

#[test]
fn a_work_starts_when_the_dependencies_are_met_that_it_has_left() {
    let mut bench = in_order(1);
    let works: Vec<_> = (0..3).map(|_| bench.add(&[], 0)).collect();
    let waits = bench.add(&[works[0], works[2]], 0);
    let follows = bench.add(&[waits], 0);
    let remove = |bench: &mut Bench, on| {
        bench.call(|engine, world| engine.remove_dependency(world, waits, on))
    };
    remove(&mut bench, works[2]).expect("it has not begun");
    assert_eq!(bench.engine.phase(waits), Some(Phase::Waiting));
    let facts = bench.facts.len();
    remove(&mut bench, works[2]).expect("it has not begun");
    assert_eq!(bench.facts.len(), facts, "it is removed already");
    assert_eq!(bench.start_all(), [works[0], works[1], works[2], waits, follows]);
    assert_eq!(remove(&mut bench, works[0]), Err(Rejected::Begun { work: waits }));
}

#[test]
fn a_work_does_not_wait_for_what_was_removed_though_that_is_tried_again() {
    let mut bench = in_order(1);
    let (first, last) = (bench.add(&[], 0), bench.add(&[], 0));
    let waits = bench.add(&[first, last], 0);
    let grant = bench.start();
    bench.finish(grant, Outcome::Failed).expect("it runs");
    // It was blocked, is open again, and gets rid of what blocked it.
    bench.apply(Input::Reopen(first)).expect("it has failed");
    bench.call(|engine, world| engine.remove_dependency(world, waits, first)).expect("it waits");
    assert_eq!(bench.engine.would_reopen(first), Err(Rejected::NotReopenable { work: first }));
    let grant = bench.start();
    assert_eq!(grant.work, first);
    bench.finish(grant, Outcome::Failed).expect("it runs");
    assert_eq!(bench.engine.phase(waits), Some(Phase::Waiting));
    assert_eq!(bench.engine.would_reopen(first), Ok(vec![first]));
    assert_eq!(bench.start_all(), [last, waits]);
}

#[test]
fn a_work_that_only_a_removed_dependency_made_unneeded_is_needed_again() {
    let mut bench = in_order(1);
    let (first, last) = (bench.add(&[], 0), bench.add(&[], 0));
    let waits = bench.add(&[last], 0);
    let on = Dependency { work: first, kind: EdgeKind::Failed };
    bench.call(|engine, world| engine.add_dependency(world, waits, on)).expect("no cycle");
    let grant = bench.start();
    bench.finish(grant, Outcome::Success).expect("it runs");
    bench.call(|engine, world| engine.remove_dependency(world, waits, first)).expect("it waits");
    assert_eq!(bench.start_all(), [last, waits]);
}
