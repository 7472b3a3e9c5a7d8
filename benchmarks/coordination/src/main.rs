//! Measures locks between processes: around commands compared with `flock`, handed over between waiting
//! processes, through the library, and with a long queue.
//!
//! `cargo run --release -p windlass-bench-coordination` needs `target/release/windlass` beside it
//! (`cargo build --release -p windlass-cli`), prints a Markdown table and writes `results.json`
//! beside this package's manifest; `-- --quick` does fewer rounds and writes nothing. Contenders
//! take turns within each round. Every count is checked.

mod commands;
mod library;
mod waiting;

use std::env;
use std::path::PathBuf;

use windlass_bench_report::Table;

fn main() {
    let arguments: Vec<_> = env::args().skip(1).collect();
    if let [verb, rest @ ..] = arguments.as_slice()
        && verb == "worker"
    {
        return library::worker(rest);
    }
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let mut table = Table::default();
    let windlass = windlass();
    commands::run(&windlass, if quick { 20 } else { 200 }, &mut table);
    waiting::hand_over(if quick { 50 } else { 500 }, &mut table);
    library::run(if quick { 100 } else { 1000 }, &mut table);
    waiting::long_line(&windlass, if quick { 50 } else { 1000 }, &mut table);
    table.finish(env!("CARGO_MANIFEST_DIR"));
}

/// Returns the path of the command beside this program.
fn windlass() -> PathBuf {
    let path = env::current_exe().expect("this program lies somewhere").with_file_name("windlass");
    assert!(path.exists(), "build it first: cargo build --release -p windlass-cli");
    path
}
