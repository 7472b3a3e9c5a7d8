//! Compares capacity, sources and the task pool runner with what one would use without them.
//!
//! `cargo run --release -p windlass-bench-capacity` prints a Markdown table and writes
//! `results.json` beside this package's manifest; `-- --quick` does fewer rounds, and any other
//! argument names the rows to run. Contenders take turns within each round, so a slow moment of the
//! machine hits all of them alike; what is reported is the median and the spread (first to third
//! quartile), and how much processor time all threads together used. Every result is checked.

mod hand_over;
mod report;
mod runner;
mod source;
mod take;

use std::{env, fs, path::Path};

use crate::report::Report;

fn main() {
    let (flags, names): (Vec<_>, Vec<_>) =
        env::args().skip(1).partition(|argument| argument.starts_with("--"));
    let quick = flags.iter().any(|flag| flag == "--quick");
    let mut report = Report::new(names, if quick { 3 } else { 11 });
    take::run(&mut report);
    hand_over::run(&mut report);
    runner::run(&mut report);
    source::run(&mut report);
    println!("{}", report.markdown());
    if !quick && report.is_complete() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("results.json");
        fs::write(path, report.json()).expect("the package's directory can be written to");
    }
}

/// Amounts by name, one of each.
fn one_of(names: &[&str]) -> windlass::ResourceCost {
    windlass::ResourceCost::of(names.iter().map(|name| (*name, 1))).expect("each name once")
}
