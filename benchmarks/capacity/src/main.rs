//! Compares capacity, sources and the task pool runner with what one would use without them.
//!
//! `cargo run --release -p windlass-bench-capacity` prints a Markdown table and writes
//! `results.json` beside this package's manifest; `-- --quick` does fewer rounds, `--once` runs
//! everything once and measures nothing, `--json=FILE` writes there instead, and any other argument
//! names the rows (`runner`) or the contenders (`: tokio`) to run. Contenders take turns within each
//! round, so a slow moment of the machine hits all of them alike; what is reported is the median and
//! the spread (first to third quartile), and how much processor time all threads together used. Every
//! result is checked.

mod hand_over;
mod runner;
mod source;
mod take;

fn main() {
    windlass_bench_report::report(env!("CARGO_MANIFEST_DIR"), |report| {
        take::run(report);
        hand_over::run(report);
        runner::run(report);
        source::run(report);
    });
}

/// Amounts by name, one of each.
fn one_of(names: &[&str]) -> windlass::ResourceCost {
    windlass::ResourceCost::of(names.iter().map(|name| (*name, 1))).expect("each name once")
}
