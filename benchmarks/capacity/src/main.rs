//! Compares capacity, sources and the task pool runner with what a user would write without them.
//!
//! `cargo run --release -p windlass-bench-capacity` prints a Markdown table and writes
//! `results.json` beside this package's manifest; `-- --quick` does fewer rounds, `--once` runs
//! everything once without measuring, `--json=FILE` writes to that file, and any other argument
//! selects the rows (`runner`) or the contenders (`: tokio`) to run. Contenders take turns within each
//! round, so a slowdown of the machine affects all of them alike. Reported are the median, the spread
//! (first to third quartile) and the processor time of all threads together. Every result is checked.

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

/// Returns a cost with one of each resource.
fn one_of(names: &[&str]) -> windlass::ResourceCost {
    windlass::ResourceCost::of(names.iter().map(|name| (*name, 1))).expect("each name once")
}
