//! Job queues for Rust on the same server, with jobs that do nothing.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use windlass_bench_report::Table;
use windlass_bench_service::{Extent, Windlass};

use crate::database::server;
use crate::steps::per_second;

const AT_ONCE: usize = 64;

/// The queues, with how many jobs they get.
const QUEUES: [(&str, usize); 3] =
    [("graphile_worker", 20_000), ("apalis", 5_000), ("underway", 500)];

pub(crate) fn run(_: &Windlass, extent: Extent, table: &mut Table) {
    let program =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/target/release/windlass-bench-peers");
    if !program.exists() {
        eprintln!(
            "not measured: other queues; run `cargo build --release` in benchmarks/cluster/peers"
        );
        return;
    }
    let work = format!("jobs that do nothing, {AT_ONCE} at a time");
    for (queue, jobs) in QUEUES {
        let jobs = jobs / extent.of(10, 1);
        let rounds =
            (0..extent.of(1, 5)).map(|_| per_second(measured(&program, queue, jobs), jobs));
        let contender = format!("{queue}, which has neither graphs nor limits");
        table.add(&work, &contender, "jobs/s", rounds.collect());
    }
}

/// Returns how long the queue took, in a database of its own.
fn measured(program: &Path, queue: &str, jobs: usize) -> Duration {
    let url = server().new_database();
    let (jobs, at_once) = (jobs.to_string(), AT_ONCE.to_string());
    let output = Command::new(program).args([queue, &url, &jobs, &at_once]).output();
    let output = output.expect("the program starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{queue}: {}: {stderr}", output.status);
    let seconds = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a time");
    Duration::from_secs_f64(seconds)
}
