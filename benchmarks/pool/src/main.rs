//! Compares the pool with others on the same work, in the same run.
//!
//! `cargo run --release -p windlass-bench-pool` prints a Markdown table and writes `results.json`
//! beside this package's manifest; `-- --quick` does fewer rounds, and any other argument names the
//! rows to run. Contenders take turns within each round, so a slow moment of the machine hits all
//! of them alike; what is reported is the median and the spread (first to third quartile), and how
//! much processor time all threads together used. Every result is checked.

mod bodies;
mod latency;
mod mixed;
mod pools;
mod report;
mod shapes;

use std::{env, fs, path::Path};

use crate::{pools::Pools, report::Report};

fn main() {
    let (flags, names): (Vec<_>, Vec<_>) =
        env::args().skip(1).partition(|argument| argument.starts_with("--"));
    let quick = flags.iter().any(|flag| flag == "--quick");
    let mut report = Report::new(names, if quick { 3 } else { 11 });
    let pools = Pools::start(2);
    shapes::run(&pools, &mut report);
    latency::run(&pools, &mut report);
    mixed::run(&pools, &mut report);
    bodies::run(&mut report);
    println!("{}", report.markdown());
    if !quick && report.is_complete() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("results.json");
        fs::write(path, report.json()).expect("the package's directory can be written to");
    }
}
