//! How often a run writes: starts and ends that fall together share a commit.

use std::fs;

use crate::bench::{Bench, stderr};

/// The commits that were made while a chain of so many steps ran, with those of its beginning and end.
fn commits(steps: usize) -> u32 {
    let mut flow = "[step.s0]\nrun = 'true'\n".to_owned();
    for step in 1..steps {
        flow += &format!("[step.s{step}]\nrun = 'true'\nafter = 's{}'\n", step - 1);
    }
    let (bench, output) = Bench::run(&flow);
    assert!(output.status.success(), "{}", stderr(&output));
    // The index of SQLite's log begins with a header, whose third number counts commits.
    let index = fs::read(bench.path("state/store.db-shm")).expect("it stays where it is");
    u32::from_ne_bytes(index[8..12].try_into().expect("four bytes"))
}

#[test]
fn a_chain_takes_one_commit_for_each_step() {
    let (few, many) = (10, 110);
    let more = f64::from(commits(many) - commits(few)) / (many - few) as f64;
    assert!((1.0..=1.05).contains(&more), "{more} commits per step");
}
