//! A person's retry, where edges are opened again.

use super::*;

#[test]
fn works_that_would_wait_for_each_other_are_not_tried_again() {
    let mut bench = Bench::new(1);
    let first = bench.add(&[], 0);
    let second = bench.add(&[first], 0);
    bench.apply(Input::Cancel(second)).expect("it waits");
    let third = bench.add_after(&[Dependency::done(second)]);
    // The second has ended, so nothing is wrong with this; until all are tried again.
    bench.depend(first, third).expect("the second has ended");
    bench.apply(Input::Cancel(third)).expect("it is ready");
    let before = bench.engine.digest();
    let path = vec![second, third, first, second];
    assert_eq!(bench.apply(Input::Reopen(third)), Err(Rejected::Cycle { path }));
    assert_eq!(bench.engine.digest(), before);
}
