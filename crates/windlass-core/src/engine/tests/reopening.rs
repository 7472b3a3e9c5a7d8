//! Retries by a user, which reopen edges.

use super::*;

#[test]
fn works_that_would_wait_for_each_other_are_not_tried_again() {
    let mut bench = Bench::new(1);
    let first = bench.add(&[], 0);
    let second = bench.add(&[first], 0);
    bench.apply(Input::Cancel(second)).expect("it waits");
    let third = bench.add_after(&[Dependency::done(second)]);
    // The second has ended, so this closes no cycle until all of them are retried.
    bench.depend(first, third).expect("the second has ended");
    bench.apply(Input::Cancel(third)).expect("it is ready");
    let before = bench.engine.digest();
    let path = vec![second, third, first, second];
    assert_eq!(bench.apply(Input::Reopen(third)), Err(Rejected::Cycle { path }));
    assert_eq!(bench.engine.digest(), before);
}

impl Bench {
    /// Runs the first work of the queue to this end.
    fn run(&mut self, outcome: Outcome) -> WorkId {
        let grant = self.start();
        self.finish(grant, outcome).expect("it runs");
        grant.work
    }
}

#[test]
fn a_dependency_that_was_met_and_is_forgotten_stays_met() {
    let mut bench = Bench::new(1);
    let [good, bad] = [(); 2].map(|()| bench.add(&[], 0));
    let both = bench.add(&[good, bad], 0);
    bench.run(Outcome::Success);
    bench.run(Outcome::Failed);
    let late = bench.add(&[good, bad], 0);
    bench.apply(Input::Forget(good)).expect("it has ended");
    bench.apply(Input::Reopen(bad)).expect("it failed");
    assert_eq!([both, late].map(|work| bench.engine.phase(work)), [Some(Phase::Waiting); 2]);
    bench.run(Outcome::Success);
    assert_eq!([both, late].map(|work| bench.engine.phase(work)), [Some(Phase::Ready); 2]);
}

#[test]
fn what_a_forgotten_work_blocks_stays_blocked() {
    let mut bench = Bench::new(1);
    let [lost, bad] = [(); 2].map(|()| bench.add(&[], 0));
    let both = bench.add(&[lost, bad], 0);
    bench.run(Outcome::Failed);
    bench.run(Outcome::Failed);
    let late = bench.add(&[lost, bad], 0);
    bench.apply(Input::Forget(lost)).expect("it has ended");
    let before = bench.transitions.len();
    bench.apply(Input::Reopen(bad)).expect("it failed");
    assert!(bench.transitions[before..].iter().all(|change| change.work == bad));
    assert_eq!([both, late].map(|work| bench.engine.phase(work)), [Some(Phase::Blocked); 2]);
}

#[test]
fn what_a_forgotten_work_has_no_need_of_is_skipped_again() {
    let mut bench = Bench::new(1);
    let [good, bad] = [(); 2].map(|()| bench.add(&[], 0));
    let after = [Dependency::failed(good), Dependency::done(bad)];
    let early = bench.add_after(&after);
    bench.run(Outcome::Success);
    let late = bench.add_after(&after);
    bench.run(Outcome::Failed);
    assert_eq!([early, late].map(|work| bench.engine.phase(work)), [Some(Phase::Skipped); 2]);
    bench.apply(Input::Forget(good)).expect("it has ended");
    bench.apply(Input::Reopen(bad)).expect("it failed");
    assert_eq!([early, late].map(|work| bench.engine.phase(work)), [Some(Phase::Waiting); 2]);
    bench.run(Outcome::Success);
    assert_eq!([early, late].map(|work| bench.engine.phase(work)), [Some(Phase::Skipped); 2]);
}
