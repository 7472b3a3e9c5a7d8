//! Compares the pool with other pools on the same work, in the same run.
//!
//! `cargo run --release -p windlass-bench-pool` prints a Markdown table and writes `results.json`
//! beside this package's manifest; `-- --quick` does fewer rounds, `--json=FILE` writes to that file, and any
//! other argument selects the rows to run. Contenders take turns within each round, so a slowdown of the
//! machine affects all of them alike. Reported are the median, the spread (first to third quartile) and the
//! processor time of all threads together. Every result is checked.

mod latency;
mod mixed;
mod pools;
mod shapes;

use crate::pools::Pools;

fn main() {
    windlass_bench_report::report(env!("CARGO_MANIFEST_DIR"), |report| {
        let pools = Pools::start(2);
        shapes::run(&pools, report);
        latency::run(&pools, report);
        mixed::run(&pools, report);
    });
}
