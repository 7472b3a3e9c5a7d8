//! Random worlds of workers and engines, against what a naive model of them says, and the rules one by one.

use super::*;
use crate::{Input, Lack, Reason, WorkId};

mod properties;
mod world;

use world::{Wants, World};

fn names(kind: &WorkerKind) -> Vec<&str> {
    kind.workers.iter().map(String::as_str).collect()
}

#[test]
fn a_work_goes_where_it_leaves_the_least() {
    let workers = [("large", "slots=8"), ("gpu", "slots=1 gpu=1"), ("small", "slots=2")];
    let mut world = World::of(&workers);
    let plain = Wants::default();
    for (wants, expected) in [
        // Two fill the small one, and the large one stays whole for the next.
        (plain.clone(), "small"),
        (plain.clone(), "small"),
        (Wants::of("slots=8"), "large"),
        // Nothing else is free, and the GPU is better used than idle.
        (plain.clone(), "gpu"),
    ] {
        let work = world.submit(0, &wants);
        world.settle();
        assert_eq!(world.worker_of(0, work), Some(expected));
    }
}

#[test]
fn a_work_goes_only_where_its_labels_are() {
    let mut world = World::of(&[("a", "slots=1 zone:x"), ("b", "slots=1 zone:y")]);
    let works = ["zone:y", "zone:y", "@a"].map(|on| world.submit(0, &Wants::of(on)));
    world.settle();
    assert_eq!(works.map(|work| world.worker_of(0, work)), [Some("b"), None, Some("a")]);
    let reasons = world.explain(0, works[1]);
    let Reason::Workers { kinds, beside: None } = &reasons[0] else { panic!("{reasons:?}") };
    assert_eq!(kinds.iter().map(names).collect::<Vec<_>>(), [["b"], ["a"]]);
    assert!(matches!(kinds[0].lacks[..], [Lack::Free { .. }]), "b will have room: {kinds:?}");
    assert!(matches!(&kinds[1].lacks[..], [Lack::Label { key, .. }] if key == "zone"), "{kinds:?}");
}

#[test]
fn only_one_worker_is_reserved_for_the_first_work() {
    let mut world = World::of(&[("a", "slots=2"), ("b", "slots=2")]);
    let plain = Wants::default();
    let running = [(); 4].map(|()| world.submit(0, &plain));
    world.settle();
    let large = world.submit(0, &Wants::of("slots=2"));
    let small = [(); 3].map(|()| world.submit(0, &plain));
    world.settle();
    assert_eq!(world.reserved_at(0), Some("a"));
    let on_b = running.into_iter().filter(|work| world.worker_of(0, *work) == Some("b"));
    on_b.collect::<Vec<_>>().into_iter().for_each(|work| world.end(0, work));
    world.settle();
    let places = small.map(|work| world.worker_of(0, work));
    assert_eq!(
        places, [None; 3],
        "the first takes the worker that is free first, though not its own"
    );
    assert_eq!(world.worker_of(0, large), Some("b"));
    assert_eq!(world.reserved_at(0), None, "all that wait are alike, so it would bind none");
}

#[test]
fn later_works_pass_elsewhere_but_not_at_the_reserved_worker() {
    let mut world = World::of(&[("big", "slots=4"), ("tiny", "slots=1")]);
    let plain = Wants::default();
    let on_big = [(); 2].map(|()| world.submit(0, &Wants::of("@big")));
    world.settle();
    let large = world.submit(0, &Wants::of("slots=4"));
    let small = [(); 3].map(|()| world.submit(0, &plain));
    world.settle();
    assert_eq!(small.map(|work| world.worker_of(0, work)), [Some("tiny"), None, None]);
    on_big.into_iter().for_each(|work| world.end(0, work));
    world.settle();
    assert_eq!(world.worker_of(0, large), Some("big"), "as soon as what ran there has ended");
}

#[test]
fn a_reservation_moves_when_its_worker_leaves() {
    let mut world = World::of(&[("a", "slots=2"), ("b", "slots=2")]);
    let [on_a, on_b] = ["@a", "@b"].map(|on| world.submit(0, &Wants::of(on)));
    world.settle();
    let large = world.submit(0, &Wants::of("slots=2"));
    let small = world.submit(0, &Wants::default());
    world.settle();
    assert_eq!((world.reserved_at(0), world.worker_of(0, small)), (Some("a"), Some("b")));
    world.remove("a");
    world.settle();
    assert_eq!(world.reserved_at(0), Some("b"));
    [on_a, on_b, small].into_iter().for_each(|work| world.end(0, work));
    world.settle();
    assert_eq!(world.worker_of(0, large), Some("b"));
}

#[test]
fn a_worker_that_joins_opens_what_waits_for_it() {
    let mut world = World::of(&[("a", "slots=1")]);
    let works = ["gpu=1", "zone:x", "slots=3"].map(|wants| world.submit(0, &Wants::of(wants)));
    world.settle();
    assert_eq!(works.map(|work| world.worker_of(0, work)), [None; 3]);
    world.put("b", "slots=9 gpu=1 zone:x");
    world.settle();
    assert_eq!(works.map(|work| world.worker_of(0, work)), [Some("b"); 3]);
}

#[test]
fn a_draining_worker_gets_nothing_new_and_may_return() {
    let mut world = World::of(&[("a", "slots=2")]);
    let first = world.submit(0, &Wants::default());
    world.settle();
    world.drain("a");
    let second = world.submit(0, &Wants::default());
    world.settle();
    assert_eq!(world.worker_of(0, second), None);
    let reasons = world.explain(0, second);
    let Reason::Workers { kinds, .. } = &reasons[0] else { panic!("{reasons:?}") };
    assert_eq!(kinds[0].lacks, [Lack::Intake]);
    world.end(0, first);
    world.put("a", "slots=2");
    world.settle();
    assert_eq!(world.worker_of(0, second), Some("a"));
}

#[test]
fn a_work_goes_beside_another_one_and_waits_if_that_worker_is_gone() {
    let mut world = World::of(&[("a", "slots=1"), ("b", "slots=4")]);
    let first = world.submit(0, &Wants::of("@b"));
    let [beside, again] = [(); 2].map(|()| world.submit(0, &Wants::beside(first)));
    world.settle();
    world.end(0, first);
    world.settle();
    assert_eq!(world.worker_of(0, beside), Some("b"), "though a is left with less");
    world.end(0, beside);
    world.settle();
    world.end(0, again);
    world.remove("b");
    let late = world.submit(0, &Wants::beside(first));
    world.settle();
    assert_eq!(world.worker_of(0, late), None, "though a has room");
    let reasons = world.explain(0, late);
    assert!(
        matches!(&reasons[0], Reason::Workers { beside: Some(of), .. } if *of == first),
        "{reasons:?}"
    );
    world.put("b", "slots=1");
    world.settle();
    assert_eq!(world.worker_of(0, late), Some("b"));
}

#[test]
fn an_attempt_goes_on_where_it_was_before_all_that_start() {
    let mut world = World::of(&[("a", "slots=1"), ("b", "slots=1")]);
    let [on_a, on_b] = ["@a", "@b"].map(|on| world.submit(0, &Wants::of(on)));
    world.settle();
    world.apply(0, Input::Suspend(world.grant(0, on_a)));
    let next = world.submit(0, &Wants::of("@a"));
    world.settle();
    assert_eq!(world.worker_of(0, next), Some("a"), "a suspended attempt holds nothing");
    let last = world.submit(0, &Wants::default());
    world.apply(0, Input::ResumeRequested(world.grant(0, on_a)));
    world.end(0, on_b);
    world.settle();
    assert_eq!(world.worker_of(0, last), Some("b"), "the one that goes on does not want this one");
    world.drain("a");
    world.end(0, next);
    world.settle();
    assert_eq!(world.worker_of(0, on_a), Some("a"), "though it takes nothing new");
}

#[test]
fn an_urgent_engine_takes_the_only_place_to_reserve() {
    let mut world = World::with_engines(&[("a", "slots=2")], &[0, 5]);
    let small = world.submit(0, &Wants::default());
    world.settle();
    let large = world.submit(0, &Wants::of("slots=2"));
    world.settle();
    assert_eq!((world.reserved_at(0), world.reserved_at(1)), (Some("a"), None));
    let urgent = world.submit(1, &Wants::of("slots=2"));
    world.settle();
    assert_eq!((world.reserved_at(0), world.reserved_at(1)), (None, Some("a")));
    world.end(0, small);
    world.settle();
    assert_eq!(world.worker_of(1, urgent), Some("a"));
    assert_eq!(world.reserved_at(0), Some("a"), "it reserves again");
    world.end(1, urgent);
    world.settle();
    assert_eq!(world.worker_of(0, large), Some("a"));
}

#[test]
fn an_urgent_engine_takes_over_the_place_of_a_worker_that_can_execute_its_work_now() {
    let mut world = World::with_engines(&[("a", "slots=4")], &[0, 3, 5]);
    let first = [(); 2].map(|()| world.submit(0, &Wants::default()));
    world.settle();
    let large = world.submit(0, &Wants::of("slots=4"));
    world.settle();
    let urgent = world.submit(2, &Wants::of("slots=4 zone:x"));
    world.settle();
    assert_eq!((world.reserved_at(0), world.reserved_at(2)), (Some("a"), None));
    world.put("a", "slots=4 zone:x");
    world.settle();
    assert_eq!((world.reserved_at(0), world.reserved_at(2)), (None, Some("a")));
    let between = world.submit(1, &Wants::default());
    world.settle();
    assert_eq!(world.worker_of(1, between), None, "it would delay the urgent one");
    first.into_iter().for_each(|work| world.end(0, work));
    world.settle();
    assert_eq!((world.worker_of(2, urgent), world.worker_of(0, large)), (Some("a"), None));
}

#[test]
fn what_no_worker_could_ever_take_is_told_with_the_nearest_worker_first() {
    let mut world = World::of(&[("a", "slots=4 zone:x"), ("b", "slots=2 gpu=1 zone:x")]);
    let kinds = world.never(&Wants::of("gpu=2 zone:x"));
    assert_eq!(kinds.len(), 2);
    assert!(kinds.iter().all(|kind| matches!(kind.lacks[..], [Lack::Total { .. }])), "{kinds:?}");
    let kinds = world.never(&Wants::of("gpu=2 slots=3 zone:x"));
    assert_eq!(names(&kinds[0]), ["a"], "which lacks less: {kinds:?}");
    let fits = world.never(&Wants::of("gpu=1 zone:x"));
    assert!(fits.is_empty(), "{fits:?}");
}

#[test]
fn the_kind_of_worker_that_lacks_the_least_is_told_first() {
    let mut world = World::of(&[("a", "gpu=1 slots=9"), ("b", "gpu=3 slots=4")]);
    let kinds = world.never(&Wants::of("gpu=4"));
    assert_eq!(kinds.iter().map(names).collect::<Vec<_>>(), [["b"], ["a"]], "in all");
    for (on, count) in [("@a", 9), ("@b", 2)] {
        (0..count).for_each(|_| _ = world.submit(0, &Wants::of(on)));
    }
    let waits = world.submit(0, &Wants::of("slots=3"));
    world.settle();
    let reasons = world.explain(0, waits);
    let Reason::Workers { kinds, .. } = &reasons[0] else { panic!("{reasons:?}") };
    assert_eq!(kinds.iter().map(names).collect::<Vec<_>>(), [["b"], ["a"]], "free: {kinds:?}");
}

#[test]
fn two_workers_are_two_digests() {
    let digest = |slots: &str| {
        let mut world = World::of(&[("a", slots), ("b", "slots=9")]);
        let works = [(); 2].map(|()| world.submit(0, &Wants::default()));
        world.settle();
        works.into_iter().for_each(|work| world.end(0, work));
        world.engines[0].engine.digest()
    };
    assert_eq!(digest("slots=2"), digest("slots=3"), "both were at a");
    assert_ne!(digest("slots=2"), digest("slots=1"), "the second one was at b");
}

#[test]
fn a_number_of_a_worker_that_is_gone_is_used_again() {
    let mut world = World::of(&[]);
    for number in 0..100 {
        let name = format!("worker-{number}");
        world.put(&name, "slots=1");
        let work = world.submit(0, &Wants::default());
        world.settle();
        assert_eq!(world.worker_of(0, work), Some(&*name));
        world.remove(&name);
        world.end(0, work);
    }
    assert_eq!(world.rows(), 1);
}

/// The ids of works, for messages.
fn id(work: WorkId) -> u64 {
    work.get()
}
