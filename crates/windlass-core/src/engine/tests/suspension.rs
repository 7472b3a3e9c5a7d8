//! Suspended attempts, and what can happen to them.

use super::*;

#[test]
fn an_attempt_that_is_lost_while_queued_to_resume_is_in_one_queue_only() {
    let mut bench = Bench::new(1);
    let [lost, other] = [(); 2].map(|()| bench.add(&[], 0));
    let first = bench.start();
    bench.apply(Input::Suspend(first)).expect("it runs");
    let second = bench.start();
    assert_eq!((first.work, second.work), (lost, other));
    bench.apply(Input::ResumeRequested(first)).expect("it waits");
    bench.finish(first, Outcome::Interrupted).expect("it is under way");
    bench.finish(second, Outcome::Success).expect("it runs");
    assert_eq!(bench.take(), Some(Grant { work: lost, attempt: 2 }), "a new attempt");
    assert_eq!(bench.take(), None);
}

#[test]
fn an_attempt_that_resumes_behind_another_uses_what_is_reserved_for_other_engines() {
    let amounts = |pairs: &[(&str, u32)]| -> ResourceCost {
        pairs.iter().map(|&(name, n)| (name.to_owned(), Amount::from(n))).collect()
    };
    let mut bench = Bench::with(EngineConfig::default(), &amounts(&[("cpu", 4), ("gpu", 2)]));
    let other = bench.capacity.add_client(CapacityTree::ROOT);
    let grants = [("gpu", 2), ("cpu", 2)].map(|need| {
        let cost = bench.engine.cost(&bench.capacity, &amounts(&[need])).expect("it fits");
        let submitted = bench.call(|engine, world| engine.submit(world, Submission::of(cost)));
        submitted.expect("it has no dependencies");
        let grant = bench.start();
        bench.apply(Input::Suspend(grant)).expect("it runs");
        grant
    });
    let tree = &mut bench.capacity;
    let of = |tree: &CapacityTree, cost| tree.demand(CapacityTree::ROOT, &cost).expect("it fits");
    let all = of(tree, amounts(&[("cpu", 4), ("gpu", 2)]));
    tree.take(other, &all, Timestamp::ZERO);
    let three = of(tree, amounts(&[("cpu", 3)]));
    let refusal = tree.try_take(other, &three, crate::Place::First, Timestamp::ZERO).unwrap_err();
    tree.reserve(other, 1, &refusal);
    for grant in grants {
        bench.apply(Input::ResumeRequested(grant)).expect("it waits");
    }
    assert_eq!(bench.take(), None, "nothing is free");
    let two = of(&bench.capacity, amounts(&[("cpu", 2)]));
    let wakes = bench.capacity.give_back(other, &two);
    assert_eq!(wakes, [bench.engine.client()]);
    bench.apply(Input::RetrySearch).expect("a search is always allowed");
    assert_eq!(bench.take(), Some(grants[1]), "the other engine only wants to start something");
}
