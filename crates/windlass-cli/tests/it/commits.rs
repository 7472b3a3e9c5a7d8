//! How often a run writes: starts and ends that fall together share a commit.

use std::fs;

use crate::bench::Bench;

/// Returns the number of commits of a run with a chain of this many steps, which do not come quickly.
fn commits(steps: usize) -> u32 {
    let run = "sleep 0.02";
    let mut flow = format!("[step.s0]\nrun = '{run}'\n");
    for step in 1..steps {
        flow += &format!("[step.s{step}]\nrun = '{run}'\nafter = 's{}'\n", step - 1);
    }
    let (bench, _) = Bench::run_ends_with(0, &flow);
    // The index of SQLite's log begins with a header, whose third number counts commits.
    let index = fs::read(bench.path("state/store.db-shm")).expect("it stays where it is");
    u32::from_ne_bytes(index[8..12].try_into().expect("four bytes"))
}

#[test]
fn a_chain_takes_one_commit_for_each_step() {
    assert_eq!(commits(12) - commits(2), 10);
}
