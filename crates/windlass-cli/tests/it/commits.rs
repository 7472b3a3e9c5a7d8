//! How often a run writes: starts and ends that fall together share a commit.

use std::fs;

use crate::bench::Bench;

/// Returns the number of commits of a run with a chain of this many steps.
fn commits(steps: usize, run: &str) -> u32 {
    let mut flow = format!("[step.s0]\nrun = '{run}'\n");
    for step in 1..steps {
        flow += &format!("[step.s{step}]\nrun = '{run}'\nafter = 's{}'\n", step - 1);
    }
    let (bench, _) = Bench::run_ends_with(0, &flow);
    // The index of SQLite's log begins with a header, whose third number counts commits.
    let index = fs::read(bench.path("state/store.db-shm")).expect("it stays where it is");
    u32::from_ne_bytes(index[8..12].try_into().expect("four bytes"))
}

fn commits_per_step(few: usize, many: usize, run: &str) -> f64 {
    f64::from(commits(many, run) - commits(few, run)) / (many - few) as f64
}

#[test]
fn a_chain_takes_one_commit_for_each_step() {
    let more = commits_per_step(2, 12, "sleep 0.02");
    assert!((1.0..=1.05).contains(&more), "{more} commits per step");
}

#[test]
fn steps_that_take_next_to_no_time_share_commits() {
    // How many share one depends on how much else the machine has to do: once in a while is enough.
    let share = |_| commits_per_step(20, 220, "true") < 0.9;
    assert!((0..10).any(share), "as many commits as steps");
}
