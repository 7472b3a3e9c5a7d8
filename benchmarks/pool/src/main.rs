//! Compares the pool with others on the same work, in the same run.
//!
//! `cargo run --release -p windlass-bench-pool` prints a Markdown table and writes `results.json`
//! beside this package's manifest; `-- --quick` does fewer rounds, `--json=FILE` writes there instead, and any other argument names the
//! rows to run. Contenders take turns within each round, so a slow moment of the machine hits all
//! of them alike; what is reported is the median and the spread (first to third quartile), and how
//! much processor time all threads together used. Every result is checked.

mod bodies;
mod latency;
mod mixed;
mod pools;
mod report;
mod shapes;

use std::{
    env, fs,
    path::{Path, PathBuf},
};

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
    let told = flags.iter().find_map(|flag| flag.strip_prefix("--json=")).map(PathBuf::from);
    let usual = || Path::new(env!("CARGO_MANIFEST_DIR")).join("results.json");
    let file = told.or_else(|| (!quick && report.is_complete()).then(usual));
    if let Some(file) = file {
        fs::write(file, report.json()).expect("the results can be written");
    }
}
