//! Large, deep and long-lived families, and repeated attempts of parents.

use super::*;

impl Bench {
    fn child_of(
        &mut self,
        parent: WorkId,
        after: &[Dependency],
    ) -> Result<WorkId, SubmissionError> {
        self.try_add(after, child(parent))
    }

    /// As [`Bench::call`], without the check that visits every work.
    fn quick<T>(&mut self, call: impl FnOnce(&mut Engine, &mut World<'_>) -> T) -> T {
        let mut world = World {
            now: self.now,
            capacity: &mut self.capacity,
            facts: None,
            transitions: None,
            wakes: &mut Vec::new(),
        };
        call(&mut self.engine, &mut world)
    }

    fn plain_cost(&mut self) -> CostId {
        self.engine.cost(&self.capacity, &ResourceCost::new()).expect("a slot")
    }
}

fn child(of: WorkId) -> Extras {
    Extras { parent: Some(of), ..Extras::default() }
}

fn add_child(engine: &mut Engine, world: &mut World<'_>, of: WorkId, cost: CostId) {
    let new = Submission { extras: Some(&child(of)), ..Submission::of(cost) };
    engine.submit(world, new).expect("the parent runs");
}

fn run_next(engine: &mut Engine, world: &mut World<'_>, outcome: Outcome) -> Grant {
    let grant = begin_next(engine, world);
    engine.apply(world, Input::Finished { grant, outcome }).expect("it runs");
    grant
}

fn begin_next(engine: &mut Engine, world: &mut World<'_>) -> Grant {
    let grant = engine.take_next(world).expect("there is room");
    engine.apply(world, Input::Begin(grant)).expect("it was granted just now");
    grant
}

#[test]
fn children_that_are_forgotten_one_by_one_leave_nothing_behind() {
    let mut bench = Bench::new(2);
    let parent = bench.add(&[], 0);
    let first = bench.start();
    let cost = bench.plain_cost();
    bench.quick(|engine, world| {
        for _ in 0..1_000_000 {
            add_child(engine, world, parent, cost);
            let Grant { work, .. } = run_next(engine, world, Outcome::Success);
            engine.apply(world, Input::Forget(work)).expect("it has ended");
        }
    });
    assert_eq!(bench.engine.children(parent).succeeded, 1_000_000);
    assert!(
        bench.engine.state.dag().stored_links() < 20,
        "{} links",
        bench.engine.state.dag().stored_links()
    );
    assert_eq!(bench.engine.descendants(parent), []);
    bench.finish(first, Outcome::Success).expect("its children have ended");
}

#[test]
fn a_parent_that_is_tried_again_and_again_does_not_grow() {
    let mut bench = Bench::new(2);
    let parent = bench.add(&[], u32::MAX);
    for _ in 0..1000 {
        let grant = bench.start();
        assert_eq!(grant.work, parent);
        let cost = bench.plain_cost();
        bench.quick(|engine, world| {
            for _ in 0..3 {
                add_child(engine, world, parent, cost);
                let _ = run_next(engine, world, Outcome::Success);
            }
        });
        bench.finish(grant, Outcome::Interrupted).expect("its children have ended");
    }
    assert!(
        bench.engine.state.dag().stored_links() < 20,
        "{} links",
        bench.engine.state.dag().stored_links()
    );
}

#[test]
fn a_hundred_thousand_children_stop_together() {
    let mut bench = Bench::new(4);
    let parent = bench.add(&[], 0);
    let grant = bench.start();
    let cost = bench.plain_cost();
    bench.quick(|engine, world| {
        for _ in 0..100_000 {
            add_child(engine, world, parent, cost);
        }
        let running = begin_next(engine, world);
        let _ = run_next(engine, world, Outcome::Failed);
        assert_eq!(engine.children(parent).open(), 1, "all but the running one have ended");
        let outcome = Outcome::Success;
        engine.apply(world, Input::Finished { grant: running, outcome }).expect("it stops");
    });
    assert_eq!(bench.engine.metrics().count(WorkState::Cancelled), 99_999);
    bench.finish(grant, Outcome::Success).expect("its children have ended");
    assert_eq!(bench.engine.phase(parent), Some(Phase::Failed));
}

#[test]
fn a_chain_of_siblings_is_added_without_looking_at_all_of_it_each_time() {
    let mut bench = Bench::new(1);
    let parent = bench.add(&[], 0);
    let _ = bench.start();
    let cost = bench.plain_cost();
    bench.quick(|engine, world| {
        let mut after: Vec<Dependency> = Vec::new();
        for _ in 0..100_000 {
            let extras = Some(&child(parent));
            let next = Submission { after: &after, extras, ..Submission::of(cost) };
            after = vec![engine.submit(world, next).expect("no circle").into()];
        }
    });
    assert_eq!(bench.engine.children(parent).open(), 100_000);
}

#[test]
fn ten_thousand_generations_are_cancelled_without_recursion() {
    let mut bench = Bench::new(1);
    let eldest = bench.add(&[], 0);
    let cost = bench.plain_cost();
    let mut grants = bench.quick(|engine, world| {
        let mut grants = Vec::new();
        for _ in 0..10_000 {
            let grant = begin_next(engine, world);
            add_child(engine, world, grant.work, cost);
            engine.apply(world, Input::Join(grant)).expect("it runs");
            grants.push(grant);
        }
        grants
    });
    assert_eq!(bench.engine.descendants(eldest).len(), 10_000);
    bench.apply(Input::Cancel(eldest)).expect("it is under way");
    let youngest = grants.pop().expect("there are many");
    let outcome = Outcome::Success;
    bench.finish(youngest, outcome).expect("its child has not begun and is cancelled");
    bench.quick(|engine, world| {
        for grant in grants.into_iter().rev() {
            engine.apply(world, Input::Finished { grant, outcome }).expect("its child has ended");
        }
    });
    assert_eq!(bench.engine.metrics().count(WorkState::Cancelled), 10_001);
    assert!(bench.engine.is_done());
}

#[test]
fn a_child_that_waits_for_an_ancestor_or_its_dependent_is_a_cycle() {
    let mut bench = Bench::new(3);
    let parent = bench.add(&[], 0);
    let dependent = bench.add(&[parent], 0);
    let _ = bench.start();
    let child = bench.child_of(parent, &[]).expect("the parent runs");
    let _ = bench.start();
    let refused = |path: &[WorkId]| SubmissionError::Cycle { parent: child, path: path.to_vec() };
    let before = (bench.engine.digest(), bench.facts.len());
    for (on, path) in [
        (parent, vec![parent, child, parent]),
        (dependent, vec![dependent, child, parent, dependent]),
        (child, vec![child, child]),
    ] {
        assert_eq!(bench.child_of(child, &[on.into()]), Err(refused(&path)));
        assert_eq!((bench.engine.digest(), bench.facts.len()), before, "nothing has changed");
    }
    let outsider = bench.add(&[], 0);
    let grandchild = bench.child_of(child, &[outsider.into()]).expect("no circle");
    let path = vec![parent, outsider, grandchild, child, parent];
    assert_eq!(bench.depend(outsider, parent), Err(AddDependencyError::Cycle { path }));
}

#[test]
fn a_work_that_has_not_begun_or_is_stopping_or_joins_takes_no_children() {
    let mut bench = Bench::new(1);
    let parent = bench.add(&[], 1);
    let refused = Err(SubmissionError::NoParent { parent });
    assert_eq!(bench.child_of(parent, &[]), refused, "it has not begun");
    let grant = bench.start();
    bench.apply(Input::Suspend(grant)).expect("it runs");
    bench.child_of(parent, &[]).expect("a suspended one may");
    bench.apply(Input::StopChildren(parent)).expect("it has one");
    assert_eq!(bench.child_of(parent, &[]), refused, "its family stops");
    bench.apply(Input::Join(grant)).expect("it is under way");
    assert_eq!(bench.child_of(parent, &[]), refused, "its body has returned");
    bench.finish(grant, Outcome::Success).expect("its child has ended");
    let grant = bench.engine.next_wakeup().map(|due| bench.now = due).map(|()| bench.start());
    bench.child_of(parent, &[]).expect("the next attempt has a family of its own");
    bench.apply(Input::Cancel(parent)).expect("it runs");
    assert_eq!(bench.child_of(parent, &[]), refused, "it was cancelled");
    bench.finish(grant.expect("it was retried"), Outcome::Success).expect("no child is open");
    assert_eq!(bench.child_of(parent, &[]), refused, "it has ended");
}

#[test]
fn a_child_that_is_blocked_when_it_is_added_fails_its_family() {
    let mut bench = Bench::new(2);
    let [bad, parent] = [(); 2].map(|()| bench.add(&[], 0));
    let [failing, running] = [(); 2].map(|()| bench.start());
    bench.finish(failing, Outcome::Failed).expect("it runs");
    let sibling = bench.child_of(parent, &[]).expect("the parent runs");
    let blocked = bench.child_of(parent, &[bad.into()]).expect("the parent runs");
    assert_eq!(bench.engine.phase(blocked), Some(Phase::Blocked));
    assert_eq!(bench.engine.phase(sibling), Some(Phase::Cancelled));
    assert_eq!(bench.engine.phase(parent), Some(Phase::Running), "its body is not interrupted");
    bench.finish(running, Outcome::Success).expect("its children have ended");
    assert_eq!(bench.engine.phase(parent), Some(Phase::Failed));
}
