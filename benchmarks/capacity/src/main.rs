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
mod report;
mod runner;
mod source;
mod take;

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use crate::report::{Report, Rounds};

fn main() {
    let (flags, names): (Vec<_>, Vec<_>) =
        env::args().skip(1).partition(|argument| argument.starts_with("--"));
    let quick = flags.iter().any(|flag| flag == "--quick");
    let rounds = match flags.iter().any(|flag| flag == "--once") {
        true => Rounds::Once,
        false => Rounds::Measured(if quick { 3 } else { 11 }),
    };
    let mut report = Report::new(names, rounds);
    take::run(&mut report);
    hand_over::run(&mut report);
    runner::run(&mut report);
    source::run(&mut report);
    println!("{}", report.markdown());
    let told = flags.iter().find_map(|flag| flag.strip_prefix("--json=")).map(PathBuf::from);
    let usual = || Path::new(env!("CARGO_MANIFEST_DIR")).join("results.json");
    let whole = rounds == Rounds::Measured(11) && report.is_complete();
    if let Some(file) = told.or_else(|| whole.then(usual)) {
        fs::write(file, report.json()).expect("the results can be written");
    }
}

/// Amounts by name, one of each.
fn one_of(names: &[&str]) -> windlass::ResourceCost {
    windlass::ResourceCost::of(names.iter().map(|name| (*name, 1))).expect("each name once")
}
