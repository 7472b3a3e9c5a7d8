//! Measures the service, a scheduler and a worker as processes of their own: how soon a submitted step begins,
//! what many small steps cost, what the service uses while it is idle, and how soon it is back after a kill.
//!
//! `cargo run --release -p windlass-bench-service` needs `target/release/windlass` beside it
//! (`cargo build --release -p windlass-cli`), prints a Markdown table and writes `results.json` beside
//! this package's manifest; `-- --quick` does less and writes nothing; with names of sections, as in `-- idle
//! restart --json=FILE`, only those are measured. Contenders take turns within each round. pueue is measured
//! beside windlass if it is on the PATH. State and files are beside this program, on the disk of the build.
//! Every result is checked.

mod channel;
mod idle;
mod long;
mod many;
mod pueue;
mod queue;
mod restart;
mod start;
mod thousand;
mod usage;

use windlass_bench_service::{Section, measure};

const SECTIONS: [(&str, Section); 7] = [
    ("start", start::run),
    ("thousand", thousand::run),
    ("queue", queue::run),
    ("many", many::run),
    ("restart", restart::run),
    ("long", long::run),
    ("idle", idle::run),
];

fn main() {
    measure(&SECTIONS, env!("CARGO_MANIFEST_DIR"));
}
