//! Attempts that wait, and what can happen to them meanwhile.

use super::*;

#[test]
fn an_attempt_that_is_lost_in_line_to_go_on_stands_in_one_line_only() {
    let mut bench = Bench::new(1);
    let [lost, other] = [(); 2].map(|()| bench.add(&[], 0));
    let first = bench.start();
    bench.apply(Input::Suspend(first)).expect("it runs");
    let second = bench.start();
    assert_eq!((first.work, second.work), (lost, other));
    bench.apply(Input::WantOn(first)).expect("it waits");
    bench.finish(first, Outcome::Interrupted).expect("it is under way");
    bench.finish(second, Outcome::Success).expect("it runs");
    assert_eq!(bench.take(), Some(Grant { work: lost, attempt: 2 }), "a new attempt");
    assert_eq!(bench.take(), None);
}
