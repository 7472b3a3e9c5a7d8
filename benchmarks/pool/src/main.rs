//! Compares the pool with others on the same work, in the same run.
//!
//! `cargo run --release -p windlass-bench-pool` prints a Markdown table and writes `results.json`
//! beside this package's manifest; `-- --quick` does fewer rounds, `--json=FILE` writes there instead, and any other argument names the
//! rows to run. Contenders take turns within each round, so a slow moment of the machine hits all
//! of them alike; what is reported is the median and the spread (first to third quartile), and how
//! much processor time all threads together used. Every result is checked.

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
