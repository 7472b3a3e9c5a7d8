//! Measures the service with its store in PostgreSQL: what a step costs, how soon a submitted step begins, and
//! what a lock costs.
//!
//! `cargo run --release -p windlass-bench-cluster` needs `target/release/windlass` beside it
//! (`cargo build --release -p windlass-cli`) and the programs of PostgreSQL, of which it starts a server of its own with
//! the usual settings of a new server but for its memory. It prints a Markdown table and writes `results.json` beside
//! this package's manifest; `-- --quick` does less and writes nothing. Job queues for Rust are measured on the same
//! server if `benchmarks/cluster/peers` is built (`cargo build --release` there): they have no graphs and no limits.
//! Everything, the database included, runs on one machine. Every result is checked.

mod database;
mod locks;
mod null_worker;
mod peers;
mod real;
mod start;
mod steps;

use windlass_bench_service::{Section, measure};

const SECTIONS: [(&str, Section); 5] = [
    ("steps", steps::run),
    ("peers", peers::run),
    ("real", real::run),
    ("start", start::run),
    ("locks", locks::run),
];

fn main() {
    measure(&SECTIONS, env!("CARGO_MANIFEST_DIR"));
}
