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
mod many;
mod pueue;
mod queue;
mod restart;
mod service;
mod start;
mod thousand;
mod usage;
mod windlass;

use std::env;

use windlass_bench_report::Table;

use crate::windlass::Windlass;

/// Measures a section, with fewer samples if that is asked for.
type Section = fn(&Windlass, Extent, &mut Table);

const SECTIONS: [(&str, Section); 6] = [
    ("start", start::run),
    ("thousand", thousand::run),
    ("queue", queue::run),
    ("many", many::run),
    ("restart", restart::run),
    ("idle", idle::run),
];

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// As little as shows that everything works.
    Quick,
    Whole,
}

impl Extent {
    pub(crate) fn of<T>(self, quick: T, whole: T) -> T {
        if self == Extent::Quick { quick } else { whole }
    }
}

fn main() {
    let (flags, names): (Vec<_>, Vec<_>) =
        env::args().skip(1).partition(|argument| argument.starts_with("--"));
    let unknown = names.iter().find(|name| SECTIONS.iter().all(|(known, _)| known != name));
    assert!(unknown.is_none(), "unknown section {unknown:?}: use one of {}", sections());
    let is_quick = flags.iter().any(|flag| flag == "--quick");
    let is_written = flags.iter().any(|flag| flag.starts_with("--json="));
    assert!(is_quick || is_written || names.is_empty(), "--json=FILE says where sections go");
    let extent = if is_quick { Extent::Quick } else { Extent::Whole };
    let windlass = Windlass::beside_this_program();
    let mut table = Table::default();
    for (name, measure) in SECTIONS {
        if names.is_empty() || names.iter().any(|wanted| wanted == name) {
            measure(&windlass, extent, &mut table);
        }
    }
    table.finish(env!("CARGO_MANIFEST_DIR"));
}

fn sections() -> String {
    SECTIONS.map(|(name, _)| name).join(", ")
}
