use windlass_sim::world::{self, Report};

#[test]
fn three_hundred_random_worlds_keep_every_invariant_and_end() {
    let mut total = Report::default();
    for seed in 0..300 {
        let report = std::panic::catch_unwind(|| world::live(seed))
            .unwrap_or_else(|_| panic!("seed {seed} failed; live({seed}) repeats it"));
        total.facts += report.facts;
        total.wakes += report.wakes;
        total.late += report.late;
        total.ends.iter_mut().zip(report.ends).for_each(|(sum, ends)| *sum += ends);
    }
    println!("{total:?}");
    assert!(total.facts > 0 && total.wakes > 0 && total.late > 0, "{total:?}");
    assert!(total.ends.iter().all(|&count| count > 0), "every end was reached: {total:?}");
}
