use windlass_sim::report::Report;
use windlass_sim::world;

#[test]
fn three_hundred_random_worlds_keep_every_invariant_and_end() {
    let mut total = Report::default();
    for seed in 0..300 {
        total.merge(&world::simulate(seed));
    }
    println!("{total}");
    assert_eq!(total.missing(), [""; 0], "a case that never occurs is not tested");
}

/// One engine gives back what the first work of another lacks, and the other searches before it is told.
#[test]
fn a_search_that_finds_nothing_finds_nothing_when_repeated_at_once() {
    let _ = world::simulate(2529);
}
